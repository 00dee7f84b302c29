"""Agents behind the protocols that other programs speak."""
