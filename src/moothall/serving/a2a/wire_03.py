"""A2A 0.3 as JSON: its calls and results, read and written as those of 1.0.

All else works with 1.0. What both versions name alike is looked up by these names; what the other
side has sent may be anything, and what is not known stays as it is, to be refused by its reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moothall.serving.a2a.wire import ENDED_STATES, PAUSED_STATES

VERSION_03: Final = "0.3"
METHODS_03: Final = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""The methods of 0.3, and the same ones in 1.0."""
STREAMING_03: Final = ("message/stream", "tasks/resubscribe")
_NAMES_03: Final = {name: name_03 for name_03, name in METHODS_03.items()}
_KINDS: Final = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
"""What a result may be: 0.3 says it in a field `kind`, 1.0 by the one field of an object."""
_NESTED: Final = ("message", "history", "status", "artifact", "artifacts")
_MAX_DEPTH: Final = 5
"""How deep these fields lie in one another in what follows the protocol, with their lists."""
_FILE_FIELDS: Final = {"bytes": "raw", "uri": "url", "mimeType": "mediaType", "name": "filename"}
_OPTIONS: Final = {
    "acceptedOutputModes": "acceptedOutputModes",
    "historyLength": "historyLength",
    "pushNotificationConfig": "taskPushNotificationConfig",
}
_PREFIXES: Final = {"state": "TASK_STATE_", "role": "ROLE_"}
"""The fields whose words differ, and how those of 1.0 begin."""
_WRAPPED_KEY: Final = "data_part_compat"
"""The metadata by which `a2a-sdk` marks data in `{"value": …}`: 0.3 has objects alone."""


def results_of_03(update: dict[str, Any], is_first: bool = True) -> list[dict[str, Any]]:
    """Return an update of 1.0, or a task, as the results that tell it in a stream of 0.3.

    There a task comes first, or not at all.
    """
    if "task" in update and not is_first:
        task: dict[str, Any] = update["task"]
        ids = {"taskId": task["id"], "contextId": task["contextId"]}
        updates = [
            {"artifactUpdate": {**ids, "artifact": each, "append": False, "lastChunk": True}}
            for each in task.get("artifacts", ())
        ]
        updates.append({"statusUpdate": {**ids, "status": task["status"]}})
        return [result for each in updates for result in results_of_03(each)]
    names = ((kind, name) for kind, name in _KINDS.items() if name in update)
    kind, name = next(names, ("task", ""))
    body = update[name] if name else update
    result = {**_converted(body, _part_03, _word_03), "kind": kind}
    if kind == "status-update":
        result["final"] = body["status"]["state"] in ENDED_STATES | PAUSED_STATES
    return [result]


def result_from_03(result: Any, method: str) -> Any:
    """Return the result of a method, named as in 1.0, as one of 1.0."""
    converted = _converted(result, _part, _word)
    if isinstance(result, dict) and method not in ("GetTask", "CancelTask"):
        name = _KINDS.get(str(result.get("kind")))
        return converted if name is None else {name: converted}
    return converted


def call_of_03(method: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a call of 1.0 as one of 0.3."""
    converted = _converted(params, _part_03, _word_03)
    if options := params.get("configuration"):
        blocking = not options.get("returnImmediately", False)
        media = {"acceptedOutputModes": options["acceptedOutputModes"]}
        converted["configuration"] = {**media, "blocking": blocking}
    return _NAMES_03[method], converted


def params_from_03(params: Any) -> Any:
    """Return the parameters of a call of 0.3 as those of 1.0."""
    converted = _converted(params, _part, _word)
    if isinstance(params, dict):
        if params.get("historyLength") == 0:  # all messages in 0.3, none in 1.0
            del converted["historyLength"]
        if isinstance(options := params.get("configuration"), dict):
            renamed = {new: options[old] for old, new in _OPTIONS.items() if options.get(old)}
            if isinstance(options.get("blocking"), bool):
                renamed["returnImmediately"] = not options["blocking"]
            converted["configuration"] = renamed
    return converted


def _converted(
    value: Any,
    part: Callable[[dict[str, Any]], dict[str, Any]],
    word: Callable[[str, str], str],
    depth: int = 0,
) -> Any:
    """Return messages, states and artifacts in the form of the other version."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [_converted(each, part, word, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    converted = {key: item for key, item in value.items() if key != "kind"}
    if part is _part_03 and "messageId" in value:
        converted["kind"] = "message"
    for key, item in value.items():
        if key in _NESTED:
            converted[key] = _converted(item, part, word, depth + 1)
        elif key == "parts" and isinstance(item, list):
            converted[key] = [part(each) if isinstance(each, dict) else each for each in item]
        elif key in _PREFIXES and isinstance(item, str):
            converted[key] = word(key, item)
    return converted


def _word_03(key: str, word: str) -> str:
    return word.removeprefix(_PREFIXES[key]).lower().replace("_", "-")


def _word(key: str, word: str) -> str:
    return _PREFIXES[key] + word.upper().replace("-", "_")


def _part_03(part: dict[str, Any]) -> dict[str, Any]:
    metadata, data = part.get("metadata") or {}, part.get("data")
    if "text" in part:
        part_03: dict[str, Any] = {"kind": "text", "text": part["text"]}
    elif "data" not in part:
        file = {old: part[new] for old, new in _FILE_FIELDS.items() if new in part}
        part_03 = {"kind": "file", "file": {"name": "file", **file}}  # Strands 1.62 needs a name
    elif isinstance(data, dict):
        part_03 = {"kind": "data", "data": data}
    else:
        part_03 = {"kind": "data", "data": {"value": data}}
        metadata = {**metadata, _WRAPPED_KEY: True}
    return {**part_03, "metadata": metadata} if metadata else part_03


def _part(part: dict[str, Any]) -> dict[str, Any]:
    metadata, data, file = part.get("metadata"), part.get("data"), part.get("file")
    rest = {"metadata": metadata} if isinstance(metadata, dict) else {}
    if part.get("kind") == "data" and isinstance(data, dict):
        is_wrapped = rest and rest["metadata"].get(_WRAPPED_KEY) is True
        return {"data": data.get("value") if is_wrapped else data, **rest}
    if part.get("kind") == "file" and isinstance(file, dict):
        fields = {new: file[old] for old, new in _FILE_FIELDS.items() if file.get(old) is not None}
        return {**fields, **rest}
    return {key: item for key, item in part.items() if key != "kind" and item is not None}
