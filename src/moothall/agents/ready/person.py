"""A person, at a terminal or at a page, as an agent like any other."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from moothall import (
    ChatMessage,
    ConfigError,
    Context,
    ConversationalAgent,
    DecisionAction,
    HumanDecision,
    Later,
    NobodyToAsk,
    Question,
    Reply,
    RuleApprover,
    StopReason,
    TerminalApprover,
    Usage,
    action,
)
from moothall.agents import ReplyingOptions, ReplyRequest
from moothall.agents.ready.terminal import Terminal
from moothall.build import (
    CURRENT,
    CallerContext,
    StepHandle,
    Stop,
    Thread,
    UnreadableText,
    answer,
    json_text,
    read_json,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


_MAX_FAULTS: Final = 5
"""After so many answers that are wrong, a caller is asked no more."""
_CHOICES = "\n".join(
    (
        "Choose:",
        *(
            f"  {words.choice[0] + (' REMARK' if words.instructs else ''):<10} {words.menu_text}"
            for words in HumanDecision.choices.values()
        ),
        "  s          stop: the work ends as it is, not accepted",
    )
)


def _action_of_word(word: str) -> DecisionAction | None:
    """Return the decision that a person states by a word, a letter or the word of a model."""
    word = word.lower()
    for decision, words in HumanDecision.choices.items():
        if word in (words.choice, words.choice[0], decision.value.lower()):
            return decision
    return None


class Desk(Protocol):
    """A place where a person is asked and answers."""

    async def ask(
        self, request: ReplyRequest, messages: Sequence[str], fault: str, /
    ) -> str | HumanDecision | None:
        """Return the person's answer: a line or a decision; None if the person has left.

        Args:
            request: the request to the person; its `content` is the question
            messages: messages to the person since the last request
            fault: what was wrong with the previous answer; empty the first time
        """
        ...


class Person(ConversationalAgent):
    """A person, who sees the agent's requests and writes each answer in a line.

    As H of a dual act the person reads what was done, and accepts it, returns it with a remark, or
    stops, which ends the reply as `cancelled`. Any other answer with a schema is JSON, and is asked
    for until it is valid. A closed terminal ends the reply as `error`, with `NobodyToAsk`.

    Without `desk=`, `stdin=` or `stdout=`, the person is asked who answers the questions of the
    agent that asks: where a door serves that agent its caller, and in a group with a journal
    its approver, unless that is a `TerminalApprover`. If the answer comes later, the run waits.

    Args:
        id: its id
        stdin: the input for answers; default: the process's
        stdout: the output for questions; default: the process's
        desk: where to ask the person instead of at a terminal, such as on a page
        **options: what every `Agent` takes

    Raises:
        ConfigError: `desk` has no `async def ask`
    """

    decides_in_words = True
    answers_in_turn: bool = True  # a person answers one question after the other

    def __init__(
        self,
        id: str | int,
        *,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        desk: Desk | None = None,
        **options: Unpack[ReplyingOptions],
    ) -> None:
        super().__init__(id, **options)
        if desk is not None and not inspect.iscoroutinefunction(getattr(desk, "ask", None)):
            raise ConfigError(
                f"agent {id!r}: desk= must have a method `async def ask(request, messages, "
                f"fault)`, which returns a line, a HumanDecision or None, got {desk!r:.80}"
            )
        self._terminal = Terminal(stdin, stdout)
        self._desk = _TerminalDesk(self.id, self._terminal) if desk is None else desk
        self._has_own_desk = any(each is not None for each in (desk, stdin, stdout))

    def _desk_now(self, step: StepHandle | None = None) -> Desk:
        """Return where to ask now: for a caller of a door, or by an approver, elsewhere."""
        if self._has_own_desk:
            return self._desk
        ask, approver = CallerContext.nearest(CURRENT.get(), "asks"), self.find_approver()
        while isinstance(approver, RuleApprover):
            approver = approver.otherwise
        if ask is None and step is not None and not isinstance(approver, TerminalApprover):
            ask = partial(answer, approver) if getattr(approver, "answer", None) else None
        return self._desk if ask is None else _CallerDesk(self, ask, step)

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        if isinstance(self._desk_now(), _TerminalDesk):
            self._terminal.show(json_text(message.get("content")))

    async def respond(self, request: ReplyRequest) -> Reply:
        """Answer a request."""
        messages, desk = request.state.take_texts(), self._desk_now(request.step)
        decides = request.schema == HumanDecision.schema
        schema = None if decides else request.answer
        fault = ""
        while True:
            try:
                with self.asking_person():
                    line = await desk.ask(request, messages, fault)
                if line is None:
                    at_terminal = isinstance(desk, _TerminalDesk)
                    reason = "at the terminal, which is closed" if at_terminal else "and has left"
                    raise NobodyToAsk(f"{self.id!r} was asked {reason}")
            except NobodyToAsk as error:
                return self._reply(request, "", "", "error", str(error), error)
            except Stop as stop:  # the run waits for the answer
                return self._reply(request, "", "", stop.reason, stop.detail)
            if not isinstance(line, str | HumanDecision):
                raise TypeError(
                    f"agent {self.id!r}: ask of its desk, a {type(desk).__name__}, must "
                    f"return a text, a HumanDecision or None, got {line!r:.80}"
                )
            if decides:
                if isinstance(line, str) and _says_stop(line):
                    return self._reply(request, "", "", "cancelled", f"stopped by {self.id}")
                decision = line if isinstance(line, HumanDecision) else _read_decision(line)
                if decision is not None:
                    value: Any = decision.to_json()
                    return self._reply(request, json.dumps(value), value)
                fault = f"{line!r} is not a choice, or lacks its remark.\n{_CHOICES}"
                continue
            text = str(line)
            try:
                return self._reply(request, text, text if schema is None else schema.read(text))
            except UnreadableText as unreadable:
                fault = str(unreadable)

    def _reply(
        self,
        request: ReplyRequest,
        text: str,
        value: Any,
        reason: StopReason = "done",
        detail: str = "",
        error: BaseException | None = None,
    ) -> Reply:
        turns = [("user", request.content), ("assistant", text)]
        messages: list[ChatMessage] = [
            {"role": role, "content": content} for role, content in turns
        ]
        return Reply(text, value, messages, [], Usage(), reason, detail, error, request.run_id)


class _TerminalDesk:
    """A person at a terminal, who answers in lines."""

    def __init__(self, id: str | int, terminal: Terminal) -> None:
        self._id = id
        self._terminal = terminal

    async def ask(self, request: ReplyRequest, messages: Sequence[str], fault: str) -> str | None:
        """Show the request, and return the line that the person writes."""
        show = self._terminal.show
        if fault:
            show(fault)
        else:
            show(json_text(request.content))
            for text in messages:
                show(text)
            if request.schema == HumanDecision.schema:
                show(f"\n{_CHOICES}")
        return await self._terminal.ask(f"{self._id}> ")


class _CallerDesk:
    """A person who is asked questions by a caller's protocol, or by an approver."""

    def __init__(
        self, person: Person, ask: Callable[[Question], Awaitable[str]], step: StepHandle | None
    ) -> None:
        self._person = person
        self._ask = ask
        self._step = step  # of a group's run, in which the answer may come later
        self._faults = 0
        self._decides = False
        self.questions: tuple[str, ...] = ()

    async def ask(self, request: ReplyRequest, messages: Sequence[str], fault: str) -> str | None:
        """Return the answer; None after too many that are wrong: it may be a program's."""
        id, self._decides = self._person.id, request.schema == HumanDecision.schema
        self._faults += bool(fault)
        if self._faults >= _MAX_FAULTS:
            return None
        try:
            asker = self._asker()
            if asker is None:
                raise NobodyToAsk("the question is the caller's own")
            question = Question(asker, text_of(request, messages, fault), request.run_id)
            if self._step is None:
                return await self._ask(question)
            return await self._recorded_answer(self._step, question, text_of(request, (), fault))
        except Later:
            reason = "the answer would come later, which needs a group with a journal="
        except NobodyToAsk as error:
            reason = str(error)
        raise NobodyToAsk(
            f"{id!r} cannot be asked here ({reason}): give it desk=, or stdin= and stdout= for a "
            "terminal of this process"
        )

    async def _recorded_answer(self, step: StepHandle, question: Question, exact: str) -> str:
        """Return the answer that the journal has, or a new one; raise Stop if it comes later."""
        while True:
            wait = step.hash_of("question", exact, self.questions.count(exact))
            past_answer = step.past.answers.get(wait)
            try:
                line = await step.answer_of(self, question, self._ask, exact)
            except Later as later:
                details = {"action": HumanDecision.wait_action} if self._decides else {}
                raise await step.ask(later, **details) from None
            except NobodyToAsk:
                if past_answer is None:
                    raise
            else:
                if past_answer is None or not _says_stop(line):
                    return line
            # It was stopped, or not answered, and is resumed: the person is asked again.

    def _asker(self) -> str | None:
        """Return the id of the agent that asks the person; None if the caller itself does."""
        if (asker := self._person.asking_agent()) is not None:
            return str(asker.id)
        handling: Any = CURRENT.get()
        while handling is not None and not handling.envelope.name:  # no message
            handling = handling.parent
        is_caller = handling is None or (
            handling.caller_context is not None and handling.caller_context.open
        )
        return None if is_caller else str(handling.envelope.sender)


def _says_stop(line: str) -> bool:
    return line.strip().lower() in ("s", "stop")


def text_of(request: ReplyRequest, messages: Sequence[str], fault: str) -> str:
    """Return a request to a person as one text, with how to answer."""
    content, form = request.content, ""
    if request.schema == HumanDecision.schema:
        form = _CHOICES
    elif request.answer is not None:
        schema = json_text(request.answer.json)
        form = f"Answer with JSON that follows this schema: {schema}"
    text = content if isinstance(content, str) else json_text(content)
    return "\n\n".join(each for each in (text, *messages, fault or form) if each)


def _read_decision(line: str) -> HumanDecision | None:
    """Return the decision that a line states, or a JSON object; None without one."""
    if line.lstrip().startswith("{"):
        with suppress(UnreadableText, ConfigError):
            return HumanDecision.from_json(read_json(line))
    word, _, instruction = line.strip().partition(" ")
    action, remark = _action_of_word(word), instruction.strip()
    if action is None:
        return None
    words = HumanDecision.choices[action]
    if not words.instructs:
        return HumanDecision(action, reasoning=remark or f"{words.outcome} by a person")
    return HumanDecision(action, remark, f"{words.outcome} by a person") if remark else None


@action(guard=())
async def ask_person(question: str, context: Context[Any]) -> str:
    """Ask the person you work for, when only they can know or decide.

    Args:
        question: what you want to know, in one sentence

    Returns:
        what the person answers
    """
    return await context.ask_person(question)
