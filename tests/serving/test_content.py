"""Content of every kind between ours and that of protocols: each block with all that it has."""

from __future__ import annotations

from typing import Any

import mcp_types
import pytest

from moothall import ActionError
from moothall.serving.a2a.wire import as_block, as_part
from moothall.serving.a2a.wire_03 import (
    call_of_03,
    params_from_03,
    result_from_03,
    results_of_03,
)
from moothall.serving.mcp.tool_results import content_of, contents_of, messages_of, value_of

PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SOUND = {"type": "audio", "mime_type": "audio/wav", "data": "UklG"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
BLOB = {"type": "blob", "uri": "file:///b", "mime_type": "application/pdf", "data": "JVBE"}
TEXT = {"type": "text", "text": "Hi"}


def blob(mime_type: str | None) -> Any:
    resource = mcp_types.BlobResourceContents(uri="file:///b", mime_type=mime_type, blob="JVBE")
    return mcp_types.EmbeddedResource(resource=resource)


BLOCKS = (
    (mcp_types.TextContent(text="Hi"), TEXT),
    (mcp_types.ImageContent(data="AAAA", mime_type="image/png"), PNG),
    (mcp_types.AudioContent(data="UklG", mime_type="audio/wav"), SOUND),
    (mcp_types.ResourceLink(uri="file:///a", name="a"), LINK),
    (
        mcp_types.ResourceLink(uri="file:///a", name="a", description="A."),
        {**LINK, "description": "A."},
    ),
    (blob("application/pdf"), BLOB),
)


@pytest.mark.parametrize(("theirs", "ours"), BLOCKS)
def test_mcp_content_of_each_kind_comes_and_goes_whole(theirs: Any, ours: Any) -> None:
    texts = mcp_types.TextContent(text="Hi")
    result = mcp_types.CallToolResult(content=[theirs, texts])
    assert value_of(result, "t") == ("Hi\nHi" if ours == TEXT else [ours, TEXT])
    assert content_of([ours, TEXT]) == [theirs, texts]
    assert content_of([ours, {**ours, "type": "other"}]) is None
    fields = {key: each for key, each in ours.items() if key in ("type", "description")}
    assert content_of([fields]) is None  # it only looks like one


def test_mcp_content_has_resources_prompts_and_errors() -> None:
    assert value_of(mcp_types.CallToolResult(content=[]), "t") == ""
    octets = {**BLOB, "mime_type": "application/octet-stream"}
    assert value_of(mcp_types.CallToolResult(content=[blob(None)]), "t") == [octets]
    words = mcp_types.TextResourceContents(uri="file:///t", text="Words")
    image = mcp_types.BlobResourceContents(uri="file:///i", mime_type="image/png", blob="AAAA")
    assert contents_of(mcp_types.ReadResourceResult(contents=[words, words])) == "Words\nWords"
    read = contents_of(mcp_types.ReadResourceResult(contents=[words, image]))
    assert read == [{"type": "text", "text": "Words"}, PNG]
    for block, resource in (
        ({"type": "resource", "uri": "file:///t", "text": "Words"}, words),
        ({"type": "blob", "uri": "file:///t", "text": "Words", "mime_type": None}, words),
    ):
        assert content_of([block]) == [mcp_types.EmbeddedResource(resource=resource)]
    for value in ([], {}, "Hi", None, [PNG, 5], [{**PNG, "image_url": {"url": "https://x"}}]):
        assert content_of(value) is None
    said = mcp_types.TextContent(text="Hi")
    messages = [mcp_types.PromptMessage(role=role, content=said) for role in ("user", "assistant")]
    assert messages_of(mcp_types.GetPromptResult(messages=messages)) == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hi"},
    ]
    for content, fault in (([said, said], "Hi\nHi"), ([], "it does not say why")):
        with pytest.raises(ActionError) as error:
            value_of(mcp_types.CallToolResult(content=content, is_error=True), "t")
        assert str(error.value) == f"ToolError: {fault}"


FILE = {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}


@pytest.mark.parametrize(
    ("block", "part", "back"),
    (
        (TEXT, {"text": "Hi", "mediaType": "text/plain"}, None),
        (PNG, {"raw": "AAAA", "mediaType": "image/png"}, PNG),
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png?b"}},
            {"url": "https://x.example/a.png?b", "mediaType": "image/png"},
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png?b"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a"}},
            {"url": "https://x.example/a", "mediaType": "image/*"},
            {"type": "image_url", "image_url": {"url": "https://x.example/a"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            {"raw": "AAAA", "mediaType": "audio/mp3"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA"}},
            {"raw": "AAAA", "mediaType": "audio/wav"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ),
        (
            {"type": "file", "file": FILE},
            {"raw": "AAAA", "mediaType": "application/pdf", "filename": "a.pdf"},
            {"type": "file", "file": FILE},
        ),
        (
            {"type": "file", "file": {"file_url": "https://x.example/b", "filename": "b.csv"}},
            {"url": "https://x.example/b", "mediaType": "text/csv", "filename": "b.csv"},
            {"type": "file", "file": {"file_url": "https://x.example/b", "filename": "b.csv"}},
        ),
        (
            {"type": "file", "file": {"file_url": "https://x.example/b"}},
            {"url": "https://x.example/b"},
            {"type": "file", "file": {"file_url": "https://x.example/b"}},
        ),
        (
            {"type": "own", "own": 5},
            {"data": {"type": "own", "own": 5}, "mediaType": "application/json"},
            None,
        ),
    ),
)
def test_a2a_parts_have_the_kind_the_name_and_the_bytes_of_a_block(
    block: Any, part: Any, back: Any
) -> None:
    assert as_part(block) == part
    assert as_block(part) == back
    for media, form in (("audio/mpeg", "mp3"), ("audio/x-wav", "wav"), ("audio/wave", "wav")):
        sound = {"data": "AAAA", "format": form}
        assert as_block({"raw": "AAAA", "mediaType": media}) == {
            "type": "input_audio",
            "input_audio": sound,
        }


PARTS = [
    {"text": "Hi"},
    {"raw": "AAAA", "mediaType": "image/png", "filename": "a.png"},
    {"url": "https://x.example/a", "filename": "file"},  # 0.3 needs a name
    {"data": {"kind": "kept"}},
    {"data": [1], "metadata": {"data_part_compat": True}},
]
PARTS_03 = [
    {"kind": "text", "text": "Hi"},
    {"kind": "file", "file": {"bytes": "AAAA", "mimeType": "image/png", "name": "a.png"}},
    {"kind": "file", "file": {"uri": "https://x.example/a", "name": "file"}},
    {"kind": "data", "data": {"kind": "kept"}},
    {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": True}},
]
MESSAGE = {"messageId": "1", "role": "ROLE_USER", "parts": PARTS}
MESSAGE_03 = {"kind": "message", "messageId": "1", "role": "user", "parts": PARTS_03}
STATUS = {"state": "TASK_STATE_INPUT_REQUIRED", "message": MESSAGE}
STATUS_03 = {"state": "input-required", "message": MESSAGE_03}
ARTIFACT = {"artifactId": "reply", "parts": PARTS}
ARTIFACT_03 = {"artifactId": "reply", "parts": PARTS_03}
IDS = {"taskId": "t", "contextId": "c"}


def test_a2a_calls_of_version_0_3_are_those_of_1() -> None:
    options = {"acceptedOutputModes": ["text/plain"]}
    for returns, blocking in (({}, True), ({"returnImmediately": True}, False)):
        params = {"message": MESSAGE, "configuration": {**options, **returns}}
        method, params_03 = call_of_03("SendMessage", params)
        assert method == "message/send"
        asked = {"message": MESSAGE_03, "configuration": {**options, "blocking": blocking}}
        assert params_03 == asked
        back = {**options, "returnImmediately": not blocking}
        assert params_from_03(asked) == {"message": MESSAGE, "configuration": back}
    assert call_of_03("GetTask", {"id": "t"}) == ("tasks/get", {"id": "t"})
    for length, taken in ((0, {}), (3, {"historyLength": 3})):
        assert params_from_03({"id": "t", "historyLength": length}) == {"id": "t", **taken}
    push = {"pushNotificationConfig": {"url": "u"}, "historyLength": 2}
    taken = {"taskPushNotificationConfig": {"url": "u"}, "historyLength": 2}
    assert params_from_03({"configuration": push}) == {"configuration": taken}
    assert params_from_03("x") == "x"


def test_a2a_results_of_version_0_3_are_those_of_1() -> None:
    task = {"id": "t", "contextId": "c", "status": STATUS, "artifacts": [ARTIFACT]}
    task_03 = {
        "id": "t",
        "contextId": "c",
        "status": STATUS_03,
        "artifacts": [ARTIFACT_03],
        "kind": "task",
    }
    status_03 = {**IDS, "status": STATUS_03, "kind": "status-update", "final": True}
    chunk = {"append": False, "lastChunk": True}
    artifact_03 = {**IDS, "artifact": ARTIFACT_03, **chunk, "kind": "artifact-update"}
    working = {"statusUpdate": {**IDS, "status": {"state": "TASK_STATE_WORKING"}}}
    assert results_of_03({"task": task}) == results_of_03(task) == [task_03]
    assert results_of_03({"task": task}, is_first=False) == [artifact_03, status_03]
    assert results_of_03({"message": MESSAGE}) == [MESSAGE_03]
    assert [each["final"] for each in results_of_03(working)] == [False]
    assert result_from_03(task_03, "GetTask") == task
    for result, given in (
        (task_03, {"task": task}),
        (status_03, {"statusUpdate": {**IDS, "status": STATUS, "final": True}}),
        (artifact_03, {"artifactUpdate": {**IDS, "artifact": ARTIFACT, **chunk}}),
        (MESSAGE_03, {"message": MESSAGE}),
        ({"kind": "other"}, {}),
    ):
        assert result_from_03(result, "SendMessage") == given
