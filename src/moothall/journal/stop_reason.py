"""Why a run ends: each reason with what it means."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

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
"""Why a run ended.

* `done`: the model answered with text
* `terminal`: a terminal action succeeded; its result is the reply
* `max_iterations`: the model still called actions in the last answer that it may give
* `no_progress`: the model repeated the same calls with the same results
* `unreadable`: two answers in a row could not be used
* `budget`: the budget does not cover the next call, which was not begun
* `deadline`: the seconds of the run are over; the call under way was cancelled
* `in_doubt`: an action was running when the process ended or the run was cancelled, so its outcome
is unknown; nobody has decided yet whether to execute it again
* `waiting`: a call waits in the journal for an approval, an answer, a result or a moment; the run
goes on when that is there
* `terminated`: in a dual act, H accepted
* `max_loops`: in a dual act, R ran as often as it may, and H did not accept
* `cancelled`: the model's answer was cancelled, though the run was not
* `error`: the model or a hook failed; `Reply.error` is the exception
"""


class _Means(NamedTuple):
    words: str  # for a person, in a terminal
    ended: bool  # whether the run is over; if not, the next call resumes it
    answered: bool = False  # whether the reply's text is an answer


REASONS: Final[dict[StopReason, _Means]] = {
    "done": _Means("done: the model has answered", ended=True, answered=True),
    "terminal": _Means("done: the last action's result is the answer", ended=True, answered=True),
    "terminated": _Means("done: the review accepted it", ended=True, answered=True),
    "max_loops": _Means("stopped: the review did not accept it", ended=True),
    "max_iterations": _Means("stopped: --max-iterations reached without an answer", ended=True),
    "no_progress": _Means("stopped: the model repeated the same calls", ended=True),
    "unreadable": _Means("stopped: the model's answer could not be used", ended=True),
    "budget": _Means("stopped: budget limit reached", ended=False),
    "deadline": _Means("stopped: time limit reached", ended=False),
    "in_doubt": _Means("stopped: the outcome of an action is unknown", ended=False),
    "waiting": _Means("waiting: for an answer, a result or a moment", ended=False),
    "cancelled": _Means("stopped: it was cancelled", ended=False),
    "error": _Means("failed", ended=False),
}

ENDED: Final = frozenset(reason for reason, means in REASONS.items() if means.ended)
"""The reasons for which a run is over. After any other, the next call resumes it."""

ANSWERED: Final = frozenset(reason for reason, means in REASONS.items() if means.answered)
"""The reasons for which a reply's text is an answer."""

ELSEWHERE: Final = "elsewhere"
"""The state of a run that may go on in the journal that it was copied from, or moved to."""

STATES: Final = (*dict.fromkeys(("running", "waiting", "stopped", *REASONS, ELSEWHERE)),)
"""The states of a run. An orchestrator of a user's own may record others as its end."""
