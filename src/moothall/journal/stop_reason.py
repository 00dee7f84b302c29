"""Why a run ends: each reason with what it means."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias, cast

StopReason: TypeAlias = Literal[
    "done",
    "terminal",
    "max_iterations",
    "no_progress",
    "unreadable",
    "budget",
    "deadline",
    "in_doubt",
    "waiting",
    "terminated",
    "max_loops",
    "cancelled",
    "error",
]
"""Why a run ended: `REASONS` has the meaning of each, docs/agents.md and dual-act.md tell more."""


class ReasonMeaning(NamedTuple):
    """What a stop reason means: in words, for who resumes the run, and for a group."""

    state: str  # how the run stands, in words
    explanation: str
    is_final: bool  # whether the run is over; if not, the next call resumes it
    has_answer: bool = False  # whether the reply's text is an answer
    # What it means for a group whose member stopped for it: the member has `failed`, the group
    # `passes` the reason on where it needs that member's answer, or it holds for `all` members.
    in_group: Literal["failed", "passes", "all"] = "failed"
    http_status: int = 500  # of an answer by OpenAI's interface that has no text for it


class StopReasons(dict[StopReason, ReasonMeaning]):
    """Why runs end, each reason with what it means."""

    @cached_property
    def final(self) -> frozenset[str]:
        """The reasons for which a run is over; after any other, the next call resumes it."""
        return frozenset(reason for reason, meaning in self.items() if meaning.is_final)

    @cached_property
    def answered(self) -> frozenset[str]:
        """The reasons for which a reply's text is an answer."""
        return frozenset(reason for reason, meaning in self.items() if meaning.has_answer)

    def in_words(self, reason: str, detail: str = "") -> str:
        """Return how a run ended, and why; a program's own reason is its own word."""
        meaning = self.get(cast("StopReason", reason))
        state, explanation = meaning[:2] if meaning else ("stopped", reason)
        if reason == "max_iterations":  # the words say the first part of it
            detail = detail.partition("; ")[2]
        if detail and reason in _DETAILED_REASONS:
            return f"{state}: {detail.removeprefix('waiting ')}"
        return (f"{state}: {explanation}" if explanation else state) + (
            f" ({detail})" if detail else ""
        )

    def explain(self, reason: str, detail: str = "") -> str:
        """Return why a run ended, without its state."""
        return self.in_words(reason, detail).partition(": ")[2]

    def state_in_words(self, state: str, detail: str = "") -> str:
        """Return how a run stands, by the state of its outline, whatever did its work."""
        if state in self.answered:
            return "done"
        return {
            "running": "running",
            "stopped": "stopped: its process ended",
            ELSEWHERE_STATE: "it may go on where it was copied from or moved to",
            MISMATCH_STATE: "waiting for its operator: its program has changed",
        }.get(state) or self.in_words(state, detail)


REASONS: Final = StopReasons(
    {
        "done": ReasonMeaning("done", "the model has answered", is_final=True, has_answer=True),
        "terminal": ReasonMeaning(
            "done", "the last action's result is the answer", True, has_answer=True
        ),
        "terminated": ReasonMeaning(
            "done", "the review accepted it", is_final=True, has_answer=True
        ),
        "max_loops": ReasonMeaning("stopped", "the review did not accept it", is_final=True),
        "max_iterations": ReasonMeaning(
            "stopped", "the iterations were used up without an answer", is_final=True
        ),
        "no_progress": ReasonMeaning("stopped", "the model repeated the same calls", is_final=True),
        "unreadable": ReasonMeaning(
            "stopped", "the model's answer could not be used", is_final=True, in_group="passes"
        ),
        "budget": ReasonMeaning("stopped", "budget limit reached", is_final=False, in_group="all"),
        "deadline": ReasonMeaning("stopped", "time limit reached", False, False, "all", 504),
        "in_doubt": ReasonMeaning(
            "in doubt", "the outcome of an action is unknown", False, False, "all", 409
        ),
        "waiting": ReasonMeaning(
            "waiting", "for an answer, a result or a moment", False, False, "all", 409
        ),
        "cancelled": ReasonMeaning(
            "cancelled", "it was interrupted", is_final=False, in_group="passes"
        ),
        "error": ReasonMeaning("failed", "", is_final=False),
    }
)

NO_ANSWER_TEXT: Final = "it has no answer: its run was deleted"
"""What the run hears that waits for a deleted one."""
FINAL_REASONS: Final = REASONS.final
ANSWERED_REASONS: Final = REASONS.answered

REASONS_FOR_ALL: Final = frozenset(
    reason for reason, meaning in REASONS.items() if meaning.in_group == "all"
)
"""The reasons that hold for all members of a group: no other is asked after one of them."""

PASSED_ON_REASONS: Final = frozenset(
    reason for reason, meaning in REASONS.items() if meaning.in_group != "failed"
)
"""The reasons for which a group stops, too, if it needs the answer of the member that stopped."""

OPEN_STATES: Final = (None, "in_doubt")
"""The states in the table of a run that a process works on, or that was cut off."""

ELSEWHERE_STATE: Final = "elsewhere"
"""The state of a run that may go on in the journal that it was copied from, or moved to."""

MISMATCH_STATE: Final = "mismatch"
"""The state of a run that could go on, but for its program, which has changed."""

PARKED_STATES: Final = ("waiting", MISMATCH_STATE)
"""The states of a run that goes on by itself once it has what it waits for, and its program."""

STATES: Final = (
    *dict.fromkeys(("running", "waiting", "stopped", *REASONS, ELSEWHERE_STATE, MISMATCH_STATE)),
)
"""The states of a run. An orchestrator of a user's own may record others as its end."""

_DETAILED_REASONS: Final = ("waiting", "cancelled", "error")
"""Whose detail says all that the words for the reason say."""


def cancel_reason(cause: str, questions: Sequence[str]) -> str:
    """Return why a run was cancelled, with what it waited for then."""
    return (
        f"{cause} while waiting for {' and '.join(dict.fromkeys(questions))}"
        if questions
        else cause
    )
