"""`moothall chat`."""
