"""What a call of a run waits for, and what a person may decide about one in doubt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from moothall.actions.approval import ApprovalRequest, Question
from moothall.actions.approval.decision import DECISION_KINDS, ChangedArgs
from moothall.actions.approval.request import check_by_schema
from moothall.actions.facts import NO_FACTS, Facts, facts_in_words
from moothall.foundation.arguments import unknown_value_error
from moothall.foundation.errors import ConfigError, InvalidArguments
from moothall.foundation.jsonvalue import NotJSON, to_json
from moothall.foundation.text import cut, escaped, escaped_json
from moothall.models.protocol import call_line

RESUME = "resume"
"""What a person decides about a run that stopped: a process with its agent resumes it."""

_OPERATOR_ANSWERS: Final = {
    "operator:deaths": {"resume": "goes on once more", "cancel": "ends"},
    "operator:program": {"fork": "goes on by the program as it is now", "cancel": "ends"},
}
"""What an operator may decide about a run, by what is asked, and what it does then."""


class WaitKind(NamedTuple):
    """What records, commands and cards know of a kind of wait."""

    words: str  # what is waited for
    by_person: bool = False  # whether a person answers it
    is_bound: bool = False  # whether its key is a hash that is bound to the run
    is_text: bool = False  # whether the answer is a text
    # Returns an answer as JSON data; raises ConfigError for what is none, with the key.
    check_answer: Callable[[str, Any], Any] = lambda key, answer: answer
    # Raises ConfigError for an answer that does not fit what was asked, as the entry has it.
    check_fit: Callable[[str, Any, Mapping[str, Any]], None] = lambda run, answer, wait_data: None


def _text_answer(key: str, answer: Any) -> Any:
    if not isinstance(answer, str | None):
        raise ConfigError(
            f"the answer to the question {key!r} must be a text, or None for no answer, got "
            f"{answer!r:.80}"
        )
    return answer


def _check_changed_args(run: str, answer: Any, wait_data: Mapping[str, Any]) -> None:
    decision = DECISION_KINDS.read(answer)
    if not isinstance(decision, ChangedArgs):
        return
    args, schema = decision.args, wait_data.get("schema") or {}
    parameters: list[str] = wait_data.get("takes", [*args])
    if schema.get("additionalProperties") is False:
        parameters = [*schema.get("properties", ())]
    if unknown := [each for each in args if each not in parameters]:
        raise ConfigError(
            f"run {run!r}: {wait_data['action']!r} takes {', '.join(parameters) or 'nothing'}, "
            f"and ChangedArgs has {', '.join(map(escaped, unknown))}: leave that out"
        )
    try:
        check_by_schema(schema, args)
    except InvalidArguments as error:
        raise ConfigError(f"run {run!r}: {wait_data['action']!r}: ChangedArgs: {error}") from None


def _operator_answer(key: str, answer: Any) -> Any:
    answers = _OPERATOR_ANSWERS[key]
    if not isinstance(answer, str) or answer not in answers:
        raise ConfigError(
            f"the answer to {key!r} must be {' or '.join(map(repr, answers))}, got {answer!r:.80}: "
            f"the run {', or '.join(answers.values())}"
        )
    return answer


def _refuse_answer(key: str, answer: Any) -> Any:
    raise ConfigError(f"{key!r} takes no answer: the run goes on by itself once the agents are up")


def _go_on_answer(key: str, answer: Any) -> Any:
    if answer != "go-on":
        raise ConfigError(f"the answer to {key!r} must be 'go-on', got {answer!r:.80}")
    return answer


def _no_answer(key: str, answer: Any) -> Any:
    if answer is not None:
        raise ConfigError(
            f"the moment {key!r} has no result: its answer is None, got {answer!r:.80}"
        )
    return answer


WAIT_KINDS: Final = {
    "approval": WaitKind(
        "the approval of {call}{more}",
        True,
        True,
        check_answer=lambda key, value: DECISION_KINDS.to_json(value),
        check_fit=_check_changed_args,
    ),
    "question": WaitKind("an answer to {text}", True, True, True, _text_answer),
    "result": WaitKind("the result {key} of {call}{more}"),
    "moment": WaitKind("a moment, for {call}{more}", check_answer=_no_answer),
    "operator": WaitKind("a decision: {text}", True, False, True, _operator_answer),
    "agents": WaitKind("the agents {text}, which are not up", check_answer=_refuse_answer),
    "paused": WaitKind("somebody to let it go on: {text}", True, False, True, _go_on_answer),
    "doubt": WaitKind("a decision about {call}, whose outcome is unknown", by_person=True),
}
"""The kinds of waits."""


def checked_kinds(kind: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the kinds of waits that are wanted; ConfigError for a word that is none."""
    kinds: tuple[Any, ...] = (kind,)
    if kind is None or (isinstance(kind, Iterable) and not isinstance(kind, str)):
        kinds = (*(WAIT_KINDS if kind is None else kind),)
    for each in kinds:
        if not isinstance(each, str) or each not in WAIT_KINDS:
            raise unknown_value_error("kind=", [*WAIT_KINDS], each)
    return kinds


_MAX_AHEAD_S: Final = 60.0
"""Seconds. If a moment lies further ahead of the clock, the clock was wrong."""
_EXCERPT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Wait:
    """What a call of a run waits for.

    Attributes:
        run: the id of the run
        key: the key by which it is answered; the key of an approval is its hash, that of a result
            its name, or a key of its own once several calls of the run have asked under that name
        kind: `approval`, `question` (to a person), `result` (from outside), `moment`, `operator`:
            the program that began the run has changed, or its process has ended each time that it
            went on, `paused`: somebody has paused it, `agents`: agents that it may call are not
            up, or `doubt`: a call whose outcome is unknown
        agent: the id of the run's agent
        thread: the id of the conversation; None for the agent's own
        path: the part of the run; empty for that of the run's own agent
        step: the call, such as `2.0`: the first of the second answer
        action: the action's name; `decide` for a question to H of a dual act
        args: its arguments
        origins: the recorded origins of the arguments' values
        text: what is asked, in words; may be empty
        who: the names of those who may answer; if it is empty, anybody may
        since: when it was asked, in seconds since 1970
        until: when the wait is over, likewise; None for never
        answer: the answer, as JSON data; None until it is given
        by: who gave the answer; None if it is not known
        answered: when, in seconds since 1970; None until then
        call: the id of the call in the messages; empty for none
        asks_caller: whether a door also asks the caller who began the run
        remind: how often somebody is reminded, in seconds; None for never
        name: the key that the action gave its `Later`; empty for what is no result
        facts: what the action's program says of it, by name: `@action(facts=…)`
        schema: the JSON schema of the action's arguments; None where it is not known
    """

    run: str
    key: str
    kind: str
    agent: str
    thread: str | None
    path: str
    step: str
    action: str
    args: dict[str, Any]
    origins: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    who: tuple[str, ...] = ()
    since: float = 0.0
    until: float | None = None
    answer: Any = None
    by: str | None = None
    answered: float | None = None
    call: str = ""
    asks_caller: bool = False
    remind: float | None = None
    name: str = ""
    facts: Facts = field(default_factory=dict)
    schema: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def ahead(self) -> bool:
        """Whether it began at a time that lies ahead of the clock: the clock was wrong then."""
        return self.since > time.time() + _MAX_AHEAD_S

    @property
    def choices(self) -> tuple[str, ...]:
        """The words of which its operator answers one; empty for what takes other answers."""
        return (*_OPERATOR_ANSWERS.get(self.key, ()),)

    @property
    def line(self) -> str:
        """The call in words, such as `pay(coins=3)`."""
        return call_line(self.action, self.args)

    @property
    def request(self) -> ApprovalRequest | Question:
        """What an approver would be asked: a call that waits for approval, or a question."""
        agent = self.path.rpartition("/")[2] or self.agent  # a member of a group asks in its part
        if self.kind != "approval":
            return Question(agent, self.text, self.run)
        return ApprovalRequest(
            *(agent, self.action, self.args, agent, {}, self.run, self.thread, self.text),
            check=partial(check_by_schema, self.schema),
            facts=self.facts,
            schema=self.schema,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self) | {"who": [*self.who]}

    def __str__(self) -> str:
        askees = f", by {' or '.join(map(escaped, self.who))}" if self.who else ""
        deadline = "" if self.until is None else f", until {moment_text(self.until)}"
        clock_note = ", which lies ahead of the clock" if self.ahead else ""
        return (
            f"{wait_in_words(self)}{askees}, since {moment_text(self.since)}{clock_note}{deadline}"
        )


def moment_text(at: float) -> str:
    """Return a moment as people read it, in local time."""
    return datetime.fromtimestamp(at).isoformat(" ", "seconds")


def wait_in_words(wait: Wait) -> str:
    """Return what is waited for, in words."""
    details = (wait.action, wait.args, wait.text, wait.name or wait.key, wait.facts)
    return wait_kind_in_words(wait.kind, *details)


def wait_kind_in_words(
    kind: str,
    action: str = "",
    args: Any = None,
    text: str = "",
    key: str = "",
    facts: Facts = NO_FACTS,
) -> str:
    """Return what a wait of this kind is for, in words."""
    call = escaped(cut(call_line(action, args), _EXCERPT_CHARS)) + facts_in_words(facts)
    note = f" [{escaped(_excerpt(text))}]" if text else ""
    if kind == "person":
        return escaped(text)
    words = {"call": call, "more": note, "key": repr(escaped(key))}
    return WAIT_KINDS[kind].words.format_map(
        words | {"text": escaped_json(cut(text, _EXCERPT_CHARS))}
    )


def _excerpt(text: str) -> str:
    """Return the beginning of a text, with the whole command that would be cut."""
    is_in_command = text.count("`", 0, _EXCERPT_CHARS) % 2
    end = text.find("`", _EXCERPT_CHARS, 3 * _EXCERPT_CHARS) if is_in_command else -1
    return cut(text, _EXCERPT_CHARS if end < 0 else end + 1)


def wait_of(data: dict[str, Any], **details: Any) -> Wait:
    """Return the wait that an entry records: each part stands there by its name."""
    name = data["wait"] if data["kind"] == "result" else ""
    parts: dict[str, Any] = {"action": "", "args": {}, "name": name}
    parts |= {name: data[name] for name in Wait.__slots__ if name in data}
    parts |= {"key": data["wait"], "who": tuple(data.get("who", ()))}
    parts["asks_caller"] = data.get("of_caller", False)
    return Wait(**parts | details)


@dataclass(frozen=True, slots=True)
class StatedOutcome:
    """A decision that states what came of the call: its `value`, as JSON data."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Done(StatedOutcome):
    """A decision: the call took effect, and this is its result.

    Attributes:
        value: the result, as JSON data
    """


Decision: TypeAlias = Literal["repeat", "skip"] | StatedOutcome
"""What happens to a call in doubt: it is executed again, or skipped, or is known to have ended."""


class DoubtDecision(NamedTuple):
    """What records, runs, commands and cards know of a kind of decision."""

    word: str  # in records, JSON and options
    purpose: str  # of its command, with the calls as {}
    outcome: str  # what becomes of the call
    label: str  # of its button
    meaning: str  # what a person reads of it
    type: type[StatedOutcome] | None = None  # of a decision that states a value
    value_name: str = ""  # of that value, in a command
    failure: str = ""  # the outcome of a call that has no result then
    error: str = ""  # what the model reads in place of a result; the stated value is {}

    @property
    def is_final(self) -> bool:
        """Whether the call is not executed again."""
        return self.type is not None or bool(self.error)

    def error_of(self, value: Any) -> str:
        """Return what the model reads in place of a result; empty if there is a result."""
        return self.error.format(value)

    def line(self, value: Any) -> str:
        """Return it as the record of a run shows it."""
        if self.type is None:
            return self.purpose.format("it")
        return f"it {self.outcome}, {self.value_name.lower()}: {escaped_json(value)}"


class DoubtDecisions(dict[str, DoubtDecision]):
    """The kinds of decision, by their words."""

    def to_json(self, decision: object, subject: str = "the call") -> dict[str, Any]:
        """Return a decision, or its JSON form such as `{"done": 3}`, as a journal records it.

        Raises:
            ConfigError: it is none, or its value is not JSON
        """
        for word, kind in self.items():
            match decision:
                case str() if kind.type is None and decision == word:
                    return {"decision": word}
                case StatedOutcome(value) if type(decision) is kind.type:
                    pass
                case Mapping() if kind.type is not None and decision.keys() == {word}:
                    value = decision[word]
                case _:
                    continue
            try:
                return {"decision": word, "value": to_json(value)}
            except NotJSON as error:
                raise ConfigError(f"the result of {subject} is not JSON: {error}") from error
        forms = [
            f'"{word}"'
            if kind.type is None
            else f'{kind.type.__name__}(value) (as JSON: {{"{word}": …}})'
            for word, kind in self.items()
        ]
        raise ConfigError(
            f"a decision must be {', '.join(forms[:-1])} or {forms[-1]}, got {decision!r:.80}"
        )


DECISIONS: Final = DoubtDecisions(
    (each.word, each)
    for each in (
        DoubtDecision("repeat", "run {} again", "is run again", "Repeat", "it runs again"),
        DoubtDecision(
            "skip",
            "skip {}",
            "is skipped",
            "Skip",
            "it does not run, and the run goes on without its result",
            failure="skipped",
            error="skipped: the run was cut off while it was executed, and a person has decided "
            "not to execute it again; whether it had an effect is not known",
        ),
        DoubtDecision(
            "done",
            "give its result",
            "took effect",
            "Done with this result",
            "it took effect, with the result that you write",
            Done,
            "RESULT",
        ),
    )
)
"""To add one, add a row, and the class of one that states a value."""
