"""What an approver is asked: whether a call of an action is permitted, or a question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

from moothall.actions.acting import CALL_SCOPE
from moothall.actions.facts import Facts, facts_in_words
from moothall.actions.slash import format_slash
from moothall.foundation.errors import InvalidArguments, InvalidMessage, SlashError
from moothall.foundation.text import escaped, escaped_json

Check: TypeAlias = Callable[[dict[str, Any]], object]
"""Checks the arguments of a call; raises InvalidArguments."""


def check_by_schema(schema: dict[str, Any] | None, args: dict[str, Any]) -> None:
    """Raise InvalidArguments for what a call's schema refuses; the run checks them again."""
    from moothall.actions.signature.schema import (  # no first agent needs jsonschema
        SchemaValidator,
        WrongSchema,
    )

    with suppress(WrongSchema):
        if schema and (fault := SchemaValidator(schema).wrong(args)) is not None:
            where = f'argument "{place}": ' if (place := fault.place()) else ""
            raise InvalidArguments(f"{where}{fault.reason}", argument=fault.argument)


class CallToApprove(NamedTuple):
    """A call of a run, with what its approval request has beside the message."""

    action: str
    args: dict[str, Any]
    note: str = ""  # which of the arguments come from outside
    outside: tuple[str, ...] = ()  # these, as `action.parameter=value`
    check: Check | None = None  # checks other arguments, for `ChangedArgs`
    waits_in: str | None = None  # the run, in a journal, that can wait for the decision


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request to approve a call of an action.

    Attributes:
        agent: the id of the agent whose action is called
        action: the action's name
        args: its exact arguments
        sender: the id of the calling agent
        message: the whole proposed message
        run_id: the id of the run that the call belongs to, or None
        thread: the conversation that the call belongs to: in a space its sender's; None for the
            agent's own
        note: what the approver must know besides, such as how the definition of a server's tool
            has changed, or which value was read where; an empty text for nothing. No `Rule`
            permits a request with a note.
        outside: the guarded values that come from outside, as `action.parameter=value`; an
            approver that returns `Always()` permits these for the thread
        check: checks arguments for `ChangedArgs`; None where the arguments cannot be changed
        waits_in: the id of the run, in a journal, that can wait for the decision: there an approver
            may return `Later()`; None where nothing can wait
        facts: what the action's program says of it, by name: `@action(facts=…)`
        schema: the JSON schema of the action's arguments; None where it is not known
    """

    agent: str
    action: str
    args: dict[str, Any]
    sender: str
    message: dict[str, Any]
    run_id: str | None = None
    thread: str | None = None
    note: str = ""
    outside: tuple[str, ...] = ()
    check: Check | None = field(default=None, repr=False, compare=False)
    waits_in: str | None = field(default=None, repr=False, compare=False)
    facts: Facts = field(default_factory=dict)
    schema: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        message: Mapping[str, Any],
        run_id: str | None = None,
        thread: str | None = None,
        note: str = "",
    ) -> ApprovalRequest:
        """Return the request for a proposed message of a run and a thread."""
        action = message["action"]
        name, args = action["name"], dict(action.get("args", {}))
        call: CallToApprove | None = CALL_SCOPE.get().call_to_approve
        if call is None or call[:2] != (name, args):
            call = CallToApprove(name, args)
        note = "; ".join(filter(None, (call.note, note)))
        to, sender = str(message["to"]), str(message.get("from", ""))
        fields = (run_id, thread, note, call.outside, call.check, call.waits_in)
        return cls(to, name, args, sender, dict(message), *fields)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of agent, action, arguments and note, to which an approval is bound."""
        parts: list[Any] = [self.agent, self.action, self.args]
        if self.note:
            parts.append(self.note)
        exact_json = json.dumps(parts, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(exact_json.encode()).hexdigest()

    def __str__(self) -> str:
        line = f"{self._line()}{facts_in_words(self.facts)}"
        return f"{line} [{escaped(self.note)}]" if self.note else line

    def _line(self) -> str:
        """Return the call as a line of the slash syntax."""
        action = {"name": self.action, "args": self.args}
        try:
            # Quoted if needed, so that no id looks like another id followed by an action.
            return format_slash({"to": self.agent, "action": action})
        except (InvalidMessage, SlashError):  # not a valid message, or longer than a line
            args = " ".join(
                f"{escaped_json(name)}:{escaped_json(value)}" for name, value in self.args.items()
            )
            return f"/{escaped_json(self.agent)}.{escaped_json(self.action)} {args}".rstrip()


@dataclass(frozen=True, slots=True)
class Question:
    """A question of an action to a person.

    Attributes:
        agent: the id of the agent whose action asks
        text: the question
        run: the id of the run that the question belongs to, or None
        waits_in: the id of the run, in a journal, that can wait for the answer: there an approver
            may return `Later()`; None where nothing can wait
    """

    agent: str
    text: str
    run: str | None = None
    waits_in: str | None = field(default=None, repr=False, compare=False)

    answer_schema: ClassVar[dict[str, Any]] = {"type": "string"}

    @property
    def details(self) -> dict[str, Any]:
        """What it asks, as journals keep it, and doors and pages show it, beside the agent."""
        return {"text": self.text}

    def __str__(self) -> str:
        return f"{escaped(self.agent)} asks: {escaped(self.text)}"
