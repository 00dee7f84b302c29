"""What came of a run, in words."""

from __future__ import annotations

from typing import Final

from civitas.reasoning.reply import ANSWERED, Reply, StopReason

__all__ = ["exit_code", "in_words", "one_or_more"]

_WORDS: Final[dict[StopReason, str]] = {
    "done": "done: the model has answered",
    "terminal": "done: what the last action gave is the answer",
    "terminated": "done: the review accepted it",
    "max_iterations": "stopped: there is no answer yet, and --max-iterations is reached",
    "no_progress": "stopped: the model did the same over and over",
    "unreadable": "stopped: what the model answered could not be used",
    "budget": "stopped: the limit of what it may spend is reached",
    "deadline": "stopped: its time is over",
    "in_doubt": "stopped: whether an action took effect is not known",
    "max_loops": "stopped: the review did not accept it",
    "cancelled": "stopped: the model's answer was cancelled",
    "error": "failed",
}


def in_words(reply: Reply) -> str:
    """Why a reply ended, for a person."""
    words = _WORDS.get(reply.stop_reason, f"stopped: {reply.stop_reason}")
    detail = reply.detail
    if reply.stop_reason == "max_iterations":  # of the rest of which the words speak
        detail = detail.partition("; ")[2]
    if not detail:
        return words
    return f"{words}: {detail}" if reply.stop_reason == "error" else f"{words} ({detail})"


def exit_code(reply: Reply) -> int:
    """0 if the reply is an answer, else 1."""
    return 0 if reply.stop_reason in ANSWERED else 1


def one_or_more(count: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
