"""A block of one's own: card numbers that the model never reads and the actions still get.

python examples/masking.py
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from moothall import ActionStep, Block, ModelReply, ModelStep, ReActAgent, ScriptedModel

CARD = re.compile(r"\b\d{4}(?: ?\d{4}){3}\b")


class Masking(Block):
    """Shows the model `<card 1>` in the place of a card number."""

    guidance = "Card numbers are masked as <card 1>, <card 2>. Write them as they stand."

    def __init__(self) -> None:
        super().__init__()
        self.cards: dict[str | None, list[str]] = {}  # of each thread

    async def around_model(
        self, step: ModelStep, call: Callable[[], Awaitable[ModelReply]]
    ) -> ModelReply:
        cards = self.cards.setdefault(step.context.thread, [])

        def mask(found: re.Match[str]) -> str:
            if found.group() not in cards:
                cards.append(found.group())
            return f"<card {cards.index(found.group()) + 1}>"

        step.messages = [
            {**each, "content": CARD.sub(mask, each["content"])}
            if isinstance(each["content"], str)
            else each
            for each in step.messages
        ]
        return await call()

    async def around_action(
        self, step: ActionStep, call: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        cards = self.cards.get(step.context.thread, [])
        for number, card in enumerate(cards, 1):
            step.args = {
                name: value.replace(f"<card {number}>", card) if isinstance(value, str) else value
                for name, value in step.args.items()
            }
        return await call()


def pay(card: str, euros: int) -> str:
    """Pay by card.

    Args:
        card: Number of the card
        euros: How much
    """
    return f"{euros} euros were paid with {card}"


def main() -> None:
    model = ScriptedModel(
        [
            {"name": "pay", "args": {"card": "<card 1>", "euros": 20}},
            "It is paid with <card 1>.",
        ]
    )
    agent = ReActAgent("Clerk", model, actions=[pay], blocks=[Masking()])
    reply = agent.reply_sync("Pay 20 euros with 4111 1111 1111 1111.")
    print(model.received[0][-1]["content"])
    print(reply.steps[0].result["result"])
    print(reply.text)


if __name__ == "__main__":
    main()
