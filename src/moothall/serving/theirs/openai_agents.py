"""What stands between agents of the OpenAI Agents SDK and their models and tools."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import agents
from agents.items import TResponseOutputItem
from agents.usage import deserialize_usage, serialize_usage
from pydantic import TypeAdapter

from moothall import ConfigError, ModelReply, TextPiece
from moothall.build import TheirRun, as_json, json_line, json_text
from moothall.models import Call, Usage

if TYPE_CHECKING:
    from moothall import Action

_REFUSED = ("ApplyPatchTool", "ComputerTool", "CustomTool", "LocalShellTool", "ShellTool")
_OUTPUT: TypeAdapter[Any] = TypeAdapter(list[TResponseOutputItem])


def as_steps(agent: Any) -> Any:
    """Return an agent whose requests and calls are steps of the run around them, if there is one.

    So are those of all that it may hand over to. Wrap an agent so that is run by a tool:
    `as_steps(inner).as_tool(…)`.

    Raises:
        ConfigError: it has a tool that changes this machine and cannot be a step, or two of one
            name
    """
    return _Copies().with_steps(agent)


class _Copies:
    """Copies of the agents that one may hand over to, each made once."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}  # with the agent, which keeps its id

    def with_steps(self, agent: Any) -> Any:
        """Return the copy of an agent."""
        if getattr(agent, "has_steps", False):
            return agent
        if id(agent) in self._copies:
            return self._copies[id(agent)][1]
        names = set[str]()
        for tool in agent.tools:
            if type(tool).__name__ in _REFUSED:
                raise ConfigError(
                    f"agent {agent.name!r}: a {type(tool).__name__} cannot be a step of a run"
                )
            if tool.name in names:
                raise ConfigError(f"agent {agent.name!r} has two tools of the name {tool.name!r}")
            names.add(tool.name)
        copied = copy.copy(agent)
        self._copies[id(agent)] = (agent, copied)
        copied.__class__ = _class_with_steps(cast("Any", type(agent)))
        if isinstance(agent.model, agents.Model):
            copied.model = StepModel(agent.model)
        copied.handoffs = [self._handoff(each) for each in agent.handoffs]
        return copied

    def _handoff(self, handoff: Any) -> Any:
        if not isinstance(handoff, agents.Handoff):
            return self.with_steps(handoff)

        async def invoke(*parts: Any) -> Any:
            return self.with_steps(await handoff.on_invoke_handoff(*parts))

        return replace(handoff, on_invoke_handoff=invoke)


@cache
def _class_with_steps(kind: Any) -> Any:
    """Return a class of agents whose tools are called by the run around them."""

    async def get_all_tools(self: Any, run_context: Any) -> list[Any]:
        tools: list[Any] = await kind.get_all_tools(self, run_context)
        if TheirRun.current() is None:
            return tools
        before = vars(self).get("tools_as_steps", {})  # a copy checks its schema once more
        self.tools_as_steps = {id(e): before.get(id(e)) or (e, _with_steps(e)) for e in tools}
        return [copied for _, copied in self.tools_as_steps.values()]

    fields = {"get_all_tools": get_all_tools, "has_steps": True, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), fields)


def _with_steps(tool: Any) -> Any:
    if not isinstance(tool, agents.FunctionTool):
        return tool
    copied = copy.copy(tool)
    copied.on_invoke_tool = _caller_of(tool)
    copied.needs_approval = False  # ours is asked when the call is made
    return copied


def _caller_of(tool: Any) -> Any:
    async def invoke(context: Any, text: str) -> Any:
        run = TheirRun.current()
        try:
            args = json.loads(text or "{}")
        except ValueError:  # the tool says what is wrong
            args = None
        if run is None or not isinstance(args, dict):
            return await tool.on_invoke_tool(context, text)
        is_asked = tool.needs_approval
        if callable(is_asked):
            is_asked = await is_asked(context, args, context.tool_call_id)

        async def execute(new_args: dict[str, Any]) -> Any:
            return await tool.on_invoke_tool(
                context, text if new_args == args else json_line(new_args)
            )

        action = action_of(run.agent, tool, is_asked)
        outcome = await run.call(context.tool_call_id, action, execute, args)
        return outcome.get()

    return invoke


def action_of(agent: Any, tool: Any, is_asked: Any) -> Action:
    """Return the action of a tool."""
    parts = (tool.name, tool.description, tool.params_json_schema)
    server = getattr(getattr(tool, "_tool_origin", None), "mcp_server_name", None)
    return agent.tools.action(*parts, asks=is_asked is True, outside=bool(server))  # type: ignore[no-any-return]


class StepModel(agents.Model):
    """A model that is asked by the run around its agent."""

    def __init__(self, model: Any) -> None:
        self.wrapped = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    async def get_response(self, *parts: Any, **options: Any) -> Any:
        """Return its answer."""
        run = TheirRun.current()
        if run is None:
            return await self.wrapped.get_response(*parts, **options)
        names = ("system_instructions", "input", "model_settings", "tools", "output_schema")
        parts_by_name = dict(zip((*names, "handoffs", "tracing"), parts, strict=False))
        return await run.ask(_SDKRequest(run, self.wrapped, {**parts_by_name, **options}))

    def stream_response(self, *parts: Any, **options: Any) -> Any:
        """Stream its answer, which no run records: runs ask for the whole."""
        return self.wrapped.stream_response(*parts, **options)


class StepProvider(agents.ModelProvider):
    """Gives models by name that are asked by the run around their agent."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Any:
        """Return the model of a name."""
        model = self._provider.get_model(model_name)
        return model if isinstance(model, StepModel) else StepModel(model)


class _SDKRequest:
    """A request of such an agent to its model."""

    raw: Any

    def __init__(self, run: Any, model: Any, options: dict[str, Any]) -> None:
        self._run, self._model, self._options = run, model, options
        self.name = name_of(model)
        self.max_tokens = options["model_settings"].max_tokens

    def messages(self) -> Any:
        """Return its prompt."""
        system, items = self._options["system_instructions"], self._options["input"]
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        return [*([{"role": "system", "content": system}] if system else []), *ours_of(items)]

    def tools(self) -> list[Any]:
        """Return the tools and handoffs that the model is shown."""
        tools = [each for each in self._options["tools"] if isinstance(each, agents.FunctionTool)]
        handoffs = self._options["handoffs"]
        return [
            *((each.name, each.description, each.params_json_schema) for each in tools),
            *((e.tool_name, e.tool_description, e.input_json_schema) for e in handoffs),
        ]

    async def send(self, tell: Any) -> ModelReply:
        """Ask the model; tell the pieces, if somebody listens."""
        if tell is None:
            self.raw = await self._model.get_response(**self._options)
        else:
            async for event in self._model.stream_response(**self._options):
                if event.type == "response.output_text.delta":
                    tell(TextPiece(event.delta))
                elif event.type == "response.completed":
                    done, used = event.response, event.response.usage
                    counts = {} if used is None else {"requests": 1, **used.model_dump()}
                    self.raw = agents.ModelResponse(done.output, deserialize_usage(counts), done.id)
        messages, used = ours_of(self.raw.to_input_items()), self.raw.usage
        text = "".join(each["content"] for each in messages)
        listed = (call for each in messages for call in each.get("tool_calls", ()))
        calls = tuple(Call(each["id"], each["name"], each["args"]) for each in listed)
        read = used.input_tokens_details.cached_tokens or 0
        thought = used.output_tokens_details.reasoning_tokens or 0
        usage = Usage(used.input_tokens, used.output_tokens, read, 0, thought)
        return ModelReply(text, calls, usage, "calls" if calls else "stop")

    def dump(self) -> Any:
        """Return the answer as JSON data."""
        output = [each.model_dump(mode="json", exclude_unset=True) for each in self.raw.output]
        usage = serialize_usage(self.raw.usage)
        return {"output": output, "usage": usage, "id": self.raw.response_id}

    def load(self, data: Any) -> None:
        """Take the answer from its JSON data."""
        output, usage = _OUTPUT.validate_python(data["output"]), deserialize_usage(data["usage"])
        self.raw = agents.ModelResponse(output, usage, data["id"])


def name_of(model: Any) -> str:
    """Return the name of a model, as prices know it."""
    model = model.wrapped if isinstance(model, StepModel) else model
    return str(getattr(model, "model", None) or type(model).__name__)


# -- messages --------------------------------------------------------------------------------------


def ours_of(items: list[Any]) -> list[dict[str, Any]]:
    """Return items of a conversation as chat messages; an answer's items are one message."""
    messages: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    is_open = False  # whether the next item may be of the last message, which is an answer
    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") != "assistant":
            messages.append({"role": item["role"], "content": _content_of(item["content"])})
            is_open = False
        elif kind == "function_call_output":
            id, output = item["call_id"], item["output"]
            result = {"role": "tool", "tool_call_id": id, "name": names.get(id, "")}
            content = output if isinstance(output, str) else json_line(output)
            messages.append({**result, "content": content})
            is_open = False
        elif kind in ("message", "function_call"):
            if not is_open or (kind == "message" and "tool_calls" in messages[-1]):
                messages.append({"role": "assistant", "content": ""})
            is_open, answer = True, messages[-1]
            if kind == "message":
                answer["content"] += _text_of(item["content"])
                continue
            names[item["call_id"]] = item["name"]
            call = {"id": item["call_id"], "name": item["name"], "args": _args_of(item)}
            answer["tool_calls"] = [*answer.get("tool_calls", ()), call]
    return messages


def _args_of(item: Any) -> dict[str, Any]:
    try:
        args = json.loads(item["arguments"] or "{}")
    except ValueError:
        args = None
    return args if isinstance(args, dict) else {"arguments": item["arguments"]}


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(each.get("text") or each.get("refusal") or "") for each in content)


def _content_of(content: Any) -> Any:
    if isinstance(content, str):
        return content
    blocks = []
    for each in content:
        if each.get("type") == "input_image" and each.get("image_url"):
            blocks.append({"type": "image_url", "image_url": {"url": each["image_url"]}})
        else:
            text = str(each["text"]) if "text" in each else json_line(each)
            blocks.append({"type": "text", "text": text})
    return blocks


def items_of(messages: list[dict[str, Any]]) -> list[Any]:
    """Return chat messages as items of a conversation."""
    items: list[Any] = []
    for each in messages:
        content = each.get("content") or ""
        if each["role"] == "tool":
            output = {"call_id": each["tool_call_id"], "output": json_text(content)}
            items.append({"type": "function_call_output", **output})
            continue
        if isinstance(content, list):
            content = [_block_for(block) for block in content]
        if content:
            items.append({"role": each["role"], "content": content})
        for call in each.get("tool_calls", ()):
            form = {"type": "function_call", "call_id": call["id"], "name": call["name"]}
            items.append({**form, "arguments": json_text(as_json(call["args"]))})
    return items


def _block_for(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "image_url" and isinstance(block.get("image_url"), dict):
        return {"type": "input_image", "image_url": block["image_url"]["url"], "detail": "auto"}
    return {"type": "input_text", "text": str(block.get("text", "")) or json_line(block)}
