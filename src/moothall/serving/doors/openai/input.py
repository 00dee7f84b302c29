"""Reads requests of OpenAI's interface as chat messages and actions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from moothall import Action, DefinitionError
from moothall.build import ToolCall, UnreadableText, json_line, read_json, shorten
from moothall.memory import split_message
from moothall.serving.doors.checks import Scope, json_of
from moothall.serving.doors.openai.message_content import BadRequest, content_of, text_in

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_MAX_TOOLS: Final = 1000
_MAX_SCHEMA_S: Final = 1.0
"""How many seconds of the processor the schemas of all tools may take."""
_NO_RESULT: Final = "(cut off: whether it took effect is unknown)"
"""The result of a call that has none."""
_UNKNOWN_ACTION: Final = "action"
"""The name of a call of which only the result is left."""
_CONTINUE: Final = "Continue."
"""What a conversation that ends with an answer or instructions asks for."""
IS_AGAIN: Final = "header:retry"
"""Under what name a request's body has whether its client has sent it before."""


@dataclass(slots=True)
class OpenAIRequest:
    """One request.

    Attributes:
        model: the id of the agent
        messages: the conversation, or what is new in it, as chat messages
        tools: the actions that the caller executes
        must_call: whether the answer must call one of them
        schema: the JSON schema of the answer, or None
        stream: whether the answer comes in pieces
        include_usage: whether the last piece of chat completions tells the tokens
        instructions: a text before all messages, for this answer only
        previous_id: the id of the response that this one continues, or None
        store: whether a later one may continue it
        body: the request itself
        client_tool_names: the caller's names of its tools, by those that models take, if
            they differ
        digest: what it and the same one sent again have in common; empty without a journal
    """

    model: str
    messages: list[dict[str, Any]]
    tools: tuple[Action, ...]
    must_call: bool
    schema: dict[str, Any] | None
    stream: bool
    include_usage: bool = False
    instructions: str = ""
    previous_id: str | None = None
    store: bool = True
    body: dict[str, Any] = field(default_factory=dict)
    client_tool_names: dict[str, str] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        model_names = {caller_name: name for name, caller_name in self.client_tool_names.items()}
        for call in (call for each in self.messages for call in each.get("tool_calls", ())):
            call["name"] = model_names.get(call["name"], call["name"])


def is_sent_again(scope: Scope) -> bool:
    """Return whether a client says that it has sent a request before: OpenAI's packages do."""
    counts = [value for name, value in scope["headers"] if name == b"x-stainless-retry-count"]
    return counts not in ([], [b"0"])


def without_pending(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a run as the conversation has them, without results to come."""
    return [
        each
        for message in messages
        for each in split_message(message)
        if not (each["role"] == "tool" and each["content"] == Action.LEFT_TO_CALLER)
    ]


def body_of_request(body: bytes) -> dict[str, Any]:
    """Return the object in a request's body."""
    try:
        data = json_of(body)
    except UnreadableText as error:
        raise BadRequest(f"the body must be JSON: {shorten(str(error), 200)}") from None
    if not isinstance(data, dict):
        raise BadRequest("the body must be a JSON object")
    return data


def chat_completion(body: dict[str, Any]) -> OpenAIRequest:
    """Read a request of chat completions."""
    if body.get("n") not in (None, 1):
        raise BadRequest("n must be 1: an agent gives one answer", "n")
    refuse_unsupported(body, "functions", "audio")
    if body.get("modalities") not in (None, ["text"]):
        raise BadRequest('modalities must be ["text"]: this server gives no sound', "modalities")
    messages = [
        chat_message(each, f"messages[{number}]")
        for number, each in enumerate(field_of(body, "messages", list))
    ]
    options = field_of(body, "stream_options", dict, {})
    response_format = field_of(body, "response_format", dict, {})
    tools = tools_of(body)
    return OpenAIRequest(
        field_of(body, "model", str),
        messages,
        *chosen_tools(body, tools),
        schema_of(response_format, response_format.get("json_schema"), "response_format"),
        field_of(body, "stream", bool, False),
        include_usage=options.get("include_usage") is True,
        body=body,
        client_tool_names=client_tool_names_of(tools),
    )


def with_call_results(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation in which each call is followed by one result; name the results.

    Clients cut calls off, send a result twice or late, and lose the call of one: no model takes
    that. A result without its call gets one, as the models of servers do. Some end with an answer,
    or with instructions: the last message asks to go on.
    """
    completed: list[dict[str, Any]] = []
    missing_results: dict[
        str, list[int]
    ] = {}  # of the results that are missing so far, the next one last
    call_ids = set[str]()
    for message in messages:
        if message["role"] != "tool":
            completed.append(message)
            calls = message.get("tool_calls", ())
            for number, call in reversed([*enumerate(calls, len(completed))]):
                missing_results.setdefault(call["id"], []).append(number)
                call_ids.add(call["id"])
            completed += [_missing_result(call["id"], call["name"]) for call in calls]
            continue
        id = message["tool_call_id"]
        if indexes := missing_results.get(id):
            index = indexes.pop()
            completed[index] = {**message, "name": completed[index]["name"]}
        elif id not in call_ids:
            call_ids.add(id)
            call = {"id": id, "name": _UNKNOWN_ACTION, "args": {}}
            completed.append({"role": "assistant", "content": "", "tool_calls": [call]})
            completed.append({**message, "name": _UNKNOWN_ACTION})
    if not completed:
        raise BadRequest("messages must not be empty", "messages")
    if completed[-1]["role"] in ("assistant", "system"):
        completed.append({"role": "user", "content": _CONTINUE})
    return completed


def _missing_result(id: str, name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "name": name, "content": _NO_RESULT}


def field_of(body: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """Return a field of a request; refuse one of another type."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    if type(value) is not kind:
        type_names = {str: "a text", list: "a list", dict: "an object", bool: "true or false"}
        raise BadRequest(f"{name} must be {type_names[kind]}, got {json_line(value)[:80]}", name)
    return value


def refuse_unsupported(body: dict[str, Any], *names: str) -> None:
    """Refuse a request with a field that would change the answer."""
    for name in names:
        if body.get(name) not in (None, False):
            raise BadRequest(f"{name} is not offered by this server", name, "unsupported_parameter")


def tools_of(body: dict[str, Any]) -> dict[str, Action]:
    """Return the caller's own functions as actions, which the caller executes.

    Tools of other types are those of a provider, such as a search: an agent has its own actions.
    """
    functions: dict[str, tuple[str, dict[str, Any]]] = {}
    for number, tool in enumerate(field_of(body, "tools", list, [])):
        label = f"tools[{number}]"
        kind = tool.get("type", "function" in tool and "function") if type(tool) is dict else None
        if not isinstance(kind, str):
            raise BadRequest(f"{label} must be a tool with a type, such as function", label)
        if kind != "function":
            continue
        function = tool.get("function", tool)  # chat completions nest it
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name) or name in functions:
            raise BadRequest(
                f"{label} must have a name of its own of letters, digits and _.:/-", label
            )
        functions[name] = label, function
    if len(functions) > _MAX_TOOLS:
        raise BadRequest(
            f"tools must be at most {_MAX_TOOLS} functions, got {len(functions)}", "tools"
        )
    safe_names, start = ToolCall.safe_names(functions), time.thread_time()
    actions: dict[str, Action] = {}
    for name, (label, function) in functions.items():
        if time.thread_time() - start > _MAX_SCHEMA_S:
            raise BadRequest(
                "the schemas of all tools together take too long to be measured", "tools"
            )
        description = function.get("description") or ""
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        try:
            actions[name] = Action.left_to_caller(safe_names[name], str(description), parameters)
        except DefinitionError as error:
            raise BadRequest(f"{label}: {error}", f"{label}.parameters") from None
    return actions


def client_tool_names_of(tools: dict[str, Action]) -> dict[str, str]:
    """Return the caller's names of its tools, by those that models take, where they differ."""
    return {each.name: name for name, each in tools.items() if each.name != name}


def chosen_tools(body: dict[str, Any], tools: dict[str, Action]) -> tuple[tuple[Action, ...], bool]:
    """Return the tools that `tool_choice` leaves, and whether the answer must call one."""
    choice: Any = body.get("tool_choice") or "auto"
    kind = choice if isinstance(choice, str) else ""
    names = [*tools]
    if isinstance(choice, dict) and choice.get("type") == "function":
        kind, names = "required", [_function_name(choice)]
    elif isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed_tools = choice.get("allowed_tools", choice)  # as chat completions nest it
        listed = allowed_tools.get("tools") if isinstance(allowed_tools, dict) else None
        if isinstance(listed, list) and listed:
            kind, names = allowed_tools.get("mode"), [_function_name(each) for each in listed]
    if kind == "none":
        return (), False
    if kind not in ("auto", "required") or not set(names) <= tools.keys():
        choices = "auto, none, required, or name a function of tools"
        raise BadRequest(
            f"tool_choice must be {choices}, got {json_line(choice)[:80]}", "tool_choice"
        )
    return tuple(tools[name] for name in names), kind == "required" and bool(tools)


def _function_name(tool: Any) -> str:
    """Return the name of a function, in the form of responses or of chat completions."""
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return str(function.get("name")) if isinstance(function, dict) else ""


def schema_of(response_format: dict[str, Any], holder: Any, param: str) -> dict[str, Any] | None:
    """Return the schema that a format asks for, or None."""
    kind = response_format.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    schema = holder.get("schema") if isinstance(holder, dict) else None
    if kind != "json_schema" or not isinstance(schema, dict):
        raise BadRequest(f"{param} must be text, json_object, or json_schema with a schema", param)
    return schema


# -- chat completions ------------------------------------------------------------------------------


def chat_message(message: Any, label: str) -> dict[str, Any]:
    """Return a message of either interface as a chat message."""
    role = message.get("role") if isinstance(message, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if role in ("system", "developer"):
        return {"role": "system", "content": text_in(content, label)}
    if role == "user":
        return {"role": "user", "content": content_of(content, label)}
    if role in ("tool", "function"):  # the older form has a call of each name at most
        id = message.get("tool_call_id" if role == "tool" else "name")
        if not isinstance(id, str):
            raise BadRequest(f"{label} must have a tool_call_id", label)
        return {"role": "tool", "tool_call_id": id, "content": text_in(content, label)}
    if role != "assistant":
        raise BadRequest(f"{label} must have a role of system, user, assistant or tool", label)
    text = content or message.get("refusal")
    assistant_message: dict[str, Any] = {"role": "assistant", "content": text_in(text, label)}
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise BadRequest(f"{label}.tool_calls must be a list", label)
    if isinstance(function_call := message.get("function_call"), dict):
        calls = [{"id": function_call.get("name"), "function": function_call}]
    if calls:
        assistant_message["tool_calls"] = [
            call_of(
                call.get("id") if isinstance(call, dict) else None,
                call.get("function") or call.get("custom") if isinstance(call, dict) else None,
                label,
            )
            for call in calls
        ]
    return assistant_message


def call_of(id: Any, function: Any, label: str) -> dict[str, Any]:
    """Return a call of an earlier answer."""
    name = function.get("name") if isinstance(function, dict) else None
    if not (isinstance(id, str) and isinstance(name, str)):
        raise BadRequest(f"{label}: a call must have an id and a name", label)
    args = function.get("arguments", {"input": function.get("input")})
    if not isinstance(args, dict):
        text = args or "{}"
        try:
            args = read_json(text) if isinstance(text, str) else text
        except UnreadableText:  # what a model once wrote
            args = text
        args = args if isinstance(args, dict) else {"arguments": text}
    return {"id": id, "name": name, "args": args}
