"""A server's tools, resources and prompts as actions."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from moothall import (
    ACCESS_DENIED,
    ACCESS_REQUESTED,
    AccessPolicy,
    Action,
    Context,
    InvalidArguments,
)
from moothall.build import SchemaValidator, object_schema, one_line
from moothall.serving.mcp.listing import (
    PROMPT_LIST,
    RESOURCE_LIST,
    Definition,
    ServerOffer,
    checked_schema,
    visible_schema,
    visible_text,
)
from moothall.serving.mcp.tool_results import contents_of, messages_of, value_of

if TYPE_CHECKING:
    import mcp
    from mcp.shared.dispatcher import ProgressFnT

    from moothall.serving.mcp.lock import DefinitionLock

CONTEXT_KEY: Final = "\0context"
"""Under which the context of a call is passed; no schema has a property of that name."""

_RESERVED: Final = frozenset(("help", "response", "error"))
_ORIGIN_FIELDS: Final = ("note", "described_by", "takes_listed_values")
_NEW_DESCRIPTION: Final = "A tool that is new, and that nobody has accepted yet."
_PROGRESS_S: Final = 0.1
"""At most so often is a call's progress told; what comes sooner is dropped."""
_MAX_LISTED: Final = 50
"""How many resources and prompts a model is told of."""

Perform = Callable[
    [str, Callable[["mcp.Client"], Awaitable[Any]], Context[Any] | None, "Definition | None"],
    Awaitable[Any],
]
"""Sends a request: how errors name it, the request, the caller's context, the tool's definition."""


class ToolAction(Action):
    """A tool, with the schema that its server sends.

    Its arguments are checked by the schema without the regular expressions in it: one may take
    exponential time, and the server checks what it is sent.
    """

    _fault = ""

    @property
    def signature(self) -> Any:
        """Return what a space needs of it: the check, and that it is told of its call."""
        return SimpleNamespace(check=self.check, injected={CONTEXT_KEY: Context})

    @property
    def help(self) -> Any:
        """What `help` shows of the tool."""
        schema = self.parameters
        tool_fields = {"description": self.description, "args": schema.get("properties", {})}
        return {**tool_fields, "required": schema.get("required", [])}

    def check(self, args: dict[str, Any], where: str | None = None) -> dict[str, Any]:
        """Return the arguments; raise InvalidArguments if they, or the schema, are wrong."""
        if self._fault:
            raise InvalidArguments(f'"{where or self.name}" cannot be called: {self._fault}')
        return super().check(args, where)

    def make_validator(self, schema: dict[str, Any]) -> SchemaValidator:
        """Return what checks its arguments; raise InvalidArguments if their schema is wrong."""
        return SchemaValidator(checked_schema(schema))


class ServerActions:
    """What a server offers, as actions.

    Attributes:
        offered: the actions that other agents may call, by name
        tools: the same as actions of an agent with a loop, by names that begin with the id
        names: the server's names for them, which a policy is stated for
    """

    def __init__(
        self,
        id: str,
        offer: ServerOffer,
        perform: Perform,
        policy: Callable[[str], AccessPolicy],
        idempotent: Iterable[str],
        lock: DefinitionLock | None,
        deferral: Callable[[str], bool | None] = lambda name: None,
    ) -> None:
        self.offered: dict[str, Action] = {}
        self.tools: dict[str, Action] = {}
        self._id = id
        self._perform = perform
        self._policy = policy
        self._idempotent = frozenset(idempotent)
        self.names: set[str] = {*offer.tools}
        self._lock = lock
        self._deferral = deferral
        self._lock_entries = offer.lock_entries
        for each in offer.tools.values():
            is_accepted = lock is None or lock.accepted_definition(id, each.name) is not None
            self._add(
                each.name, *self._describe_tool(each), for_models=each.for_models and is_accepted
            )
        if offer.resources is not None:
            self.names.add("read_resource")
            self._add("read_resource", *self._describe_resources(offer.resources))
        if offer.prompts is not None:
            self.names.add("get_prompt")
            self._add("get_prompt", *self._describe_prompts(offer.prompts))

    def _add(
        self,
        name: str,
        call: Any,
        options: Mapping[str, Any],
        fault: str,
        *,
        for_models: bool = True,
    ) -> None:
        """Add an action under a name of its own; it goes to a loop if a model may call it."""
        own_name = name
        while own_name in _RESERVED or own_name in self.offered:
            own_name += "_tool"
        action = self.offered[own_name] = _action(own_name, call, options, fault)
        if for_models and action.access_policy != ACCESS_DENIED and not fault:
            tool_name = f"{self._id}_{name}"
            while tool_name in self.tools:
                tool_name += "_tool"
            tool_name = (
                tool_name if len(tool_name) <= 255 else f"{tool_name[:230]}_{_digest(tool_name)}"
            )
            tool = self.tools[tool_name] = _action(tool_name, call, options, fault)
            tool.origin = tool.origin._replace(server=self._id)
            tool.deferred = self._deferral(name)

    def _describe_tool(self, definition: Definition) -> tuple[Any, dict[str, Any], str]:
        policy = self._policy(definition.name)
        description, schema = definition.description, definition.schema
        if note := self._lock_note(definition.name):
            # What nobody has accepted is no text for a model, which might follow it.
            accepted = self._accepted_definition(definition.name) or {}
            description = str(accepted.get("description", _NEW_DESCRIPTION))
            schema = accepted.get("inputSchema", {"type": "object"})
            policy = policy if policy == ACCESS_DENIED else ACCESS_REQUESTED
        name = definition.name
        label = f"{self._id}.{name}"

        async def send(args: Any, context: Context[Any] | None, client: mcp.Client) -> Any:
            on_progress = None if context is None else _progress_reporter(context)
            result = await client.call_tool(name, args, progress_callback=on_progress)
            return value_of(result, label, definition.data.get("outputSchema"))

        options = {
            "description": visible_text(description),
            "parameters": {"type": "object"} if definition.fault else visible_schema(schema),
            "access_policy": policy,
            "idempotent": name in self._idempotent,
            "note": note,
            "outside": True,
            # What a person has accepted, by a lock, is the program's text.
            "described_by": "" if self._lock is not None else _source_text(self._id),
        }
        return self._caller(f'"{name}"', send, definition), options, definition.fault

    def _caller(
        self, label: str, send: Callable[..., Any], definition: Definition | None = None
    ) -> Callable[..., Awaitable[Any]]:
        """Return the function of an action: `send` gets its arguments, its context, the client."""

        async def call(**args: Any) -> Any:
            context = args.pop(CONTEXT_KEY, None)
            return await self._perform(label, partial(send, args, context), context, definition)

        return call

    # -- what is accepted, where a lock says it ----------------------------------------------------

    def _lock_note(self, name: str) -> str:
        """Return how what is listed differs from what is accepted; empty without a lock."""
        entry = self._lock_entries.get(name)
        return "" if self._lock is None or entry is None else self._lock.difference(self._id, entry)

    def _accepted_definition(self, name: str) -> dict[str, Any] | None:
        return None if self._lock is None else self._lock.accepted_definition(self._id, name)

    # -- resources and prompts ---------------------------------------------------------------------

    def _describe_resources(self, uris: tuple[str, ...]) -> tuple[Any, dict[str, Any], str]:
        async def send(args: Any, context: Any, client: mcp.Client) -> Any:
            return contents_of(await client.read_resource(args["uri"]))

        schema = object_schema(uri={"type": "string", "description": "the address of the resource"})
        note, texts = self._accepted_list(RESOURCE_LIST, uris)
        purpose = f"Read a resource of {self._id}"
        return self._describe_list("read_resource", send, note, texts, purpose, schema, uris)

    def _describe_prompts(
        self, prompts: dict[str, tuple[str, ...]]
    ) -> tuple[Any, dict[str, Any], str]:
        async def send(args: Any, context: Any, client: mcp.Client) -> Any:
            return messages_of(await client.get_prompt(args["name"], args.get("arguments")))

        schema = object_schema(
            name={"type": "string", "description": "the prompt's name"},
            arguments={
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "the prompt's arguments, by name",
            },
        )
        schema["required"] = ["name"]
        note, listed = self._accepted_list(PROMPT_LIST, prompts)
        signatures = [f"{name}({', '.join(arguments)})" for name, arguments in listed.items()]
        purpose = f"Get a prompt of {self._id}, filled in"
        return self._describe_list("get_prompt", send, note, signatures, purpose, schema, prompts)

    def _accepted_list(self, name: str, listed: Any) -> tuple[str, Any]:
        """Return how a list differs from what is accepted, and the list that a model may see."""
        if not (note := self._lock_note(name)):
            return note, listed
        return note, json.loads((self._accepted_definition(name) or {}).get("description", "{}"))

    def _describe_list(
        self,
        name: str,
        send: Callable[..., Any],
        note: str,
        texts: Iterable[str],
        purpose: str,
        schema: dict[str, Any],
        listed: Collection[Any],
    ) -> tuple[Any, dict[str, Any], str]:
        policy = self._policy(name)
        options = {
            "description": f"{purpose}. There are: {_names_text(texts)}",
            "parameters": schema,
            "access_policy": ACCESS_REQUESTED if note and policy != ACCESS_DENIED else policy,
            "note": note,
            "idempotent": name in self._idempotent,
            "outside": True,
            "takes_listed_values": True,
            "described_by": _source_text(self._id) if listed else "",
        }
        return self._caller(name, send), options, ""


def _action(name: str, call: Any, options: Mapping[str, Any], fault: str) -> Action:
    action_options = dict(options)
    origin = {each: action_options.pop(each) for each in _ORIGIN_FIELDS if each in action_options}
    action = ToolAction.unchecked(
        name,
        call,
        action_options.pop("description"),
        action_options.pop("parameters"),
        **action_options,
    )
    action.origin = action.origin._replace(**origin)
    action._fault = fault
    return action


def _progress_reporter(context: Context[Any]) -> ProgressFnT | None:
    """Return what the server's progress is told to, or None if nobody watches the reply."""
    if not context.is_watched:
        return None
    last_at = -math.inf

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last_at
        if (now := time.monotonic()) - last_at < _PROGRESS_S:
            return
        last_at = now
        amount = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        context.progress(one_line(f"{message} ({amount})" if message else amount, 300))

    return report


def _source_text(id: str) -> str:
    return f"what {id} says of its tools"


def _names_text(names: Iterable[str]) -> str:
    all_names = list(names)
    text = (
        ", ".join(one_line(visible_text(each), 200) for each in all_names[:_MAX_LISTED]) or "none"
    )
    return (
        text
        if len(all_names) <= _MAX_LISTED
        else f"{text} and {len(all_names) - _MAX_LISTED} others"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
