"""Doors: each serves agents by a protocol that other programs speak. Loaded on first use."""
