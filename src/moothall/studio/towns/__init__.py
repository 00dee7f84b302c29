"""The tab Society: towns that play in a page, and what a person changes in them."""
