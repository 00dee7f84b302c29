"""PostgreSQL as a store: its address, and connections with transactions, leases and notices."""

from moothall.foundation.postgres.address import Address, is_url

__all__ = ["Address", "is_url"]
