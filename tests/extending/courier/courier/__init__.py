"""Deliveries, each made once: what somebody else builds on moothall's public names."""
