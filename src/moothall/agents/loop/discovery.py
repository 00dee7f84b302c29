"""Discovery: the actions of other agents, as actions that a model may call; search over actions.

An agent's description of itself is untrusted data: it is shortened, put on one line, and marked
as coming from that agent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from moothall.actions import Action
from moothall.actions.capability import ActionOrigin
from moothall.actions.message import MAX_ID, is_group
from moothall.actions.provenance import reading
from moothall.actions.provenance.reading import current_reading
from moothall.actions.search import ActionIndex
from moothall.actions.signature.schema import object_schema
from moothall.agents.agent import Agent
from moothall.agents.loop.answer import OfferedActions, ToolCall
from moothall.agents.loop.asking.upward import UpwardCall
from moothall.agents.loop.recording import LoopTurn
from moothall.agents.replies.reply_context import find_local_agent, sources_told_to
from moothall.agents.replies.thread import Thread
from moothall.foundation.errors import DefinitionError, MoothallError
from moothall.foundation.text import escaped, one_line, shorten
from moothall.memory.long_results import READ_RESULT

logger: logging.Logger = logging.getLogger("moothall.agents")

FIND: Final = "find_actions"
"""The action by which a model finds those that it is not shown."""
MAX_SHOWN: Final = 40
"""Once an agent has more actions, those of servers and of discovery are deferred."""
HELP_TIMEOUT_S = 3.0
"""How long an agent may take to say what it can do."""

_MAX_NAMED: Final = 30
_TIMEOUT_S: Final = 300.0  # until a request ends that is a call
_ABOUT_CHARS: Final = 200
_MAX_ACTIONS = 200
_MAX_ARGS = 100
_MAX_DESCRIPTION = 2000
_MAX_DEPTH = 8

# The allowed keywords of an untrusted schema. Not `$ref`, which names an address, nor `pattern`,
# which may take exponential time: the agent that has the action checks its arguments anyway.
_SCHEMA_TYPES = frozenset(("string", "integer", "number", "boolean", "array", "object", "null"))


def offered_actions(
    actions: list[Action],
    defers_foreign: bool,
    thread: Thread,
    last_shown: OfferedActions | None,
) -> OfferedActions:
    """Return actions as a model is shown them: of the deferred ones, only those that have joined.

    `defers_foreign`: whether actions of servers and other agents are deferred that do not say it;
    `last_shown`: what the model was shown before.
    """
    hidden = [
        each
        for each in actions
        if (defers_foreign and each.origin.server if each.deferred is None else each.deferred)
    ]
    if hidden and any(each.name == FIND for each in actions):
        if any(each.deferred for each in hidden):
            raise DefinitionError(
                f"an action is called {FIND!r}, which is how a model finds deferred actions: give "
                "it another name, or have no action be deferred"
            )
        hidden = []
    results = None if thread.results is None else thread.results.action
    is_name_free = results is not None and all(each.name != READ_RESULT for each in actions)
    own_actions = (results,) if results is not None and is_name_free else ()
    last_actions: list[Action] = []
    if (workers := thread.workers) is not None:
        names = {each.name for each in actions}
        free = [each for each in workers.actions if each.name not in names]
        last_actions = free if workers.under_way else []
        own_actions += (*free,)
    if not hidden:
        own_and_found = (
            [each for each in own_actions if each.name in thread.found_actions]
            if own_actions
            else []
        )
        offered = OfferedActions([*actions, *own_and_found, *last_actions])
        offered.own_actions = own_actions
        return offered
    old = None if last_shown is None else last_shown.finder
    finder = old if old is not None and old.actions == hidden else Finder(hidden)
    actions_by_name = {each.name: each for each in hidden}
    visible = [each for each in actions if each.name not in actions_by_name]
    actions_by_name |= {each.name: each for each in own_actions}
    matched = [actions_by_name[name] for name in thread.found_actions if name in actions_by_name]
    offered = OfferedActions([*visible, finder.action, *matched, *last_actions], hidden)
    offered.finder, offered.own_actions = finder, (finder.action, *own_actions)
    finder.safe_names = {
        each.name: safe.name for each, safe in zip(hidden, offered.hidden, strict=True)
    }
    return offered


class Finder:
    """Finds deferred actions by words."""

    def __init__(self, actions: list[Action]) -> None:
        self.actions = actions
        self.safe_names: dict[str, str] = {}  # how a model may name each
        self._index: ActionIndex | None = None
        counts = Counter(each.origin.server for each in actions)
        own_count = counts.pop("", 0)
        servers = [
            f"{shorten(_as_line(id), 60)} ({count})" for id, count in counts.most_common(_MAX_NAMED)
        ]
        servers += [f"{len(counts) - _MAX_NAMED} others"] if len(counts) > _MAX_NAMED else []
        servers += [f"this program ({own_count})"] if own_count else []
        description = (
            f"Find actions that are not listed here. There are {len(actions)}, of "
            f"{', '.join(servers)}. Those that are found can be called from your next answer on."
        )
        words = "a few words on what the action should do, and to what"
        schema = object_schema(words={"type": "string", "description": words})
        self.action: Action = Action.unchecked(
            FIND, self._find, description, schema, idempotent=True
        )
        self.action.origin = ActionOrigin(may_return_arguments=False, adds_actions=True)

    def _find(self, words: str) -> list[dict[str, str]] | str:
        if self._index is None:
            self._index = ActionIndex(self.actions)
        matches = self._index.find(words)
        reading.add_sources(
            [each.origin.described_by for each in matches if each.origin.described_by]
        )
        if not matches:
            return (
                "No action matches. Try other words, such as what the action is called elsewhere."
            )
        return [
            {
                "name": self.safe_names[each.name],
                "description": one_line(each.description, _ABOUT_CHARS),
            }
            for each in matches
        ]


def show_matches(thread: Thread, turn: LoopTurn, offered: OfferedActions, call: ToolCall) -> None:
    """If a call was a search, show the model what it found from its next answer on, at the end."""
    if call.action is not offered.finder.action:
        return
    matches = None if call.result is None else call.result.value
    if type(matches) is not list:
        return
    public_names = (offered.public_names.get(each["name"], each["name"]) for each in matches)
    new = [name for name in public_names if name not in thread.found_actions]
    turn.found_actions = [*turn.found_actions, *new]
    thread.found_actions += tuple(new)


async def discover(agent: Agent, which: str | Iterable[str | int]) -> list[Action]:
    """Return the actions of other agents in the agent's space, each named `AgentId.action`.

    An agent that does not answer in time, or not with help, is left out and logged. So is an action
    with the name of an earlier agent's: `b.c` of the agent `a`, after `c` of the agent `a.b`.
    """
    own_id = str(agent.id)
    space: Any = agent.space
    ids: Iterable[str | int] = which
    if isinstance(which, str):
        ids = await space.all_ids(which[1:] if is_group(which) else None)
    other_ids = [id for id in dict.fromkeys(map(str, ids)) if id != own_id]
    helps = await asyncio.gather(*(_help_of(agent, id) for id in other_ids))
    by_name: dict[str, Action] = {}
    for id, help in zip(other_ids, helps, strict=True):
        for action in () if help is None else discovered_actions(agent, id, help):
            if by_name.setdefault(action.name, action) is not action:
                warning = "agent %r leaves out an action of %r: another is called %r already"
                logger.warning(warning, agent.id, id, action.name)
    return list(by_name.values())


async def _help_of(agent: Agent, id: str) -> Any:
    try:
        # The answer names the request, so that observers of the space can tell it from an action.
        request_id = f"help-{secrets.token_hex(4)}"
        message = {"id": request_id, "to": id, "action": {"name": "help", "args": {}}}
        return await agent.request(message, timeout=HELP_TIMEOUT_S)
    except MoothallError as error:
        logger.warning("agent %r discovers nothing of %r: %s", agent.id, id, error)
        return None


def discovered_actions(agent: Agent, id: str, help: Any) -> list[Action]:
    """Return the actions that an agent's help describes, without the unusable ones."""
    if not isinstance(help, dict):
        logger.warning("agent %r discovers nothing of %r: its help is not an object", agent.id, id)
        return []
    actions = []
    for name, action_help in list(help.items())[:_MAX_ACTIONS]:
        parameters = _safe_parameters(action_help, name)
        if parameters is not None:
            actions.append(_make_action(agent, id, name, action_help, parameters))
            continue
        warning = "agent %r leaves out the action %r of %r: args must be up to %d schemas by name"
        logger.warning(warning, agent.id, shorten(name), id, _MAX_ARGS)
    if len(help) > _MAX_ACTIONS:
        warning = "agent %r uses %d of the %d actions of %r"
        logger.warning(warning, agent.id, _MAX_ACTIONS, len(help), id)
    return actions


def _make_action(
    agent: Agent, id: str, name: str, action_help: dict[str, Any], parameters: dict[str, Any]
) -> Action:
    async def call(**args: Any) -> Any:
        message = {"to": id, "action": {"name": name, "args": args}}
        if (upward := UpwardCall.begun_by(agent)) is None:
            value = await agent.request(message)
        else:
            try:
                value = await agent.send_request(message, _TIMEOUT_S, upward=upward)
            except MoothallError:
                if upward.cause is not None:
                    upward.raise_cause()
                raise
        if (current := current_reading()) is not None and is_here:
            current.read_sources += tuple(
                sources_told_to(find_local_agent(agent, id)[0], str(agent.id))
            )
        return value

    text = _as_line(action_help.get("description")) or "not described"
    description = f"Action of the agent {_as_line(id)!r}: {text}"
    # An agent of this process is the program's: its own action says what it is.
    other_agent, is_here = find_local_agent(agent, id)
    offer = None if other_agent is None else other_agent.offers.get(name)
    options: dict[str, Any] = {"guard": () if name == "say" else None}
    if offer is not None:
        options = {"outside": offer.outside, "own": offer.own, "guard": offer.guarded}
        options["facts"] = offer.facts
        options["addresses"] = offer.addressed
    elif id not in agent.trusted:
        options["outside"] = not is_here
    action = Action.unchecked(_full_name(id, name), call, description, parameters, **options)
    action.deferred = None if offer is None else offer.deferred
    by_others = not is_here and id not in agent.trusted
    source = f"what {_as_line(id)} says of its actions" if by_others else ""
    # What it does for the call is recorded, and goes on, as with `as_action`.
    is_here_alone = name == "say" and getattr(agent.space, "is_one_process", False)
    asked_agent = (
        other_agent if is_here_alone and getattr(other_agent, "records_say", False) else None
    )
    action.origin = ActionOrigin(server=id, described_by=source, agent=asked_agent)
    return action


def _full_name(id: str, name: str) -> str:
    full_name = f"{id}.{name}"
    if len(full_name) <= MAX_ID:
        return full_name
    digest = hashlib.sha256(full_name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{id[:110]}….{name[:110]}…{digest}"


def _safe_parameters(action_help: Any, name: str) -> dict[str, Any] | None:
    """Return the JSON schema of the arguments; None if the help has nothing to make it from."""
    args = action_help.get("args") if isinstance(action_help, dict) else None
    if not isinstance(args, dict) or len(args) > _MAX_ARGS:
        return None
    if not all(isinstance(each, dict) for each in args.values()):
        return None
    # The thread of a `say` is its reply's; the model must not name another.
    visible = {each: schema for each, schema in args.items() if (name, each) != ("say", "thread")}
    return {
        "type": "object",
        "properties": {each: _safe_schema(schema, 0) for each, schema in visible.items()},
        "required": [each for each, schema in visible.items() if "default" not in schema],
        "additionalProperties": False,
    }


def _safe_schema(source: Any, depth: int) -> dict[str, Any]:
    """Return a schema's allowed keywords; empty, which admits anything, if it is unusable."""
    if not isinstance(source, dict) or depth > _MAX_DEPTH:
        return {}
    schema = {key: source[key] for key in ("default", "const") if key in source}
    kind = source.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if kinds and all(isinstance(each, str) and each in _SCHEMA_TYPES for each in kinds):
        schema["type"] = list(dict.fromkeys(kinds)) if isinstance(kind, list) else kind
    if description := _as_line(source.get("description")):
        schema["description"] = description
    if _has_few_items(source.get("enum"), list):
        schema["enum"] = source["enum"]
    if _has_few_items(source.get("anyOf"), list):
        schema["anyOf"] = [_safe_schema(choice, depth + 1) for choice in source["anyOf"]]
    for key in ("items", "additionalProperties"):
        if isinstance(source.get(key), dict):
            schema[key] = _safe_schema(source[key], depth + 1)
    if isinstance(source.get("additionalProperties"), bool):
        schema["additionalProperties"] = source["additionalProperties"]
    if _has_few_items(source.get("properties"), dict):
        inner = {name: _safe_schema(item, depth + 1) for name, item in source["properties"].items()}
        schema["properties"] = inner
        if isinstance(source.get("required"), list):
            schema["required"] = [
                each for each in dict.fromkeys(map(str, source["required"])) if each in inner
            ]
    return schema


def _has_few_items(value: Any, kind: type[list[Any] | dict[str, Any]]) -> bool:
    """Return whether a value has this type and a limited number of items, at least one."""
    return isinstance(value, kind) and 0 < len(value) <= _MAX_ARGS


def _as_line(text: Any) -> str:
    """Return a text on one line, shortened, without terminal or template control characters."""
    if not isinstance(text, str):
        return ""
    return escaped(" ".join(shorten(text, _MAX_DESCRIPTION).split()))
