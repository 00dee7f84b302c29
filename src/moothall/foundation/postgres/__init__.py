"""PostgreSQL as a store: its address, and connections with transactions, leases and notices."""

from moothall.foundation.postgres.address import DatabaseAddress, is_url

__all__ = ["DatabaseAddress", "is_url"]
