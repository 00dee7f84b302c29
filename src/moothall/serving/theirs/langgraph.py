"""What stands between graphs of LangGraph and their models and tools: `as_steps`."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from inspect import getclosurevars
from types import FunctionType
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.types import Command

from moothall import ConfigError, ModelReply, TextPiece
from moothall.build import TheirRun, as_json, json_text
from moothall.models import Call, Usage


def as_steps(part: Any) -> Any:
    """Return a chat model, a tool, or a list of tools, as steps of the run around them.

    A graph that is compiled cannot be looked into: build it with these. Outside of a run they are
    as they were.

    Raises:
        ConfigError: it is none of these, or two tools have one name
    """
    if isinstance(part, list | tuple):
        steps = [as_steps(each) for each in part]
        names = [each.name for each in steps if isinstance(each, BaseTool)]
        if twice := [each for each in names if names.count(each) > 1]:
            raise ConfigError(f"as_steps: there are two tools of the name {twice[0]!r}")
        return steps
    if getattr(part, "has_steps", False):
        return part
    if isinstance(part, BaseChatModel):
        return _with_class(part, _model_fields(part))
    if isinstance(part, BaseTool):
        return _with_class(part, _tool_fields(part))
    if callable(part):
        from langchain_core.tools import tool

        return as_steps(tool(part))
    raise ConfigError(f"as_steps takes a chat model, a tool or a list of tools, got {part!r:.80}")


def part_without_steps(graph: Any) -> str:
    """Return what a graph's nodes refer to that is no step, in words; empty if all is."""
    parts, known_parts = [graph], dict[int, Any]()
    for part in parts:
        if id(part) in known_parts or getattr(part, "has_steps", False):
            continue
        known_parts[id(part)] = part
        if isinstance(part, BaseChatModel):
            return f"model {type(part).__name__}"
        if isinstance(part, BaseTool):
            return f"tool {part.name!r}"
        if isinstance(part, list | tuple):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, Runnable) or hasattr(part, "bound"):  # a node, or what is in one
            parts += vars(part).values()
        elif isinstance(part, FunctionType):
            names = getclosurevars(part)
            runnables = [each for each in names.globals.values() if isinstance(each, Runnable)]
            parts += [*names.nonlocals.values(), *runnables]
    return ""


def _with_class(part: Any, fields: dict[str, Any]) -> Any:
    copied, kind = copy.copy(part), type(part)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    new_class = type(kind.__name__, (kind,), {**names, **fields})
    object.__setattr__(copied, "__class__", new_class)
    return copied


def _model_fields(model: Any) -> dict[str, Any]:
    async def agenerate(
        self: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Any:
        if (run := TheirRun.current()) is None:
            return await model._agenerate(messages, stop, run_manager, **options)
        return await _ask(run, model, messages, stop, options)

    def generate(
        self: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Any:
        if (run := TheirRun.current()) is None:
            return model._generate(messages, stop, run_manager, **options)
        return run.from_thread(_ask(run, model, messages, stop, options))

    def should_stream(self: Any, **options: Any) -> bool:
        return TheirRun.current() is None and model._should_stream(**options)

    fields = {"_agenerate": agenerate, "_generate": generate, "_should_stream": should_stream}
    return {**fields, "has_steps": property(lambda self: True)}


async def _ask(run: Any, model: Any, messages: Any, stop: Any, options: Any) -> Any:
    with _place(run):
        return await run.ask(_GraphRequest(model, messages, stop, options))


def _place(run: Any) -> AbstractContextManager[Any]:
    """Say where in a graph the steps within are: those of nodes side by side keep their keys."""
    try:
        metadata = get_config().get("metadata", {})
    except RuntimeError:  # in no graph
        metadata = {}
    if "langgraph_node" not in metadata:
        return nullcontext()
    path = [each for each in metadata.get("langgraph_path", ()) if isinstance(each, int)]
    place = ".".join(map(str, (metadata["langgraph_step"], *path)))
    return run.part(f"{metadata['langgraph_node']}@{place}")  # type: ignore[no-any-return]


def _tool_fields(tool: Any) -> dict[str, Any]:
    async def arun(self: Any, tool_input: Any, *parts: Any, **options: Any) -> Any:
        if (run := TheirRun.current()) is None:
            return await tool.arun(tool_input, *parts, **options)
        return await _call(run, tool, tool_input, parts, options)

    def run_tool(self: Any, tool_input: Any, *parts: Any, **options: Any) -> Any:
        if (run := TheirRun.current()) is None:
            return tool.run(tool_input, *parts, **options)
        return run.from_thread(_call(run, tool, tool_input, parts, options))

    return {"arun": arun, "run": run_tool, "has_steps": property(lambda self: True)}


async def _call(run: Any, tool: Any, tool_input: Any, parts: Any, options: Any) -> Any:
    is_text = isinstance(tool_input, str)
    args = {"input": tool_input} if is_text else tool._filter_injected_args(tool_input)
    id = options.get("tool_call_id")

    async def execute(new_args: dict[str, Any]) -> Any:
        new_input = new_args["input"] if is_text else {**tool_input, **new_args}
        return await tool.arun(new_input, *parts, **options)

    asks = bool((tool.metadata or {}).get("requires_approval"))
    parameters = tool.tool_call_schema if isinstance(tool.tool_call_schema, dict) else None
    if parameters is None:
        parameters = tool.tool_call_schema.model_json_schema()
    action = run.agent.tools.action(tool.name, tool.description, parameters, asks=asks)
    with _place(run):
        outcome = await run.call(id, action, execute, as_json(args))
    value = outcome.get()
    if id is None or isinstance(value, ToolMessage | Command):
        return value
    status = "error" if outcome.refused else "success"
    text = value if isinstance(value, str) else json_text(as_json(value))
    return ToolMessage(text, tool_call_id=id, name=tool.name, status=status)


class _GraphRequest:
    """A request of a graph to a model."""

    raw: Any

    def __init__(self, model: Any, messages: Any, stop: Any, options: Any) -> None:
        self._model, self._parts, self._options = model, (messages, stop), options
        self.name = name_of(model)
        self.max_tokens = options.get("max_tokens", getattr(model, "max_tokens", None))

    def messages(self) -> Any:
        """Return its prompt."""
        prompt, names = [ours_of(each) for each in self._parts[0]], dict[str, str]()
        for each in prompt:  # a result that a node makes need not have its tool's name
            names |= {call["id"]: call["name"] for call in each.get("tool_calls", ())}
            if each["role"] == "tool":
                each["name"] = each["name"] or names.get(each["tool_call_id"], "")
        return prompt

    def tools(self) -> list[Any]:
        """Return the tools that the model is shown."""
        tools = self._options.get("tools") or ()
        forms = [each.get("function", each) for each in tools if isinstance(each, dict)]
        return [
            (e["name"], e.get("description", ""), e.get("parameters") or e.get("input_schema"))
            for e in forms
            if "name" in e
        ]

    async def send(self, tell: Any) -> ModelReply:
        """Ask the model; tell the pieces, if it streams and somebody listens."""
        names = ("_astream", "_stream")  # of whoever can stream, by its class
        kind = type(self._model)
        streams = any(
            each in vars(k) for k in kind.__mro__ for each in names if k is not BaseChatModel
        )
        if tell is None or not streams:
            self.raw = await self._model._agenerate(*self._parts, **self._options)
        else:
            message: Any = None
            async for chunk in self._model._astream(*self._parts, **self._options):
                if text := chunk.message.text:
                    tell(TextPiece(str(text)))
                message = chunk.message if message is None else message + chunk.message
            self.raw = _result_of(message_chunk_to_message(message))
        message = self.raw.generations[0].message
        ours, used = ours_of(message), getattr(message, "usage_metadata", None) or {}
        usage = Usage(used.get("input_tokens", 0), used.get("output_tokens", 0))
        calls = tuple(Call(e["id"], e["name"], e["args"]) for e in ours.get("tool_calls", ()))
        return ModelReply(str(message.text), calls, usage, "calls" if calls else "stop")

    def dump(self) -> Any:
        """Return the answer as JSON data."""
        return as_json(message_to_dict(self.raw.generations[0].message))

    def load(self, data: Any) -> None:
        """Take the answer from its JSON data."""
        self.raw = _result_of(messages_from_dict([data])[0])


def _result_of(message: Any) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def name_of(model: Any) -> str:
    """Return the name of a chat model, as prices know it."""
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return str(name or type(model).__name__)


# -- messages and values ---------------------------------------------------------------------------


def ours_of(message: BaseMessage) -> dict[str, Any]:
    """Return a message as a chat message of ours."""
    if isinstance(message, AIMessage):
        calls = [{"id": e["id"], "name": e["name"], "args": e["args"]} for e in message.tool_calls]
        ours = {"role": "assistant", "content": str(message.text)}
        return {**ours, "tool_calls": calls} if calls else ours
    if isinstance(message, ToolMessage):
        result = {"role": "tool", "tool_call_id": message.tool_call_id, "name": message.name or ""}
        return {**result, "content": str(message.text)}
    role = "system" if isinstance(message, SystemMessage) else "user"
    return {"role": role, "content": message.content}


def write_value(value: Any) -> Any:
    """Return what a tool returned as JSON data."""
    if isinstance(value, ToolMessage):
        is_plain = isinstance(value.content, str) and value.artifact is None
        if is_plain and value.status == "success":
            return value.content
        return {"message": as_json(message_to_dict(value))}
    if isinstance(value, Command):
        parts = {"graph": value.graph, "goto": value.goto, "resume": value.resume}
        return {"command": {**as_json(parts), "update": _update_json(value.update)}}
    return as_json(value)


def _update_json(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        return {"message": as_json(message_to_dict(value))}
    if isinstance(value, dict):
        return {key: _update_json(each) for key, each in value.items()}
    return [_update_json(e) for e in value] if isinstance(value, list | tuple) else as_json(value)


def read_value(data: Any) -> Any:
    """Return what a graph gets of such data."""
    if isinstance(data, dict):
        if [*data] == ["message"] and isinstance(data["message"], dict):
            return messages_from_dict([data["message"]])[0]
        if [*data] == ["command"]:
            return Command(**{key: read_value(each) for key, each in data["command"].items()})
        return {key: read_value(each) for key, each in data.items()}
    return [read_value(each) for each in data] if isinstance(data, list) else data
