"""Other people's clients and servers: three turns of a conversation, and one restart."""
