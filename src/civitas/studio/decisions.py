"""A page's answer to a card: checked, and given to whoever waits for it."""

from __future__ import annotations

from typing import Any

from civitas.errors import ConfigError
from civitas.studio.cards import Cards


def decide(cards: Cards, number: int, answer: dict[str, Any]) -> str:
    """Answer a card as a page said; gives the answer in a word.

    Raises:
        ConfigError: it is no answer to such a card
        CardGone: the card is not open
    """
    card = cards.get(number)
    if card.kind not in _KINDS:
        raise ConfigError(f"a card of kind {card.kind!r} takes no answer")
    value, said = _KINDS[card.kind](card.about, answer)
    cards.decide(number, value, said)
    return said


def _approval(about: dict[str, Any], answer: dict[str, Any]) -> tuple[bool, str]:
    permit = answer.get("permit")
    if type(permit) is not bool:
        raise ConfigError(f"permit must be true or false, got {permit!r:.80}")
    if permit and answer.get("fingerprint") != about["fingerprint"]:
        raise ConfigError("the fingerprint is not that of the call: look at it again")
    return permit, "permitted" if permit else "refused"


def _question(about: dict[str, Any], answer: dict[str, Any]) -> tuple[str, str]:
    text = answer.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ConfigError("text must be an answer in words")
    return text, "answered"


_KINDS = {"approval": _approval, "question": _question}
