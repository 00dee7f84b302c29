"""Memory: what an agent remembers, as chat messages."""
