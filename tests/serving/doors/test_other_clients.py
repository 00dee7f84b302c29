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


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


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
