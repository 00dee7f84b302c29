"""Runs that wait in the journal, as each door translates them for its callers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import mcp
import mcp_types as types
import openai
import pytest

from moothall import (
    ACCESS_REQUESTED,
    Action,
    ActionRegistry,
    Budget,
    Context,
    Conversation,
    DualActAgent,
    Journal,
    MaxTurns,
    ModelReply,
    ReActAgent,
    ScriptedModel,
    StateError,
    Waiting,
)
from moothall.serving import asgi
from serving.company.conftest import until
from serving.doors.a2a_calls import (
    BEGUN,
    BOUGHT,
    CANCELLED,
    ask,
    asked,
    call,
    data,
    plain,
    requested,
    rpc,
    shop,
    started,
    state,
)
from serving.doors.conftest import Waiting as Hanging
from serving.doors.conftest import client, serving
from serving.doors.test_ag_ui import run, user

Serve = Callable[[Any], str]

PAY = {"name": "buy", "args": {"item": "tea"}}


# -- A2A -------------------------------------------------------------------------------------------


def test_a2a_task_that_waits_is_input_required_and_holds_up_nobody(
    serve: Serve, journal: Journal
) -> None:
    agent = shop(*[PAY] * 30, "Bought.", journal=journal, approver=Waiting(who="eva"))
    url = serve(asgi(agent))
    tasks = [rpc(url, "SendMessage", plain("Buy."))["result"]["task"] for _ in range(30)]
    for task in tasks:
        assert state(task) == "TASK_STATE_INPUT_REQUIRED"
        text = task["status"]["message"]["parts"][0]["text"]
        assert text.startswith('waiting for the approval of buy(item="tea"), by eva, since ')
    got = rpc(url, "GetTask", {"id": tasks[0]["id"]})["result"]
    assert state(got) == "TASK_STATE_INPUT_REQUIRED"
    (wait,) = journal.waiting(tasks[0]["id"])
    assert wait.who == ("eva",)
    journal.answer(wait.run, wait.key, True, by="eva")
    rpc(url, "SubscribeToTask", {"id": wait.run})  # the server goes on with it by itself
    got = rpc(url, "GetTask", {"id": tasks[0]["id"]})["result"]
    assert (state(got), got["artifacts"][0]["parts"][0]["text"]) == (
        "TASK_STATE_COMPLETED",
        "Bought.",
    )


def test_a2a_callers_with_twenty_open_questions_leave_the_agent_to_others_and_answer_later(
    serve: Serve, journal: Journal
) -> None:
    made = [PAY] * 20 + ["Hello.", "Bought."]
    url = serve(asgi(shop(*made, journal=journal)))
    tasks = [started(url, "Buy.") for _ in range(20)]
    assert {state(each) for each in tasks} == {"TASK_STATE_INPUT_REQUIRED"}
    other = rpc(url, "SendMessage", plain("Hi"), source="127.0.0.2")["result"]["task"]
    assert state(other) == "TASK_STATE_COMPLETED"
    task = tasks[0]
    mine = data({"approval": asked(task)["approval"], "permit": True}, taskId=task["id"])
    assert rpc(url, "SendMessage", mine, source="127.0.0.2")["error"]["code"] == -32001
    forged = data({"approval": "0" * 64, "permit": True}, taskId=task["id"])
    assert rpc(url, "SendMessage", forged)["error"]["code"] == -32602
    # Of another task of the caller's: an equal call is another question.
    other = data({"approval": asked(tasks[1])["approval"], "permit": True}, taskId=task["id"])
    assert rpc(url, "SendMessage", other)["error"]["code"] == -32602
    assert BOUGHT == []
    ended = rpc(url, "SendMessage", mine)["result"]["task"]
    assert (state(ended), BOUGHT) == ("TASK_STATE_COMPLETED", ["tea"])
    refused = data({"approval": asked(task)["approval"], "permit": False}, taskId=task["id"])
    assert rpc(url, "SendMessage", refused)["error"]["code"] == -32004
    assert [each.id for each in journal.runs(decided_by="local")] == [task["id"]]
    cancelled = rpc(url, "CancelTask", {"id": tasks[1]["id"]})["result"]
    assert state(cancelled) == "TASK_STATE_CANCELED"
    assert journal.waiting(tasks[1]["id"]) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a2a_caller_with_a_thousand_tasks_that_wait_begins_no_more_and_others_do(
    serve: Serve, journal: Journal
) -> None:
    url = serve(asgi(shop(PAY, "Hello.", "Hello.", journal=journal)))
    task = started(url, "Buy.")
    sender = str(journal.run(task["id"]).thread).partition("/")[0]
    clerk = shop(*[PAY] * 999, journal=journal, approver=Waiting())

    async def wait() -> None:
        for number in range(999):
            await clerk.reply("Buy.", thread=f"{sender}/{number}")

    asyncio.run(wait())
    assert "answer one first" in rpc(url, "SendMessage", plain("Hi"))["error"]["message"]
    other = rpc(url, "SendMessage", plain("Hi"), source="127.0.0.2")["result"]["task"]
    assert state(other) == "TASK_STATE_COMPLETED"
    rpc(url, "CancelTask", {"id": task["id"]})
    again = rpc(url, "SendMessage", plain("Hi"))["result"]["task"]
    assert state(again) == "TASK_STATE_COMPLETED"


def test_a2a_subscriber_of_a_task_that_waits_joins_it_again(serve: Serve, journal: Journal) -> None:
    url = serve(asgi(shop(call("ask"), "Red it is.", journal=journal)))
    told = rpc(url, "SendStreamingMessage", plain("Which?"))
    status = told[-1]["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    (wait,) = journal.waiting()
    assert (wait.kind, wait.text) == ("question", "What colour?")
    journal.answer(wait.run, wait.key, "red", by="eva")  # another process
    told = rpc(url, "SubscribeToTask", {"id": wait.run})
    last = told[-1].get("statusUpdate") or told[-1]["task"]
    assert state(last) == "TASK_STATE_COMPLETED"


def test_a2a_task_that_goes_on_works_at_once(serve: Serve, journal: Journal) -> None:
    """It was submitted before: an answer does not begin it anew."""
    url = serve(asgi(shop(call("ask"), "Red it is.", journal=journal)))
    task = started(url, "Which?")
    assert state(task) == "TASK_STATE_INPUT_REQUIRED"
    told = rpc(url, "SendStreamingMessage", plain("red", taskId=task["id"]))
    assert state(told[0]["task"]) == "TASK_STATE_WORKING"
    assert state(told[-1]["statusUpdate"]) == "TASK_STATE_COMPLETED"


def test_a2a_subscriber_hears_the_end_of_a_task_whose_run_ended_first(
    serve: Serve, journal: Journal
) -> None:
    let_go = threading.Event()

    class Late(ReActAgent):
        async def reply(self, *args: Any, **named: Any) -> Any:
            made = await super().reply(*args, **named)
            if made.stop_reason != "waiting":
                await asyncio.to_thread(let_go.wait, 30)
            return made

    model = ScriptedModel([call("ask"), "Red it is."])
    url = serve(asgi(Late("shop", model, actions=[ask], journal=journal)))
    id = rpc(url, "SendMessage", plain("Which?"))["result"]["task"]["id"]
    http, answer = requested(url, "SubscribeToTask", {"id": id})
    with closing(http):
        told = (json.loads(line[6:])["result"] for line in answer if line[:5] == b"data:")
        assert state(next(told)["task"]) == "TASK_STATE_INPUT_REQUIRED"
        (wait,) = journal.waiting()
        journal.answer(wait.run, wait.key, "red", by="eva")  # another process
        assert state(next(told)["task"]) == "TASK_STATE_WORKING"
        let_go.set()
        last = [*told][-1:]
        assert [state(each["statusUpdate"]) for each in last] == ["TASK_STATE_COMPLETED"]


def test_a2a_subscriber_hears_the_next_question_of_a_task_that_another_server_goes_on_with(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    said = (PAY, call("ask"), "Red tea.")
    one, two = (serve(asgi(shop(*said, journal=path))) for _ in range(2))
    task = started(one, "Buy.")
    http, answer = requested(one, "SubscribeToTask", {"id": task["id"]})
    with closing(http):
        told = (json.loads(line[6:])["result"]["task"] for line in answer if line[:5] == b"data:")
        assert asked(next(told)) == asked(task)
        permit = {"approval": asked(task)["approval"], "permit": True}
        rpc(two, "SendMessage", data(permit, taskId=task["id"]))
        assert [asked(each)["text"] for each in told] == ["What colour?"]


def test_a2a_answer_that_is_sent_again_to_another_server_answers_no_later_question(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    said = (call("ask"), call("ask"), "Red and blue.")
    one, two = (serve(asgi(shop(*said, journal=path))) for _ in range(2))
    task = started(one, "Paint.")
    red, blue = (plain(each, taskId=task["id"]) for each in ("red", "blue"))
    for url in (one, two, one):
        task = rpc(url, "SendMessage", red)["result"]["task"]
        assert state(task) == "TASK_STATE_INPUT_REQUIRED"
    for url, message in ((two, blue), (one, blue), (two, red), (one, red)):
        task = rpc(url, "SendMessage", message)["result"]["task"]
        assert state(task) == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("method", ("SendMessage", "SendStreamingMessage"))
def test_a2a_message_that_two_servers_get_at_once_has_one_task_whose_end_both_tell(
    serve: Serve, tmp_path: Path, method: str
) -> None:
    asked_models: list[str] = []

    async def answer(messages: Any, actions: Any) -> str:
        asked_models.append(messages[-1]["content"])
        await asyncio.sleep(1)
        return "Hello."

    path = tmp_path / "runs.db"
    model = ScriptedModel(answer)
    urls = [serve(asgi(ReActAgent("shop", model, journal=path))) for _ in range(2)]
    message = plain("Hello")
    with ThreadPoolExecutor(2) as pool:
        sent = [pool.submit(rpc, url, method, message) for url in urls]
        results = [each.result() for each in sent]
    for each in results:
        (last,) = (each["result"] if method == "SendMessage" else each[-1]).values()
        assert last["status"]["state"] == "TASK_STATE_COMPLETED"
    assert asked_models == ["Hello"]


def test_a2a_task_is_cancelled_at_a_server_that_does_not_work_on_it(
    serve: Serve, tmp_path: Path
) -> None:
    with Journal(tmp_path / "runs.db") as journal, Journal(tmp_path / "runs.db") as other:
        url = serve(asgi(shop(call("wait"), journal=journal)))
        second_url = serve(asgi(shop(journal=other)))
        given = plain("Wait") | {"configuration": {"returnImmediately": True}}
        task = rpc(url, "SendMessage", given)["result"]["task"]
        assert BEGUN.wait(20)
        ended = rpc(second_url, "CancelTask", {"id": task["id"]})["result"]
        assert (state(ended), CANCELLED.wait(20)) == ("TASK_STATE_CANCELED", True)
        assert state(rpc(url, "GetTask", {"id": task["id"]})["result"]) == "TASK_STATE_CANCELED"
        again = rpc(second_url, "CancelTask", {"id": task["id"]})["error"]
        assert again["code"] == -32002


def test_a2a_member_of_a_group_asks_in_its_name_and_goes_on_at_the_next_server(
    journal: Journal,
) -> None:
    accepts = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "good"}'

    def made(journal: Journal) -> DualActAgent:
        clerk = shop(PAY, call("ask"), "Red tea.", id="clerk")
        boss = ReActAgent("boss", ScriptedModel([accepts]))
        group = {"human": boss, "reactive": clerk, "first": "reactive"}
        return DualActAgent(id="shop", journal=journal, **group)

    with serving(asgi(made(journal))) as url:
        task = started(url, "Buy.")
        assert (asked(task)["agent"], asked(task)["action"]) == ("clerk", "buy")
    with serving(asgi(made(journal))) as url:
        permit = {"approval": asked(task)["approval"], "permit": True}
        sent = rpc(url, "SendMessage", data(permit, taskId=task["id"]))["result"]["task"]
        assert asked(sent)["text"] == "What colour?"
        ended = started(url, "red", taskId=task["id"])
        assert ended["artifacts"][0]["parts"][0]["text"] == "Red tea."
    assert BOUGHT == ["tea"]


@pytest.mark.parametrize(
    ("lost", "expected"), (("the run", "FAILED"), ("the journal", "INPUT_REQUIRED"))
)
def test_a2a_caller_is_answered_although_nobody_can_read_what_its_task_waits_for(
    serve: Serve, tmp_path: Path, lost: str, expected: str
) -> None:
    class Losing(ReActAgent):
        async def reply(self, *args: Any, **named: Any) -> Any:
            reply = await super().reply(*args, **named)
            if lost == "the run":
                journal.delete(str(reply.run_id))
            else:
                journal.close()
            return reply

    with Journal(tmp_path / "runs.db") as journal:
        agent = Losing("shop", ScriptedModel([call("ask")]), actions=[ask], journal=journal)
        assert state(started(serve(asgi(agent)), "Which?")) == f"TASK_STATE_{expected}"


def test_a2a_task_is_cancelled_at_the_moment_at_which_its_run_begins_to_wait(
    serve: Serve, tmp_path: Path
) -> None:
    reading, let_go = threading.Event(), threading.Event()

    class Slow(Journal):
        def waiting(self, *args: Any, **named: Any) -> Any:
            reading.set()
            let_go.wait(20)
            return super().waiting(*args, **named)

    with Slow(tmp_path / "runs.db") as journal:
        url = serve(asgi(shop(PAY, journal=journal)))
        at_once = {"configuration": {"returnImmediately": True}}
        task = rpc(url, "SendMessage", plain("Buy.") | at_once)["result"]["task"]
        assert reading.wait(20)
        cancelled = rpc(url, "CancelTask", {"id": task["id"]})["result"]
        let_go.set()
        assert state(cancelled) == "TASK_STATE_CANCELED"
        assert journal.run(task["id"]).state == "cancelled"


def test_runs_of_an_agent_go_on_while_the_journal_of_another_is_away(
    serve: Serve, tmp_path: Path
) -> None:
    with Journal(tmp_path / "lost.db") as lost, Journal(tmp_path / "runs.db") as journal:
        agent = shop(PAY, PAY, "Bought.", "Bought.", journal=journal, approver=Waiting())
        asyncio.run(agent.reply("Buy."))
        url = serve(asgi([shop(id="other", journal=lost), agent]))
        task = started(url, "Buy.")
        lost.close()
        for wait in journal.waiting():
            journal.answer(wait.run, wait.key, True, by="eva")
        asyncio.run(until(lambda: all(run.state == "done" for run in journal.runs())))
        about, done = {"id": task["id"]}, "TASK_STATE_COMPLETED"
        asyncio.run(until(lambda: state(rpc(url, "GetTask", about)["result"]) == done))
        assert len(journal.runs()) == 2


def test_runs_go_on_after_a_look_at_which_an_agents_own_registry_failed(
    serve: Serve, journal: Journal
) -> None:
    class Away(ActionRegistry):
        """Raises at its looks until it has done so twice."""

        fails = 0

        def get_actions(self, *args: Any) -> Any:
            if threading.current_thread() is not threading.main_thread() and self.fails > 0:
                self.fails -= 1
                raise OSError("the registry is away")
            return super().get_actions(*args)

    agent = shop(PAY, "Bought.", journal=journal, approver=Waiting())
    asyncio.run(agent.reply("Buy."))
    other = ReActAgent("other", ScriptedModel([]), actions=(registry := Away()), journal=journal)
    serve(asgi([other, agent]))
    registry.fails = 2
    asyncio.run(until(lambda: not registry.fails))
    for wait in journal.waiting():
        journal.answer(wait.run, wait.key, True, by="eva")
    asyncio.run(until(lambda: all(run.state == "done" for run in journal.runs())))


def test_run_that_is_permitted_goes_on_beside_one_that_takes_long(
    serve: Serve, tmp_path: Path
) -> None:
    let_go = threading.Event()

    def take(context: Context) -> str:
        return str(let_go.wait(20)) if context.thread == "ada" else "at once"

    with Journal(tmp_path / "runs.db") as journal:
        take_it = Action("take", take, "Take.", access_policy=ACCESS_REQUESTED)
        model = ScriptedModel([call("take")] * 2 + ["Taken."] * 2)
        agent = ReActAgent("shop", model, actions=[take_it], journal=journal, approver=Waiting())
        for user in ("ada", "bo"):
            asyncio.run(agent.reply("Take.", thread=user, run_id=user))
        serve(asgi(agent))
        for user, state in (("ada", "running"), ("bo", "done")):
            (wait,) = journal.waiting(user)
            journal.answer(user, wait.key, True, by="eva")
            asyncio.run(until(lambda: journal.run(user).state == state))  # noqa: B023
        assert journal.run("ada").state == "running"
        let_go.set()
        asyncio.run(until(lambda: journal.run("ada").state == "done"))


@pytest.mark.parametrize("by", ("its caller", "eva"))
def test_a2a_task_whose_caller_has_spent_its_budget_stays_until_there_is_more(
    serve: Serve, journal: Journal, by: str
) -> None:
    whole = Budget(name="callers", model_calls=1, journal=journal)
    clerk = shop(*[PAY] * 2, *["Bought."] * 2, id="clerk", journal=journal, approver=Waiting())
    for _ in range(2):
        asyncio.run(clerk.reply("Buy."))
    others = journal.waiting()
    agents = [shop(PAY, "Bought.", journal=journal), clerk]
    url = serve(asgi(agents, budget=lambda name: whole))
    task = started(url, "Buy.")
    permit = data({"approval": asked(task)["approval"], "permit": True}, taskId=task["id"])
    if by == "its caller":
        assert rpc(url, "SendMessage", permit)["error"]["code"] == -32029
        assert len(journal.waiting(task["id"])) == 1
    else:
        journal.answer(task["id"], asked(task)["approval"], True, by=by)
    for each in others:  # when the second one has gone on, the doors have looked at all
        journal.answer(each.run, each.key, True, by="eva")
        asyncio.run(until(lambda: journal.run(each.run).state == "done"))  # noqa: B023
    got = rpc(url, "GetTask", {"id": task["id"]})["result"]
    assert (state(got), BOUGHT) == ("TASK_STATE_INPUT_REQUIRED", ["tea"] * 2)
    journal.budgets.limit("callers", model_calls=9)
    if by == "its caller":
        rpc(url, "SendMessage", permit)
    asyncio.run(until(lambda: journal.run(task["id"]).state == "done"))
    assert BOUGHT == ["tea"] * 3


# -- AG-UI -----------------------------------------------------------------------------------------


def test_ag_ui_interrupt_outlives_its_server_and_its_conversation_goes_on(tmp_path: Path) -> None:
    """Each of two interrupts names its call; both answers together end the run."""
    seen: list[Any] = []

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        seen[:] = [each["content"] for each in messages if each["role"] != "tool"]
        if messages[-1]["role"] == "tool":
            return "Bought."
        return [call("buy", item="tea"), call("ask")]

    def made(journal: Journal) -> ReActAgent:
        agent = shop(journal=journal)
        agent.model = ScriptedModel(answer)
        return agent

    said = (user("Hello."), {"id": "a", "role": "assistant", "content": "Good day."}, user("Buy."))
    with Journal(tmp_path / "runs.db") as journal:
        with serving(asgi(made(journal))) as url:
            events = run(url, *said)
        asks = events[-1]["outcome"]["interrupts"]
        calls = {e["toolCallName"]: e["toolCallId"] for e in events if "toolCallName" in e}
        assert {each["reason"]: each["toolCallId"] for each in asks} == {
            "approval": calls["buy"],
            "question": calls["ask"],
        }
        assert [each.kind for each in journal.waiting()] == ["approval", "question"]
        yes = {"approval": {"approved": True}, "question": {"answer": "red"}}
        answers = [
            {"interruptId": each["id"], "status": "resolved", "payload": yes[each["reason"]]}
            for each in asks
        ]
        with serving(asgi(made(journal))) as url:
            run(url, *said, resume=answers, threadId="another", status=400)
            run(url, *said, resume=[answers[0], answers[0]], status=400)
            events = run(url, *said, resume=answers)
            assert events[-1]["outcome"] == {"type": "success"}
            assert "TOOL_CALL_START" not in [each["type"] for each in events]
            assert "".join(each.get("delta", "") for each in events) == "Bought."
    assert BOUGHT == ["tea"]
    assert seen[:3] == ["Hello.", "Good day.", "Buy."]


def test_ag_ui_answer_goes_on_in_its_own_request_also_beside_a_look_of_the_server(
    serve: Serve, tmp_path: Path
) -> None:
    begun, answered, let_go = threading.Event(), threading.Event(), threading.Event()

    class Slow(Journal):
        def answer(self, *args: Any, **named: Any) -> None:
            super().answer(*args, **named)
            begun.wait(5)  # the server looks for what can go on every two seconds
            answered.set()

    def take() -> str:
        begun.set()
        return "at once" if answered.is_set() else str(let_go.wait(20))

    with Slow(tmp_path / "runs.db") as journal:
        take_it = Action("take", take, "Take.", access_policy=ACCESS_REQUESTED)
        model = ScriptedModel([call("take"), "Taken."])
        url = serve(asgi(ReActAgent("shop", model, actions=[take_it], journal=journal)))
        (asked,) = run(url, user("Take."))[-1]["outcome"]["interrupts"]
        entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
        events = run(url, user("Take."), resume=[entry])
        let_go.set()
        assert events[-1]["outcome"] == {"type": "success"}


def test_ag_ui_client_whose_answer_comes_after_the_operators_gets_the_reply(
    serve: Serve, journal: Journal
) -> None:
    """While its run goes on, and after its end."""
    url = serve(asgi(shop(PAY, "Bought.", journal=journal)))
    (asked,) = run(url, user("Buy."))[-1]["outcome"]["interrupts"]
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": False}}
    for _ in range(2):
        events = run(url, user("Buy."), resume=[entry])
        assert "".join(each.get("delta", "") for each in events) == "Bought."
        assert events[-1]["outcome"] == {"type": "success"}
    run(url, user("Buy."), resume=[entry], threadId="another", status=400)
    assert BOUGHT == ["tea"]


def test_ag_ui_client_is_asked_anew_by_the_changed_program_that_goes_on(
    journal: Journal,
) -> None:
    with serving(asgi(shop(PAY, "Bought.", journal=journal))) as url:
        (asked,) = run(url, user("Buy."))[-1]["outcome"]["interrupts"]
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    changed = shop(PAY, "Bought.", journal=journal, system_prompt="Be brief.")
    with serving(asgi(changed)) as url:
        for kind in ("operator", "approval"):
            asyncio.run(until(lambda: [e.kind for e in journal.waiting()] == [kind]))  # noqa: B023
            if kind == "operator":
                journal.answer(wait.run, "operator:program", "fork", by="eva")
        entry = {"interruptId": asked["id"], "status": "resolved"}
        entry["payload"] = {"approved": True}
        events = run(url, user("Buy."), resume=[entry])
        assert "".join(each.get("delta", "") for each in events) == "Bought."
        assert BOUGHT == ["tea"]


def test_a2a_task_of_a_changed_program_goes_on_soon_after_a_permission_by_the_operator(
    journal: Journal,
) -> None:
    with serving(asgi(shop(PAY, "Bought.", journal=journal))) as url:
        started(url, "Buy.")
        asyncio.run(until(lambda: bool(journal.waiting())))
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    changed = shop(PAY, "Bought.", journal=journal, system_prompt="Be brief.")

    def waits_at_rest(kind: str) -> bool:
        kinds = [each.kind for each in journal.waiting()]
        return kinds == [kind] and not journal.run(wait.run).held

    with serving(asgi(changed)):
        for kind, key, value in (
            ("operator", "operator:program", "fork"),
            ("approval", wait.key, True),
        ):
            asyncio.run(until(partial(waits_at_rest, kind)))
            journal.answer(wait.run, key, value, by="eva")
        asyncio.run(until(lambda: journal.run(wait.run).state == "done"))
    assert BOUGHT == ["tea"]


@pytest.mark.parametrize("breaks", (False, True))
def test_ag_ui_client_that_sends_its_own_answer_again_gets_the_reply(
    serve: Serve, journal: Journal, breaks: bool
) -> None:
    """Its connection broke while its run went on, or after the end; its other answer is refused."""
    answering, left = threading.Event(), threading.Event()

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        if messages[-1]["role"] != "tool":
            return call("buy", item="tea")
        answering.set()
        assert not breaks or left.wait(20)
        return "Bought."

    agent = shop(journal=journal)
    agent.model = ScriptedModel(answer)
    url = serve(asgi(agent))
    (asked,) = run(url, user("Buy."))[-1]["outcome"]["interrupts"]
    entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
    if breaks:
        given = {"threadId": "t", "runId": "r", "messages": [user("Buy.")], "resume": [entry]}
        with httpx2.stream("POST", f"{url}/ag-ui", json=given):
            assert answering.wait(20)
        left.set()
    for _ in range(2):
        events = run(url, user("Buy."), resume=[entry])
        assert "".join(each.get("delta", "") for each in events) == "Bought."
        assert events[-1]["outcome"] == {"type": "success"}
    other = {**entry, "payload": {"approved": False}}
    run(url, user("Buy."), resume=[other], status=400)
    assert BOUGHT == ["tea"]


@pytest.mark.parametrize("breaks", (False, True))
def test_ag_ui_client_without_a_journal_that_sends_its_own_answer_again_reads_what_came_of_it(
    serve: Serve, breaks: bool
) -> None:
    answering = threading.Event()

    async def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        if messages[-1]["role"] != "tool":
            return call("buy", item="tea")
        answering.set()
        if breaks:
            await asyncio.Event().wait()
        return "Bought."

    agent = shop()
    agent.model = ScriptedModel(answer)
    url = serve(asgi(agent))
    (asked,) = run(url, user("Buy."))[-1]["outcome"]["interrupts"]
    entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
    given = {"threadId": "t", "runId": "r", "messages": [user("Buy.")], "resume": [entry]}
    with httpx2.stream("POST", f"{url}/ag-ui", json=given) as first:
        assert answering.wait(20)
        refused = httpx2.post(f"{url}/ag-ui", json=given)
        if breaks:
            assert (refused.status_code, "another request" in refused.text) == (409, True)
        else:
            first.read()

    def again() -> Any:
        return httpx2.post(f"{url}/ag-ui", json={**given, "runId": "again"})

    asyncio.run(until(lambda: again().status_code == 200))
    *_, last = (json.loads(line[5:]) for line in again().text.splitlines() if line[:1] == "d")
    if breaks:
        assert (last["type"], last["code"]) == ("RUN_ERROR", "cancelled")
    else:
        assert (last["type"], last["runId"]) == ("RUN_FINISHED", "again")
        assert '"delta":"Bought."' in again().text
    run(url, user("Buy."), resume=[{**entry, "payload": {"approved": False}}], status=400)
    run(url, user("Buy."), resume=[entry], threadId="another", status=400)
    assert BOUGHT == ["tea"]


# -- MCP -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ("legacy", "auto"))
def test_mcp_client_is_asked_by_elicitation_while_its_run_waits(
    serve: Serve, journal: Journal, mode: str
) -> None:
    waited: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        waited.extend(journal.waiting())
        return types.ElicitResult(action="accept", content={"permit": True})

    async def main() -> Any:
        url = f"{serve(asgi(shop(PAY, 'Bought.', journal=journal)))}/mcp"
        async with mcp.Client(url, mode=mode, elicitation_callback=elicit) as made:
            return await made.call_tool("say", {"content": "Buy."})

    result = asyncio.run(main())
    assert (result.is_error, result.content[0].text) == (False, "Bought.")
    (wait,) = waited
    assert (journal.run(wait.run).state, BOUGHT) == ("done", ["tea"])


@pytest.mark.parametrize("mode", ("legacy", "auto"))
def test_mcp_client_whose_answer_comes_after_the_operators_gets_the_reply(
    serve: Serve, journal: Journal, mode: str
) -> None:

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        (wait,) = journal.waiting()
        journal.answer(wait.run, wait.key, True, by="eva")
        return types.ElicitResult(action="decline")

    async def main() -> Any:
        url = f"{serve(asgi(shop(PAY, 'Bought.', journal=journal)))}/mcp"
        async with mcp.Client(url, mode=mode, elicitation_callback=elicit) as made:
            return await made.call_tool("say", {"content": "Buy."})

    result = asyncio.run(main())
    assert (result.is_error, result.content[0].text) == (False, "Bought.")
    assert BOUGHT == ["tea"]


def test_mcp_client_that_sends_its_own_answer_again_gets_the_reply(
    serve: Serve, tmp_path: Path
) -> None:
    """Its first request broke while the model answered, which cancelled the reply."""

    class Slow(Hanging):
        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            if messages[-1]["role"] != "tool":
                return ModelReply("", (call("buy", item="tea"),))
            if not self.begun.is_set():
                await super().complete(messages)
            return ModelReply("Bought.")

    async def main(journal: Journal) -> Any:
        agent = shop(journal=journal)
        agent.model = model = Slow()
        said: Any = ("say", {"content": "Buy."})
        async with mcp.Client(f"{serve(asgi(agent))}/mcp", elicitation_callback=nobody) as client:
            asked = await client.session.call_tool(*said, allow_input_required=True)
            yes = {"question": types.ElicitResult(action="accept", content={"permit": True})}
            answer: Any = {"input_responses": yes, "request_state": asked.request_state}
            first = asyncio.ensure_future(client.session.call_tool(*said, **answer))
            await model.has_begun()
            first.cancel()
            await until(lambda: journal.runs()[0].state == "cancelled")
            return [await client.session.call_tool(*said, **answer) for _ in range(2)]

    async def nobody(context: Any, params: Any) -> types.ElicitResult:
        raise NotImplementedError

    with Journal(tmp_path / "runs.db") as journal:
        results = asyncio.run(main(journal))
    assert [each.content[0].text for each in results] == ["Bought."] * 2
    assert BOUGHT == ["tea"]


def test_mcp_client_without_a_journal_that_sends_its_own_answer_again_gets_the_reply(
    serve: Serve,
) -> None:
    async def nobody(context: Any, params: Any) -> types.ElicitResult:
        raise NotImplementedError

    async def main() -> list[Any]:
        url = f"{serve(asgi(shop(PAY, 'Bought.')))}/mcp"
        said: Any = ("say", {"content": "Buy."})
        async with mcp.Client(url, elicitation_callback=nobody) as client:
            asked = await client.session.call_tool(*said, allow_input_required=True)
            yes = {"question": types.ElicitResult(action="accept", content={"permit": True})}
            answer: Any = {"input_responses": yes, "request_state": asked.request_state}
            results = [await client.session.call_tool(*said, **answer) for _ in range(3)]
            answer["input_responses"] = {"question": types.ElicitResult(action="decline")}
            with pytest.raises(mcp.MCPError, match="no call waits for this answer"):
                await client.session.call_tool(*said, **answer)
            return results

    assert [each.content[0].text for each in asyncio.run(main())] == ["Bought."] * 3
    assert BOUGHT == ["tea"]


def test_mcp_client_whose_person_leaves_the_form_open_gets_the_reply_once_an_operator_answers(
    serve: Serve, journal: Journal
) -> None:

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        (wait,) = journal.waiting()
        journal.answer(wait.run, wait.key, True, by="eva")
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> Any:
        url = f"{serve(asgi(shop(PAY, 'Bought.', journal=journal)))}/mcp"
        async with mcp.Client(url, mode="legacy", elicitation_callback=elicit) as made:
            return await made.call_tool("say", {"content": "Buy."})

    result = asyncio.run(main())
    assert (result.is_error, result.content[0].text) == (False, "Bought.")
    assert BOUGHT == ["tea"]


@pytest.mark.parametrize("mode", ("legacy", "auto"))
def test_mcp_client_gets_the_reply_of_a_run_that_another_process_works_on(
    serve: Serve, tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "runs.db"
    with Journal(path) as journal, Journal(path) as other:

        async def elicit(context: Any, params: Any) -> types.ElicitResult:
            (wait,) = other.waiting()
            with other.file.reading() as db:
                number = other.file.run_number(db, wait.run)
            assert other.held_runs.take_lease(number)
            other.answer(wait.run, wait.key, True, by="eva")
            asyncio.get_running_loop().call_later(1, other.held_runs.release, number)
            return types.ElicitResult(action="decline")

        async def main() -> Any:
            url = f"{serve(asgi(shop(PAY, 'Bought.', journal=journal)))}/mcp"
            async with mcp.Client(url, mode=mode, elicitation_callback=elicit) as made:
                return await made.call_tool("say", {"content": "Buy."})

        result = asyncio.run(main())
        assert (result.is_error, result.content[0].text) == (False, "Bought.")


def test_mcp_client_that_cannot_ask_reads_what_waits_and_for_whom(
    serve: Serve, journal: Journal
) -> None:

    async def main() -> Any:
        url = f"{serve(asgi(shop(PAY, 'Bought.', journal=journal)))}/mcp"
        async with mcp.Client(url) as made:
            return await made.call_tool("say", {"content": "Buy."})

    text = asyncio.run(main()).content[0].text
    assert text.startswith('waiting for the approval of buy(item="tea"), since ')
    assert "its operator answers" in text
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, False, by="eva")
    assert BOUGHT == []


# -- OpenAI's interface ----------------------------------------------------------------------------


def test_openai_client_reads_what_waits_and_for_whom(serve: Serve, journal: Journal) -> None:
    agent = shop(PAY, "Bought.", journal=journal, approver=Waiting(who="eva"))
    chat = client(serve(asgi(agent))).chat.completions
    made = chat.create(model="shop", messages=[{"role": "user", "content": "Buy."}])
    said = made.choices[0].message.content or ""
    assert said.startswith('waiting for the approval of buy(item="tea"), by eva, since ')
    assert [each.action for each in journal.waiting()] == ["buy"]


def test_openai_response_is_in_progress_until_somebody_answers_and_then_fetched(
    serve: Serve, journal: Journal
) -> None:
    seen: list[Any] = []

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        seen[:] = [each["content"] for each in messages if each["role"] != "tool"]
        return "Bought." if messages[-1]["role"] == "tool" else call("buy", item="tea")

    agent = shop(journal=journal)
    agent.model = ScriptedModel(answer)
    responses = client(serve(asgi(agent))).responses
    made = responses.create(model="shop", input="Buy.", instructions="Be brief.")
    assert made.status == "in_progress"
    assert made.output_text.startswith('waiting for the approval of buy(item="tea"), since ')
    assert responses.retrieve(made.id).status == "in_progress"
    with responses.create(model="shop", input="Buy more.", stream=True) as stream:
        assert [each.type for each in stream][-1] == "response.in_progress"
    with pytest.raises(openai.ConflictError, match="is in progress, waiting for the approval"):
        responses.create(model="shop", input="And?", previous_response_id=made.id)
    (wait, _) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    asyncio.run(until(lambda: journal.run(wait.run).state == "done"))
    got = responses.retrieve(made.id)
    assert (got.status, got.output_text, BOUGHT) == ("completed", "Bought.", ["tea"])
    assert seen[:2] == ["Be brief.", "Buy."]
    more = responses.create(model="shop", input="Again.", previous_response_id=made.id)
    assert more.status == "in_progress"
    assert "Bought." in json.dumps(seen)


def test_openai_group_that_goes_on_later_hears_what_was_said_once(
    serve: Serve, journal: Journal
) -> None:
    seen: list[Any] = []

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        seen[:] = [str(each["content"]) for each in messages if each["role"] != "system"]
        if messages[-1]["role"] != "tool" and "Buy." in seen[-1]:
            return call("buy", item="tea")
        return "Bought."

    clerk = shop(id="clerk")
    clerk.model = ScriptedModel(answer)
    group = Conversation([clerk], id="shop", until=MaxTurns(1), journal=journal)
    responses = client(serve(asgi(group))).responses
    made = responses.create(model="shop", input="Buy.")
    assert made.status == "in_progress"
    (wait,) = journal.waiting()
    journal.answer(wait.run, wait.key, True, by="eva")
    asyncio.run(until(lambda: journal.run(wait.run).state == "done"))
    responses.create(model="shop", input="And?", previous_response_id=made.id)
    assert len([each for each in seen if "Buy." in each]) == 1


def test_openai_caller_cancels_its_own_response_that_waits(serve: Serve, journal: Journal) -> None:
    tokens = {"ada": "t-ada", "bob": "t-bob"}
    approver = Waiting(until=3600)
    url = serve(asgi(shop(PAY, "Hello.", journal=journal, approver=approver), token=tokens))
    ada, bob = (client(url, each).responses for each in tokens.values())
    made = ada.create(model="shop", input="Buy.")
    with pytest.raises(openai.NotFoundError):
        bob.cancel(made.id)
    assert ada.retrieve(made.id).status == "in_progress"
    (wait,) = journal.waiting()
    assert [ada.cancel(made.id).status for _ in range(2)] == ["cancelled"] * 2
    assert ada.retrieve(made.id).status == "cancelled"
    with pytest.raises(StateError, match="answered any more: the run is cancelled"):
        journal.answer(wait.run, wait.key, True)
    assert (journal.waiting(), BOUGHT) == ([], [])
    assert journal.run(made.id.removeprefix("resp_")).state == "cancelled"
    ended = ada.create(model="shop", input="Hi.")
    with pytest.raises(openai.BadRequestError, match="has ended"):
        ada.cancel(ended.id)
    with pytest.raises(openai.BadRequestError, match="was cancelled, so it has no answer: leave"):
        ada.create(model="shop", input="And?", previous_response_id=made.id)


# -- named callers ---------------------------------------------------------------------------------


def test_named_caller_answers_its_questions_and_permits_only_if_the_application_says_so(
    serve: Serve, tmp_path: Path
) -> None:
    """Whoever runs the agent permits for the others, without a journal nobody does."""
    tokens = {"ada": "t-ada", "bob": "t-bob"}
    ada, bob = ({"Authorization": f"Bearer {each}"} for each in tokens.values())
    with Journal(tmp_path / "runs.db") as journal:
        agent = shop(PAY, PAY, call("ask"), "Red it is.", "Bought.", journal=journal)
        url = serve(asgi(agent, token=tokens, approves=["ada"]))

        def sent(given: Any, who: dict[str, str]) -> Any:
            return rpc(url, "SendMessage", given, **who)

        mine = sent(plain("Buy."), ada)["result"]["task"]
        task = sent(plain("Buy."), bob)["result"]["task"]
        (part,) = task["status"]["message"]["parts"]
        assert "its operator answers" in part["text"]
        (wait,) = journal.waiting(task["id"])
        permit = {"approval": wait.key, "permit": True}
        assert sent(data(permit, taskId=task["id"]), bob)["error"]["code"] == -32602
        question = sent(plain("Which?"), bob)["result"]["task"]
        ended = sent(plain("red", taskId=question["id"]), bob)["result"]["task"]
        assert state(ended) == "TASK_STATE_COMPLETED"
        assert BOUGHT == []
        permit = {"approval": asked(mine)["approval"], "permit": True}
        assert sent(data(permit, taskId=mine["id"]), bob)["error"]["code"] == -32001
        ended = sent(data(permit, taskId=mine["id"]), ada)["result"]["task"]
        assert (state(ended), BOUGHT) == ("TASK_STATE_COMPLETED", ["tea"])
    url = serve(asgi(shop(PAY, "No."), token=tokens))
    ended = rpc(url, "SendMessage", plain("Buy."), **bob)["result"]["task"]
    assert (state(ended), BOUGHT) == ("TASK_STATE_COMPLETED", [])
