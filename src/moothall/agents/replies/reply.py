"""What an agent says: its reply, and how it came about; or an utterance in a conversation."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias

from typing_extensions import TypeVar

from moothall.actions.provenance import Origins, with_sources
from moothall.agents.decision import Conclusion, HumanDecision
from moothall.foundation.arguments import named_elsewhere
from moothall.foundation.errors import (
    BudgetExceeded,
    DeadlineExceeded,
    HookError,
    InDoubt,
    ModelError,
    RunWaiting,
)
from moothall.foundation.jsonvalue import deep_json, json_line
from moothall.foundation.text import counted, cut, error_message, escaped_json, log_failure, shorten
from moothall.foundation.text.arrays import data_frame
from moothall.foundation.text.display import CellMark, SafeHTML
from moothall.journal.stop_reason import ANSWERED_REASONS, StopReason
from moothall.models.protocol import NO_USAGE, ChatMessage, Usage

if TYPE_CHECKING:
    from pandas import DataFrame

_LOGGER = logging.getLogger("moothall.agents")

REASONS_WITH_TEXT: Final = ANSWERED_REASONS | {"max_loops"}
"""The reasons for which `say` returns the text, including a conclusion that nobody accepted."""


@dataclass(slots=True)
class Step:
    """One action that was called.

    Attributes:
        iteration: which answer of the model called it, from 1
        action: the action's name
        args: its arguments, as the model gave them
        result: the environment's result, with the traceback of a failure; `value` is in it
        error: what went wrong, or None
        run_id: the id of the run
        thread: the id of the conversation; None for the agent's own
        origins: where the values of its arguments come from, by parameter; empty as long as the
            thread had read nothing from outside
        repaired: what of its arguments the model spelled otherwise, such as a number as a text;
            empty if nothing
    """

    iteration: int
    action: str
    args: dict[str, Any]
    result: dict[str, Any]
    error: str | None
    run_id: str | None = None
    thread: str | None = None
    origins: Origins = field(default_factory=dict)
    repaired: str = ""

    @property
    def executed(self) -> bool:
        """Return whether the action was executed, according to the environment."""
        return bool(self.result.get("tool_executed", True))

    @property
    def value(self) -> Any:
        """Return what the action returned; None if it failed."""
        return self.result.get("result")


_UNSET: Any = ...


T_co = TypeVar("T_co", covariant=True, default=Any)


@named_elsewhere(
    **dict.fromkeys(("answer", "content", "output_text", "response"), "text"),
    **dict.fromkeys(("data", "final_output", "output", "result"), "value"),
    tool_calls="steps",
)
@dataclass(frozen=True, slots=True)
class Reply(CellMark, Generic[T_co]):
    """An agent's answer. `Reply[Order]` is one whose value was requested as an `Order`.

    Attributes:
        text: the answer; if the run ended without one, the model's last text
        value: the answer as a value: the result of a terminal action, or the text read by the
            requested schema, or else the text; None if a schema was requested and the run ended
            without an answer
        messages: the chat messages that the run added to memory
        steps: the actions that were called, in order
        usage: the tokens that the run took
        stop_reason: why it ended
        detail: more on the stop reason, in words; may be empty
        error: the exception that ended it, if `stop_reason` is `error`
        run_id: the id of the run
        r_runs: of a dual act: how often R ran; several R side by side count once
        decisions: of a dual act: H's decisions, in order, including acceptances without H
        conclusions: of a dual act: R's conclusions, in order; those of several R merged
        human_usage: the tokens that H took
        reactive_usage: the tokens that R took
        outside: the sources of what it may repeat from outside, such as pages that were read
        under_way: the runs that work for it in the background, and whose end it has not heard
    """

    text: str
    value: T_co = _UNSET
    messages: list[ChatMessage] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    usage: Usage = NO_USAGE
    stop_reason: StopReason = "done"
    detail: str = ""
    error: BaseException | None = field(default=None, compare=False)
    run_id: str | None = None
    r_runs: int = 0
    decisions: tuple[HumanDecision, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    human_usage: Usage = NO_USAGE
    reactive_usage: Usage = NO_USAGE
    outside: tuple[str, ...] = field(default=(), kw_only=True)
    under_way: tuple[str, ...] = field(default=(), kw_only=True)

    @staticmethod
    def gives_text(agent: Any, reason: str, text: str | None = None) -> bool:
        """Return whether `say` of an agent returns the text of a reply, if that is known.

        A text that nobody accepted is returned too, and no text only as an answer.
        """
        with_text = getattr(agent, "reasons_with_text", None) or REASONS_WITH_TEXT
        return reason in (ANSWERED_REASONS if text == "" else with_text)

    def __post_init__(self) -> None:
        if self.value is ...:  # a reply made without a value
            object.__setattr__(self, "value", self.text)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The images and audio of the answer, as blocks of content; mostly none.

        Each can be part of a further request: `agent.reply([{"type": "text", …}, *reply.blocks])`.
        """
        content = self.messages[-1].get("content") if self.messages else None
        if self.stop_reason != "done" or not isinstance(content, list):
            return []
        return [each for each in content if isinstance(each, dict) and each.get("type") != "text"]

    def to_pandas(self) -> DataFrame:
        """Return its calls as a data frame of pandas, each with the value that it returned."""
        names = ("iteration", "action", "args", "value", "error")
        rows = [[getattr(step, name) for name in names] for step in self.steps]
        return data_frame("Reply.to_pandas()", rows, names)

    def __repr__(self) -> str:
        # Kept short: debuggers and `asyncio.run` format results, and messages may hold megabytes.
        text, steps = shorten(self.text, 80), len(self.steps)
        name = type(self).__name__
        return f"{name}(stop_reason={self.stop_reason!r}, text={text!r}, steps={steps})"

    def _repr_html_(self) -> str:
        answered = self.stop_reason in ANSWERED_REASONS
        end = self.stop_reason + (f": {self.detail}" if self.detail else "")
        parts = [SafeHTML.text(self.text)]
        if not answered:
            parts.append(SafeHTML.facts({"no answer": end}))
        if self.value is not None and not isinstance(self.value, str | Reply):
            parts.append(SafeHTML.facts({"value": repr(self.value)}))
        parts.extend(self._tables())
        tokens = counted(self.usage.total, "token") if self.usage.total else ""
        parts.append(SafeHTML.small(" · ".join(filter(None, (end, tokens, self.run_id)))))
        return "".join(parts)

    def _tables(self) -> list[str]:
        """Return decisions, conclusions and calls as HTML."""
        tables = []
        if self.decisions:
            tables.append(
                SafeHTML.table(
                    ("", "H decides", "instruction", "reason"),
                    [
                        (number, each.action.name, _lines(each.new_instruction), each.reasoning)
                        for number, each in enumerate(self.decisions, 1)
                    ],
                    len(self.decisions),
                )
            )
        if self.conclusions:
            tables.append(
                SafeHTML.table(
                    ("", "R concludes", "confidence", "error"),
                    [
                        (number, each.summary, each.confidence, each.error)
                        for number, each in enumerate(self.conclusions, 1)
                    ],
                    len(self.conclusions),
                )
            )
        if self.steps:
            rows = (
                (s.action, json_line(s.args), s.error or json_line(s.result)) for s in self.steps
            )
            calls = SafeHTML.table(
                ("action", "arguments", "result or error"), rows, len(self.steps)
            )
            tables.append(SafeHTML.folded(counted(len(self.steps), "call"), calls))
        return tables

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; what has no JSON form, such as the error, becomes text."""
        data: dict[str, Any] = deep_json(self)
        return data

    def raise_for_error(self) -> None:
        """Raise what ended the run; do nothing if its text is an answer.

        Raises:
            BudgetExceeded: the run reached its budget; `DeadlineExceeded` for its time
            InDoubt: the outcome of an action is unknown: it was running when the run was cut off
            RunWaiting: the run waits in its journal for an answer, a result or a moment
            ModelError: there is no answer for another reason, which the text states
            Exception: the error, if `stop_reason` is `error`
        """
        if self.stop_reason not in ANSWERED_REASONS:
            self.raise_error(None)

    def raise_error(self, agent: str | int | None) -> None:
        """Raise an error that names the agent and says why there is no answer."""
        if self.error is not None:
            raise self.error
        label = "there is" if agent is None else f"agent {agent!r} has"
        last_words = f"; it had said: {cut(self.text, 500)}" if self.text else ""
        text = f"{label} no reply ({self.stop_reason}): {self.detail}{last_words}"
        if agent is None and self.stop_reason == "deadline":
            raise DeadlineExceeded(text)
        if agent is None and self.stop_reason == "budget":
            raise BudgetExceeded(text, "budget")
        if self.stop_reason == "waiting":
            waiting = RunWaiting(text)
            waiting.run_id = self.run_id
            raise waiting
        if agent is None and self.stop_reason == "in_doubt":
            raise InDoubt(text)
        raise ModelError(text)


class OpenReply(CellMark):
    """A `Reply` made in a third of the time: as that is frozen, it sets each field by a call."""

    __slots__ = Reply.__slots__
    text: str
    messages: list[dict[str, Any]]
    usage: Usage
    stop_reason: str
    detail: str
    run_id: str
    r_runs: int
    reactive_usage: Usage
    value: Any
    steps: Any
    error: Any
    decisions: Any
    conclusions: Any

    outside: Any
    under_way: Any

    def __init__(self, answer: Any, end: Any, outside: Any, under_way: Any = ()) -> None:
        self.text, self.value, self.messages, self.steps, self.usage = answer
        self.stop_reason, self.detail, self.error, self.run_id = end
        self.outside, self.under_way = outside, under_way
        self.r_runs, self.decisions, self.conclusions = 0, (), ()
        self.human_usage = self.reactive_usage = NO_USAGE
        self.__class__ = Reply  # type: ignore[assignment]


def _lines(instruction: str | list[str]) -> str:
    return instruction if isinstance(instruction, str) else "\n".join(instruction)


class Stop(Exception):
    """Raised to end a run during a turn, with the stop reason."""

    def __init__(self, reason: StopReason, detail: str, error: BaseException | None = None) -> None:
        super().__init__(reason, detail, error)  # what a pickle makes it of
        self.reason: StopReason = reason
        self.detail: str = detail
        self.error: BaseException | None = error

    def __str__(self) -> str:
        return self.detail

    @property
    def leaves_open(self) -> bool:
        """Return whether a call that it cut off is not over: the resumed run has the turn again."""
        return self.reason in ("deadline", "budget")

    @classmethod
    def at_limit(cls, error: BudgetExceeded, detail: str | None = None) -> Stop:
        """Return the Stop for a limit of the run's budget."""
        reason: StopReason = "deadline" if isinstance(error, DeadlineExceeded) else "budget"
        return cls(reason, str(error) if detail is None else detail)

    @classmethod
    def on_hook(cls, agent: str | int, error: HookError) -> Stop:
        """Log an agent's hook that failed, and return the Stop."""
        log_failure(_LOGGER, f"a hook of agent {agent!r} failed", error)
        return cls("error", str(error), error)

    @classmethod
    def on_memory(cls, agent: str | int, error: Exception) -> Stop:
        """Log an agent's memory that failed, and return the Stop."""
        log_failure(_LOGGER, f"the memory of agent {agent!r} failed", error)
        return cls("error", f"{type(error).__name__}: {error_message(error)}", error)


# -- in a conversation ----------------------------------------------------------------------------


Content: TypeAlias = str | list[dict[str, Any]]
"""A text, or blocks of content."""

MAX_ERROR: Final = 500
"""How many characters of an error others read."""

_PLAIN_ID = re.compile(r"[\w .@/+-]+")


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one speaker said in a turn.

    Attributes:
        number: counted from 1 over the whole conversation
        speaker: a participant's id; None for a text from outside
        content: a text, or blocks of content
        error: why the participant gave no answer; None if it gave one
        outside: the sources of a text that was observed as from outside
    """

    number: int
    speaker: str | None
    content: Content
    error: str | None = None
    outside: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the content as text; of blocks, the text in them."""
        if isinstance(self.content, str):
            return self.content
        texts = (block.get("text") for block in self.content if isinstance(block, dict))
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def size(self) -> int:
        """Return about how many characters it has."""
        body = len(self.content) if isinstance(self.content, str) else len(repr(self.content))
        return body + len(self.error or "")

    def heard(self, ids: Iterable[str] = ()) -> Content:
        """Return the content for another participant, with the speaker's name at the beginning.

        Everything after the name is that speaker's: each utterance is a message of its own. A text
        from outside that begins like an utterance of one of the participants, `ids`, is marked.
        """
        if self.speaker is None:
            text, names = self.content, tuple(f"{speaker_label(id)}:" for id in ids)
            if isinstance(text, str) and text.lstrip().startswith(names):
                return f"(from outside the conversation) {text}"
            return text
        name = speaker_label(self.speaker)
        if self.error is not None:
            return f"({name} gave no answer: {cut(self.error, MAX_ERROR)})"
        if isinstance(self.content, str):
            return f"{name}: {self.content}"
        return [{"type": "text", "text": f"{name}:"}, *self.content]

    def message(self, ids: Iterable[str] = ()) -> dict[str, Any]:
        """Return the chat message that another participant observes."""
        message: dict[str, Any] = {"role": "user", "content": self.heard(ids)}
        if self.speaker is not None:
            message["name"] = self.speaker
        return with_sources(message, self.outside)


def speaker_label(id: str) -> str:
    """Return an id as it precedes an utterance; in quotes if it is ambiguous."""
    if _PLAIN_ID.fullmatch(id) and id == id.strip() and id.isprintable():
        return id
    return escaped_json(id)
