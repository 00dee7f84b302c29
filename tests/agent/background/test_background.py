"""Sub-agents that work in the background: what their caller's model is told, and when."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journal.conftest import Place
from moothall import (
    Action,
    Budget,
    CallbackApprover,
    Context,
    Journal,
    Later,
    ReActAgent,
    Reply,
    ScriptedModel,
    action,
)
from moothall.agents.replies.sub_agents.resumable import ResumedRun
from moothall.foundation.errors import ConfigError
from moothall.models.protocol import Call, ModelReply, Usage

Answer = Callable[[list[dict[str, Any]]], Any]


class Gated:
    """A model of a helper that answers once its gate is open, and counts those that wait."""

    name = "gated"
    context_tokens = None

    def __init__(self, answer: Answer | None = None) -> None:
        self.gate = asyncio.Event()
        self.working = self.most = 0
        self.prompt = ""
        self._answer = answer or (lambda messages: f"{messages[-1]['content']} is done")

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> ModelReply:
        self.prompt = str(messages)
        self.working += 1
        self.most = max(self.most, self.working)
        try:
            await self.gate.wait()
        finally:
            self.working -= 1
        answer = self._answer(messages)
        if isinstance(answer, Call):
            return ModelReply(calls=(answer,))
        return ModelReply(text=answer, usage=Usage(3, 4))


def giving(*tasks: str, then: Any = "I go on.") -> ScriptedModel:
    """Return a model that gives tasks, waits if `then` is a call, and repeats what it has heard."""

    def answer(messages: list[dict[str, Any]], _: Any) -> Any:
        answered = sum(each["role"] == "assistant" for each in messages)
        if answered == 0:
            return tuple(Call(str(n), "helper", {"text": task}) for n, task in enumerate(tasks))
        heard = [each["content"] for each in messages if "background" in str(each["content"])]
        if len(heard) == len(tasks):
            return " | ".join(heard)
        return then if isinstance(then, str) else then(answered)

    return ScriptedModel(answer)


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not done():  # noqa: ASYNC110 - what it looks at is in no event
            await asyncio.sleep(0)


def rows_in(journal: str) -> int:
    """Count the rows of runs in a journal's file, or those of a server that others can see."""
    if "://" in journal:
        with Journal(journal) as opened:
            return len(opened.runs())
    with sqlite3.connect(journal) as db:
        tables = ("runs", "entries", "waits", "texts")
        return sum(db.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in tables)


def waiting_for(done: Callable[[], bool]) -> Action:
    @action(idempotent=True, polling=True)
    async def pause() -> str:
        """Wait until the helpers have done something."""
        await asyncio.sleep(0)
        await until(done)
        return "later"

    return Action("pause", pause, "Wait.", polling=True, idempotent=True, guard=())


def pause(number: int) -> Call:
    return Call(f"p{number}", "pause", {})


def results(reply: Reply) -> list[str]:
    return [str(each["content"]) for each in reply.messages if each["role"] == "tool"]


@pytest.fixture(params=("no journal", "its journal", "one journal"))
def journals(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """The journals of a caller and its helper."""
    if request.param == "no journal":
        return None, None
    journal = Journal(tmp_path / "runs.db")
    return journal, journal if request.param == "one journal" else None


def chief(model: Any, *helpers: ReActAgent, actions: Any = (), **options: Any) -> ReActAgent:
    asking = [each.as_action(background=True) for each in helpers]
    return ReActAgent("chief", model, actions=[*asking, *actions], **options)


def test_background_call_gives_an_id_and_a_later_turn_the_result(journals: Any) -> None:
    async def main() -> Reply:
        model = Gated()

        def open_gate() -> bool:
            model.gate.set()
            return model.working == 0

        helper = ReActAgent("helper", model, journal=journals[1])
        pausing = [waiting_for(open_gate)]
        agent = chief(giving("A", "B", then=pause), helper, actions=pausing, journal=journals[0])
        return await agent.reply("Go.", thread="t", run_id="r")

    reply = asyncio.run(main())
    ids = ["r/1.0", "r/1.1"] if journals[0] else ["r/1", "r/2"]
    assert results(reply)[:2] == [f'{{"id": "{id}", "state": "working"}}' for id in ids]
    heard = {
        f"Result of helper ({id}), in the background:\n{t} is done"
        for id, t in zip(ids, "AB", strict=True)
    }
    assert {*reply.text.split(" | ")} == heard
    assert [each["role"] for each in reply.messages if "Result of" in each["content"][:9]] == [
        "user",
        "user",
        "assistant",
    ]
    assert (reply.under_way, reply.detail) == ((), "")


def test_background_result_after_the_reply_is_told_to_the_next_of_its_thread(journals: Any) -> None:
    async def main() -> tuple[Reply, Reply, Reply, Reply]:
        model = Gated()
        helper = ReActAgent("helper", model, journal=journals[1])
        agent = chief(giving("A"), helper, journal=journals[0])
        first = await agent.reply("Go.", thread="t", run_id="r")
        still = await agent.reply("And?", thread="t")
        model.gate.set()
        async with asyncio.timeout(30):
            last = still
            while "in the background" not in last.text:
                last = await agent.reply("And?", thread="t")
        return first, still, last, await agent.reply("And?", thread="t")

    first, still, last, after = asyncio.run(main())
    id = "r/1.0" if journals[0] else "r/1"
    assert first.under_way == still.under_way == (id,)
    assert f"helper ({id})" in first.detail
    assert last.text == f"Result of helper ({id}), in the background:\nA is done"
    assert (last.under_way, after.under_way) == ((), ())
    assert [each["role"] for each in after.messages] == ["user", "assistant"]


def test_background_run_is_kept_with_what_its_caller_did_not_hear(tmp_path: Path) -> None:
    async def main() -> Reply:
        agent = chief(giving("A"), ReActAgent("helper", Gated()), journal=tmp_path / "runs.db")
        return await agent.reply("Go.", run_id="r")

    asyncio.run(main())
    with Journal(tmp_path / "runs.db") as journal:
        assert journal.replay("r").under_way == ("r/1.0",)
        assert journal.run("r/1.0").agent == "helper"
        assert journal.run("r/1.0").state == "stopped"  # its loop has ended


@pytest.mark.parametrize("shared", (False, True))
def test_resume_runs_goes_on_with_background_work_and_wakes_who_asked(
    shared: bool, tmp_path: Path
) -> None:
    async def main(model: Any) -> list[ResumedRun]:
        journal, helping = Journal(tmp_path / "runs.db"), Gated()
        helper = ReActAgent("helper", helping, journal=journal if shared else None)
        agent = chief(model, helper, journal=journal, max_background=2)
        if not journal.runs():
            await agent.reply("Go.", thread="t", run_id="r")
            return []
        if shared:  # it leaves them to who asked
            assert await helper.resume_runs() == []
        resuming = asyncio.ensure_future(agent.resume_runs())
        await until(lambda: helping.working >= 2)
        helping.gate.set()
        resumed = await resuming
        assert helping.most == 2
        assert await agent.resume_runs() == await agent.resume_decided() == []
        return resumed

    asyncio.run(main(giving("A", "B", "C")))  # the third has not begun
    resumed = asyncio.run(main(ScriptedModel(["I see."])))
    ids = [*(f"r/1.{n}" for n in range(3)), "r/woken-1"]
    assert {each.run.id: each.outcome for each in resumed} == dict.fromkeys(ids, "resumed")
    woken = next(each.reply for each in resumed if each.run.id == ids[-1])
    assert woken is not None
    assert sorted(str(each["content"]) for each in woken.messages if each["role"] == "user") == [
        f"Result of helper (r/1.{n}), in the background:\n{'ABC'[n]} is done" for n in range(3)
    ]
    assert (woken.text, woken.under_way) == ("I see.", ())


def test_background_result_wakes_an_agent_whose_reply_has_ended(journals: Any) -> None:
    async def main() -> tuple[Reply, Reply, Reply, float]:
        model, woken = Gated(), asyncio.get_running_loop().create_future()

        def take(event: Any) -> None:
            if event.kind == "done" and not woken.done():
                woken.set_result(event.reply)

        helper = ReActAgent("helper", model, journal=journals[1])
        agent = chief(giving("A"), helper, journal=journals[0])
        budget = Budget(model_calls=20)
        first = await agent.reply("Go.", thread="t", run_id="r", budget=budget)
        agent.watch(take)
        model.gate.set()
        async with asyncio.timeout(30):
            reply = await woken
        return first, reply, await agent.reply("And?", thread="t"), budget.spent.model_calls

    first, woken, after, spent = asyncio.run(main())
    id = "r/1.0" if journals[0] else "r/1"
    text = f"Result of helper ({id}), in the background:\nA is done"
    assert (first.under_way, woken.under_way) == ((id,), ())
    assert (woken.run_id, woken.text) == ("r/woken-1", text)
    assert [each["role"] for each in woken.messages] == ["user", "assistant"]
    assert len(after.messages) == 2
    assert spent == 4  # two of the first reply, one of the helper, one of the woken


def test_background_failure_is_told_with_its_reason(journals: Any) -> None:
    def fail(messages: Any) -> str:
        raise ValueError("no such book")

    async def main() -> Reply:
        model = Gated(fail)
        model.gate.set()
        helper = ReActAgent("helper", model, journal=journals[1])
        pausing = [waiting_for(lambda: True)]
        agent = chief(
            giving("A", then=pause),
            helper,
            actions=pausing,
            journal=journals[0],
            max_iterations=999,
        )
        return await agent.reply("Go.", run_id="r")

    reply = asyncio.run(main())
    id = "r/1.0" if journals[0] else "r/1"
    head = f"helper ({id}), in the background, has no result (error): "
    assert reply.text == f"{head}ValueError: no such book"


def test_background_work_beyond_max_background_begins_when_a_place_is_free(journals: Any) -> None:
    async def main() -> tuple[Reply, int]:
        model = Gated()

        def open_gate() -> bool:
            if model.working == 3:
                model.gate.set()
            return model.gate.is_set()

        pausing = [waiting_for(open_gate)]
        agent = chief(
            giving(*"ABCDEFGH", then=pause),
            ReActAgent("helper", model, journal=journals[1]),
            actions=pausing,
            journal=journals[0],
            max_iterations=9999,
            max_background=3,
        )
        return await agent.reply("Go.", run_id="r"), model.most

    reply, most = asyncio.run(main())
    assert most == 3
    assert reply.text.count("is done") == 8


@pytest.mark.long
def test_background_work_of_a_hundred_is_told_once_each(journals: Any) -> None:
    async def main() -> tuple[Reply, int]:
        model = Gated()

        def open_gate() -> bool:
            if model.working == 100:
                model.gate.set()
            return model.gate.is_set()

        agent = chief(
            giving(*(f"T{n}" for n in range(100)), then=pause),
            ReActAgent("helper", model, journal=journals[1]),
            actions=[waiting_for(open_gate)],
            journal=journals[0],
            max_iterations=9999,
            max_background=100,
        )
        return await agent.reply("Go.", run_id="r"), model.most

    reply, most = asyncio.run(main())
    heard = [str(each["content"]) for each in reply.messages if each["role"] == "user"][1:]
    assert (most, len(heard), len({*heard})) == (100, 100, 100)


def test_background_work_spends_from_its_callers_budget(journals: Any) -> None:
    async def main() -> tuple[Reply, Budget]:
        model, budget = Gated(), Budget(model_calls=4)
        model.gate.set()
        helper = ReActAgent("helper", model, journal=journals[1])
        agent = chief(
            giving("A", "B", "C", "D", then=pause),
            helper,
            actions=[waiting_for(lambda: True)],
            journal=journals[0],
        )
        return await agent.reply("Go.", run_id="r", budget=budget), budget

    reply, budget = asyncio.run(main())
    assert reply.stop_reason == "budget"
    assert budget.spent.model_calls == 4


def test_background_is_foreground_where_no_later_turn_hears_of_it(journals: Any) -> None:
    """Where a client keeps the conversation, and for the helpers of what works there itself."""

    async def main() -> Reply:
        model = Gated()
        model.gate.set()
        helper = ReActAgent("helper", model, journal=journals[1])
        agent = chief(giving("A"), helper, journal=journals[0])
        return await agent.reply("Go.", history=[{"role": "user", "content": "Hello."}])

    assert results(asyncio.run(main())) == ["A is done"]


def test_background_work_that_a_person_cancels_is_told(tmp_path: Path) -> None:
    async def main() -> Reply:
        journal, model = Journal(tmp_path / "runs.db"), Gated()

        def cancel() -> bool:
            if model.working and journal.run("r/1.0").state == "running":
                journal.cancel("r/1.0", by="eva")
            return journal.run("r/1.0").state == "cancelled"

        agent = chief(
            giving("A", then=pause),
            ReActAgent("helper", model),
            actions=[waiting_for(cancel)],
            journal=journal,
        )
        return await agent.reply("Go.", run_id="r")

    head = "helper (r/1.0), in the background, has no result (cancelled): "
    assert asyncio.run(main()).text.startswith(f"{head}eva ")


@pytest.mark.parametrize("is_over", (False, True))
def test_background_work_ends_with_the_run_that_asked_for_it(is_over: bool, tmp_path: Path) -> None:
    async def main() -> tuple[str, Reply]:
        journal, model = Journal(tmp_path / "runs.db"), Gated()
        agent = chief(
            giving("A", then="I go on." if is_over else pause),
            ReActAgent("helper", model),
            actions=[waiting_for(lambda: asking.done())],
            journal=journal,
        )
        asking = asyncio.ensure_future(agent.reply("Go.", thread="t", run_id="r"))
        await until(lambda: model.working > 0 and is_over <= asking.done())
        await asyncio.to_thread(journal.cancel, "r")
        await until(lambda: asking.done() and journal.run("r/1.0").state == "cancelled")
        return journal.run("r").state, await agent.reply("And?", thread="t")

    state, after = asyncio.run(main())
    assert state == ("done" if is_over else "cancelled")
    assert after.under_way == ()
    assert not any("in the background" in str(each["content"]) for each in after.messages)


def test_background_work_ends_with_a_reply_that_is_cancelled(journals: Any) -> None:
    async def main() -> Reply:
        model = Gated()
        agent = chief(
            giving("A", then=pause),
            ReActAgent("helper", model, journal=journals[1]),
            actions=[waiting_for(lambda: asking.done())],
            journal=journals[0],
        )
        asking = asyncio.ensure_future(agent.reply("Go.", thread="t", run_id="r"))
        await until(lambda: model.working > 0)
        asking.cancel()
        await until(
            lambda: (
                asking.done()
                and (journals[0] is None or journals[0].run("r/1.0").state == "cancelled")
            )
        )
        model.gate.set()
        return await agent.reply("And?", thread="t")

    after = asyncio.run(main())
    assert after.under_way == ()
    assert not any("in the background" in str(each["content"]) for each in after.messages)


def test_background_result_has_the_sources_of_what_was_read(journals: Any) -> None:
    @action(outside=True, idempotent=True)
    async def read_page() -> str:
        """Read a page."""
        return "Pay to DE02 1203 0000 0000 2020 51."

    async def main() -> Reply:
        model = Gated(
            lambda messages: (
                str(messages[-1]["content"])
                if messages[-1]["role"] == "tool"
                else Call("1", "read_page", {})
            )
        )
        model.gate.set()
        helper = ReActAgent("helper", model, actions=[read_page], journal=journals[1])
        agent = chief(
            giving("A", then=pause),
            helper,
            actions=[waiting_for(lambda: True)],
            journal=journals[0],
            max_iterations=9999,
        )
        return await agent.reply("Go.", run_id="r")

    assert asyncio.run(main()).outside == ("read_page",)


@pytest.mark.parametrize(
    "options",
    (
        {"background": 1},
        {"background": True, "fork": True},
        {"background_after": -1},
        {"background_after": 5, "fork": True},
    ),
)
def test_background_options_that_are_not_possible_are_refused(options: Any) -> None:
    helper = ReActAgent("helper", ScriptedModel([]))
    with pytest.raises(ConfigError, match="background"):
        helper.as_action(**options)


@pytest.mark.parametrize("by", ("id", "thread"))
@pytest.mark.parametrize("state", ("running", "waiting", "done"))
def test_background_work_is_deleted_with_the_run_that_asked_for_it(
    state: str, by: str, place: Place
) -> None:
    @action
    async def ask_later() -> str:
        """Ask for the result, which comes later."""
        raise Later("result")

    async def main() -> list[str]:
        journal = Journal(place("runs"))
        model = Gated((lambda messages: Call("1", "ask_later", {})) if state == "waiting" else None)
        agent = chief(
            giving("A"), ReActAgent("helper", model, actions=[ask_later]), journal=journal
        )
        await agent.reply("Go.", thread="t", run_id="r")
        if state == "running":
            await until(lambda: model.working > 0)
        else:
            model.gate.set()
            last_id = "r/woken-1" if state == "done" else "r/1.0"
            await until(lambda: any(e.id == last_id and e.state == state for e in journal.runs()))
            await until(lambda: not any(each.held for each in journal.runs()))
        if state != "done":
            assert {"r", "r/1.0"} == {*(await asyncio.to_thread(journal.prune, 0)).left}
        asked = {"thread": "t"} if by == "thread" else {}
        deleted = await asyncio.to_thread(journal.delete, *(() if asked else ("r",)), **asked)
        assert journal.runs() == [] == journal.waiting()
        await until(lambda: model.working == 0)
        await until(lambda: rows_in(place("runs")) == 0)
        assert (await agent.resume_runs(), journal.runs()) == ([], [])
        return deleted.runs

    deleted = asyncio.run(main())
    assert {*deleted} == {"r", "r/1.0", *(["r/woken-1"] if state == "done" else [])}


def told_by(messages: list[dict[str, Any]]) -> list[str]:
    return [str(each["content"]) for each in messages if each["role"] == "user"]


def test_background_work_is_told_more_and_asked_again_and_its_asker_has_actions_meanwhile(
    journals: Any,
) -> None:
    id = "r/1.0" if journals[0] else "r/1"
    offered, called, heard = list[list[str]](), list[str](), list[str]()

    async def main() -> Reply:
        def help(messages: list[dict[str, Any]]) -> str:
            return " / ".join(told_by(messages))

        model = Gated(help)

        def direct(messages: list[dict[str, Any]], actions: Any) -> Any:
            offered.append([each.name for each in actions])
            answered = sum(each["role"] == "assistant" for each in messages)
            last = str(messages[-1]["content"])
            if "Result of" in last and last not in heard:
                heard.append(last)
            if answered == 0:
                return Call("1", "helper", {"text": "A"})
            if answered == 1:
                return Call("2", "tell", {"id": id, "text": "And B."})
            if len(heard) == 1 and "resume" not in called:
                called.append("resume")
                return Call("3", "helper", {"text": "C", "resume": id})
            return heard[-1] if len(heard) == 2 else pause(answered)

        def go_on() -> bool:
            if "And B." in model.prompt:
                model.gate.set()
            return model.gate.is_set()

        agent = chief(
            ScriptedModel(direct),
            ReActAgent("helper", model, journal=journals[1]),
            actions=[waiting_for(go_on)],
            journal=journals[0],
            max_iterations=9999,
        )
        return await agent.reply("Go.", thread="t", run_id="r")

    reply = asyncio.run(main())
    assert reply.text.endswith("in the background:\nA / chief: And B. / C")
    assert offered[0] == ["helper", "pause"]
    assert offered[1] == ["helper", "pause", "tell", "cancel"]


@pytest.mark.parametrize("journaled", (False, True))
def test_background_work_that_its_asker_cancels_brings_nothing_more(
    journaled: bool, tmp_path: Path
) -> None:
    async def main() -> Reply:
        journal, model = Journal(tmp_path / "runs.db") if journaled else None, Gated()
        id = "r/1.0" if journaled else "r/1"
        calls = [
            Call("1", "helper", {"text": "A"}),
            Call("2", "cancel", {"id": "r/9"}),
            Call("3", "cancel", {"id": id}),
            Call("4", "helper", {"text": "B", "resume": "r/9"}),
            "I have no need of it.",
        ]
        helper = ReActAgent("helper", model)
        agent = chief(ScriptedModel(calls), helper, journal=journal)
        reply = await agent.reply("Go.", thread="t", run_id="r")
        if journal is not None:
            await until(lambda: journal.run(id).state == "cancelled")
        assert (reply.under_way, reply.detail) == ((), "")
        return reply

    texts = results(asyncio.run(main()))
    assert "id= must be of work under way (r/1" in texts[1]
    assert "It is cancelled." in texts[2]
    assert "resume= must be the id of work of helper" in texts[3]


@action
async def ask_colour(context: Context) -> str:
    """Ask for the colour."""
    return await context.ask_parent("Which colour?")


def painter(model: Gated, journal: Any) -> ReActAgent:
    return ReActAgent("helper", model, actions=[ask_colour], journal=journal)


def paint(messages: list[dict[str, Any]]) -> Any:
    last = messages[-1]
    return str(last["content"]) if last["role"] == "tool" else Call("1", "ask_colour", {})


def test_background_work_asks_its_parent_whose_next_turn_answers(journals: Any) -> None:
    id = "r/1.0" if journals[0] else "r/1"

    async def main() -> Reply:
        model = Gated(paint)
        model.gate.set()

        def direct(messages: list[dict[str, Any]], _: Any) -> Any:
            last, answered = str(messages[-1]["content"]), len(messages)
            if "asks you" in last:
                return Call("2", "tell", {"id": id, "text": "Red."})
            if answered == 1:
                return Call("1", "helper", {"text": "Paint."})
            return last if "Result of" in last else pause(answered)

        actions = [waiting_for(lambda: True)]
        helper = painter(model, journals[1])
        agent = chief(ScriptedModel(direct), helper, actions=actions, journal=journals[0])
        return await agent.reply("Go.", thread="t", run_id="r")

    reply = asyncio.run(main())
    assert reply.text == f"Result of helper ({id}), in the background:\nRed."
    assert sum("Which colour?" in str(each["content"]) for each in reply.messages) == 1


@pytest.mark.parametrize("asks_first", (False, True))
def test_background_work_asks_the_person_of_a_parent_that_has_no_turn_left(
    asks_first: bool, journals: Any
) -> None:
    asked = list[str]()

    async def main() -> str:
        model, asking = Gated(paint), asyncio.Event()
        woken = asyncio.get_running_loop().create_future()

        async def answer(question: Any) -> str:
            asked.append(str(question))
            return "Blue."

        async def direct(messages: list[dict[str, Any]], _: Any) -> Any:
            if len(messages) == 1 and messages[0]["content"] == "Go.":
                return Call("1", "helper", {"text": "Paint."})
            if asks_first and not asking.is_set():
                model.gate.set()
                await asking.wait()
            return str(messages[-1]["content"])

        @action
        async def ask_colour(context: Context) -> str:
            """Ask for the colour."""
            asking.set()
            return await context.ask_parent("Which colour?")

        helper = ReActAgent("helper", model, actions=[ask_colour], journal=journals[1])
        person = CallbackApprover(lambda request: True, answer)
        agent = chief(ScriptedModel(direct), helper, journal=journals[0], approver=person)
        await agent.reply("Go.", thread="t", run_id="r")
        agent.watch(lambda event: event.kind == "done" and woken.set_result(event.reply))
        model.gate.set()
        return str((await woken).text)

    assert asyncio.run(main()).endswith("in the background:\nBlue.")
    assert asked == ["helper asks: Which colour?"]


@pytest.mark.parametrize("ends_in_time", (False, True))
def test_background_after_some_seconds_turns_a_call_into_one_that_has_not_ended(
    ends_in_time: bool, journals: Any
) -> None:
    id = "r/1.0" if journals[0] else "r/1"

    async def main() -> Reply:
        model = Gated()
        if ends_in_time:
            model.gate.set()

        def open_gate() -> bool:
            model.gate.set()
            return True

        helper = ReActAgent("helper", model, journal=journals[1])
        agent = ReActAgent(
            "chief",
            giving("A", then="I go on." if ends_in_time else pause),
            actions=[
                helper.as_action(background_after=60 if ends_in_time else 0.01),
                waiting_for(open_gate),
            ],
            journal=journals[0],
            max_iterations=9999,
        )
        reply = await agent.reply("Go.", thread="t", run_id="r")
        assert (reply.under_way, reply.detail) == ((), "")
        after = await agent.reply("And?", thread="t")
        assert told_by(after.messages) == ["And?"]
        return reply

    reply = asyncio.run(main())
    if ends_in_time:
        assert (results(reply), reply.text) == (["A is done"], "I go on.")
    else:
        assert results(reply)[0] == f'{{"id": "{id}", "state": "working"}}'
        assert reply.text == f"Result of helper ({id}), in the background:\nA is done"


def test_background_result_is_told_to_one_of_the_replies_that_begin_in_its_thread_at_a_time(
    place: Place,
) -> None:
    path = place("runs")

    async def main() -> list[str]:
        model, busy = Gated(), Gated(lambda messages: "I go on.")

        def process(model: Any) -> ReActAgent:
            return chief(model, ReActAgent("helper", Gated()), journal=Journal(path))

        asking = chief(giving("A"), ReActAgent("helper", model), journal=Journal(path))
        await asking.reply("Go.", thread="t", run_id="r")
        asking.model = busy  # its thread is busy, so it is not woken itself
        reply = asyncio.ensure_future(asking.reply("And?", thread="t"))
        await until(lambda: busy.working > 0)
        model.gate.set()
        with Journal(path) as journal:
            await until(lambda: journal.run("r/1.0").state == "done")
        others = [process(ScriptedModel(["I see."])) for _ in range(6)]
        replies = await asyncio.gather(*(each.reply("And?", thread="t") for each in others))
        busy.gate.set()
        replies.append(await reply)
        return [text for each in replies for text in told_by(each.messages) if text != "And?"]

    assert asyncio.run(main()) == ["Result of helper (r/1.0), in the background:\nA is done"]


@pytest.mark.parametrize("restarted", (False, True))
def test_background_work_that_waits_for_an_answer_goes_on_with_it_and_wakes_its_asker(
    restarted: bool, tmp_path: Path
) -> None:
    @action
    async def ask_later() -> str:
        """Ask for the result, which comes later."""
        raise Later("result")

    heard = list[str]()

    def process(journal: Journal) -> ReActAgent:
        def direct(messages: list[dict[str, Any]], actions: Any) -> Any:
            last = str(messages[-1]["content"])
            if "Result of" in last:
                heard.append(last)
            return Call("1", "helper", {"text": "A"}) if last == "Go." else "I go on."

        model = Gated(paint_later)
        model.gate.set()
        helper = ReActAgent("helper", model, actions=[ask_later])
        return chief(ScriptedModel(direct), helper, journal=journal)

    def paint_later(messages: list[dict[str, Any]]) -> Any:
        last = messages[-1]
        return str(last["content"]) if last["role"] == "tool" else Call("1", "ask_later", {})

    async def main(is_first: bool, is_last: bool) -> None:
        journal = Journal(tmp_path / "runs.db")
        agent = process(journal)
        if is_first:
            await agent.reply("Go.", thread="t", run_id="r")
            await until(lambda: journal.run("r/1.0").state == "waiting")
        if is_last:
            (wait,) = journal.waiting()
            assert (wait.run, wait.kind) == ("r/1.0", "result")
            journal.answer("r/1.0", "result", "It is 42.", by="eva")
            while not heard:
                await agent.resume_decided()
                await asyncio.sleep(0)

    for steps in ((True, False), (False, True)) if restarted else ((True, True),):
        asyncio.run(main(*steps))
    assert heard == ["Result of helper (r/1.0), in the background:\nIt is 42."]


def test_background_work_is_paused_told_something_and_let_go_on_by_an_operator(
    tmp_path: Path,
) -> None:
    @action(idempotent=True, polling=True)
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return "seen"

    async def main() -> str:
        heard = list[str]()

        def help(messages: list[dict[str, Any]]) -> Any:
            is_told = len(told_by(messages)) > 1
            return " / ".join(told_by(messages)) if is_told else Call("1", "look", {})

        def direct(messages: list[dict[str, Any]], actions: Any) -> Any:
            last = str(messages[-1]["content"])
            if "Result of" in last:
                heard.append(last)
            return Call("1", "helper", {"text": "A"}) if last == "Go." else "I go on."

        journal, model = Journal(tmp_path / "runs.db"), Gated(help)
        model.gate.set()
        helper = ReActAgent("helper", model, actions=[look], max_iterations=99999)
        agent = chief(ScriptedModel(direct), helper, journal=journal)
        await agent.reply("Go.", thread="t", run_id="r")
        journal.pause("r/1.0", by="eva")
        await until(lambda: journal.run("r/1.0").state == "waiting")
        assert [each.kind for each in journal.waiting("r/1.0")] == ["paused"]
        journal.tell("r/1.0", "Also B.", by="eva")
        journal.go_on("r/1.0", by="eva")
        while not heard:
            await agent.resume_decided()
            await asyncio.sleep(0)
        return heard[0]

    result = asyncio.run(main())
    assert result == "Result of helper (r/1.0), in the background:\nA / eva: Also B."
