"""What stands between an agent of Pydantic AI and its models and tools."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pydantic_ai import exceptions
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_core import to_jsonable_python

from moothall import Later, ModelReply, TextPiece
from moothall.build import TheirRun, as_json, json_text
from moothall.models import Call, Usage

if TYPE_CHECKING:
    from moothall import Action

_FINISH = {"length": "length", "content_filter": "content_filter"}


class AsSteps(AbstractCapability[Any]):
    """Has the requests and calls of an agent be steps of the run around them, if there is one.

    `PydanticAIAgent` gives it to its own agent. Give it to an agent that a tool runs:
    `Agent(…, capabilities=[AsSteps()])`.
    """

    id: str | None = "as_steps"  # by which the framework knows that an agent has it once

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return what asks the model by the run."""
        is_outside = TheirRun.current() is None or type(model) is _ModelOfSteps
        return None if is_outside else _ModelOfSteps(model)

    async def handle_deferred_tool_calls(self, ctx: Any, *, requests: Any) -> Any:
        """Approve at once, as ours is asked when the call is made; wait for what others execute."""
        run = TheirRun.current()
        if run is None:
            return None
        results = {}
        for call in requests.calls:
            definition = ctx.tool_manager.get_tool_def(call.tool_name)

            async def execute(args: dict[str, Any], id: str = call.tool_call_id) -> Any:
                return Later(id)

            action = action_of(run.agent, definition, None, False)
            outcome = await run.call(call.tool_call_id, action, execute, call.args_as_dict())
            results[call.tool_call_id] = outcome.get()
        return requests.build_results(calls=results, approve_all=True)

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Call a tool by the run."""
        run = TheirRun.current()
        if run is None:
            return await handler(args)
        call_args = call.args_as_dict()
        tool: Any = None if ctx.tool_manager is None else ctx.tool_manager.tools.get(call.tool_name)

        async def execute(new_args: dict[str, Any]) -> Any:
            is_same = new_args == call_args or tool is None
            try:
                return await handler(
                    args if is_same else tool.args_validator.validate_python(new_args)
                )
            except exceptions.CallDeferred as deferred:
                name = (deferred.metadata or {}).get("name")
                return Later(str(name or call.tool_call_id), text=call.tool_name)

        action = action_of(run.agent, tool_def, tool, ctx.tool_call_approved)
        outcome = await run.call(call.tool_call_id, action, execute, call_args)
        if isinstance(outcome.error, exceptions.ToolRetryError):  # it cannot be raised once more
            raise exceptions.ModelRetry(json_text(as_json(outcome.error.tool_retry.content)))
        return outcome.get()


def action_of(agent: Any, definition: Any, tool: Any, is_asked: bool) -> Action:
    """Return the action of a tool."""
    parts = (definition.name, definition.description or "", definition.parameters_json_schema)
    asks = is_asked or definition.kind == "unapproved"
    kind: Any = type(getattr(tool, "toolset", None))
    return agent.tools.action(*parts, asks=asks, outside=_is_of_server(kind))  # type: ignore[no-any-return]


@cache
def _is_of_server(toolset: Any) -> bool:
    return any("mcp" in each.__module__ for each in toolset.__mro__)


class _ModelOfSteps(WrapperModel):
    """A model that is asked by the run around its agent."""

    async def __aenter__(self) -> Self:
        """Leave the model within as it is: its agent opens and closes it."""
        return self

    async def __aexit__(self, *parts: object) -> None:
        """Leave the model within as it is."""

    async def request(
        self, messages: Any, model_settings: Any, model_request_parameters: Any
    ) -> Any:
        run, parts = TheirRun.current(), (messages, model_settings, model_request_parameters)
        if run is None:
            return await self.wrapped.request(*parts)
        return await run.ask(_PydanticRequest(run, self.wrapped, *parts))


class _PydanticRequest:
    """A request of such an agent to its model."""

    raw: ModelResponse

    def __init__(self, run: Any, model: Model, messages: Any, settings: Any, params: Any) -> None:
        self._run, self._model, self._params, self._settings = run, model, params, settings
        self._messages = messages
        self.name = name_of(model)
        limits = {**(model.settings or {}), **(settings or {})}
        self.max_tokens = limits.get("max_tokens")

    def messages(self) -> Any:
        """Return its prompt."""
        cache, prompt = self._run.cache, list[Any]()
        system = [each.content for each in self._params.instruction_parts or ()]
        for message in self._messages:
            entry = cache.get(id(message))
            if entry is None or entry[0] is not message or entry[1] != len(message.parts):
                entry = cache[id(message)] = (message, len(message.parts), ours_of(message))
            prompt += entry[2]
        while prompt and prompt[0]["role"] == "system":
            system.append(prompt.pop(0)["content"])
        head = [{"role": "system", "content": "\n\n".join(system)}] if system else []
        return [*head, *prompt]

    def tools(self) -> list[Any]:
        """Return the tools that the model is shown."""
        tools = (*self._params.function_tools, *self._params.output_tools)
        return [(e.name, e.description or "", e.parameters_json_schema) for e in tools]

    async def send(self, tell: Any) -> ModelReply:
        """Ask the model; tell the pieces, if it streams and somebody listens."""
        parts = (self._messages, self._settings, self._params)
        if tell is None or not _streams(self._model):
            self.raw = await self._model.request(*parts)
        else:
            async with self._model.request_stream(*parts) as stream:
                async for event in stream:
                    if text := _text_in(event):
                        tell(TextPiece(text))
                self.raw = stream.get()
        return _reply_of(self.raw)

    def dump(self) -> Any:
        """Return the answer as JSON data."""
        return ModelMessagesTypeAdapter.dump_python([self.raw], mode="json")[0]

    def load(self, data: Any) -> None:
        """Take the answer from its JSON data."""
        (message,) = ModelMessagesTypeAdapter.validate_python([data])
        if not isinstance(message, ModelResponse):
            raise TypeError(f"it is a {type(message).__name__}")
        self.raw = message


def _streams(model: Model) -> bool:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


def _text_in(event: Any) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def name_of(model: Model) -> str:
    """Return the name of a model, as prices know it."""
    return str(model.model_id)


# -- messages --------------------------------------------------------------------------------------


def _reply_of(response: ModelResponse) -> ModelReply:
    """Return an answer of a model as ours."""
    (message,) = ours_of(response)
    calls = tuple([Call(each["id"], each["name"], each["args"]) for each in message["tool_calls"]])
    thoughts = [each.content for each in response.parts if isinstance(each, ThinkingPart)]
    used = response.usage
    usage = Usage(
        used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens
    )
    finish = "calls" if calls else _FINISH.get(str(response.finish_reason), "stop")
    return ModelReply(message["content"], calls, usage, finish, "".join(thoughts))


def ours_of(message: ModelMessage) -> list[dict[str, Any]]:
    """Return a message as chat messages of ours."""
    if isinstance(message, ModelResponse):
        text, calls = "", []
        for each in message.parts:
            if isinstance(each, TextPart):
                text += each.content
            elif isinstance(each, ToolCallPart):
                args = each.args_as_dict()
                calls.append({"id": each.tool_call_id, "name": each.tool_name, "args": args})
        return [{"role": "assistant", "content": text, "tool_calls": calls}]
    return [_part_of(each) for each in message.parts]


def _part_of(part: Any) -> dict[str, Any]:
    if isinstance(part, ToolReturnPart):
        result = {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name}
        return {**result, "content": part.model_response_str()}
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": _blocks_of(part.content)}
    if isinstance(part, RetryFeedbackPart):
        return {"role": "user", "content": json_text(as_json(part.content))}
    return {"role": "user", "content": json_text(to_jsonable_python(part, fallback=str))}


def _blocks_of(content: Any) -> Any:
    if isinstance(content, str):
        return content
    blocks = []
    for each in content:
        url = each.url if isinstance(each, ImageUrl) else ""
        if isinstance(each, BinaryContent) and each.is_image:
            url = each.data_uri
        text = each if isinstance(each, str) else json_text(to_jsonable_python(each, fallback=str))
        image = {"type": "image_url", "image_url": {"url": url}}
        blocks.append(image if url else {"type": "text", "text": text})
    return blocks


def content_for(content: Any) -> Any:
    """Return what the user said as the framework takes it."""
    if isinstance(content, str):
        return content
    parts: list[Any] = []
    for each in content:
        if each.get("type") == "text":
            parts.append(each["text"])
        elif each.get("type") == "image_url" and isinstance(each.get("image_url"), dict):
            url = each["image_url"]["url"]
            is_data = url.startswith("data:")
            parts.append(BinaryContent.from_data_uri(url) if is_data else ImageUrl(url))
        else:
            parts.append(json_text(each))
    return parts


def history_of(messages: list[dict[str, Any]]) -> list[ModelMessage]:
    """Return the messages of a thread as the framework's."""
    history: list[ModelMessage] = []
    for each in messages:
        content = each.get("content") or ""
        if each["role"] == "assistant":
            parts: list[Any] = [TextPart(json_text(content))] if content else []
            parts += [
                ToolCallPart(call["name"], call["args"], call["id"])
                for call in each.get("tool_calls", ())
            ]
            history.append(ModelResponse(parts=parts))
            continue
        if each["role"] == "tool":
            part: Any = ToolReturnPart(each["name"], json_text(content), each["tool_call_id"])
        else:
            is_system = each["role"] == "system"
            part = SystemPromptPart(content) if is_system else UserPromptPart(content_for(content))
        history.append(ModelRequest(parts=[part]))
    return history
