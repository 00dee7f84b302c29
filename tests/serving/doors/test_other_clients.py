"""Requests as other people's clients send them: what an answer does not need is left out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.serving.doors.conftest import serving

from moothall import ACCESS_REQUESTED, Call, ReActAgent, ScriptedModel, action
from moothall.serving import asgi
from packages import node, npm_folder

Answer = tuple[int, Any]


def posted(app: Any, path: str, *bodies: dict[str, Any], **headers: str) -> list[Answer]:
    async def main() -> list[Answer]:
        here = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=here, base_url="http://127.0.0.1") as client:
            found = [await client.post(path, json=each, headers=headers) for each in bodies]
            return [(each.status_code, each.text) for each in found]

    return asyncio.run(main())


def seen(*bodies: dict[str, Any], path: str = "/v1/responses") -> list[tuple[Any, list[str]]]:
    """Return what the model of an agent is sent for each request: messages, and its tools."""
    heard: list[tuple[Any, list[str]]] = []

    def model(messages: Any, actions: Any) -> str:
        heard.append((messages, [each.name for each in actions or ()]))
        return "done"

    app = asgi(ReActAgent("clerk", ScriptedModel(model)))
    for status, text in posted(app, path, *({"model": "clerk", **each} for each in bodies)):
        assert status == 200, text
    return heard


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


def test_tools_of_other_types_are_left_out() -> None:
    namespace = {"type": "namespace", "name": "mcp", "tools": [function("inner")]}
    tools = [{"type": "web_search"}, {"type": "custom", "name": "apply_patch"}, namespace]
    ((_, names),) = seen({"input": "x", "tools": [*tools, function("read")]})
    assert names == ["read"]


def test_tool_that_must_be_called_and_was_left_out_is_refused() -> None:
    app = asgi(ReActAgent("clerk", ScriptedModel(["x"])))
    choice = {"type": "function", "name": "apply_patch"}
    tools = [{"type": "custom", "name": "apply_patch"}]
    body = {"model": "clerk", "input": "x", "tools": tools, "tool_choice": choice}
    ((status, text),) = posted(app, "/v1/responses", body)
    assert status == 400
    assert "tool_choice" in text


def test_name_of_a_tool_with_dots_comes_back_in_the_call() -> None:
    def model(messages: Any, actions: Any) -> Any:
        return {"name": actions[0].name, "args": {"path": "a"}}

    app = asgi(ReActAgent("clerk", ScriptedModel(model)))
    body = {"model": "clerk", "input": "x", "tools": [function("files.read")]}
    ((status, text),) = posted(app, "/v1/responses", body)
    assert status == 200
    assert json.loads(text)["output"][-1]["name"] == "files.read"


def test_history_of_other_clients_is_taken() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    items = [
        {"type": "message", "role": "user", "content": "look"},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "item_reference", "id": "rs_1"},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "*** Begin"},
        {"type": "function_call", "call_id": "b", "name": "view", "arguments": "{broken"},
        {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "patched"},
        {"type": "function_call_output", "call_id": "b", "output": [image]},
        {"type": "local_shell_call_output", "call_id": "c", "output": None},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "so"}],
        },
    ]
    ((messages, _),) = seen({"input": items})
    calls = [call for each in messages for call in each.get("tool_calls", ())]
    assert [(each["name"], each["args"]) for each in calls] == [
        ("apply_patch", {"input": "*** Begin"}),
        ("view", {"arguments": "{broken"}),
        ("local_shell", {"action": {"command": ["ls"]}}),
    ]
    results = [each["content"] for each in messages if each["role"] == "tool"]
    assert results == ["patched", "(an image, which cannot be shown here)", ""]
    assert messages[-1] == {"role": "user", "content": "Continue."}


def test_reference_to_an_item_that_the_answer_needs_is_refused() -> None:
    app = asgi(ReActAgent("clerk", ScriptedModel(["x"])))
    body = {"model": "clerk", "input": [{"type": "item_reference", "id": "msg_1"}]}
    assert posted(app, "/v1/responses", body)[0][0] == 400


def test_chat_history_of_other_clients_is_taken() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "no JSON"}}
    custom = {"id": "b", "type": "custom", "custom": {"name": "patch", "input": "+"}}
    plain = {"id": "c", "function": {"name": "look", "arguments": {"at": 1}}}
    thought = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}]
    messages = [
        {"role": "system", "content": None},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [call, custom, plain]},
        {"role": "tool", "tool_call_id": "a", "content": None},
        {"role": "tool", "tool_call_id": "b", "content": {"ok": True}},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": []},
        {"role": "assistant", "content": thought},
    ]
    body = {"messages": messages, "logprobs": True, "top_logprobs": 2}
    assert seen(body, path="/v1/chat/completions")


def paid(messages: Any, actions: Any) -> Any:
    """Call a tool of the client's, under the id of the turn before."""
    last = messages[-1]
    return f"paid {last['content']}" if last["role"] == "tool" else Call("call_0", "pay", {})


@pytest.mark.parametrize("form", ("chat", "items", "by id"))
def test_ids_of_a_clients_calls_are_new_in_its_conversation(form: str) -> None:
    app = asgi(ReActAgent("clerk", ScriptedModel(paid)))
    chat, known, ids = form == "chat", list[dict[str, Any]](), list[str]()
    pay = function("pay")
    body = {"model": "clerk", "tools": [{"type": "function", "function": pay} if chat else pay]}
    before = {}
    for turn in range(3):
        new: dict[str, Any] = {"role": "user", "content": "Buy."}
        for step in ("call", "answer"):
            known.append(new)
            sent = {"messages": known} if chat else {"input": known, **before}
            path = "/v1/chat/completions" if chat else "/v1/responses"
            ((status, text),) = posted(app, path, {**body, **sent})
            assert status == 200, text
            told = json.loads(text)
            output = [told["choices"][0]["message"]] if chat else told["output"]
            known.extend(output)
            if form == "by id":
                known, before = [], {"previous_response_id": told["id"]}
            if step == "answer":
                said = output[-1]["content"]
                assert (said if chat else said[0]["text"]) == f"paid {turn}"
                continue
            its = output[-1]["tool_calls"][0]["id"] if chat else output[-1]["call_id"]
            ids.append(its)
            if chat:
                new = {"role": "tool", "tool_call_id": its, "content": str(turn)}
            else:
                new = {"type": "function_call_output", "call_id": its, "output": str(turn)}
    assert len({*ids}) == 3


RESULT = {"role": "tool", "tool_call_id": "a", "content": "1"}
CALLED = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize(
    "last",
    (
        [],
        [RESULT],  # once more
        [{"role": "assistant", "content": "so"}, RESULT],
        [{"role": "system", "content": "Be brief."}],
        [{"role": "system", "content": "Be brief."}, RESULT],
    ),
)
@pytest.mark.parametrize("path", ("/v1/chat/completions", "/ag-ui"))
def test_conversation_that_ends_with_what_is_dropped_is_answered(path: str, last: Any) -> None:
    user = {"role": "user", "content": "look"}
    messages = [user, {"role": "assistant", "content": None, "tool_calls": [CALLED]}, RESULT]
    messages = [*messages, {"role": "assistant", "content": "one"}, *last]
    if path == "/ag-ui":
        messages = [{**each, "id": str(n)} for n, each in enumerate(messages)]
        messages = [{**m, "toolCallId": "a"} if m["role"] == "tool" else m for m in messages]
        for each in messages:
            each["toolCalls"] = each.pop("tool_calls", [])
    ((heard, _),) = seen({"messages": messages, "threadId": "t", "runId": "r"}, path=path)
    assert [each["content"] for each in heard if each["role"] == "tool"] == ["1"]
    assert heard[-1] == {"role": "user", "content": "Continue."}


PDF = "data:application/pdf;base64,AAAA"
FILE = {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("path", "part", "block"),
    (
        ("/v1/chat/completions", FILE, FILE),
        ("/v1/chat/completions", SOUND, SOUND),
        ("/v1/chat/completions", {**PICTURE, "image_url": PICTURE["image_url"]["url"]}, PICTURE),  # type: ignore[index]
        ("/v1/responses", {"type": "input_file", **FILE["file"]}, FILE),  # type: ignore[dict-item]
        ("/ag-ui", {"type": "binary", "mimeType": "image/png", "data": "AAAA"}, PICTURE),
        (
            "/ag-ui",
            {
                "type": "audio",
                "source": {"type": "data", "value": "AAAA", "mimeType": "audio/mpeg"},
            },
            SOUND,
        ),
        (
            "/ag-ui",
            {
                "type": "document",
                "filename": "a.pdf",
                "source": {"type": "data", "value": "AAAA", "mimeType": "application/pdf"},
            },
            FILE,
        ),
        (
            "/ag-ui",
            {"type": "document", "source": {"type": "url", "value": "https://x.example/a.pdf"}},
            {"type": "file", "file": {"file_url": "https://x.example/a.pdf"}},
        ),
    ),
)
def test_file_of_a_client_reaches_the_model(path: str, part: Any, block: Any) -> None:
    user = {"id": "1", "role": "user", "content": [{"type": "text", "text": "look"}, part]}
    body = {"input" if path.endswith("responses") else "messages": [user]}
    ((messages, _),) = seen({**body, "threadId": "t", "runId": "r"}, path=path)
    assert messages[-1]["content"] == [{"type": "text", "text": "look"}, block]


def test_outputs_of_calls_of_any_shape_are_text() -> None:
    outputs = [
        ("computer_call", {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA"}),
        ("shell_call", [{"stdout": "a", "outcome": {"type": "exit"}}]),
        ("function_call", {"a": 1}),
        ("function_call", [FILE, {"type": "input_text", "text": "b"}]),
        ("apply_patch_call", None),
    ]
    items: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    for number, (kind, output) in enumerate(outputs):
        items.append({"type": kind, "call_id": f"c{number}", "name": "f", "arguments": "{}"})
        items.append({"type": f"{kind}_output", "call_id": f"c{number}", "output": output})
    items.append({"type": "tool_search_call", "call_id": None})
    items.append({"type": "tool_search_output", "call_id": None, "tools": []})
    ((messages, _),) = seen({"input": items})
    assert [each["content"] for each in messages if each["role"] == "tool"] == [
        '{"type": "computer_screenshot", "image_url": "data:image/png;base64,AA"}',
        '{"stdout": "a", "outcome": {"type": "exit"}}',
        '{"a": 1}',
        "(a file, which cannot be shown here)\nb",
        "",
    ]


@pytest.mark.parametrize(
    "tool",
    (
        {"type": "function", "name": "look.up"},
        {"type": "function", "function": {"name": "look.up"}},
        {"function": {"name": "look.up", "parameters": None}},
    ),
)
@pytest.mark.parametrize("path", ("/v1/chat/completions", "/v1/responses"))
def test_tool_in_either_form_is_taken(tool: Any, path: str) -> None:
    user = [{"role": "user", "content": "x"}]
    body = {"input" if path.endswith("responses") else "messages": user, "tools": [tool]}
    ((_, names),) = seen(body, path=path)
    assert names == ["look_up"]


# -- AG-UI: several questions at once --------------------------------------------------------------


def test_ag_ui_calls_that_wait_have_an_interrupt_each_bound_to_its_call() -> None:
    bought: list[str] = []

    @action(access_policy=ACCESS_REQUESTED)
    def order(item: str) -> str:
        """Order."""
        bought.append(item)
        return f"ordered {item}"

    calls = [
        {"id": f"c{n}", "name": "order", "args": {"item": item}}
        for n, item in enumerate(("tea", "milk", "tea"))
    ]
    script = ScriptedModel([[Call(each["id"], "order", each["args"]) for each in calls], "done"])
    app = asgi(ReActAgent("bot", script, actions=[order]))

    async def main() -> None:
        here = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=here, base_url="http://127.0.0.1") as client:

            async def run(**more: Any) -> dict[str, Any]:
                user = {"id": "1", "role": "user", "content": "x"}
                body = {"threadId": "t", "runId": "r", "messages": [user], **more}
                text = (await client.post("/ag-ui", json=body)).text
                last: dict[str, Any] = json.loads(text.strip().splitlines()[-1][6:])
                return last

            asked = (await run())["outcome"]["interrupts"]
            for each in asked:
                each["toolCallId"] = each["toolCallId"].partition("-")[2]
            told = {each["toolCallId"]: each["metadata"]["args"]["item"] for each in asked}
            assert told == {"c0": "tea", "c1": "milk", "c2": "tea"}
            assert bought == []

            def answer(each: dict[str, Any], yes: bool) -> dict[str, Any]:
                about = {"interruptId": each["id"], "status": "resolved"}
                return {**about, "payload": {"approved": yes}}

            by_id = {each["toolCallId"]: each for each in asked}
            left = await run(resume=[answer(by_id["c1"], True)])
            known = {each["toolCallId"][-2:] for each in left["outcome"]["interrupts"]}
            assert known == {"c0", "c2"}
            assert bought == ["milk"]
            rest = [answer(by_id["c0"], False), answer(by_id["c2"], True)]
            end = await run(resume=rest)
            assert end["outcome"]["type"] == "success"
            assert bought == ["milk", "tea"]

    asyncio.run(main())


# -- A2A as protobuf's JSON ------------------------------------------------------------------------

TEXT = {"text": "x", "mediaType": None, "metadata": {"kept": None}}
MESSAGE = {"messageId": "1", "role": "ROLE_USER", "parts": [TEXT]}


@pytest.mark.parametrize(
    ("method", "params"),
    (
        ("SendMessage", {"message": {**MESSAGE, "contextId": None, "taskId": None}}),
        ("SendMessage", {"message": {**MESSAGE, "role": 1}, "configuration": None}),
        ("SendMessage", {"message": MESSAGE, "configuration": {"historyLength": 1.0}}),
        ("SendMessage", {"message": MESSAGE, "configuration": {"history_length": "1"}}),
        (
            "SendMessage",
            {
                "message": {
                    "message_id": "1",
                    "role": "ROLE_USER",
                    "parts": [{"data": {"a_b": None}}],
                }
            },
        ),
        ("ListTasks", {"pageSize": 2.0, "pageToken": None, "status": None}),
        ("SendMessage", {"message": {**MESSAGE, "parts": [{"data": None}]}}),
        ("ListTasks", None),
    ),
)
@pytest.mark.parametrize("path", ("/a2a/clerk", "/a2a/clerk/"))
def test_a2a_takes_what_protobuf_writes(method: str, params: Any, path: str) -> None:
    app = asgi(ReActAgent("clerk", ScriptedModel(["hello"])))
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    ((status, text),) = posted(app, path, call, **{"A2A-Version": "1.0"})
    assert status == 200
    assert "result" in json.loads(text), text


def test_a2a_request_that_is_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}
    call["params"] = {"message": {**MESSAGE, "later": deep}}
    app = asgi(ReActAgent("clerk", ScriptedModel(["hello"])))
    ((status, text),) = posted(app, "/a2a/clerk", call, **{"A2A-Version": "1.0"})
    assert status == 200
    assert json.loads(text)["error"]["code"] == -32602


# -- the clients themselves ------------------------------------------------------------------------


@pytest.mark.long
def test_codex_holds_a_conversation_with_its_own_tool(tmp_path: Path) -> None:
    def model(messages: Any, actions: Any) -> Any:
        if messages[-1]["role"] == "tool":
            return f"The tool gave {messages[-1]['content']}"
        assert "exec_command" in [each.name for each in actions]
        return {"name": "exec_command", "args": {"cmd": "echo mark-$((40+2))"}}

    folder = npm_folder("@openai/codex@0.171.0")
    home = tmp_path / "home"
    home.mkdir()
    agent = ReActAgent("clerk", ScriptedModel(model))
    with serving(asgi(agent, token="s")) as url:
        (home / "config.toml").write_text(
            'model = "clerk"\nmodel_provider = "hall"\n[model_providers.hall]\nname = "hall"\n'
            f'base_url = "{url}/v1"\nenv_key = "HALL_TOKEN"\nwire_api = "responses"\n'
        )
        environment = {**os.environ, "CODEX_HOME": str(home), "HALL_TOKEN": "s"}
        codex = str(folder / "node_modules/.bin/codex")
        options = ("exec", "--skip-git-repo-check", "-s", "danger-full-access")
        done = subprocess.run(
            [node(), codex, *options, "Use a tool."],
            capture_output=True,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=50,
        )
    assert "The tool gave" in done.stdout, done.stderr
    assert "mark-42" in done.stdout
