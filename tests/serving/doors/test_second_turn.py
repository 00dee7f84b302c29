"""The second turn: after a reply that broke off, at a second server, or sent again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from moothall import (
    ACCESS_REQUESTED,
    Call,
    CallbackApprover,
    Journal,
    Model,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.serving import asgi
from serving.doors.conftest import Waiting, client

Serve = Callable[[Any], str]


def last_word(messages: Any, actions: Any) -> str:
    return f"re: {messages[-1]['content']}"


def test_openai_cancelled_response_says_which_one_to_continue(
    serve: Serve, journal: Journal
) -> None:
    class Once(Waiting):
        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            if messages[-1]["content"] == "Wait.":
                await super().complete(messages)
            return ModelReply(last_word(messages, actions))

    async def main(journal: Journal) -> None:
        model = Once()
        url = serve(asgi(ReActAgent("bot", model, journal=journal)))
        here = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        async with here:
            one = await here.responses.create(model="bot", input="Hi.")
            more: Any = {"model": "bot", "previous_response_id": one.id}
            async with await here.responses.create(input="Wait.", stream=True, **more) as events:
                begun = await anext(aiter(events))
                assert begun.type == "response.created"
                await model.has_begun()
            await model.was_cancelled()
            async for _ in journal.follow(begun.response.id.removeprefix("resp_")):
                pass
            with pytest.raises(openai.BadRequestError, match=f"was cancelled.*: continue {one.id}"):
                await here.responses.create(
                    model="bot", input="And?", previous_response_id=begun.response.id
                )
            assert (await here.responses.create(input="And?", **more)).output_text == "re: And?"

    asyncio.run(main(journal))


def test_openai_servers_that_continue_one_response_at_once_give_two_ids(
    serve: Serve, tmp_path: Path
) -> None:
    both = threading.Barrier(2)

    class Asked(ReActAgent):
        @action(access_policy=ACCESS_REQUESTED)
        async def say(self, content: str, thread: str | None = None) -> str:
            """Say something."""
            raise NotImplementedError

    async def approve(request: Any) -> bool:
        if request.args["content"] != "Hi.":
            await asyncio.to_thread(both.wait, 20)  # each server has given its response an id
        return True

    with ExitStack() as stack:
        servers = []
        for _ in range(2):
            space = stack.enter_context(NativeSpace(approver=CallbackApprover(approve)))
            agent = Asked("bot", ScriptedModel(last_word), journal=tmp_path / "runs.db")
            servers.append(client(serve(asgi(space.add(agent)))).responses)
        first = servers[0].create(model="bot", input="Hi.")

        def go_on(number: int) -> Any:
            return servers[number].create(
                model="bot", input=f"{number}", previous_response_id=first.id
            )

        with ThreadPoolExecutor(2) as pool:
            one, two = pool.map(go_on, range(2))
        assert (one.output_text, two.output_text) == ("re: 0", "re: 1")
        assert one.id != two.id
        assert {servers[0].retrieve(each.id).output_text for each in (one, two)} == {
            "re: 0",
            "re: 1",
        }


BODY: dict[str, Any] = {
    "threadId": "t",
    "runId": "r1",
    "messages": [{"id": "m", "role": "user", "content": "Buy tea."}],
}


def run(url: str, **more: Any) -> list[dict[str, Any]]:
    answer = httpx2.post(f"{url}/ag-ui", json={**BODY, **more}, timeout=30)
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line]


def broken_off(url: str, begun: threading.Event) -> None:
    with httpx2.stream("POST", f"{url}/ag-ui", json=BODY, timeout=30) as answer:
        lines = answer.iter_lines()
        while "RUN_STARTED" not in next(lines):
            pass
        assert begun.wait(20)


def texts(events: list[dict[str, Any]]) -> str:
    return "".join(each.get("delta", "") for each in events if "TEXT" in each["type"])


def test_ag_ui_run_sent_again_after_it_broke_off_repeats_no_call_in_doubt(
    serve: Serve, journal: Journal
) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    @action
    async def buy() -> str:
        """Buy tea."""
        assert not begun.is_set()
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "bought"

    model = ScriptedModel([Call("c", "buy", {}), "Once more."])
    agent = ReActAgent("bot", model, actions=[buy], journal=journal)
    url = serve(asgi(agent))
    broken_off(url, begun)
    assert cancelled.wait(20)
    (first,) = journal.runs()
    asyncio.run(ended(journal, first.id))
    events = run(url)
    assert events[-1]["type"] == "RUN_FINISHED"
    assert "whose outcome is unknown" in texts(events)
    assert [each.id for each in journal.runs()] == [first.id]
    assert texts(run(url, runId="r2")) == "Once more."


async def ended(journal: Journal, run_id: str) -> None:
    async for _ in journal.follow(run_id):
        pass


@pytest.mark.parametrize("servers", (1, 2))
def test_ag_ui_run_sent_again_while_it_is_under_way_gets_the_same_reply(
    serve: Serve, tmp_path: Path, servers: int
) -> None:
    begun, may = threading.Event(), threading.Event()

    class Slow(Model):
        name, context_tokens, max_tokens = "slow", None, 10

        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            begun.set()
            assert await asyncio.to_thread(may.wait, 20)
            return ModelReply(f"Answer {messages[-1]['content']}")

    path = tmp_path / "runs.db"
    urls = [serve(asgi(ReActAgent("bot", Slow(), journal=path))) for _ in range(servers)]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, urls[0])
        assert begun.wait(20)
        again = pool.submit(run, urls[-1])
        with httpx2.stream("POST", f"{urls[-1]}/ag-ui", json=BODY, timeout=30) as third:
            assert "RUN_STARTED" in next(third.iter_lines())  # so has the one before it
            may.set()
        assert [texts(each.result()) for each in (first, again)] == ["Answer Buy tea."] * 2
    with Journal(path) as journal:
        assert len(journal.runs()) == 1


@pytest.mark.parametrize("restarts", (False, True))
def test_ag_ui_run_sent_again_gets_the_reply_of_its_first_run(
    serve: Serve, tmp_path: Path, restarts: bool
) -> None:
    class Once(Model):
        name, context_tokens, max_tokens = "once", None, 10
        asked = 0

        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            self.asked += 1
            if not waiting.begun.is_set():
                await waiting.complete(messages)
            return ModelReply(f"Answer {self.asked}.")

    waiting, model = Waiting(), Once()
    path = tmp_path / "runs.db"
    url = serve(asgi(ReActAgent("bot", model, journal=path)))
    broken_off(url, waiting.begun)
    assert waiting.cancelled.wait(20)
    with Journal(path) as journal:
        (first,) = journal.runs()
        asyncio.run(ended(journal, first.id))
        assert texts(run(url)) == "Answer 2."
        if restarts:
            url = serve(asgi(ReActAgent("bot", model, journal=path)))
        assert (texts(run(url)), model.asked) == ("Answer 2.", 2)
        # Some clients name all their runs alike.
        other = [{"id": "n", "role": "user", "content": "Buy milk."}]
        assert texts(run(url, messages=other)) == "Answer 3."
        assert len(journal.runs()) == 2
