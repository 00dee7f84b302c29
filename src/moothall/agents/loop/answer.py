"""Reading a model's answer, and the names that models call actions by.

An answer is data: nothing in it is guessed at or run; `repairing.py` says what is repaired.
Providers allow letters, digits, `_` and `-` in a name, and 64 of them, Gemini no digit or `-` as
the first; the public names of actions may be `block.action` or hold an agent's id, any text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from moothall.actions import Action
from moothall.actions.acting import ReadValue
from moothall.actions.capability import without_parameter
from moothall.actions.provenance import Origins, origins_of
from moothall.actions.repairing import repair_args
from moothall.agents.replies.reply import Step, Stop
from moothall.foundation.errors import InvalidArguments
from moothall.foundation.jsonvalue import NotJSON, UnreadableText, copy_json, read_json, readable
from moothall.foundation.text import json_type, shorten
from moothall.models.finish_reason import FAULTS
from moothall.models.protocol import ModelReply, NoAnswer, blocks_of, thinking_of

if TYPE_CHECKING:
    from moothall.agents.loop.call_result import CallResult

EMPTY = "The answer was empty. Answer with text, or call an action."
MAX_NAME = 64
_CUT_NOTE = "It was cut at its length limit."
_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_NO_NAMES: dict[str, str] = {}


def safe_name(name: str) -> str:
    """Return a name that every provider accepts, as close to this one as possible."""
    if _SAFE.fullmatch(name) is not None:
        return name
    replaced = _UNSAFE.sub("_", name)
    return (replaced if _SAFE.fullmatch(replaced[:1]) else f"_{replaced}")[:MAX_NAME]


class OfferedActions:
    """The actions that a model is shown.

    `agent_actions` are the agent's, `actions` these under safe names, and `public_names` has those
    that differ; `descriptions` are those that are not the program's, each after who wrote it;
    `hidden` are deferred actions, `finder` what finds these, `own_actions` the loop's own actions.
    """

    __slots__ = (
        "actions",
        "agent_actions",
        "descriptions",
        "finder",
        "hidden",
        "own_actions",
        "public_names",
    )

    def __init__(self, actions: list[Action], hidden: Sequence[Action] = ()) -> None:
        self.agent_actions: list[Action] = actions
        self.finder: Any = None
        self.own_actions: tuple[Action, ...] = ()
        self.descriptions: Sequence[tuple[str, str]] = ()
        if foreign := [each for each in actions if each.origin.described_by]:
            self.descriptions = [
                (each.origin.described_by, f"{each.name}: {each.description}") for each in foreign
            ]
        visible = {action.name: action for action in actions}
        # Names are safe beside the hidden ones: none changes when another is found.
        by_name = {**{each.name: each for each in hidden}, **visible} if hidden else visible
        if len(visible) == len(actions) and all(map(_SAFE.fullmatch, by_name)):
            self.actions: list[Action] = actions
            self.hidden: Sequence[Action] = hidden
            self.public_names: dict[str, str] = _NO_NAMES
            return
        self.public_names = {}
        safe_actions: dict[str, Action] = {}
        safe_names = ToolCall.safe_names(by_name)
        for name, action in by_name.items():
            safe = safe_names[name]
            safe_actions[name] = action
            if safe != name:
                self.public_names[safe] = name
                safe_actions[name] = copy(action)
                safe_actions[name].name = safe
        self.actions = [safe_actions[name] for name in visible]
        self.hidden = [safe_actions[each.name] for each in hidden]

    def choose(self, actions: list[Action]) -> OfferedActions:
        """Return these of the same actions, or of the hidden ones."""
        offered = OfferedActions(actions, () if self.finder is None else self.finder.actions)
        offered.finder, offered.own_actions = self.finder, self.own_actions
        return offered


MAX_CALLS = 128
"""How many calls one answer may have."""
MAX_ARGS_CHARS = 1_000_000
"""How long the JSON text of one call's arguments may be."""
MAX_ID_CHARS = 16_384
"""How long the id of a call may be: litellm's holds the signature of a provider."""
_PLAIN_TYPES = frozenset((str, int, bool, type(None)))  # a float may be infinite: 1e999
_NUMBERED_ID = re.compile(r"(.*\D)(\d{1,9})", re.DOTALL)


@dataclass(slots=True)
class ToolCall:
    """One call of an answer."""

    id: str  # different from those of the reply's other calls
    name: str  # the action's public name
    safe_name: str  # the safe name, as in the messages
    args: dict[str, Any] = field(default_factory=dict)  # as JSON data; empty if unreadable
    action: Action | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)  # the arguments for the function
    key: str = ""  # that of its step in the run's record; empty without one
    fault: str | None = None  # what is wrong with the call
    repaired: str = ""  # what of its arguments was spelled otherwise
    has_started: bool = False  # whether its execution has begun, in this process
    resumed: bool = False  # whether it had begun before its run was resumed
    is_stated: bool = False  # whether a person has stated its result
    result: CallResult | None = None  # once it has ended
    origins: Origins = field(default_factory=dict)  # of its arguments, by parameter
    from_outside: tuple[tuple[str, str], ...] = ()  # its guarded values that are from outside
    derived: bool = False  # whether a value of it, guarded or not, is from outside
    foreign: dict[str, Any] = field(default_factory=dict)  # arguments partly from outside
    read_sources: tuple[str, ...] = ()  # what the agents that it asked had read
    contextless_reads: tuple[ReadValue, ...] = ()  # what was read in threads that may be its own
    on_late_read: Callable[[Sequence[str]], None] | None = None  # of its work, after its end
    always: tuple[str, ...] = ()  # values that a person permitted for the thread
    statements: tuple[str, ...] = ()  # what a person answered to its questions
    questions: tuple[str, ...] = ()  # these questions, as far as they have been asked
    original_args: dict[str, Any] | None = None  # the model's arguments, if a person changed them
    wait: Stop | None = None  # what ends the reply, if it waits in the journal
    raised: Any = None  # what a tool of another framework raised in the record that it comes from
    step: Any = None  # what records it, once it is executed; None without a journal
    on_event: Callable[[str, str], None] | None = None  # told its events, while it is executed

    @staticmethod
    def safe_names(names: Iterable[str]) -> dict[str, str]:
        """Return a name for each that every provider accepts, all different; a safe one stays."""
        public = list(dict.fromkeys(names))
        near_names = {name: safe_name(name) for name in public}
        counts = Counter(near_names.values())
        by_name: dict[str, str] = {}
        for name, near_name in near_names.items():
            if near_name == name or counts[near_name] == 1:
                by_name[name] = near_name
            else:
                digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
                by_name[name] = f"{near_name[: MAX_NAME - 17]}_{digest[:16]}"
        # A public name may itself end like a hash.
        by_safe_name: dict[str, str] = {}
        for name in sorted(by_name, key=lambda name: (name != by_name[name], name)):
            safe = by_name[name]
            number = 2
            while safe in by_safe_name:
                safe = f"{by_name[name][: MAX_NAME - 8]}_{number}"
                number += 1
            by_safe_name[safe] = name
            by_name[name] = safe
        return by_name

    def tell(self, kind: str, text: str) -> None:
        """Tell an event of it, by its kind, unless it has ended or nobody listens."""
        if self.on_event is not None:
            self.on_event(kind, text)

    def as_step(self, turn: int, result: CallResult, ids: tuple[str, str | None]) -> Step:
        """Return it as a step of its reply, with the ids of the run and of the thread."""
        fields = (self.name, self.args, result.data, result.error)
        return Step(turn, *fields, *ids, {**self.origins}, self.repaired)

    def add_statement(self, text: str) -> None:
        """Note what a person answered."""
        self.statements += (text,)

    def provenance(self, sources: Sequence[str]) -> dict[str, Any]:
        """Return what a record keeps of where its values, and its result, come from."""
        has_any = self.origins or self.read_sources or self.always or self.statements or sources
        if not (has_any or self.is_stated):
            return {}
        data = {"origins": self.origins, "derived": self.derived, "said": self.statements}
        unbegun = not (self.has_started or self.resumed)
        data |= {"sources": sources, "stated": self.is_stated, "unbegun": unbegun}
        return {name: each for name, each in {**data, "always": self.always}.items() if each}

    def restore(self, data: Any) -> None:
        """Take what a record has kept."""
        if isinstance(data, dict):
            self.origins = origins_of(data.get("origins"))
            self.derived = data.get("derived", False)
            self.read_sources = tuple(data.get("sources", ()))
            self.always = tuple(data.get("always", ()))
            self.statements = tuple(data.get("said", ()))
            self.is_stated, self.resumed = data.get("stated", False), not data.get("unbegun", False)


@dataclass(slots=True)
class ModelAnswer:
    """A model's answer, read."""

    text: str
    calls: list[ToolCall]
    fault: str = ""  # why it cannot be used, in words
    thinking: Sequence[dict[str, Any]] = ()  # goes back to the model unchanged
    blocks: Sequence[dict[str, Any]] = ()  # images and audio

    def message(self, **fields: Any) -> dict[str, Any]:
        """Return it as a chat message."""
        message = {"role": "assistant", "content": self.text, **fields}
        if self.blocks:
            text = [{"type": "text", "text": self.text}] if self.text else []
            message["content"] = [*text, *self.blocks]
        if self.thinking:
            message["thinking"] = self.thinking
        return message


def read_answer(
    answer: Any,
    ids: set[str],
    find: Callable[[str], tuple[str, Action | None]],
    list_names: Callable[[], list[str]],
) -> ModelAnswer:
    """Read a model's answer; `ids` are those of the reply's calls so far."""
    if not ModelReply.can_read(answer):
        kind = answer.class_name if isinstance(answer, NoAnswer) else type(answer).__name__
        reason = f"the model gave no answer but {shorten(kind)}: complete must return a ModelReply"
        return ModelAnswer("", [], reason)
    text, calls = getattr(answer, "text", None), answer.calls
    text = readable(text) if text and not text.isspace() else ""
    if not calls:
        finish_reason = getattr(answer, "finish_reason", None)
        if finish_reason != "stop" and (fault := FAULTS.get(str(finish_reason))):
            return ModelAnswer(text, [], fault)
        if text and type(answer) is ModelReply and not (answer.blocks or answer.thinking):
            return ModelAnswer(text, [])  # the most frequent case
        if (blocks := blocks_of(answer)) or text:
            return ModelAnswer(text, [], "", thinking_of(answer), blocks)
        if finish_reason == "length":
            return ModelAnswer("", [], f"{EMPTY} ({_CUT_NOTE})")
        return ModelAnswer("", [], EMPTY)
    if len(calls) > MAX_CALLS:
        fault = (
            f"Your answer calls {len(calls)} actions, and at most {MAX_CALLS} are allowed in one. "
            "None was executed."
        )
        return ModelAnswer(text, [], fault)
    tool_calls: list[ToolCall] = []
    faults = ""
    for call in calls:
        tool_calls.append(each := _read_call(call, ids, find, list_names))
        if each.fault:
            faults += f"; {each.fault}" if faults else each.fault
    if faults and getattr(answer, "finish_reason", None) == "length":
        faults += f" ({_CUT_NOTE})"
        for each in tool_calls:
            each.fault = f"{each.fault} ({_CUT_NOTE})" if each.fault else None
    thinking = thinking_of(answer) if getattr(answer, "thinking", ()) else ()
    return ModelAnswer(text, tool_calls, faults, thinking)


def _read_call(
    call: Any,
    ids: set[str],
    find: Callable[[str], tuple[str, Action | None]],
    list_names: Callable[[], list[str]],
) -> ToolCall:
    id = _unique_id(getattr(call, "id", None), ids)
    stated_name = getattr(call, "name", None)
    if not isinstance(stated_name, str):
        tool_call = ToolCall(id, "?", "_")
        tool_call.fault = f"the name of an action must be a text, got {json_type(stated_name)}"
        return tool_call
    name, action = find(stated_name)
    tool_call = ToolCall(id, name, safe_name(stated_name), {}, None, {})
    if action is None:
        names = list_names()
        names_text = ", ".join(names[:20]) + (" and others" if len(names) > 20 else "")
        names_text = f"the actions are {names_text}" if names else "there are no actions"
        tool_call.name = readable(shorten(stated_name, 255))
        tool_call.fault = f'"{readable(shorten(stated_name))}" is not an action; {names_text}'
        return tool_call
    text = getattr(call, "args", None)
    try:
        args = _read_args(text)
        tool_call.args = args.copy() if _is_plain(text, args) else copy_json(args)
    except NotJSON as error:
        tool_call.fault = f'the arguments of "{stated_name}" are not JSON: {error}'
        return tool_call
    except UnreadableText as error:
        tool_call.fault = f'the arguments of "{stated_name}" {error}'
        return tool_call
    tool_call.action = action
    try:
        tool_call.kwargs = action.check(args)
    except InvalidArguments as error:
        try:
            args, tool_call.kwargs, tool_call.repaired = repair_args(action, args)
            tool_call.args = copy_json(args)
        except InvalidArguments:
            tool_call.fault = readable(str(error))
    return tool_call


def _unique_id(stated_id: Any, used: set[str]) -> str:
    """Return the id that the model gave a call; a new one if it is invalid or taken.

    Some providers count anew in each turn, and want ids in their own form: the next number is new.
    """
    is_valid = (
        isinstance(stated_id, str) and 0 < len(stated_id) <= MAX_ID_CHARS and stated_id.isascii()
    )
    if is_valid and stated_id not in used:
        id: str = stated_id
    else:
        stem, number = "call_", len(used) + 1
        if is_valid and (match := _NUMBERED_ID.fullmatch(stated_id[: MAX_ID_CHARS - 1])):
            stem, number = match[1], int(match[2]) + 1
        while (id := f"{stem}{number}") in used:
            number += 1
    used.add(id)
    return id


def _read_args(args: Any) -> dict[str, Any]:
    """Return a call's arguments, copied from the model's answer."""
    if isinstance(args, str):
        if len(args) > MAX_ARGS_CHARS:
            raise UnreadableText(f"are longer than {MAX_ARGS_CHARS} characters")
        if args[:1] != "{" or args[1:2] == "}":
            args = args.strip().removeprefix("{}").lstrip() or "{}"  # of bridges to Bedrock
            if args in ("null", "[]"):
                return {}  # what some send for an action without parameters
        try:
            args = read_json(args)
        except UnreadableText as error:
            raise UnreadableText(f"are {error}") from None
        if type(args) is dict:
            return args
        if isinstance(args, str):
            with suppress(UnreadableText):
                args = read_json(args)  # JSON text of JSON text
    elif isinstance(args, dict):
        args = copy_json(args)
    if not isinstance(args, dict):
        raise UnreadableText(f"must be a JSON object, not {json_type(args)}")
    return args


def _is_plain(text: Any, args: dict[str, Any]) -> bool:
    """Whether arguments read from this text are JSON for sure, and have nothing mutable in them."""
    is_ascii = type(text) is str and text.isascii() and "\\u" not in text  # so are their texts
    return is_ascii and _PLAIN_TYPES.issuperset(map(type, args.values()))


_ACTIONS_BY_SOURCE: WeakKeyDictionary[Any, Action] = WeakKeyDictionary()
"""Actions as models are shown them, where they differ from the given ones."""


def as_action(source: Any) -> Action:
    """Return an action, maybe of a user's own class, as an `Action`: if possible, the same one."""
    if type(source) is Action or isinstance(source, Action):
        function = source.function
        if type(function) is not MethodType or function.__name__ != "say":
            return source
        return _without_thread(source)
    with suppress(TypeError):  # it may be neither hashed nor referred to weakly
        if (action := _ACTIONS_BY_SOURCE.get(source)) is not None:
            return action
    action = Action.of(source)
    with suppress(TypeError):
        _ACTIONS_BY_SOURCE[source] = action
    return action


def _without_thread(say: Action) -> Action:
    """Return an agent's `say` without the parameter `thread`, which the model must not set."""
    if "thread" not in say.parameters.get("properties", {}):
        return say
    action = _ACTIONS_BY_SOURCE.get(say)
    if action is None:
        action = _ACTIONS_BY_SOURCE[say] = without_parameter(say, "thread")
    return action
