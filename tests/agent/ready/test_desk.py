"""examples/desk.py on loopback: refunds wait for the staff, whatever the customer does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from examples.desk import Desk, application

from moothall import Journal, Model, ScriptedModel, SQLiteMemory
from moothall.serving.doors.server import HTTPServer

REFUND: list[Any] = [{"name": "refund", "args": {"order": "A1"}}, "You have your money back."]


class Client:
    """Calls the desk as somebody with a token."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    def chat(self, who: str, text: str, **more: Any) -> Any:
        return self._call("POST", who, "/chat", {"text": text, **more})

    async def asks(self, who: str, text: str, **more: Any) -> list[Any]:
        async with self.chat(who, text, **more) as answer:
            assert answer.status == 200, await answer.text()
            lines = (await answer.text()).split("\n\n")
        return [json.loads(line.removeprefix("data: ")) for line in lines if line]

    async def waiting(self, who: str = "staff") -> list[Any]:
        """What waits, as soon as something does."""
        while True:
            async with self._call("GET", who, "/refunds") as answer:
                if answer.status != 200:
                    return [answer.status]
                if found := await answer.json():
                    return list(found)

    async def decides(self, request: Any, permit: bool, who: str = "staff") -> int:
        decision = {"run": request["run"], "key": request["key"], "permit": permit}
        async with self._call("POST", who, "/refunds", decision) as answer:
            return int(answer.status)

    async def reply(self, who: str, text: str, run_id: str) -> Any:
        """The end of the answer to a question, once it waits for nobody."""
        while True:
            end = (await self.asks(who, text, run_id=run_id))[-1]
            if "error" not in end and end["stop_reason"] != "waiting":
                return end

    def _call(self, method: str, who: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {who}-token"}
        return self.session.request(method, f"{self.url}{path}", json=body, headers=headers)


@asynccontextmanager
async def served(folder: Path, model: Model) -> AsyncIterator[Client]:
    with SQLiteMemory(folder / "desk.db") as memory, Journal(folder / "runs.db") as journal:
        app = application(Desk(model, memory, journal))
        server = HTTPServer(app, "127.0.0.1", 0, grace_s=1)
        server.start()
        await asyncio.wrap_future(server.listening)
        try:
            async with aiohttp.ClientSession() as session:
                yield Client(session, f"http://127.0.0.1:{server.port}")
        finally:
            server.stop()
            await asyncio.to_thread(server.join, 30)


@pytest.mark.parametrize("permit", (True, False))
async def test_desk_refund_waits_for_the_staff_alone(tmp_path: Path, permit: bool) -> None:
    script = [*REFUND[:1], "I shall see.", REFUND[1]]
    async with served(tmp_path, ScriptedModel(script)) as client:
        events = await client.asks("ada", "Refund A1.", run_id="r")
        assert events[-1]["stop_reason"] == "waiting"
        (request,) = await client.waiting()
        seen = {"run": "ada/r", "customer": "ada", "order": "A1"}
        assert {**request, "key": ""} == {**seen, "key": ""}
        meanwhile = await client.asks("ada", "How long does it take?")  # the customer may go on
        assert meanwhile[-1]["stop_reason"] == "done"
        assert await client.waiting("ada") == [403]
        assert await client.decides(request, True, "ada") == 403
        assert await client.decides(request, permit) == 200
        assert await client.decides(request, not permit) == 409
        assert await client.decides({**request, "run": "no"}, permit) == 404
        end = {"text": "You have your money back.", "stop_reason": "done"}
        assert await client.reply("ada", "Refund A1.", "r") == end
        assert await client.reply("ada", "Refund A1.", "r") == end  # no second refund
        assert "error" in (await client.asks("ada", "Another.", run_id="r"))[0]


async def test_desk_refund_that_waits_outlives_its_customers_tab_and_the_process(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, ScriptedModel(REFUND)) as client:
        async with client.chat("ada", "Refund A1.", run_id="r") as answer:
            await answer.content.readline()
        (request,) = await client.waiting()
    async with served(tmp_path, ScriptedModel(REFUND)) as client:
        assert await client.waiting() == [request]
        assert await client.decides(request, True) == 200
        assert (await client.reply("ada", "Refund A1.", "r"))["stop_reason"] == "done"


async def test_strangers_and_bad_input_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, ScriptedModel([])) as client:
        async with client.chat("nobody", "Hello") as answer:
            assert answer.status == 401
        for text in ("", "x" * 4001):
            async with client.chat("ada", text) as answer:
                assert answer.status == 422
