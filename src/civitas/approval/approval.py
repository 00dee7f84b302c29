"""Approval: who says yes to an action that asks first, and who answers its questions.

There is one approval system. A space, an agent or a run is given an `Approver`; an action of policy
`ACCESS_REQUESTED` runs only after it said `True`, for exactly the arguments that it was shown.
An approver with a person behind it also has `answer(question)`, for actions that ask in words.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import inspect
import io
import json
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TextIO, TypeAlias, runtime_checkable

from civitas.errors import (
    ConfigError,
    DefinitionError,
    InvalidMessage,
    NobodyToAsk,
    NotPermitted,
    SlashError,
)
from civitas.slash import format_slash
from civitas.text import escaped, escaped_json, log_failure, printable
from civitas.threads import ask_in_thread

logger = logging.getLogger("civitas.approval")


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal with a reason, given in place of False; who asked, such as a model, is told it.

    Attributes:
        reason: why, in words
    """

    reason: str

    def __bool__(self) -> bool:
        return False


Decision: TypeAlias = bool | Refused
"""What an approver decides: True permits; anything else refuses."""


def not_permitted(where: str, decision: object) -> NotPermitted:
    """The error of a call that somebody did not permit."""
    why = f": {printable(decision.reason)}" if isinstance(decision, Refused) else ""
    return NotPermitted(f'"{where}" not permitted{why}')


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What is to be approved.

    Attributes:
        agent: the id of the agent whose action is asked for
        action: the action's name
        args: its exact arguments
        sender: the id of the agent that asks for it
        message: the whole proposed message
        run_id: the id of the run that the call belongs to, or None
        thread: the conversation that it belongs to: in a space its sender's; None for the agent's
            own
    """

    agent: str
    action: str
    args: dict[str, Any]
    sender: str
    message: dict[str, Any]
    run_id: str | None = None
    thread: str | None = None

    @classmethod
    def of(
        cls, message: Mapping[str, Any], run_id: str | None = None, thread: str | None = None
    ) -> ApprovalRequest:
        """The request that a proposed message makes, of a run and a thread."""
        action = message["action"]
        return cls(
            str(message["to"]),
            action["name"],
            dict(action.get("args", {})),
            str(message.get("from", "")),
            dict(message),
            run_id,
            thread,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of agent, action and arguments: what an approval is bound to."""
        exact = json.dumps([self.agent, self.action, self.args], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(exact.encode()).hexdigest()

    def __str__(self) -> str:
        action = {"name": self.action, "args": self.args}
        try:
            # Quoted where it must be: no id can pass for another one with an action behind it.
            return format_slash({"to": self.agent, "action": action})
        except (InvalidMessage, SlashError):  # made by hand, or longer than a line
            args = " ".join(
                f"{escaped_json(name)}:{escaped_json(value)}" for name, value in self.args.items()
            )
            return f"/{escaped_json(self.agent)}.{escaped_json(self.action)} {args}".rstrip()


@dataclass(frozen=True, slots=True)
class Question:
    """What an action wants to know from a person.

    Attributes:
        agent: the id of the agent whose action asks
        text: the question
        run: the id of the run that it belongs to, or None
    """

    agent: str
    text: str
    run: str | None = None

    def __str__(self) -> str:
        return f"{escaped(self.agent)} asks: {escaped(self.text)}"


@runtime_checkable
class Approver(Protocol):
    """Answers approval requests; may be sync or async. Sync ones are called in a worker thread."""

    def approve(self, request: ApprovalRequest) -> Decision | Awaitable[Decision]:
        """True permits; anything else refuses, `Refused("…")` with a reason."""
        ...


def check_approver(approver: object, whose: str) -> None:
    """Refuse what is no approver: it would only be known by everything being refused."""
    if isinstance(approver, type) or not callable(getattr(approver, "approve", None)):
        given = f"the class {approver.__name__}" if isinstance(approver, type) else repr(approver)
        raise DefinitionError(
            f"{whose}: approver= needs an object with a method approve(request), such as "
            f"TerminalApprover() or CallbackApprover(function), not {given:.80}"
        )


async def approve(approver: Approver | None, request: ApprovalRequest) -> Decision:
    """Ask an approver. No approver, an exception and anything but `True` refuse."""
    if approver is None:
        return False
    try:
        if inspect.iscoroutinefunction(approver.approve):
            answer = await approver.approve(request)
        else:
            answer = await ask_in_thread(approver, approver.approve, request)
            if inspect.isawaitable(answer):
                answer = await answer
    except Exception as error:
        log_failure(logger, f"approver {approver!r} failed on {request}, so it is refused", error)
        return False
    if not isinstance(answer, bool | Refused):
        told = "approver %r: an answer must be True, False or Refused, got %.80r: %s is refused"
        logger.warning(told, approver, answer, request)
    return answer if isinstance(answer, Refused) else answer is True


async def answer(approver: Approver | None, question: Question) -> str:
    """Ask the person behind an approver, whose `answer` may be sync or async.

    Raises:
        NobodyToAsk: there is no approver, none who answers questions, or the person is gone
        TypeError: the answer is no text
    """
    method: Any = getattr(approver, "answer", None)
    if not callable(method):
        who = (
            "it has no approver" if approver is None else f"its approver {approver!r} answers none"
        )
        raise NobodyToAsk(
            f"agent {question.agent!r} has a question and nobody to ask, since {who}; give it or "
            "its space an approver= such as TerminalApprover()"
        )
    if inspect.iscoroutinefunction(method):
        given = await method(question)
    else:
        given = await ask_in_thread(approver, method, question)
        if inspect.isawaitable(given):
            given = await given
    if not isinstance(given, str):
        raise TypeError(
            f"the answer to a question of agent {question.agent!r} must be text, got {given!r:.80}"
        )
    return given


class RefuseAll:
    """Refuses everything."""

    def approve(self, request: ApprovalRequest) -> bool:
        """False."""
        return False


class CallbackApprover:
    """Asks a function, sync or async.

    Args:
        function: whether a request is permitted; only `True` permits, and `Refused("…")` says why
            not
        answer: answers the questions of actions; without it there is nobody to ask

    Raises:
        DefinitionError: one of them is no function
    """

    def __init__(
        self,
        function: Callable[[ApprovalRequest], Decision | Awaitable[Decision]],
        answer: Callable[[Question], str | Awaitable[str]] | None = None,
    ) -> None:
        if not callable(function):
            raise DefinitionError(f"CallbackApprover takes a function, got {function!r:.80}")
        if answer is not None and not callable(answer):
            raise DefinitionError(f"CallbackApprover: answer= takes a function, got {answer!r:.80}")
        self.function = function
        self.answer = answer

    async def approve(self, request: ApprovalRequest) -> Decision:
        """What the function says."""
        if inspect.iscoroutinefunction(self.function):
            answer: Any = await self.function(request)
        else:
            answer = await ask_in_thread(self, self.function, request)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer if isinstance(answer, Refused) else answer is True


@dataclass(frozen=True, slots=True)
class Rule:
    """Permits, or with `permit=False` refuses, what matches.

    Each pattern is a shell pattern (`*`, `?`, `[…]`), matched against the whole text and by case.
    An argument that is no string is matched as its JSON.

    Attributes:
        agent: pattern of the agent's id
        action: pattern of the action's name
        args: patterns by argument name; all must be there and match
        permit: what the rule says of a match; `Refused("…")` refuses with a reason
    """

    agent: str = "*"
    action: str = "*"
    args: Mapping[str, str] | None = None
    permit: Decision = True

    def __post_init__(self) -> None:
        given = (("agent", self.agent), ("action", self.action), *(self.args or {}).items())
        for name, pattern in given:
            if not isinstance(pattern, str):
                raise ConfigError(f"Rule: the pattern of {name} must be a text, got {pattern!r}")

    def matches(self, request: ApprovalRequest) -> bool:
        """Whether the rule speaks of this request."""
        texts = [(request.agent, self.agent), (request.action, self.action)]
        for name, pattern in (self.args or {}).items():
            if name not in request.args:
                return False
            value = request.args[name]
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            texts.append((text, pattern))
        return all(fnmatch.fnmatchcase(text, pattern) for text, pattern in texts)


class RuleApprover:
    """Answers by rules, the first that matches; no match goes to `otherwise`, or is refused."""

    def __init__(self, rules: Iterable[Rule], otherwise: Approver | None = None) -> None:
        self.rules = tuple(rules)
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise DefinitionError(f"RuleApprover takes Rule(…), got {rule!r}")
        self.otherwise = otherwise

    async def approve(self, request: ApprovalRequest) -> Decision:
        """What the first matching rule says."""
        for rule in self.rules:
            if rule.matches(request):
                return rule.permit
        return await approve(self.otherwise, request)

    async def answer(self, question: Question) -> str:
        """What `otherwise` answers: rules have no answers."""
        return await answer(self.otherwise, question)


class TerminalApprover:
    """Asks the person at the terminal, one question at a time; `y` or `yes` permits.

    So do `a` and `always`, and then exactly this call, the same agent, action and arguments in the
    same thread, is not asked for again while the approver lives. Questions of actions are answered
    by a line.

    A question at the process's own terminal begins on a line of its own, and what the program
    prints to `sys.stdout` meanwhile, such as an answer that streams, follows after the person's
    answer.

    Args:
        stdin: where answers come from; the process's if left out
        stdout: where questions go; the process's if left out
    """

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._one_at_a_time = threading.Lock()
        self._always: set[tuple[str | None, str]] = set()

    def approve(self, request: ApprovalRequest) -> bool:
        """Whether the person said yes. A closed terminal refuses."""
        with self._one_at_a_time:
            exact = (request.thread, request.fingerprint)
            if exact in self._always:
                return True
            does = "propose" if request.sender == "You" else "proposes"
            text = f"{escaped(request.sender)} {does}: {request}\nPermit this? [y/N/always] "
            line = self._ask(text, "\n(no answer: refused)\n")
            said = line.strip().lower()
            if said in ("a", "always"):
                self._always.add(exact)
                return True
            return said in ("y", "yes")

    def answer(self, question: Question) -> str:
        """The line that the person writes.

        Raises:
            NobodyToAsk: the terminal is closed
        """
        with self._one_at_a_time:
            line = self._ask(f"{question}\n> ")
        if not line:
            raise NobodyToAsk(f"agent {question.agent!r} asked at the terminal, which is closed")
        return line.strip()

    def _ask(self, text: str, unanswered: str = "") -> str:
        """Write a question, and read the person's line; empty if the terminal is closed."""
        stdin: TextIO | None = self._stdin or sys.stdin  # none if the process's was closed
        with _alone(self._stdout) as stdout:
            print(text, end="", file=stdout, flush=True)
            try:
                line = stdin.readline() if stdin is not None else ""
            except (OSError, ValueError):
                line = ""
            if not line and unanswered:
                print(unanswered, end="", file=stdout, flush=True)
        return line


@contextlib.contextmanager
def _alone(given: TextIO | None) -> Iterator[TextIO]:
    """Where a question goes; the process's terminal is its own until it is answered."""
    stdout = given or sys.stdout
    if given is not None or not stdout.isatty():
        yield stdout
        return
    print(file=stdout)  # the program may have written a part of a line
    held = io.StringIO()
    try:
        with contextlib.redirect_stdout(held):
            yield stdout
    finally:
        stdout.write(held.getvalue())
        stdout.flush()
