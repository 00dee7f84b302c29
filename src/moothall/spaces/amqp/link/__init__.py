"""The connection to a broker, and what is published and consumed over it."""
