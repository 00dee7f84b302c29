"""Agents as servers of A2A."""
