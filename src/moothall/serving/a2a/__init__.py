"""Agents behind the A2A protocol, version 1.0. Loaded on first use."""
