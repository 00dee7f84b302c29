"""The stores of a journal: an SQLite file, or a PostgreSQL database."""
