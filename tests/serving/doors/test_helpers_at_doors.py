"""What a helper with runs of its own asks and waits for, as each door tells its caller's client."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import mcp
import mcp_types as types
import openai
import pytest

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    Context,
    Journal,
    Later,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.journal import Done
from moothall.models.protocol import Call, ModelReply
from moothall.serving import asgi
from serving.company.conftest import until
from serving.doors.a2a_calls import data, plain, rpc, state
from serving.doors.conftest import client, serving
from serving.doors.test_ag_ui import run, user

QUESTION = "What colour?"


class Bank(Agent):
    def __init__(self, id: str, bought: list[str]) -> None:
        super().__init__(id)
        self.bought = bought

    @action(access_policy=ACCESS_REQUESTED)
    async def approval(self) -> str:
        """Buy tea."""
        self.bought.append("tea")
        return "bought tea"

    @action
    async def question(self, context: Context[Any]) -> str:
        """Ask a person."""
        return f"{await context.ask_person(QUESTION)} tea"

    @action
    async def later(self) -> Later:
        """Order tea."""
        return Later("order-7")

    def functions(self) -> list[Any]:
        """Return its actions as functions of a program."""

        @action(access_policy=ACCESS_REQUESTED)
        async def approval() -> str:
            """Buy tea."""
            return await self.approval()

        @action
        async def question(context: Context[Any]) -> str:
            """Ask a person."""
            return await self.question(context)

        @action
        async def later() -> Later:
            """Order tea."""
            return await self.later()

        return [approval, question, later]


class Shop:
    """A shop's agent that asks a kept helper, whose runs are its own, in one journal.

    The helper is asked by another one (`deep`), is found in the space (`found`), or finds there
    what it calls (`finding`).
    """

    def __init__(self, path: Path, name: str, form: str = "") -> None:
        self.journal = Journal(path)
        self.name, self.form = name, form
        self.bought: list[str] = []
        self.begun = threading.Event()

        @action
        async def doubt() -> str:
            """Pay."""
            self.begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        self.bank = Bank("Bank", self.bought)
        self.actions = [*self.bank.functions(), doubt]

    def app(self, prompt: str = "Help.") -> Any:
        self.journal.leave_runs(leave=False)

        def calling(name: str, **args: Any) -> ScriptedModel:
            def reply(said: list[Any], _: Any) -> Any:
                last = said[-1]
                return last["content"] if last["role"] == "tool" else Call("0", name, args)

            return ScriptedModel(reply)

        options: Any = {"journal": self.journal}
        name = f"Bank_{self.name}" if self.form == "finding" else self.name
        actions = {"discover": ["Bank"]} if self.form == "finding" else {"actions": self.actions}
        helper = agent = ReActAgent(
            "helper", calling(name), system_prompt=prompt, **actions, **options
        )
        if self.form == "deep":
            model = calling("helper", text="go")
            agent = ReActAgent("foreman", model, actions=[helper.as_action()], **options)
        if self.form == "found":
            model = calling("helper_say", content="go")
            shop = ReActAgent("shop", model, discover=["helper"], **options)
            return asgi([shop, helper])
        model = calling(str(agent.id), text="go")
        shop = ReActAgent("shop", model, actions=[agent.as_action()], **options)
        if self.form == "finding":
            return asgi([shop, helper, self.bank])
        return asgi(shop)

    def end_suddenly(self) -> None:
        """Have what ends the server next be as sudden as a kill."""
        self.journal.leave_runs()

    async def ends_suddenly_as_it_pays(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 30)
        self.end_suddenly()

    def state(self) -> str:
        (run,) = self.journal.runs(agent="shop")
        return run.state


class A2AClient:
    async def begin(self, url: str) -> str:
        return self._shown(rpc(url, "SendMessage", plain("Go."))["result"]["task"])

    async def begin_and_leave(self, url: str, shop: Shop) -> None:
        given = plain("Go.") | {"configuration": {"returnImmediately": True}}
        self.task = rpc(url, "SendMessage", given)["result"]["task"]
        await shop.ends_suddenly_as_it_pays()

    async def look(self, url: str) -> str:
        return self._shown(rpc(url, "GetTask", {"id": self.task["id"]})["result"])

    async def answer(self, url: str, value: Any) -> str:
        (asked,) = [each["data"] for each in self.task["status"]["message"]["parts"][1:]]
        answer = {"approval": asked["approval"], "permit": True} if value is True else None
        answer = answer or {"question": asked["question"], "answer": value}
        said = data(answer, taskId=self.task["id"])
        return self._shown(rpc(url, "SendMessage", said)["result"]["task"])

    def _shown(self, task: dict[str, Any]) -> str:
        self.task = task
        if state(task) == "TASK_STATE_COMPLETED":
            return str(task["artifacts"][0]["parts"][0]["text"])
        return str(task["status"].get("message", {"parts": [{"text": ""}]})["parts"][0]["text"])


class AGUIClient:
    async def begin(self, url: str) -> str:
        return self._shown(await asyncio.to_thread(run, url, user("Go.")))

    async def begin_and_leave(self, url: str, shop: Shop) -> None:
        given = {"threadId": "t", "runId": "r", "messages": [user("Go.")]}
        with httpx2.stream("POST", f"{url}/ag-ui", json=given, timeout=30):
            await shop.ends_suddenly_as_it_pays()

    async def look(self, url: str) -> str:
        if hasattr(self, "answered"):
            return await self.answer(url, self.answered)
        return await self.begin(url)

    async def answer(self, url: str, value: Any) -> str:
        self.answered = value
        payload = {"approved": True} if value is True else {"answer": value}
        entry = {"interruptId": self.asked["id"], "status": "resolved", "payload": payload}
        return self._shown(await asyncio.to_thread(run, url, user("Go."), resume=[entry]))

    def _shown(self, events: list[dict[str, Any]]) -> str:
        if events[-1]["outcome"]["type"] == "interrupt":
            (self.asked,) = events[-1]["outcome"]["interrupts"]
            assert self.asked["toolCallId"] in {
                e["toolCallId"] for e in events if "toolCallId" in e
            }
            return str(self.asked["message"])
        return "".join(each.get("delta", "") for each in events if each["type"][:4] == "TEXT")


class MCPClient:
    async def begin(self, url: str) -> str:
        return await self._call(url)

    async def begin_and_leave(self, url: str, shop: Shop) -> None:
        call = asyncio.ensure_future(self._call(url))
        await shop.ends_suddenly_as_it_pays()
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call

    async def look(self, url: str) -> str:
        if hasattr(self, "answered"):
            return await self.answer(url, self.answered)
        return ""

    async def answer(self, url: str, value: Any) -> str:
        self.answered = value
        content = {"permit": True} if value is True else {"answer": value}
        result = types.ElicitResult(action="accept", content=content)
        return await self._call(
            url, input_responses={"question": result}, request_state=self.request_state
        )

    async def _call(self, url: str, **options: Any) -> str:
        async def nobody(context: Any, params: Any) -> types.ElicitResult:
            raise NotImplementedError

        async with mcp.Client(f"{url}/mcp", elicitation_callback=nobody) as made:
            options["allow_input_required"] = True
            result: Any = await made.session.call_tool("say", {"content": "Go."}, **options)
        if isinstance(result, types.InputRequiredResult):
            self.request_state = result.request_state
            assert result.input_requests is not None
            return str(result.input_requests["question"].params.message)  # type: ignore[union-attr]
        return str(result.content[0].text)


class OpenAIClient:
    async def begin(self, url: str) -> str:
        made = await asyncio.to_thread(
            client(url).responses.create, model="shop", input="Go.", store=True
        )
        self.id = made.id
        return made.output_text

    async def begin_and_leave(self, url: str, shop: Shop) -> None:
        with suppress(openai.APIError, httpx2.HTTPError):
            stream = client(url).responses.create(model="shop", input="Go.", stream=True)
            made: Any = next(iter(stream))
            self.id = made.response.id
            await shop.ends_suddenly_as_it_pays()
            stream.close()

    async def look(self, url: str) -> str:
        return (await asyncio.to_thread(client(url).responses.retrieve, self.id)).output_text


CLIENTS = (A2AClient, AGUIClient, MCPClient, OpenAIClient)
DOORS_AND_FORMS = (
    *((door, form) for door in CLIENTS for form in ("", "deep")),
    *((A2AClient, form) for form in ("found", "finding")),
)
FORMS = pytest.mark.parametrize(("door", "form"), DOORS_AND_FORMS)
DOORS = pytest.mark.parametrize("door", CLIENTS, ids=("a2a", "ag-ui", "mcp", "openai"))
KINDS = {"approval": (True, "bought tea"), "question": ("blue", "blue tea")}


async def shows(made: Any, url: str, text: str) -> None:
    """Look until the client is shown this text: the server goes on by itself."""
    while text not in (shown := await made.look(url)):
        assert "has failed" not in shown
        await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("door", "form"), [each for each in DOORS_AND_FORMS if each[0] is not OpenAIClient]
)
@pytest.mark.parametrize("killed", (False, True), ids=("here", "killed"))
@pytest.mark.parametrize("kind", KINDS)
async def test_caller_answers_what_a_helper_asks_also_after_a_kill(
    tmp_path: Path, door: Any, kind: str, killed: bool, form: str
) -> None:
    made, shop = door(), Shop(tmp_path / "runs.db", kind, form)
    answer, end = KINDS[kind]
    with serving(shop.app()) as url:
        shown = await made.begin(url)
        assert (QUESTION if kind == "question" else ".approval") in shown
        assert [each.kind for each in shop.journal.waiting() if each.kind == kind] == [kind]
        if not killed:
            assert await made.answer(url, answer) == end
        shop.end_suddenly()
    if killed:
        with serving(shop.app()) as url:
            if door is A2AClient:
                assert await made.look(url) == shown
            assert await made.answer(url, answer) == end
    assert shop.bought == ["tea"] * (kind == "approval")


@FORMS
async def test_client_reads_what_a_helper_waits_for_and_gets_the_reply_once_that_has_come(
    tmp_path: Path, door: Any, form: str
) -> None:
    made, shop = door(), Shop(tmp_path / "runs.db", "later", form)
    with serving(shop.app()) as url:
        assert "waiting for the result 'order-7' of " in await made.begin(url)
        shop.end_suddenly()
    with serving(shop.app()) as url:
        (wait,) = [each for each in shop.journal.waiting() if each.name == "order-7"]
        shop.journal.answer(wait.run, wait.key, "tea came")
        await until(lambda: shop.state() == "done")
        if door in (A2AClient, OpenAIClient):
            assert await made.look(url) == "tea came"


@DOORS
async def test_client_reads_which_call_of_a_helper_is_in_doubt_until_it_is_decided(
    tmp_path: Path, door: Any
) -> None:
    made, shop = door(), Shop(tmp_path / "runs.db", "doubt")
    with serving(shop.app()) as url:
        await made.begin_and_leave(url, shop)
    with serving(shop.app()) as url:
        if door is not MCPClient:
            await shows(made, url, "waiting for a decision about doubt(), whose outcome is unknown")
        if door is A2AClient:
            refused = rpc(url, "CancelTask", {"id": made.task["id"]})["error"]
            assert "waiting for a decision about doubt()" in refused["message"]
        (helpers_run,) = shop.journal.runs(agent="helper")
        shop.journal.decide(helpers_run.id, Done("paid"))
        if door is not MCPClient:
            await shows(made, url, "paid")


@DOORS
@pytest.mark.parametrize("kind", KINDS)
async def test_client_reads_that_a_helper_has_changed_until_it_is_restored(
    tmp_path: Path, door: Any, kind: str
) -> None:
    made, shop = door(), Shop(tmp_path / "runs.db", kind)
    answer, end = KINDS[kind]
    with serving(shop.app()) as url:
        await made.begin(url)
        shop.end_suddenly()
    with serving(shop.app("Be brief.")) as url:
        if door is OpenAIClient:
            (wait,) = [each for each in shop.journal.waiting() if each.kind == kind]
            shop.journal.answer(wait.run, wait.key, answer, by="eva")
        else:
            await made.answer(url, answer)
        await shows(made, url, "its program has changed")
        assert "Be brief" not in await made.look(url)
    with serving(shop.app()) as url:
        await shows(made, url, end)
    assert shop.bought == ["tea"] * (kind == "approval")


def test_helpers_that_ask_at_once_are_answered_one_by_one_also_at_the_next_server(
    tmp_path: Path,
) -> None:
    bought: list[str] = []

    def calling(*calls: Call) -> ScriptedModel:
        def reply(said: list[Any], _: Any) -> Any:
            results = [each["content"] for each in said if each["role"] == "tool"]
            return " and ".join(results) or ModelReply("", calls)

        return ScriptedModel(reply)

    def app(journal: Journal) -> Any:
        @action(access_policy=ACCESS_REQUESTED)
        async def buy(item: str) -> str:
            """Buy an item."""
            bought.append(item)
            return f"bought {item}"

        helpers = [
            ReActAgent(id, calling(Call("0", "buy", {"item": id})), actions=[buy], journal=journal)
            for id in ("tea", "cups")
        ]
        asking = [each.as_action() for each in helpers]
        model = calling(*(Call(each.name, each.name, {"text": "Buy."}) for each in asking))
        return asgi(ReActAgent("shop", model, actions=asking, journal=journal))

    def asked(task: dict[str, Any]) -> dict[str, str]:
        parts = [each["data"] for each in task["status"]["message"]["parts"] if "data" in each]
        return {each["agent"]: each["approval"] for each in parts}

    with Journal(tmp_path / "runs.db") as journal:
        with serving(app(journal)) as url:
            task = rpc(url, "SendMessage", plain("Buy both."))["result"]["task"]
            keys = asked(task)
            said = data({"approval": keys["cups"], "permit": True}, taskId=task["id"])
            task = rpc(url, "SendMessage", said)["result"]["task"]
            assert asked(task) == {"tea": keys["tea"]}
        with serving(app(journal)) as url:
            said = data({"approval": keys["tea"], "permit": True}, taskId=task["id"])
            assert "error" in rpc(url, "SendMessage", said, source="127.0.0.2")
            ended = rpc(url, "SendMessage", said)["result"]["task"]
            text = ended["artifacts"][0]["parts"][0]["text"]
            assert (text, bought) == ("bought tea and bought cups", ["cups", "tea"])


async def test_a2a_client_is_asked_by_a_changed_helper_as_soon_as_its_operator_says_so(
    tmp_path: Path,
) -> None:
    made, shop = A2AClient(), Shop(tmp_path / "runs.db", "approval")
    with serving(shop.app()) as url:
        await made.begin(url)
        shop.end_suddenly()
    with serving(shop.app("Be brief.")) as url:
        assert "its program has changed" in await made.answer(url, True)
        (wait,) = [each for each in shop.journal.waiting() if each.kind == "operator"]
        shop.journal.answer(wait.run, wait.key, "fork", by="eva")
        await shows(made, url, "Permit /helper.approval")
        assert await made.answer(url, True) == "bought tea"
    assert shop.bought == ["tea"]
