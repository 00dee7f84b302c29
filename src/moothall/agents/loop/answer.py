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
from typing import Any
from weakref import WeakKeyDictionary

from moothall.actions import Action
from moothall.actions.acting import ReadValue
from moothall.actions.provenance import Origins, origins_of
from moothall.actions.repairing import repaired
from moothall.foundation.errors import InvalidArguments
from moothall.foundation.jsonvalue import NotJSON, UnreadableText, copy_json, read_json, readable
from moothall.foundation.text import json_type, shorten
from moothall.models.protocol import NoAnswer, blocks_of, is_answer, thinking_of

EMPTY = "The answer was empty. Answer with text, or call an action."
_UNREADABLE = "The call of an action could not be read: call it again, or answer with text."
MAX_NAME = 64
_CUT = "It was cut at its length limit."

_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def demand_of(offered: Iterable[Action]) -> str:
    """Return how a model is told that its answer must call one of these actions."""
    names = " or ".join(f'"{each.name}"' for each in offered)
    return f"Your answer must be a call of {names}."


def is_safe(name: str) -> bool:
    """Return whether every provider accepts this name for an action."""
    return _SAFE.fullmatch(name) is not None


def safe_name(name: str) -> str:
    """Return a name that every provider accepts, as close to this one as possible."""
    if _SAFE.fullmatch(name) is not None:
        return name
    made = _UNSAFE.sub("_", name)
    return (made if is_safe(made[:1]) else f"_{made}")[:MAX_NAME]


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Return a different safe name for each; a safe name stays, equal ones get part of a hash."""
    public = list(dict.fromkeys(names))
    wanted = {name: safe_name(name) for name in public}
    times = Counter(wanted.values())
    found: dict[str, str] = {}
    for name, near in wanted.items():
        if near == name or times[near] == 1:
            found[name] = near
        else:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
            found[name] = f"{near[: MAX_NAME - 17]}_{digest[:16]}"
    # A public name may itself end like a hash.
    taken: dict[str, str] = {}
    for name in sorted(found, key=lambda name: (name != found[name], name)):
        safe = found[name]
        number = 2
        while safe in taken:
            safe = f"{found[name][: MAX_NAME - 8]}_{number}"
            number += 1
        taken[safe] = name
        found[name] = safe
    return found


_NOTHING: dict[str, str] = {}


class OfferedActions:
    """The actions that a model is shown.

    `given` are the agent's own, `actions` these under safe names, and `public` has the names that
    differ; `told` are the descriptions that are not the program's, each after who wrote it;
    `hidden` are deferred actions, `finder` what finds these, `own` the loop's own actions.
    """

    __slots__ = ("actions", "finder", "given", "hidden", "own", "public", "told")

    def __init__(self, actions: list[Action], hidden: Sequence[Action] = ()) -> None:
        self.given: list[Action] = actions
        self.finder: Any = None
        self.own: tuple[Action, ...] = ()
        self.told: Sequence[tuple[str, str]] = ()
        if by_others := [each for each in actions if each._described_by]:
            self.told = [(a._described_by, f"{a.name}: {a.description}") for a in by_others]
        shown = {action.name: action for action in actions}
        # Names are safe beside the hidden ones: none changes when another is found.
        by_name = {**{each.name: each for each in hidden}, **shown} if hidden else shown
        if len(shown) == len(actions) and all(map(_SAFE.fullmatch, by_name)):
            self.actions: list[Action] = actions
            self.hidden: Sequence[Action] = hidden
            self.public: dict[str, str] = _NOTHING
            return
        self.public = {}
        made: dict[str, Action] = {}
        safe_of = safe_names(by_name)
        for name, action in by_name.items():
            safe = safe_of[name]
            made[name] = action
            if safe != name:
                self.public[safe] = name
                made[name] = copy(action)
                made[name].name = safe
        self.actions = [made[name] for name in shown]
        self.hidden = [made[each.name] for each in hidden]

    def only(self, actions: list[Action]) -> OfferedActions:
        """Return these of the same actions, or of the hidden ones."""
        made = OfferedActions(actions, () if self.finder is None else self.finder.given)
        made.finder, made.own = self.finder, self.own
        return made


MAX_CALLS = 128
"""How many calls one answer may have."""
MAX_ARGS_CHARS = 1_000_000
"""How long the JSON text of one call's arguments may be."""
MAX_ID_CHARS = 16_384
"""How long the id of a call may be: litellm's holds the signature of a provider."""
_PLAIN = frozenset((str, int, bool, type(None)))  # a float may be infinite: 1e999
_NUMBERED = re.compile(r"(.*\D)(\d{1,9})", re.DOTALL)


@dataclass(slots=True)
class RequestedCall:
    """One call of an answer."""

    id: str  # different from those of the reply's other calls
    name: str  # the action's public name
    shown: str  # the safe name, as in the messages
    args: dict[str, Any] = field(default_factory=dict)  # as JSON data; empty if unreadable
    action: Action | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)  # the arguments for the function
    key: str = ""  # that of its step in the run's record; empty without one
    fault: str | None = None  # what is wrong with the call
    repaired: str = ""  # what of its arguments was spelled otherwise
    has_started: bool = False  # whether its execution has begun, in this process
    resumed: bool = False  # whether it had begun before its run was resumed
    stated: bool = False  # whether a person has stated its result
    result: dict[str, Any] | None = None  # the environment's, once it has ended
    origins: Origins = field(default_factory=dict)  # of its arguments, by parameter
    from_outside: tuple[tuple[str, str], ...] = ()  # its guarded values that are from outside
    derived: bool = False  # whether a value of it, guarded or not, is from outside
    foreign: dict[str, Any] = field(default_factory=dict)  # arguments partly from outside
    read: tuple[str, ...] = ()  # what the agents that it asked had read
    adrift_reads: tuple[ReadValue, ...] = ()  # what was read in threads that may be its own
    late: Callable[[Sequence[str]], None] | None = None  # told what its work reads after its end
    always: tuple[str, ...] = ()  # values that a person permitted for the thread
    said: tuple[str, ...] = ()  # what a person answered to its questions
    questions: tuple[str, ...] = ()  # these questions, as far as they have been asked
    was: dict[str, Any] | None = None  # the model's arguments, if a person changed them
    waits: Exception | None = None  # what ends the reply, if it waits in the journal
    watched: Callable[[str], None] | None = None  # told its progress, while it is executed

    def progress(self, text: str) -> None:
        """Tell how far it is, unless it has ended or nobody listens."""
        if self.watched is not None:
            self.watched(text)

    def hear(self, said: str) -> None:
        """Note what a person answered."""
        self.said += (said,)

    def provenance(self, sources: list[str]) -> dict[str, Any]:
        """Return what a record keeps of where its values, and its result, come from."""
        if not (self.origins or self.read or self.always or self.said or sources or self.stated):
            return {}
        kept = {"origins": self.origins, "derived": self.derived, "said": self.said}
        unbegun = not (self.has_started or self.resumed)
        kept |= {"sources": sources, "stated": self.stated, "unbegun": unbegun}
        return {name: each for name, each in {**kept, "always": self.always}.items() if each}

    def restore(self, kept: Any) -> None:
        """Take what a record has kept."""
        if isinstance(kept, dict):
            self.origins = origins_of(kept.get("origins"))
            self.derived = kept.get("derived", False)
            self.read, self.always = tuple(kept.get("sources", ())), tuple(kept.get("always", ()))
            self.said = tuple(kept.get("said", ()))
            self.stated, self.resumed = kept.get("stated", False), not kept.get("unbegun", False)


@dataclass(slots=True)
class Answer:
    """A model's answer, read."""

    text: str
    calls: list[RequestedCall]
    fault: str = ""  # why it cannot be used, in words
    thinking: Sequence[dict[str, Any]] = ()  # goes back to the model unchanged
    blocks: Sequence[dict[str, Any]] = ()  # images and audio

    def message(self, **more: Any) -> dict[str, Any]:
        """Return it as a chat message."""
        made = {"role": "assistant", "content": self.text, **more}
        if self.blocks:
            text = [{"type": "text", "text": self.text}] if self.text else []
            made["content"] = [*text, *self.blocks]
        if self.thinking:
            made["thinking"] = self.thinking
        return made


def read_answer(
    answer: Any,
    ids: set[str],
    find: Callable[[str], tuple[str, Action | None]],
    known: Callable[[], list[str]],
) -> Answer:
    """Read a model's answer; `ids` are those of the reply's calls so far."""
    if not is_answer(answer):
        made = answer.class_name if isinstance(answer, NoAnswer) else type(answer).__name__
        why = f"the model gave no answer but {shorten(made)}: complete must return a ModelReply"
        return Answer("", [], why)
    text, calls = getattr(answer, "text", None), answer.calls
    text = readable(text) if text and not text.isspace() else ""
    if not calls:
        finish_reason, blocks = getattr(answer, "finish_reason", None), blocks_of(answer)
        if finish_reason == "unreadable":
            return Answer(text, [], _UNREADABLE)
        if text or blocks:
            return Answer(text, [], "", thinking_of(answer), blocks)
        if finish_reason == "length":
            return Answer("", [], f"{EMPTY} ({_CUT})")
        return Answer("", [], EMPTY)
    if len(calls) > MAX_CALLS:
        fault = (
            f"Your answer calls {len(calls)} actions, and at most {MAX_CALLS} are allowed in one. "
            "None was executed."
        )
        return Answer(text, [], fault)
    wanted: list[RequestedCall] = []
    faults = ""
    for call in calls:
        wanted.append(each := _read_call(call, ids, find, known))
        if each.fault:
            faults += f"; {each.fault}" if faults else each.fault
    if faults and getattr(answer, "finish_reason", None) == "length":
        faults += f" ({_CUT})"
        for each in wanted:
            each.fault = f"{each.fault} ({_CUT})" if each.fault else None
    return Answer(text, wanted, faults, thinking_of(answer))


def _read_call(
    call: Any,
    ids: set[str],
    find: Callable[[str], tuple[str, Action | None]],
    known: Callable[[], list[str]],
) -> RequestedCall:
    id = _id(getattr(call, "id", None), ids)
    given = getattr(call, "name", None)
    if not isinstance(given, str):
        wanted = RequestedCall(id, "?", "_")
        wanted.fault = f"the name of an action must be a text, got {json_type(given)}"
        return wanted
    name, action = find(given)
    wanted = RequestedCall(id, name, safe_name(given), {}, None, {})
    if action is None:
        names = known()
        listed = ", ".join(names[:20]) + (" and others" if len(names) > 20 else "")
        listed = f"the actions are {listed}" if names else "there are no actions"
        wanted.name = readable(shorten(given, 255))
        wanted.fault = f'"{readable(shorten(given))}" is not an action; {listed}'
        return wanted
    text = getattr(call, "args", None)
    try:
        args = _read_args(text)
        wanted.args = args.copy() if _is_plain(text, args) else copy_json(args)
    except NotJSON as error:
        wanted.fault = f'the arguments of "{given}" are not JSON: {error}'
        return wanted
    except UnreadableText as error:
        wanted.fault = f'the arguments of "{given}" {error}'
        return wanted
    wanted.action = action
    try:
        wanted.kwargs = action.check(args)
    except InvalidArguments as error:
        try:
            args, wanted.kwargs, wanted.repaired = repaired(action, args)
            wanted.args = copy_json(args)
        except InvalidArguments:
            wanted.fault = readable(str(error))
    return wanted


def _id(given: Any, taken: set[str]) -> str:
    """Return the id that the model gave a call; a new one if it is invalid or taken.

    Some providers count anew in each turn, and want ids in their own form: the next number is new.
    """
    is_one = isinstance(given, str) and 0 < len(given) <= MAX_ID_CHARS and given.isascii()
    if is_one and given not in taken:
        id: str = given
    else:
        stem, number = "call_", len(taken) + 1
        if is_one and (found := _NUMBERED.fullmatch(given[: MAX_ID_CHARS - 1])):
            stem, number = found[1], int(found[2]) + 1
        while (id := f"{stem}{number}") in taken:
            number += 1
    taken.add(id)
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
    return is_ascii and _PLAIN.issuperset(map(type, args.values()))


_FOREIGN: WeakKeyDictionary[Any, Action] = WeakKeyDictionary()
"""Actions as models are shown them, where they differ from the given ones."""


def as_action(given: Any) -> Action:
    """Return an action, maybe of a user's own class, as an `Action`, the same one each time."""
    if type(given) is Action or isinstance(given, Action):
        function = given.function
        if type(function) is not MethodType or function.__name__ != "say":
            return given
        return _without_thread(given)
    made = _FOREIGN.get(given)
    if made is None:
        made = _FOREIGN[given] = Action.of(given)
    return made


def _without_thread(say: Action) -> Action:
    """Return an agent's `say` without the parameter `thread`, which the model must not set."""
    parameters = say.parameters
    properties = parameters.get("properties", {})
    if "thread" not in properties:
        return say
    made = _FOREIGN.get(say)
    if made is None:
        shown = {name: each for name, each in properties.items() if name != "thread"}
        made = _FOREIGN[say] = copy(say)
        made._parameters, made._validator = {**parameters, "properties": shown}, None
    return made
