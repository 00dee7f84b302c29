"""A dual act that is paused after any turn goes on, in another process, to the same end."""

from __future__ import annotations

import asyncio
import json
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from commands import run
from moothall import (
    Budget,
    DualActAgent,
    DualActConfig,
    Journal,
    ReActAgent,
    ScriptedModel,
    StateError,
)
from moothall.agents import recorded_events
from moothall.agents.replies.events import Event

PROGRAM = '''
import asyncio, json, sys
from moothall import DualActAgent, DualActConfig, ReActAgent, ScriptedModel

def decide(action, instruction=""):
    return json.dumps({"action": action, "new_instruction": instruction, "reasoning": "r"})

def count(n: int) -> int:
    """Count."""
    return n + 1

DECISIONS = [decide("CONTINUE", "one"), decide("REDIRECT", "two"), decide("TERMINATE")]
WORKS = [
    {"name": "count", "args": {"n": 1}}, '{"summary": "first", "confidence": 0.5}',
    {"name": "count", "args": {"n": 2}}, '{"summary": "second", "artifacts": {"n": 3}}',
]

def by_memory(answers):
    """Answers by how many of its own answers it remembers: it needs no position of its own."""
    def answer(messages, actions):
        return answers[sum(message["role"] == "assistant" for message in messages)]
    return ScriptedModel([answer] * 20)

def make(several=False):
    human = ReActAgent("H", by_memory(DECISIONS))
    workers = [ReActAgent(f"R{n}", by_memory(WORKS), actions=[count]) for n in range(2)]
    return DualActAgent(DualActConfig(human, workers if several else workers[0]))

def end(reply):
    return {
        "text": reply.text, "stop": reply.stop_reason, "runs": reply.r_runs,
        "decisions": [each.to_json() for each in reply.decisions],
        "conclusions": [each.to_json() for each in reply.conclusions],
        "steps": [(step.action, step.args) for step in reply.steps],
    }
'''

namespace: dict[str, Any] = {}
exec(compile(PROGRAM, "program", "exec"), namespace)  # noqa: S102
make, end = namespace["make"], namespace["end"]

TURNS = [
    ("post_reasoning", 1),
    ("post_acting", 1),
    ("post_reasoning", 2),
    ("post_acting", 2),
    ("post_reasoning", 3),
]


async def paused(dual: DualActAgent, type: str, loop: int, schema: Any = None) -> dict[str, Any]:
    """Its state after a turn, from the hook; then it is cancelled."""
    saved: list[dict[str, Any]] = []

    def save(agent: DualActAgent, kwargs: dict[str, Any]) -> None:
        if kwargs["loop"] == loop:
            saved.append(json.loads(json.dumps(agent.state_dict())))
            task.cancel()

    dual.register_hook(type, "save", save)
    task = asyncio.create_task(dual.reply("Count.", schema))
    try:
        await task
    except asyncio.CancelledError:
        pass
    return saved[0]


@pytest.mark.parametrize("several", (False, True))
@pytest.mark.parametrize(("type", "loop"), TURNS)
def test_dualact_state_resumes_in_another_process(
    tmp_path: Path, type: str, loop: int, several: bool
) -> None:
    whole = end(asyncio.run(make(several).reply("Count.")))
    assert (whole["stop"], whole["runs"]) == ("terminated", 2)
    state = asyncio.run(paused(make(several), type, loop))
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state))
    program = PROGRAM + (
        f"dual = make({several})\n"
        f"dual.load_state_dict(json.load(open({str(path)!r})))\n"
        "print(json.dumps(end(asyncio.run(dual.resume()))))\n"
    )
    done = run(code=program)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(whole))


def test_dualact_state_with_results_that_are_no_json_resumes() -> None:
    def weigh() -> list[Any]:
        """Weigh."""
        return [float("nan"), {1: object}, 2.5]

    def pair() -> DualActAgent:
        decisions = [namespace["decide"](name, "do") for name in ("CONTINUE", "TERMINATE")]
        human = ReActAgent("H", namespace["by_memory"](decisions))
        answers = namespace["by_memory"]([{"name": "weigh"}, "Weighed."])
        return DualActAgent(human=human, reactive=ReActAgent("R", answers, actions=[weigh]))

    dual = pair()
    dual.load_state_dict(asyncio.run(paused(pair(), "post_acting", 1)))
    reply = asyncio.run(dual.resume())
    assert reply.text == "Weighed."
    assert reply.steps[0].result["result"] == ["nan", {"1": "<class 'object'>"}, 2.5]


def test_dualact_state_resumes_after_a_cancellation() -> None:
    dual = make()
    whole = end(asyncio.run(make().reply("Count.")))
    saved = asyncio.run(paused(dual, "post_acting", 1))
    dual.clear_hooks()
    dual.load_state_dict(saved)
    assert end(asyncio.run(dual.resume())) == whole
    # Once it is over, it says the same again.
    assert end(asyncio.run(dual.resume())) == whole


def test_dualact_after_its_most_runs_says_the_same_again() -> None:
    human = ReActAgent("H", ScriptedModel([namespace["decide"]("CONTINUE", "one")] * 9))
    worker = ReActAgent("R", ScriptedModel(["first", "second"]))
    dual = DualActAgent(DualActConfig(human, worker, max_hr_loops=1))
    over = dual.reply_sync("Count.")
    assert (over.text, over.stop_reason) == ("first", "max_loops")
    assert end(asyncio.run(dual.resume())) == end(over)


async def test_dualact_turn_that_was_cut_off_begins_anew() -> None:
    begun = asyncio.Event()

    async def hang(*_: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    go, done = namespace["decide"]("CONTINUE", "one"), namespace["decide"]("TERMINATE")
    h, r = ScriptedModel([go, done]), ScriptedModel([hang, "done"])
    dual = DualActAgent(DualActConfig(ReActAgent("H", h), ReActAgent("R", r)))
    task = asyncio.create_task(dual.reply("go"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    reply = await dual.resume()
    assert (reply.text, reply.stop_reason, reply.r_runs) == ("done", "terminated", 1)
    assert len(h.received) == 2


def test_dualact_with_one_memory_continues_too() -> None:
    def shared() -> DualActAgent:
        h = ScriptedModel(
            [namespace["decide"]("CONTINUE", "one"), namespace["decide"]("TERMINATE")]
        )
        config = DualActConfig(
            ReActAgent("H", h), ReActAgent("R", ScriptedModel(["done"])), shared_memory=True
        )
        return DualActAgent(config)

    dual = shared()
    asyncio.run(dual.observe("It rains."))
    dual.reply_sync("go")
    saved = dual.state_dict()
    other = shared()
    other.load_state_dict(saved)
    assert other.human_agent.memory is other.reactive_agent.memory
    assert other.state_dict() == saved


INTEGER = {"type": "integer"}


@pytest.mark.parametrize("asked", (INTEGER, int), ids=("a schema", "a type"))
def test_dualact_state_resumes_with_the_schema_that_was_asked_for(asked: Any) -> None:
    dual = whole_number()
    asyncio.run(paused(dual, "post_reasoning", 1, schema=asked))
    assert asyncio.run(dual.resume()).value == 7


def test_dualact_state_keeps_a_schema() -> None:
    saved = asyncio.run(paused(whole_number(), "post_reasoning", 1, schema=INTEGER))
    other = whole_number(decided=1)
    other.load_state_dict(saved)
    assert asyncio.run(other.resume()).value == 7


@pytest.mark.parametrize("turn", ("post_reasoning", "post_acting"))
def test_dualact_state_keeps_no_type_which_is_given_again(turn: str) -> None:
    saved = asyncio.run(paused(whole_number(), turn, 1, schema=Decimal))
    other = whole_number(decided=1)
    other.load_state_dict(saved)
    with pytest.raises(StateError, match=r"'dualact' was asked for an answer of a type.*resume\("):
        asyncio.run(other.resume())
    value = asyncio.run(other.resume(schema=Decimal)).value
    assert (value, type(value)) == (7, Decimal)


def whole_number(decided: int = 0) -> DualActAgent:
    """H sends R once and accepts; R says seven.

    Args:
        decided: how many decisions of H were made before
    """
    decisions = [namespace["decide"]("CONTINUE", "one"), namespace["decide"]("TERMINATE")]
    human = ReActAgent("H", ScriptedModel(decisions[decided:]))
    return DualActAgent(DualActConfig(human, ReActAgent("R", ScriptedModel(["7"]))))


def test_dualact_resume_needs_something_to_continue() -> None:
    dual = make()
    with pytest.raises(StateError, match="has nothing to resume"):
        asyncio.run(dual.resume())
    before = dual.state_dict()
    dual.load_state_dict(before)
    assert dual.state_dict() == before


@pytest.mark.parametrize(
    ("change", "told"),
    (
        (lambda s: s.update(kind="ReActAgent"), "not a state of a DualActAgent"),
        (lambda s: s.update(format=9), "it has version 9"),
        (lambda s: s["members"].update({"R other": {}}), "not of"),
        (lambda s: s["own"].update(turn="nobody"), "turn"),
        (lambda s: s["own"].update(r_runs="2"), "r_runs: Input should be .* integer, got '2'"),
        (lambda s: s["own"]["decisions"][0].update(action="STOP"), "STOP"),
        (lambda s: s["own"]["conclusions"][0].update(confidence=7), "confidence"),
        (lambda s: s.update(own=7), "damaged"),
        (lambda s: s.update(threads=[7]), "threads and members must be objects"),
        (lambda s: s["members"]["H"].update(memory=7), "memory"),
    ),
)
def test_dualact_damaged_state_is_named(change: Any, told: str) -> None:
    dual = make()
    dual.reply_sync("Count.")
    saved = dual.state_dict()
    change(saved)
    with pytest.raises(StateError, match=told):
        make().load_state_dict(saved)


def test_dualact_next_reply_begins_anew() -> None:
    h = ScriptedModel([namespace["decide"]("TERMINATE")] * 2)
    dual = DualActAgent(DualActConfig(ReActAgent("H", h), ReActAgent("R", ScriptedModel([]))))
    dual.reply_sync("one")
    reply = dual.reply_sync("two")
    assert len(reply.decisions) == 1  # type: ignore[attr-defined]
    assert "| two" in h.received[1][-1]["content"]


KILLED = """
import asyncio, json, os, signal, sys
from moothall import DualActAgent, ReActAgent, ScriptedModel

dies, begun = sys.argv[1], asyncio.Event()
prompts = []

def decide(action):
    return json.dumps({"action": action, "new_instruction": "go", "reasoning": "r"})

async def hang(messages, actions):
    if dies == "nowhere":
        return "3"
    begun.set()
    await asyncio.Event().wait()

def die_in(place, answer):
    def answered(messages, actions):
        if dies == place:
            os.kill(os.getpid(), signal.SIGKILL)
        prompts.append(messages[-1]["content"])
        return answer
    return answered

async def main():
    h = ReActAgent("H", ScriptedModel([decide("CONTINUE"), die_in("H", decide("TERMINATE"))]))
    r = ReActAgent("R", ScriptedModel([hang, die_in("R", "3")]))
    dual = DualActAgent(human=h, reactive=r, journal="runs.db")
    replying = asyncio.create_task(dual.reply("Count.", run_id="r"))
    if dies != "nowhere":
        await begun.wait()
        await dual.interrupt("In French, please.")
    reply = await replying
    print(reply.stop_reason, reply.text, "| In French, please." in prompts[-1])

asyncio.run(main())
"""


@pytest.mark.parametrize("dies", ("R", "H"))
def test_dualact_killed_after_an_interruption_of_r_tells_h_when_it_resumes(
    dies: str, tmp_path: Path
) -> None:
    assert run(dies, code=KILLED, cwd=tmp_path).returncode == -signal.SIGKILL
    done = run("nowhere", code=KILLED, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("terminated 3 True\n", "")


def test_dualact_record_of_a_run_that_its_budget_stopped_has_each_event_once(
    tmp_path: Path,
) -> None:
    def decision(instruction: str) -> str:
        return json.dumps({"action": "CONTINUE", "new_instruction": instruction, "reasoning": ""})

    human = ReActAgent("H", ScriptedModel([decision("one"), decision("two"), decision("three")]))
    reactive = ReActAgent("R", ScriptedModel(["1", "2", "3"]))
    shown: list[Event] = []

    async def watch(journal: Journal) -> None:
        dual = DualActAgent(human=human, reactive=reactive, journal=journal)
        async with dual.stream("Count.", run_id="r", budget=Budget(model_calls=4)) as events:
            shown.extend([event async for event in events])

    with Journal(tmp_path / "runs.db") as journal:
        asyncio.run(watch(journal))
        told = [*recorded_events(journal.entries("r"))]
    kinds = ("conclusion", "decision")
    first, second = (
        [(each.kind, getattr(each, "loop", None)) for each in events if each.kind in kinds]
        for events in (told, shown)
    )
    assert first == second
    assert first == [(kind, loop) for loop in (1, 2) for kind in ("decision", "conclusion")]
