"""A page's answer to a card: checked, and given to whoever waits for it."""

from __future__ import annotations

from typing import Any, Final

from civitas.errors import ConfigError
from civitas.reasoning.dualact.conclusions import DecisionAction, HumanDecision
from civitas.studio.cards import Cards


def decide(cards: Cards, number: int, answer: dict[str, Any]) -> str:
    """Answer a card as a page said; gives the answer in a word."""
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


_CHOICES: Final = {
    "accept": (DecisionAction.TERMINATE, "accepted"),
    "continue": (DecisionAction.CONTINUE, "continued"),
    "redirect": (DecisionAction.REDIRECT, "redirected"),
}


def _decision(about: dict[str, Any], answer: dict[str, Any]) -> tuple[HumanDecision, str]:
    choice = answer.get("choice")
    if choice not in _CHOICES:
        raise ConfigError(f"choice must be one of {', '.join(_CHOICES)}, got {choice!r:.80}")
    given = {name: answer.get(name, "") for name in ("instruction", "reasoning")}
    for name, text in given.items():
        if not isinstance(text, str):
            raise ConfigError(f"{name} must be a text, got {text!r:.80}")
    action, said = _CHOICES[choice]
    instruction = given["instruction"].strip()
    if action is DecisionAction.TERMINATE:
        instruction = ""
    elif not instruction:
        raise ConfigError(f"to {choice}, write an instruction")
    reasoning = given["reasoning"].strip() or f"{said} by a person"
    return HumanDecision(action, instruction, reasoning), said


_KINDS = {"approval": _approval, "question": _question, "decision": _decision}
