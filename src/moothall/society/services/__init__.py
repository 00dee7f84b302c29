"""The services that settle citizens' wants: the bank, the government, firms and the feed."""
