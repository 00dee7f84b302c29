"""Agents that other agents ask by an action: each call a conversation of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from journal.crash import Crashing, crash, settled
from moothall import (
    Action,
    Agent,
    Budget,
    Context,
    Conversation,
    DualActAgent,
    DualActConfig,
    Journal,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
)
from moothall.foundation.errors import ConfigError, RequestError
from moothall.models.protocol import Call, ModelReply

EIGHT = tuple(Call(f"c{n}", "helper", {"text": f"task {n}"}) for n in range(8))


def tasks(*texts: str) -> tuple[Call, ...]:
    return tuple(Call(f"c{n}", "helper", {"text": text}) for n, text in enumerate(texts))


def said_to(messages: list[dict[str, Any]]) -> list[str]:
    return [str(each["content"]) for each in messages if each["role"] == "user"]


class Echo:
    """A model that answers what it was told last, once `many` are told at the same time."""

    name = "echo"

    def __init__(self, many: int = 1) -> None:
        self.prompts: list[list[dict[str, Any]]] = []
        self.there = asyncio.Barrier(many)

    async def complete(self, messages: list[dict[str, Any]], actions: Any = None) -> ModelReply:
        self.prompts.append([*messages])
        await self.there.wait()
        return ModelReply(f"did {said_to(messages)[-1]}")


# -- a thread for each call ------------------------------------------------------------------------


async def test_eight_fresh_calls_of_one_answer_run_at_once_and_hear_only_their_own() -> None:
    echo = Echo(8)
    helper = ReActAgent("helper", echo)
    model = ScriptedModel([EIGHT, "All."])
    boss = ReActAgent("boss", model, actions=[helper.as_action(fresh=True)])
    reply = await asyncio.wait_for(boss.reply("Go.", thread="ada"), 30)
    assert [step.result["result"] for step in reply.steps] == [f"did task {n}" for n in range(8)]
    assert sorted(map(said_to, echo.prompts)) == [[f"task {n}"] for n in range(8)]
    assert list(helper.all_threads) == []


async def test_fresh_calls_of_several_turns_are_apart_below_the_callers_thread() -> None:
    seen: list[Any] = []

    def prompt(context: Context[Any]) -> str:
        seen.append((context.thread, context.deps))
        return ""

    inner = ScriptedModel(["One.", "Two."])
    helper = ReActAgent("helper", inner, system_prompt=prompt)
    model = ScriptedModel([tasks("A"), tasks("B"), "Done."])
    boss = ReActAgent("boss", model, actions=[helper.as_action(fresh=True)])
    await boss.reply("Go.", thread="ada", deps="Ada")
    assert [said_to(each) for each in inner.received] == [["A"], ["B"]]
    (one, deps), (two, _) = seen
    assert deps == "Ada"
    assert one != two
    assert [each.partition("/")[0] for each in (one, two)] == ["ada", "ada"]


async def test_fresh_calls_leave_nothing_in_a_memory_that_is_a_file(tmp_path: Path) -> None:
    with SQLiteMemory(tmp_path / "m.db") as memory:
        helper = ReActAgent("helper", ScriptedModel(["One.", "Two."]), memory=memory)
        model = ScriptedModel([tasks("A", "B"), "Done."])
        boss = ReActAgent("boss", model, actions=[helper.as_action(fresh=True)])
        await boss.reply("Go.", thread="ada")
        assert memory.threads() == []


def review() -> DualActAgent:
    accept = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "Fine."}'
    human = ReActAgent("H", ScriptedModel([accept] * 2))
    return DualActAgent(human=human, reactive=ReActAgent("R", ScriptedModel([])), id="helper")


async def test_fresh_works_for_a_group() -> None:
    agent = review()
    model = ScriptedModel([tasks("A", "B"), "Done."])
    boss = ReActAgent("boss", model, actions=[agent.as_action(fresh=True)])
    reply = await boss.reply("Go.")
    assert [step.result["result"] for step in reply.steps] == ["Fine.", "Fine."]
    assert [*agent.all_threads] == []


@pytest.mark.parametrize("recorded", (True, False))
async def test_members_of_a_group_that_ask_one_agent_at_once_share_nothing(
    tmp_path: Path, recorded: bool
) -> None:
    echo = Echo(2)
    tool = ReActAgent("helper", echo).as_action(fresh=True)

    def worker(id: str) -> ReActAgent:
        return ReActAgent(id, ScriptedModel([tasks(f"of {id}"), "Done."]), actions=[tool])

    go = '{"action": "CONTINUE", "new_instruction": "Go.", "reasoning": "So."}'
    end = '{"action": "TERMINATE", "new_instruction": "", "reasoning": "Fine."}'
    human = ReActAgent("H", ScriptedModel([go, end]))
    config = DualActConfig(human=human, reactive=[worker("left"), worker("right")])
    with Journal(tmp_path / "runs.db") as journal:
        pair = DualActAgent(config, "pair", journal=journal if recorded else None)
        reply = await asyncio.wait_for(pair.reply("Go."), 30)
        paths = {each.path for each in journal.entries(reply.run_id)} if recorded else set()
    assert reply.stop_reason == "terminated"
    assert sorted(map(said_to, echo.prompts)) == [["of left"], ["of right"]]
    assert ({"R1/left/1.0/helper", "R1/right/1.0/helper"} <= paths) is recorded


# -- fork ------------------------------------------------------------------------------------------


async def test_fork_begins_with_the_callers_messages_before_the_answer_that_calls_it() -> None:
    inner = ScriptedModel(["One.", "Two."])
    helper = ReActAgent("helper", inner)
    model = ScriptedModel(["Hello.", tasks("A", "B"), "Done."])
    boss = ReActAgent("boss", model, actions=[helper.as_action(fork=True)])
    await boss.reply("I am Ada.", thread="ada")
    await boss.reply("Go.", thread="ada")
    heard = [[each["content"] for each in prompt] for prompt in inner.received]
    assert heard == [["I am Ada.", "Hello.", "Go.", task] for task in "AB"]
    theirs = [each["content"] for each in model.received[-1] if each["role"] == "user"]
    assert theirs == ["I am Ada.", "Go."]


async def test_fork_reads_the_long_results_of_its_caller() -> None:
    def look() -> str:
        return "\n".join(f"line {n}" for n in range(1, 9001))

    reads = Call("x", "read_result", {"number": 1, "lines": "5000"})
    helper = ReActAgent("helper", ScriptedModel([reads, lambda said, _: said[-1]["content"]]))
    model = ScriptedModel([Call("y", "look", {}), tasks("A"), "Done."])
    boss = ReActAgent("boss", model, actions=[look, helper.as_action(fork=True)])
    _, asked = (await boss.reply("Go.")).steps
    assert asked.result["result"] == "[lines 5000 to 5000 of 9000]\nline 5000\n"


def test_fork_is_refused_where_no_conversation_can_begin_with_messages() -> None:
    with pytest.raises(ConfigError, match=r"fork=True is for a ReActAgent"):
        review().as_action(fork=True)
    with pytest.raises(ConfigError, match="fresh= must be"):
        review().as_action(fresh="yes")  # type: ignore[arg-type]


# -- what it may spend -----------------------------------------------------------------------------


async def test_limit_of_nine_model_calls_makes_nine() -> None:
    echo = Echo()
    helper = ReActAgent("helper", echo)
    many = tuple(Call(f"c{n}", "helper", {"text": f"{n}"}) for n in range(20))
    budget = Budget(model_calls=9)
    model = ScriptedModel([many, "Done."])
    boss = ReActAgent("boss", model, actions=[helper.as_action(fresh=True)], budget=budget)
    reply = await boss.reply("Go.")
    assert (reply.stop_reason, budget.spent.model_calls) == ("budget", 9)
    assert len(echo.prompts) + len(model.received) == 9


class Calls:
    """A model that always calls the same two actions, and counts its calls."""

    name = "calls"

    def __init__(self, name: str, argument: str = "text") -> None:
        self.count = 0
        self._name, self._argument = name, argument

    async def complete(self, messages: list[dict[str, Any]], actions: Any = None) -> ModelReply:
        self.count += 1
        args = {self._argument: f"again {self.count}"}
        return ModelReply("", calls=[Call(f"c{self.count}.{n}", self._name, args) for n in (1, 2)])


@pytest.mark.parametrize("fresh", (True, False))
async def test_agent_that_is_its_own_tool_stops_and_says_who_called_whom(fresh: bool) -> None:
    model = Calls("self")
    agent = ReActAgent("self", model)
    assert agent.max_nested_model_calls == 500
    agent.max_nested_model_calls = 60  # as much as 500 within less time
    agent.actions.register(agent.as_action(fresh=fresh))
    reply = await agent.reply("Go.")
    assert model.count <= 70
    errors = {step.error for step in reply.steps if step.error}
    assert any("'self' called 'self'" in each for each in errors)
    assert any("max_nested_model_calls" in each for each in errors)


def test_agents_of_a_space_that_ask_each_other_stop_likewise() -> None:
    models = {"a": Calls("b_say", "content"), "b": Calls("a_say", "content")}
    with NativeSpace() as space:
        for name, other in ("ab", "ba"):
            agent = ReActAgent(name, models[name], discover=[other], max_nested_model_calls=60)
            space.add(agent)
        me = space.add(Agent("me"))
        with pytest.raises(RequestError, match="iterations"):
            me.ask("a", "say", content="Go.").result(timeout=60)
    assert models["a"].count + models["b"].count <= 70


async def test_chain_of_agents_is_eight_deep_at_most_and_the_error_names_it() -> None:
    def chain(**options: Any) -> tuple[ReActAgent, list[ScriptedModel]]:
        models = [ScriptedModel(["End."])]
        agent = ReActAgent("a9", models[0])
        for number in range(8, 0, -1):
            calls = [Call("c", f"a{number + 1}", {"text": "On."}), f"from {number}"]
            models.insert(0, ScriptedModel(calls))
            actions = [agent.as_action(fresh=True)]
            more = options if number == 1 else {}
            agent = ReActAgent(f"a{number}", models[0], actions=actions, **more)
        return agent, models

    agent, models = chain()
    await agent.reply("Go.")
    assert [len(each.received) for each in models] == [2] * 8 + [0]
    told = str(models[7].received[-1][-1]["content"])
    assert "'a1' called 'a2' called" in told
    assert "called 'a8' called 'a9'" in told
    assert "max_depth= of agent 'a1'" in told

    agent, models = chain(max_depth=9)
    await agent.reply("Go.")
    assert [len(each.received) for each in models] == [2] * 8 + [1]


async def test_nested_model_calls_are_limited_by_a_setting_or_else_by_a_budget() -> None:
    def agents(**options: Any) -> tuple[ReActAgent, Echo]:
        echo = Echo()
        tool = ReActAgent("helper", echo).as_action(fresh=True)
        return ReActAgent("boss", ScriptedModel([EIGHT, "Done."]), actions=[tool], **options), echo

    boss, echo = agents(max_nested_model_calls=3)
    reply = await boss.reply("Go.")
    assert (reply.text, len(echo.prompts)) == ("Done.", 3)
    errors = [step.error for step in reply.steps if step.error]
    assert ["'boss' called 'helper'" in each for each in errors] == [True] * 5
    boss, echo = agents(max_nested_model_calls=3, budget=Budget(model_calls=100))
    await boss.reply("Go.")
    assert len(echo.prompts) == 8


# -- resumed and deleted with the caller -----------------------------------------------------------


def _resumable(
    journal: Journal, look: Any, pay: Any, *, pays_twice: bool = False
) -> tuple[ReActAgent, ScriptedModel, list[int]]:
    """A boss of two helpers, of which one looks, and the other pays."""
    asked: list[int] = []

    async def helps(messages: list[dict[str, Any]], actions: Any) -> Any:
        asked.append(1)
        task = said_to(messages)[-1]
        if messages[-1]["role"] != "tool":
            return Call("x", "look" if task == "A" else "pay", {"what": task})
        return f"{task}: {messages[-1]['content']}"

    pays = Action("pay", pay, idempotent=pays_twice, guard=())
    actions = [Action("look", look, idempotent=True, guard=()), pays]
    helper = ReActAgent("helper", ScriptedModel([helps] * 8), actions=actions)
    model = ScriptedModel([tasks("A", "B"), "Done."])
    tools = [helper.as_action(fresh=True)]
    return ReActAgent("boss", model, actions=tools, journal=journal), model, asked


async def test_crash_between_two_sub_agents_repeats_neither(journal: Journal) -> None:
    budget = Budget(model_calls=100)
    looked: list[str] = []

    def pay(what: str) -> str:
        return f"paid {what}"

    def look(what: str) -> str:
        looked.append(what)
        return f"saw {what}"

    boss, _, _ = _resumable(journal, look, pay)
    whole = await boss.reply("Go.", thread="ada", run_id="r", budget=budget)
    assert budget.spent.model_calls == 6
    (outline,) = journal.runs()
    assert (outline.thread, outline.model_calls) == ("ada", 6)
    entries = journal.entries("r")
    paths = {each.path for each in entries}
    assert paths == {"", "1.0/helper", "1.1/helper"}
    again = Budget(model_calls=100)
    boss, model, asked = _resumable(journal, look, pay)
    reply = await boss.reply("Go.", thread="ada", run_id="r", budget=again)
    assert (reply.text, reply.steps) == (whole.text, whole.steps)
    assert (asked, model.received, looked) == ([], [], ["A"])
    assert again.spent.model_calls == 6
    assert journal.delete(thread="ada").runs == ["r"]
    assert journal.runs() == []


async def test_crash_within_a_sub_agent_continues_there(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        look = Crashing(journal, tmp_path / "copy.db")
        boss, _, asked = _resumable(journal, look, lambda what: f"paid {what}", pays_twice=True)
        await boss.reply("Go.", thread="ada", run_id="r")
    assert len(asked) == 4
    with Journal(tmp_path / "copy.db") as journal:
        budget = Budget(model_calls=100)
        boss, model, asked = _resumable(journal, look, lambda what: f"paid {what}", pays_twice=True)
        (helper,) = [each.origin.agent for each in boss.actions.get_actions()]
        reply = await boss.reply("Go.", thread="ada", run_id="r", budget=budget)
        assert reply.text == "Done."
        assert budget.spent.model_calls in (6, 7)  # the other helper's may have been cut off, too
        assert len(asked) < 4
        assert len(model.received) == 1
        assert list(helper.all_threads) == []


async def test_crash_within_a_sub_agent_of_a_sub_agent_goes_on_there(tmp_path: Path) -> None:
    def agents(journal: Journal, look: Any) -> tuple[ReActAgent, list[ScriptedModel]]:
        models = [
            ScriptedModel([tasks("A"), "Done."]),
            ScriptedModel([Call("y", "looker", {"text": "B"}), "It is seen."]),
            ScriptedModel([Call("x", "look", {"what": "C"}), "Seen."]),
        ]
        actions = [Action("look", look, idempotent=True, guard=())]
        looker = ReActAgent("looker", models[2], actions=actions)
        helper = ReActAgent("helper", models[1], actions=[looker.as_action(fresh=True)])
        tools = [helper.as_action(fresh=True)]
        return ReActAgent("boss", models[0], actions=tools, journal=journal), models

    with Journal(tmp_path / "runs.db") as journal:
        look = Crashing(journal, tmp_path / "copy.db")
        await agents(journal, look)[0].reply("Go.", run_id="r")
    with Journal(tmp_path / "copy.db") as journal:
        boss, models = agents(journal, look)
        reply = await boss.reply("Go.", run_id="r")
        assert (reply.text, look.called) == ("Done.", ["C", "C"])
        assert [len(each.received) for each in models] == [1, 1, 1]


async def test_conversation_that_was_cut_off_within_a_call_has_heard_all(tmp_path: Path) -> None:
    def agents(journal: Journal, look: Any) -> tuple[ReActAgent, list[ScriptedModel]]:
        models = [
            ScriptedModel(["I begin.", "I end."]),
            ScriptedModel([Call("x", "look", {"what": "it"}), "I have looked."]),
        ]
        actions = [Action("look", look, idempotent=True, guard=())]
        first = ReActAgent("first", models[0])
        second = ReActAgent("second", models[1], actions=actions)
        talk = Conversation([first, second], id="helper", max_turns=3)
        tools = [talk.as_action(fresh=True)]
        model = ScriptedModel([tasks("Discuss it."), "Done."])
        return ReActAgent("boss", model, actions=tools, journal=journal), models

    with Journal(tmp_path / "runs.db") as journal:
        look = Crashing(journal, tmp_path / "copy.db")
        boss, whole = agents(journal, look)
        await boss.reply("Go.", run_id="r")
    with Journal(tmp_path / "copy.db") as journal:
        boss, models = agents(journal, look)
        assert (await boss.reply("Go.", run_id="r")).text == "Done."
        assert [each.received for each in models] == [each.received[1:] for each in whole]


async def test_recorded_sub_agent_replies_in_the_run_of_its_caller(tmp_path: Path) -> None:
    def where(context: Context) -> str:
        return context.run_id

    calls = [Call("x", "where", {}), lambda messages, _: messages[-1]["content"]]
    helper = ReActAgent("helper", ScriptedModel(calls), actions=[where])
    tools = [helper.as_action(fresh=True)]
    with Journal(tmp_path / "runs.db") as journal:
        model = ScriptedModel([tasks("A"), "Done."])
        boss = ReActAgent("boss", model, actions=tools, journal=journal)
        events = [each async for each in boss.stream("Go.", run_id="r")]
    assert events[-1].reply.steps[0].result["result"] == "r"


async def test_limit_of_model_calls_holds_for_sub_agents_that_were_cut_off(tmp_path: Path) -> None:
    def agents(journal: Journal, answer: Any) -> tuple[ReActAgent, Budget]:
        helper = ReActAgent("helper", ScriptedModel(answer))
        tools = [helper.as_action(fresh=True)]
        budget = Budget(model_calls=9)
        model = ScriptedModel([EIGHT, "Done."])
        return ReActAgent("boss", model, actions=tools, journal=journal, budget=budget), budget

    asked: list[str] = []
    with Journal(tmp_path / "runs.db") as journal:

        async def crashing(messages: list[dict[str, Any]], actions: Any) -> str:
            asked.append(said_to(messages)[-1])
            await settled(lambda: len(asked) == 8)
            if not (tmp_path / "copy.db").exists():
                crash(journal.path, tmp_path / "copy.db")
            return "did it"

        boss, _ = agents(journal, crashing)
        await boss.reply("Go.", run_id="r")
    with Journal(tmp_path / "copy.db") as journal:
        again: list[str] = []

        def answers(messages: list[dict[str, Any]], actions: Any) -> str:
            again.append(said_to(messages)[-1])
            return "did it"

        boss, budget = agents(journal, answers)
        reply = await boss.reply("Go.", run_id="r")
        # All nine had been sent before the crash.
        assert (again, reply.stop_reason, budget.spent.model_calls) == ([], "budget", 9)


async def test_sub_agent_call_in_doubt_stops_the_callers_run_until_it_is_decided(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / "runs.db") as journal:
        pay = Crashing(journal, tmp_path / "copy.db")
        boss, _, _ = _resumable(journal, lambda what: f"saw {what}", pay)
        await boss.reply("Go.", run_id="r")
    with Journal(tmp_path / "copy.db") as journal:
        boss, _, _ = _resumable(journal, lambda what: f"saw {what}", pay)
        reply = await boss.reply("Go.", run_id="r")
        assert reply.stop_reason == "in_doubt"
        assert "pay" in reply.detail
        assert pay.called == ["B"]
        journal.decide("r", "repeat")
        boss, _, _ = _resumable(journal, lambda what: f"saw {what}", pay)
        reply = await boss.reply("Go.", run_id="r")
        assert (reply.text, pay.called) == ("Done.", ["B", "B"])


async def test_fork_that_was_cut_off_continues_with_the_messages_that_it_had(
    tmp_path: Path,
) -> None:
    def agents(journal: Journal, look: Any, inner: list[Any]) -> tuple[ReActAgent, ScriptedModel]:
        theirs = ScriptedModel(inner)
        actions = [Action("look", look, idempotent=True, guard=())]
        helper = ReActAgent("helper", theirs, actions=actions)
        model = ScriptedModel(["Hello.", tasks("A"), "Done."])
        tools = [helper.as_action(fork=True)]
        return ReActAgent("boss", model, actions=tools, journal=journal), theirs

    inner = [Call("x", "look", {"what": "A"}), "Seen."]
    with Journal(tmp_path / "runs.db") as journal:
        look = Crashing(journal, tmp_path / "copy.db")
        boss, theirs = agents(journal, look, inner)
        await boss.reply("I am Ada.", run_id="q")
        await boss.reply("Go.", run_id="r")
        whole = theirs.received[-1]
    with Journal(tmp_path / "copy.db") as journal:
        boss, theirs = agents(journal, look, inner)
        boss.model.skip(1)  # the reply before is not in this process's memory
        reply = await boss.reply("Go.", run_id="r")
        assert (reply.text, theirs.received) == ("Done.", [whole])
