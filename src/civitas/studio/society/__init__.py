"""The tab Society: a town that is set up, plays, and is asked and changed meanwhile."""
