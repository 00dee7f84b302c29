"""What comes later at the doors: a look while a run goes on, a request that is sent again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moothall import Budget, CallbackApprover, Journal, NativeSpace, ReActAgent, ScriptedModel
from moothall.serving import asgi
from serving.company.conftest import until
from serving.doors.a2a_calls import BOUGHT, call, rpc, shop, started, state
from serving.doors.conftest import Waiting as Hanging
from serving.doors.conftest import client, serving

Serve = Callable[[Any], str]

permits = CallbackApprover(lambda request: True)
PAY = {"name": "buy", "args": {"item": "tea"}}


def test_openai_response_whose_run_goes_on_elsewhere_is_in_progress_until_it_has_ended(
    serve: Serve, tmp_path: Path
) -> None:
    begun, seen = threading.Event(), threading.Event()

    def hold(event: Any) -> None:
        begun.set()
        assert seen.wait(20)

    with Journal(tmp_path / "runs.db") as journal, Journal(tmp_path / "runs.db") as others:
        responses = client(serve(asgi(shop(PAY, "Bought.", journal=journal)))).responses
        made = responses.create(model="shop", input="Buy.")
        other = shop(PAY, "Bought.", journal=others)
        other.watch(hold)
        going_on = threading.Thread(target=asyncio.run, args=(other.resume_decided(),))
        (wait,) = others.waiting()
        others.answer(wait.run, wait.key, True, by="eva")
        going_on.start()
        try:
            assert begun.wait(20)
            assert responses.retrieve(made.id).status == "in_progress"
        finally:
            seen.set()
            going_on.join()
        assert responses.retrieve(made.id).output_text == "Bought."


@pytest.mark.parametrize("way", ("chat", "responses", "continued"))
def test_openai_request_that_its_client_sends_again_goes_on_with_its_first_run(
    serve: Serve, tmp_path: Path, way: str
) -> None:
    """As after a restart, or where a proxy has cut it off: what was bought is not bought again."""
    answered = iter((False, True, True))

    async def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        if messages[-1]["content"] == "Hello.":
            return "Hello."
        if messages[-1]["role"] != "tool":
            return call("buy", item="tea")
        if not next(answered):
            await asyncio.Event().wait()  # its client waits no longer
        return "Bought."

    with Journal(tmp_path / "runs.db") as journal, NativeSpace(approver=permits) as space:
        agent = shop(journal=journal)
        agent.model = ScriptedModel(answer)
        url = serve(asgi(space.add(agent)))
        first = client(url).responses.create(model="shop", input="Hello.").id
        made = client(url).with_options(timeout=2, max_retries=1)

        def ask() -> str | None:
            if way == "chat":
                messages: Any = [{"role": "user", "content": "Buy."}]
                completion = made.chat.completions.create(model="shop", messages=messages)
                return completion.choices[0].message.content
            options: Any = {"previous_response_id": first} if way == "continued" else {}
            return made.responses.create(model="shop", input="Buy.", **options).output_text

        assert (ask(), BOUGHT) == ("Bought.", ["tea"])
        assert len(journal.runs()) == 2
        # One who asks for the same a second time gets it a second time.
        assert (ask(), BOUGHT) == ("Bought.", ["tea", "tea"])


def test_caller_pays_for_a_reply_that_goes_on_once_an_operator_has_permitted_it(
    serve: Serve, journal: Journal
) -> None:
    whole = Budget(name="callers", journal=journal)
    agent = shop(PAY, "Bought.", journal=journal)
    url = serve(asgi(agent, token={"ada": "t-ada", "bob": "t-bob"}, budget=whole))
    made = client(url, "t-ada").responses.create(model="shop", input="Buy.")
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    asyncio.run(until(lambda: journal.run(wait.run).state == "done"))
    assert client(url, "t-ada").responses.retrieve(made.id).output_text == "Bought."
    spent = {each.name: each.spent.model_calls for each in journal.budgets.list()}
    assert spent == {"callers": 2, "callers/ada": 2}


def test_openai_response_whose_process_ended_goes_on_at_the_next_start(journal: Journal) -> None:
    hanging = Hanging()
    with serving(asgi(ReActAgent("shop", hanging, journal=journal))) as url:
        responses = client(url).responses
        with responses.create(model="shop", input="Hi.", stream=True) as events:
            begun = next(each for each in events if each.type == "response.created")
            assert hanging.begun.wait(20)
            journal.leave_runs(begun.response.id.removeprefix("resp_"))
    model = ScriptedModel(["Hello."])
    model.name = hanging.name
    with serving(asgi(ReActAgent("shop", model, journal=journal))) as url:
        run_id = begun.response.id.removeprefix("resp_")
        asyncio.run(until(lambda: journal.run(run_id).state == "done"))
        assert client(url).responses.retrieve(begun.response.id).output_text == "Hello."


def test_openai_response_of_a_program_that_has_changed_is_that_of_its_run(
    journal: Journal,
) -> None:
    with serving(asgi(shop(PAY, "Bought.", journal=journal))) as url:
        made = client(url).responses.create(model="shop", input="Buy.")
    changed = shop(PAY, "Bought.", "Yes.", journal=journal, system_prompt="Be brief.")
    with serving(asgi(changed)) as url:
        responses = client(url).responses
        for text, answer in (
            ("waiting for the approval", True),
            ("waiting for its operator", "fork"),
            ("waiting for the approval", True),  # the changed program asks anew
        ):
            asyncio.run(until(journal.waiting))
            (wait,) = journal.waiting()
            assert responses.retrieve(made.id).output_text.startswith(text)
            journal.answer(wait.run, wait.key, answer, by="eva")
        asyncio.run(until(lambda: journal.run(wait.run).state == "done"))
        assert responses.retrieve(made.id).output_text == "Bought."
        more = responses.create(model="shop", input="Sure?", previous_response_id=made.id)
        assert (more.output_text, BOUGHT) == ("Yes.", ["tea"])
        responses.delete(made.id)
        assert [each.id for each in journal.runs()] == [more.id.removeprefix("resp_")]


def test_a2a_task_of_a_program_that_has_changed_goes_on_also_after_a_restart(
    journal: Journal,
) -> None:

    def get(url: str) -> dict[str, Any]:
        return dict(rpc(url, "GetTask", {"id": task["id"]})["result"])

    def changed() -> ReActAgent:
        return shop(PAY, "Bought.", journal=journal, system_prompt="Be brief.")

    with serving(asgi(shop(PAY, "Bought.", journal=journal))) as url:
        task = started(url, "Buy.")
        assert state(task) == "TASK_STATE_INPUT_REQUIRED"
    for answer in (True, "fork", True):  # the changed program asks anew
        with serving(asgi(changed())) as url:
            asyncio.run(until(journal.waiting))
            asyncio.run(until(lambda url=url: state(get(url)) == state(task)))
            (wait,) = journal.waiting()
            journal.answer(wait.run, wait.key, answer, by="eva")
            is_last = wait.kind == "approval" and len(journal.waits.decided("eva")) > 1
            if is_last:
                asyncio.run(until(lambda run=wait.run: journal.run(run).state == "done"))
    with serving(asgi(changed())) as url:
        now = rpc(url, "GetTask", {"id": task["id"]})["result"]
        assert (now["id"], state(now)) == (task["id"], "TASK_STATE_COMPLETED")
        assert now["artifacts"][0]["parts"][0]["text"] == "Bought."
        (listed,) = rpc(url, "ListTasks", {})["result"]["tasks"]
        assert (listed["id"], state(listed)) == (task["id"], state(now))
    assert len(journal.runs()) == 1


def test_a2a_task_of_a_program_that_has_changed_waits_until_that_is_restored(
    journal: Journal,
) -> None:
    with serving(asgi(shop(PAY, "Bought.", journal=journal))) as url:
        task = started(url, "Buy.")
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    with serving(asgi(shop(PAY, journal=journal, system_prompt="Be brief."))) as url:
        asyncio.run(until(journal.waiting))
        get = partial(rpc, url, "GetTask", {"id": task["id"]})
        asyncio.run(until(lambda: state(get()["result"]) == "TASK_STATE_INPUT_REQUIRED"))
        now = get()["result"]
        (part,) = now["status"]["message"]["parts"]
        assert "its program has changed" in part["text"]
        assert "Be brief" not in json.dumps(now), "a prompt is not the caller's"
    with serving(asgi(shop(PAY, "Bought.", journal=journal))) as url:
        asyncio.run(until(lambda: journal.run(task["id"]).state == "done"))
        now = rpc(url, "GetTask", {"id": task["id"]})["result"]
        assert (state(now), BOUGHT) == ("TASK_STATE_COMPLETED", ["tea"])


def test_a2a_task_of_a_program_that_has_changed_goes_on_as_soon_as_a_person_says_so(
    journal: Journal,
) -> None:
    with serving(asgi(shop(PAY, journal=journal))) as url:
        task = started(url, "Buy.")
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    with serving(asgi(shop(PAY, journal=journal, system_prompt="Be brief."))) as url:
        asyncio.run(until(journal.waiting))
        (wait,) = journal.waiting()
        assert (wait.run, wait.kind) == (task["id"], "operator")
        journal.answer(wait.run, wait.key, "fork", by="eva")
        asyncio.run(until(journal.waiting))
        (wait,) = journal.waiting()  # the changed program asks anew
        assert (wait.run, wait.kind) == (task["id"], "approval")
