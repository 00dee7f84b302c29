"""The agents of this company."""

from moothall import Agent, action


class Stock(Agent):
    """Knows what is in stock."""

    @action(idempotent=True)
    def count(self, item: str) -> int:
        """Say how many of an item are in stock."""
        return {"pens": 12, "paper": 3}.get(item, 0)
