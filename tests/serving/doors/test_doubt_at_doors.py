"""Calls that a broken server or connection left in doubt, as each door tells its client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import mcp
import mcp_types as types
import openai
import pytest

from moothall import ACCESS_REQUESTED, Journal, ReActAgent, ScriptedModel, action
from moothall.journal import Done
from moothall.serving import asgi
from serving.company.conftest import until
from serving.doors.a2a_calls import call, plain, rpc, state
from serving.doors.conftest import client, serving
from serving.doors.test_ag_ui import run, user

Serve = Callable[[Any], str]

STANDS = 'waiting for a decision about pay(to="eva"), whose outcome is unknown, since '


KILLED = pytest.mark.parametrize("killed", (False, True), ids=("cancelled", "killed"))


class Till:
    """An agent that pays, which never ends, and then says so; its action has begun or not."""

    def __init__(self, path: Path, policy: Any = None) -> None:
        self.begun = threading.Event()
        self.journal = Journal(path)

        @action(access_policy=policy)
        async def pay(to: str) -> str:
            """Pay."""
            self.begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        self.action = pay

    def has_begun(self, killed: bool) -> None:
        """Wait until it pays; what ends its run then is as sudden as a kill, or not."""
        assert self.begun.wait(20)
        if killed:
            self.journal.leave_runs()

    def app(self) -> Any:
        self.journal.leave_runs(leave=False)
        model = ScriptedModel([call("pay", to="eva"), "Paid."])
        return asgi(ReActAgent("shop", model, actions=[self.action], journal=self.journal))

    def decide(self) -> None:
        """Have the operator say that it has paid, and wait until its reply is there."""
        (outline,) = self.journal.runs()
        self.journal.decide(outline.id, Done("paid"))


@KILLED
def test_openai_client_reads_which_call_is_in_doubt_until_it_is_decided(
    tmp_path: Path, killed: bool
) -> None:
    till = Till(tmp_path / "runs.db")
    with serving(till.app()) as url, suppress(openai.APIError, httpx2.HTTPError):
        stream = client(url).responses.create(model="shop", input="Pay.", stream=True)
        made: Any = next(iter(stream))
        till.has_begun(killed)
        stream.close()
    with serving(till.app()) as url:
        responses, id = client(url).responses, made.response.id
        got = responses.retrieve(id)
        assert (got.status, got.output_text.startswith(STANDS)) == ("in_progress", True)
        assert "its operator answers" in got.output_text
        with pytest.raises(openai.ConflictError, match="is in progress, waiting for a decision"):
            responses.create(model="shop", input="And?", previous_response_id=id)
        with pytest.raises(openai.ConflictError, match="waiting for a decision"):
            responses.cancel(id)
        with pytest.raises(openai.ConflictError, match="waiting for a decision"):
            responses.delete(id)
        till.decide()
        asyncio.run(until(lambda: responses.retrieve(id).status == "completed"))
        assert responses.retrieve(id).output_text == "Paid."


@KILLED
def test_ag_ui_client_reads_which_call_is_in_doubt_until_it_is_decided(
    tmp_path: Path, killed: bool
) -> None:
    till = Till(tmp_path / "runs.db", ACCESS_REQUESTED)
    with serving(till.app()) as url:
        (asked,) = run(url, user("Pay."))[-1]["outcome"]["interrupts"]
        entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
        given = {"threadId": "t", "runId": "r", "messages": [user("Pay.")], "resume": [entry]}
        with httpx2.stream("POST", f"{url}/ag-ui", json=given):
            till.has_begun(killed)
    with serving(till.app()) as url:
        events = run(url, user("Pay."), resume=[entry])
        assert "".join(each.get("delta", "") for each in events).startswith(STANDS)
        assert events[-1]["outcome"] == {"type": "success"}
        till.decide()
        events = run(url, user("Pay."), resume=[entry])
        assert "".join(each.get("delta", "") for each in events) == "Paid."


@KILLED
def test_mcp_client_reads_which_call_is_in_doubt_until_it_is_decided(
    tmp_path: Path, killed: bool
) -> None:
    till = Till(tmp_path / "runs.db", ACCESS_REQUESTED)

    async def nobody(context: Any, params: Any) -> types.ElicitResult:
        raise NotImplementedError

    async def main() -> list[Any]:
        said: Any = ("say", {"content": "Pay."})
        yes = {"question": types.ElicitResult(action="accept", content={"permit": True})}
        with serving(till.app()) as url:
            async with mcp.Client(f"{url}/mcp", elicitation_callback=nobody) as made:
                asked = await made.session.call_tool(*said, allow_input_required=True)
                answer: Any = {"input_responses": yes, "request_state": asked.request_state}
                first = asyncio.ensure_future(made.session.call_tool(*said, **answer))
                await asyncio.to_thread(till.has_begun, killed)
                first.cancel()
                await until(lambda: not till.journal.runs()[0].held)
        with serving(till.app()) as url:
            async with mcp.Client(f"{url}/mcp", elicitation_callback=nobody) as made:
                in_doubt = await made.session.call_tool(*said, **answer)
                till.decide()
                return [in_doubt, await made.session.call_tool(*said, **answer)]

    in_doubt, paid = asyncio.run(main())
    assert in_doubt.is_error
    assert in_doubt.content[0].text.startswith(STANDS)
    assert (paid.is_error, paid.content[0].text) == (False, "Paid.")


@KILLED
def test_a2a_client_reads_which_call_is_in_doubt_until_it_is_decided(
    tmp_path: Path, killed: bool
) -> None:
    till = Till(tmp_path / "runs.db")
    with serving(till.app()) as url:
        given = plain("Pay") | {"configuration": {"returnImmediately": True}}
        id = rpc(url, "SendMessage", given)["result"]["task"]["id"]
        till.has_begun(killed)
    with serving(till.app()) as url:
        task = rpc(url, "GetTask", {"id": id})["result"]
        assert state(task) == "TASK_STATE_INPUT_REQUIRED"
        (part,) = task["status"]["message"]["parts"]
        assert part["text"].startswith(STANDS)
        refused = rpc(url, "SendMessage", plain("repeat", taskId=id))["error"]
        assert refused["code"] == -32004
        assert STANDS in refused["message"]
        refused = rpc(url, "CancelTask", {"id": id})["error"]
        assert refused["code"] == -32002
        assert STANDS in refused["message"]
        till.decide()
        asyncio.run(until(lambda: "artifacts" in rpc(url, "GetTask", {"id": id})["result"]))
        ended = rpc(url, "GetTask", {"id": id})["result"]
        assert ended["artifacts"][0]["parts"][0]["text"] == "Paid."
