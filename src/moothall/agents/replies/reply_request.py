"""Who replies, the request of a reply, checked, and the schema of its answer."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, runtime_checkable

from moothall.actions.signature.annotation import (
    Mismatch,
    annotation_text,
    form_of,
    read_values,
    schemas_of,
    validator_of,
)
from moothall.actions.signature.schema import SchemaValidator, WrongSchema
from moothall.foundation.arguments import check_name, is_name, unknown_argument_error
from moothall.foundation.errors import ConfigError, DefinitionError
from moothall.foundation.jsonvalue import (
    NotJSON,
    UnreadableText,
    copy_json,
    json_text,
    read_json,
    readable,
)
from moothall.foundation.text import cut, escaped, render_path, shorten
from moothall.foundation.threads import in_child
from moothall.journal.attributes import RunAttributes, checked_attributes
from moothall.memory.reply_memory import messages_of_caller
from moothall.models.protocol import ReasoningPiece

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.actions.provenance.texts import Texts
    from moothall.agents.replies.record import Record
    from moothall.agents.replies.reply import Reply
    from moothall.agents.replies.step import StepHandle
    from moothall.agents.replies.thread import Thread
    from moothall.budget import Budget
    from moothall.journal import Journal, RunPart
    from moothall.memory.long_results import ThreadResults
    from moothall.memory.memory import Memory


NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})


class KeptOptions(TypedDict, total=False):
    """What is said of one reply and kept in its record: a resumed run has it, too."""

    options: Mapping[str, Any] | None


class ReplyOptions(KeptOptions, RunAttributes, total=False):
    """What `reply`, `reply_sync` and `stream` take by name only."""

    deps: Any
    budget: Budget | None
    history: Iterable[Mapping[str, Any]] | None


@runtime_checkable
class Conversational(Protocol):
    """Anything that replies and observes: an agent with a model, a conversation, a person."""

    @property
    def id(self) -> str | int:
        """Its id."""
        ...

    async def reply(
        self,
        text: str | list[dict[str, Any]],
        /,
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
    ) -> Reply:
        """Answer."""
        ...

    async def observe(
        self, message: str | dict[str, Any], /, thread: str | int | None = None
    ) -> None:
        """Remember something without answering."""
        ...


_IDS_AHEAD: Final = 256
_new_ids: list[str] = []
in_child(_new_ids.clear)  # else it would give the same ones as its parent


def _new_run_id() -> str:
    """Return 16 random digits; many are drawn at once, as the system call takes longest."""
    try:
        return _new_ids.pop()
    except IndexError:
        digits = os.urandom(8 * _IDS_AHEAD).hex()
        _new_ids[:] = [digits[at : at + 16] for at in range(16, len(digits), 16)]
        return digits[:16]


class ReplyRequest:
    """A request for a reply: the content, the schema and the options."""

    background: str = ""  # `worker`; `woken` by one; `held`: it ends only with its workers
    sender: Mapping[str, str] = NO_OPTIONS  # whose message that work is for, as a run keeps it
    ask_parent: Any = None  # in the background: asks who has asked, if that has a turn left
    journal: Journal | None = None  # of who asks so, which records it; None: the agent's own

    def __init__(
        self,
        content: Any,
        schema: Any = None,
        thread: str | int | None = None,
        run_id: str | None = None,
        deps: Any = None,
        budget: Budget | None = None,
    ) -> None:
        self.content: str | list[dict[str, Any]] = checked_content(content, "reply")
        self.original_content: str | list[dict[str, Any]] = self.content  # the content before hooks
        self.schema: Any = None
        self.answer: AnswerSchema | None = None
        if schema is not None:
            self.set_schema(schema)
        # None for the agent's own.
        self.thread: str | None = None if thread is None else thread_id(thread)
        self.run_id: str = _new_run_id() if run_id is None else _valid_id(run_id, "run_id")
        self.deps: Any = deps  # for the `Context` of its actions; None for the agent's own
        self.budget = budget  # what it may spend; None for the agent's own budget
        self.options: Mapping[str, Any] = NO_OPTIONS  # the `KeptOptions` that are said
        self.attributes: Mapping[str, Any] = NO_OPTIONS  # what the caller says of the run
        self.door_data: dict[str, Any] = {}  # what a door records as its run begins, by name
        self.emit: Callable[[Any], Any] | None = None  # where events go
        # Waits until the reader has seen the events; None without a reader to wait for.
        self.wait_for_reader: Callable[[], Awaitable[None]] | None = None
        self.state: Thread  # the thread, set before its turn
        self.record: RunPart | None = None  # the part of another's run that records it
        self.recorded: Record[Any] | None = None  # the record of this reply
        self.first_messages: Sequence[dict[str, Any]] = ()  # with which its thread begins
        self.results: ThreadResults | None = None  # the long results in these messages
        self.step: StepHandle | None = None  # the step of a group's run in which a person replies
        self.offered: tuple[Action, ...] = ()  # extra actions for its model in this reply
        self.must_call = False  # whether the answer must call one of these
        self.thoughts: list[str] | None = None  # gets the reasoning of each answer of its model
        # The messages before it, in place of what the thread remembers; None for the thread's. A
        # journal keeps them with the actions offered, so that any process can resume the run.
        self.conversation: Sequence[dict[str, Any]] | None = None
        self.memory: Memory | None = None  # of its model; set when it begins
        self.outside: list[str] | tuple[str, ...] = ()  # the outside sources in the content
        self.on_behalf: Texts | None = None  # the texts of the reply that asks for this one
        self.allowed: list[str] = []  # values from outside that a person has permitted in it
        # Where its thread lasts for one reply and is kept in no file: the thread of the caller.
        self.fresh: tuple[str | None] | None = None
        self.beginning: tuple[float, str] | None = None  # when, and its seed; None until asked
        self.resumed = False  # whether it resumes a stopped reply
        self.nested = False  # whether an action of another agent asks for it

    @property
    def task(self) -> str:
        """Return what is asked, as the text by which a journal lists its run."""
        return json_text(self.content)

    @property
    def demand(self) -> str:
        """Return how its model hears that it must call an offered action; empty if it need not."""
        if not self.must_call:
            return ""
        names = " or ".join(f'"{each.name}"' for each in self.offered)
        return f"Your answer must be a call of {names}."

    @property
    def run_fields(self) -> dict[str, Any]:
        """Return `run_id` and `thread`, as events and hooks have them."""
        return {"run_id": self.run_id, "thread": self.thread}

    def note_sources(self, sources: list[str]) -> None:
        """Note in its thread outside sources that a researcher, or a group's member, has read."""
        if not sources:
            return
        thread = self.state
        if (texts := thread.texts_by_origin) is None:
            texts = thread.begin_texts(self.on_behalf)
            if not self.outside:
                texts.add(self.content, "user")
        texts.note(sources)

    def tell(self, event: Callable[..., Any], *parts: Any, past: bool = False) -> None:
        """Emit an event of this class, if somebody listens."""
        if self.emit is not None:
            self.emit(event(*parts, past=past, run_id=self.run_id, thread=self.thread))

    def draft_emitter(self, agent: str) -> Callable[[Any], None] | None:
        """Return what emits the pieces of a draft, as reasoning: it is no answer."""
        emit = self.emit
        if emit is None:
            return None

        def tell(part: Any) -> None:
            if part.kind == "text":
                emit(ReasoningPiece(part.text, agent, **self.run_fields))

        return tell

    def take_options(self, agent: Any, options: Mapping[str, Any]) -> None:
        """Take what a caller says of the reply, of its run, and of the requests to its model."""
        unknown_names = options.keys() - ReplyOptions.__annotations__
        if unknown := unknown_argument_error(type(agent).reply, unknown_names, owner=type(agent)):
            raise unknown
        self.deps, self.budget = options.get("deps"), options.get("budget")
        self.attributes = checked_attributes(options)
        if (history := options.get("history")) is not None and agent.takes_options:
            self.conversation = agent.with_marks_of_runs(messages_of_caller(history))
        self.options = {
            name: {**value} if isinstance(value, Mapping) else value  # a record takes no other
            for name in KeptOptions.__annotations__
            if (value := options.get(name))
        }
        names = [*self.options, *["history"] * (history is not None)]
        if names and not agent.takes_options:
            raise ConfigError(f"agent {agent.id!r}: {'=, '.join(names)}= is for a ReActAgent")

    def set_schema(self, schema: Any) -> None:
        """Set the form of the answer: a JSON schema or a type; None for any text."""
        self.schema = schema
        self.answer = None if schema is None else AnswerSchema(schema)


def checked_content(content: Any, label: str) -> str | list[dict[str, Any]]:
    """Return a text or blocks, checked and copied, ready to be sent and remembered."""
    if isinstance(content, str):
        return readable(content)
    if not isinstance(content, list):
        raise ConfigError(f"{label} takes a text or a list of blocks, got {type(content).__name__}")
    if not content:
        raise ConfigError(f"{label} was given an empty list of blocks")
    try:
        blocks: list[dict[str, Any]] = copy_json(content)
    except NotJSON as error:
        raise ConfigError(f"{label} takes blocks that are JSON: {error}") from None
    for number, block in enumerate(blocks):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise ConfigError(
                f"{label} takes blocks such as {{'type': 'text', 'text': …}}; "
                f"block {number} is {block!r:.80}"
            )
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise ConfigError(f"{label}: block {number} is of type 'text' and has no text")
    return blocks


def thread_id(thread: str | int | None) -> str | None:
    """Return the id of a thread as a text; None for the agent's own."""
    if type(thread) is int:
        thread = str(thread)
    return None if thread is None else _valid_id(thread, "thread")


def _valid_id(value: Any, name: str) -> str:
    if not is_name(value):
        check_name(f"{name}=", value)
    return value  # type: ignore[no-any-return]


def check_changed(changed: dict[str, Any], request: ReplyRequest) -> None:
    """Refuse a text or schema that a hook set, if it is invalid."""
    checked_content(changed["text"], "reply")
    if (schema := changed["schema"]) is not None and schema is not request.schema:
        AnswerSchema(schema)


def with_speaker(speaker: str, content: Any) -> Any:
    """Return a text or blocks with the speaker at the beginning of each line of text."""
    mark = f"{escaped(speaker)}: "
    if isinstance(content, list):
        blocks = [
            {**block, "text": with_speaker(speaker, block["text"])}
            if isinstance(block, dict) and isinstance(block.get("text"), str)
            else block
            for block in content
        ]
        return [{"type": "text", "text": mark.rstrip()}, *blocks]
    return "\n".join(mark + line for line in str(content).splitlines()) or mark.rstrip()


def as_chat_message(message: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat message by which an observation is remembered."""
    if isinstance(message, str):
        return {"role": "user", "content": readable(message)}
    if isinstance(message, dict):
        if isinstance(message.get("role"), str):
            return dict(message)
        action = message.get("action")
        if isinstance(action, dict) and isinstance(action.get("name"), str):
            sender, args = message.get("from", "someone"), action.get("args", {})
            is_said = action["name"] == "say" and isinstance(args, dict) and "content" in args
            text = json_text(args["content"] if is_said else args)
            text = text if is_said else f"{action['name']} {text}"
            return {"role": "user", "content": f"{readable(str(sender))}: {text}"}
    raise ConfigError(
        "observe takes a text, a chat message with `role` and `content`, or a message of a space, "
        f"not {cut(repr(message), 100)}"
    )


MAX_ANSWER_CHARS: Final = 10_000_000
"""How long the text of an answer by a schema may be."""
_MAX_SCHEMA_CHARS = 4000
"""How many characters of the schema a model is shown after it did not follow it."""


class AnswerSchema:
    """The schema of an answer, and its JSON form."""

    __slots__ = ("_convert", "json")

    def __init__(self, requested: Any) -> None:
        self.json: dict[str, Any]
        self._convert: Callable[[Any], Any]
        compile_it = _compile_schema if isinstance(requested, dict) else _compile_type
        self.json, self._convert = compile_it(requested)

    def read(self, text: str) -> Any:
        """Return a text's value by this schema; UnreadableText tells a model what to answer."""
        try:
            return self.parse(text)
        except UnreadableText as error:
            schema = cut(json.dumps(self.json, ensure_ascii=False), _MAX_SCHEMA_CHARS)
            raise UnreadableText(
                f"Your answer {error}. Answer with JSON alone that follows this schema: "
                f"{readable(schema)}"
            ) from None

    def parse(self, text: str) -> Any:
        """Return a text's value by this schema; UnreadableText says only what is wrong."""
        try:
            if len(text) > MAX_ANSWER_CHARS:
                raise UnreadableText(f"longer than {MAX_ANSWER_CHARS} characters")
            return self._convert(copy_json(self._value(text)))
        except RecursionError:
            fault = "is nested too deep for the schema"
        except Mismatch as error:
            fault = f"does not follow the schema: {error}"
        except NotJSON as error:  # a lone surrogate, or an infinite number
            fault = f"is not JSON: {error}"
        except UnreadableText as error:
            fault = f"is {error}"
        raise UnreadableText(readable(fault))

    def _value(self, text: str) -> Any:
        """Return a text's JSON value; the text itself where only texts fit and it has no quotes."""
        only_texts = self.json.get("type") == "string" or (
            all(isinstance(each, str) for each in self.json.get("enum", (None,)))
        )
        try:
            value = read_json(text)
        except UnreadableText:
            if not only_texts:
                raise
            return text.strip()
        return value if not only_texts or isinstance(value, str | dict | list) else text.strip()


def _compile_schema(requested: dict[str, Any]) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    try:
        schema: dict[str, Any] = copy_json(requested)
        validator = SchemaValidator.of_json(json.dumps(schema))
    except (NotJSON, WrongSchema) as error:
        raise DefinitionError(f"schema= is not a JSON schema: {shorten(str(error), 300)}") from None

    def convert(value: Any) -> Any:
        if (mismatch := validator.wrong(value)) is not None:
            path, fault = mismatch
            raise Mismatch((render_path(path, "answer"), f"is wrong: {shorten(fault, 300)}"))
        return value

    return schema, convert


def _compile_type(requested: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    try:
        if inspect.isroutine(requested):  # pydantic would call it
            raise TypeError("a function is not a type")
        form = form_of(requested)
        by_name, definitions = schemas_of({"answer": form})
        schema = by_name["answer"] | ({"$defs": definitions} if definitions else {})
    except Exception as error:  # its classes may run user code
        reason = shorten(str(error).partition("\n")[0], 200)
        raise ConfigError(
            f"schema= must be a JSON schema or a type with a JSON form, got "
            f"{annotation_text(requested)} ({type(error).__name__}: {reason})"
        ) from error
    reader = validator_of({"answer": form}, ["answer"])
    return schema, lambda value: read_values(reader, {"answer": value})["answer"]
