"""Durable functions: what is recorded, what waits, what is in doubt, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Budget,
    BudgetExceeded,
    ConfigError,
    DefinitionError,
    Done,
    Emitted,
    InDoubt,
    Journal,
    ModelReply,
    NobodyToAsk,
    NotPermitted,
    ReActAgent,
    Retry,
    RunMismatch,
    RunWaiting,
    ScriptedModel,
    StepFailed,
    Usage,
    durable,
    step,
)
from moothall.agents.durable.function import FunctionState
from moothall.build import recorded
from moothall.journal import Done as Decided


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "runs.db") as journal:
        yield journal


class Outage:
    """What fails as long as it is down, and counts how often it was called."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors, self.calls = [*errors], 0

    def __call__(self) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)


class Kind(Enum):
    BILL = "bill"
    LETTER = "letter"


@dataclass
class Letter:
    sent: date
    kind: Kind


def test_ended_steps_are_not_called_again_and_those_that_raised_are(journal: Journal) -> None:
    first, second = Outage(), Outage(ConnectionError("down"))

    @step
    async def one(text: str) -> str:
        first()
        return text.upper()

    @step
    def two(text: str) -> int:
        second()
        return len(text)

    @durable(journal)
    async def desk(text: str) -> int:
        return await two(await one(text))

    with pytest.raises(ConnectionError, match="down"):
        asyncio.run(desk.run("r", "abc"))
    assert journal.run("r").state == "error"
    assert asyncio.run(desk.run("r", "abc")) == 3
    assert asyncio.run(desk.run("r", "abc")) == 3
    assert (first.calls, second.calls) == (1, 2)
    assert (journal.run("r").state, journal.run("r").agent) == ("done", "desk")


def test_journal_of_a_durable_function_may_be_named(journal: Journal) -> None:
    @durable(journal=journal)
    async def order(id: str) -> str:
        return id

    assert asyncio.run(order("4711")) == "4711"
    assert len(journal.runs()) == 1


def test_results_have_their_types_again(journal: Journal) -> None:
    outage = Outage(ConnectionError("down"))

    @step
    async def letter(kind: Kind) -> Letter:
        return Letter(date(2026, 1, 2), kind)

    @step
    async def pair() -> tuple[bytes, frozenset[int]]:
        return b"a", frozenset((1, 2))

    @step
    async def picture() -> bytes:
        return b"\x00\xff"

    @durable(journal)
    async def desk(kind: Kind, day: date = date(2026, 3, 4)) -> list[Letter]:
        found = await letter(kind)
        assert found == Letter(date(2026, 1, 2), Kind.BILL)
        assert await pair() == (b"a", frozenset((1, 2)))
        assert await picture() == b"\x00\xff"
        outage()
        return [found, Letter(day, kind)]

    with pytest.raises(ConnectionError):
        asyncio.run(desk.run("r", Kind.BILL))
    expected = [Letter(date(2026, 1, 2), Kind.BILL), Letter(date(2026, 3, 4), Kind.BILL)]
    assert asyncio.run(desk.run("r", Kind.BILL)) == expected
    assert asyncio.run(desk.run("r", Kind.BILL)) == expected


def test_result_without_a_form_is_an_error_that_names_the_step(journal: Journal) -> None:
    @step
    async def thing():  # type: ignore[no-untyped-def]
        return object()

    @durable(journal)
    async def desk() -> None:
        await thing()

    with pytest.raises(ConfigError, match="result of step 'thing' must be JSON data"):
        asyncio.run(desk.run("r"))


def test_effect_that_was_cut_off_is_in_doubt_until_a_person_decides(journal: Journal) -> None:
    begun = asyncio.Event()

    @step(effect=True)
    async def charge(card: str, cents: int) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @durable(journal)
    async def desk(card: str) -> str:
        return f"paid: {await charge(card, cents=800)}"

    async def cut_off() -> None:
        task = asyncio.ensure_future(desk.run("r", "4711"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut_off())
    with pytest.raises(InDoubt, match="charge"):
        asyncio.run(desk.run("r", "4711"))
    doubt = journal.in_doubt("r")[0]
    assert (doubt.action, doubt.args) == ("charge", {"card": "4711", "cents": 800})
    journal.decide("r", Decided("by hand"))
    assert asyncio.run(desk.run("r", "4711")) == "paid: by hand"


def test_retries_of_an_effect_need_errors_without_one() -> None:
    with pytest.raises(DefinitionError, match=r"no_effect=True"):
        step(effect=True, retries=3)
    step(effect=True, retries=Retry(times=3, no_effect=True))


def test_failed_step_is_called_again_within_the_call(journal: Journal) -> None:
    outage = Outage(ConnectionError("down"), ConnectionError("down"))

    @step(retries=Retry(times=3, backoff=0))
    async def fetch(shop: str) -> str:
        outage()
        return shop

    @durable(journal)
    async def desk() -> str:
        return await fetch("Ada's")

    assert asyncio.run(desk()) == "Ada's"
    assert outage.calls == 3


class NotRebuilt(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_error_that_a_later_step_has_seen_is_raised_again(journal: Journal) -> None:
    outage, end = Outage(ValueError("no", 3)), Outage(ConnectionError("down"))
    strange = Outage(NotRebuilt(1, 2))
    seen: list[Any] = []

    @step
    async def fetch() -> str:
        outage()
        return "fetched"

    @step
    async def fetch_strangely() -> str:
        strange()
        return "fetched"

    @step
    async def note(text: str) -> str:
        return text

    async def attempt(call: Any) -> str:
        try:
            return str(await call())
        except (ValueError, NotRebuilt, StepFailed) as error:
            seen.append((type(error), *error.args))
            return "failed"

    @durable(journal)
    async def desk() -> list[str]:
        texts = await asyncio.gather(attempt(fetch), attempt(fetch_strangely))
        await note("seen")
        end()
        return texts

    with pytest.raises(ConnectionError):
        asyncio.run(desk.run("r"))
    assert asyncio.run(desk.run("r")) == ["failed", "failed"]
    assert (outage.calls, strange.calls) == (1, 1)
    assert seen[2] == (ValueError, "no", 3)
    assert seen[3][0] is StepFailed
    assert "1 and 2" in seen[3][1]


def test_error_that_no_step_has_seen_is_tried_again(journal: Journal) -> None:
    outage = Outage(ValueError("down"))

    @step
    async def fetch() -> str:
        outage()
        return "fetched"

    @step
    async def other() -> None:
        return None

    @durable(journal)
    async def desk() -> str:
        text, _ = await asyncio.gather(fetch(), other())
        return text

    with pytest.raises(ValueError, match="down"):
        asyncio.run(desk.run("r"))
    assert asyncio.run(desk.run("r")) == "fetched"


def test_changed_function_is_a_mismatch_with_its_step_and_line(journal: Journal) -> None:
    outage = Outage(*[ConnectionError("down")] * 9)

    @step
    async def one(text: str) -> str:
        return text

    @step
    async def two(text: str) -> str:
        return text

    def desk_with(*names: Any) -> Any:
        async def desk(text: str) -> str:
            for call, given in names:
                await call(given)
            outage()
            return text

        return durable(journal)(desk)

    with pytest.raises(ConnectionError):
        asyncio.run(desk_with((one, "a"), (two, "b")).run("r", "x"))
    for changed, words in (
        ([(two, "a"), (two, "b")], r"step 1 was 'one', is 'two', in test_durable.py:\d+"),
        ([(one, "a"), (two, "c")], r"step 2 has other arguments, in test_durable.py:\d+"),
    ):
        with pytest.raises(RunMismatch, match=words):
            asyncio.run(desk_with(*changed).run("r", "x"))
    outage.errors.clear()
    with pytest.raises(RunMismatch, match=r"'2.two' is recorded, and 'desk' has ended without it"):
        asyncio.run(desk_with((one, "a")).run("r", "x"))
    with pytest.raises(RunMismatch, match="task"):
        asyncio.run(desk_with((one, "a"), (two, "b")).run("r", "other"))
    assert asyncio.run(desk_with((one, "a"), (two, "b"), (one, "new")).run("r", "x")) == "x"


@pytest.mark.parametrize("place", ("in a task", "in a branch"))
def test_effect_that_has_moved_in_the_function_is_not_made_again(
    journal: Journal, place: str
) -> None:
    calls, outage = list[int](), Outage(ConnectionError())

    @step(effect=True)
    async def charge(cents: int) -> None:
        calls.append(cents)

    async def desk() -> None:
        if outage.errors:
            await charge(80)
        elif place == "in a task":
            await asyncio.create_task(charge(80))
        else:
            await asyncio.gather(charge(70), charge(80))
        outage()

    function = durable(journal)(desk)
    with pytest.raises(ConnectionError):
        asyncio.run(function.run("r"))
    with pytest.raises(RunMismatch, match=r"step '1.charge' is recorded, and is 't\d.1.charge'"):
        asyncio.run(function.run("r"))
    assert calls.count(80) == 1


def test_effect_is_made_in_each_branch_whichever_comes_to_it_first(journal: Journal) -> None:
    calls, outage = list[int](), Outage(ConnectionError())

    @step
    async def look() -> None:
        pass

    @step(effect=True)
    async def charge(cents: int) -> None:
        calls.append(cents)

    async def desk() -> None:
        is_charged = asyncio.Event()

        async def first() -> None:
            for _ in range(3):
                await look()
            await charge(80)
            is_charged.set()

        async def other() -> None:
            if outage.errors:
                await is_charged.wait()
                outage()
            await charge(80)

        await asyncio.gather(first(), other())

    function = durable(journal)(desk)
    with pytest.raises(ConnectionError):
        asyncio.run(function.run("r"))
    assert calls == [80]
    asyncio.run(function.run("r"))
    assert calls == [80, 80]


def test_approval_question_result_and_moment_wait_in_the_journal(journal: Journal) -> None:
    @durable(journal)
    async def desk(text: str) -> list[Any]:
        both = await asyncio.gather(
            durable.ask("Pay?", who="eva"), durable.ask("What for?", of=str)
        )
        await durable.sleep(0.001)
        hook = await durable.result("hook", until=timedelta(days=1), default="none")
        return [*both, hook, await durable.ask("Late?", until=0.001)]

    def resume() -> Any:
        return [each.reply and each.reply.value for each in asyncio.run(desk.resume())]

    with pytest.raises(RunWaiting) as waiting:
        asyncio.run(desk.run("r", "x"))
    assert waiting.value.run_id == "r"
    asked = {wait.text: wait for wait in journal.waiting("r")}
    assert asked.keys() == {"Pay?", "What for?"}
    with pytest.raises(NotPermitted, match="eva"):
        journal.answer("r", asked["Pay?"].key, True, by="bob")
    journal.answer("r", asked["Pay?"].key, False, by="eva")
    journal.answer("r", asked["What for?"].key, "no")
    values: list[Any] = []
    while not any(values):
        values += resume()
        if any(wait.key == "hook" for wait in journal.waiting("r")):
            journal.answer("r", "hook", {"n": 1})
    assert values[-1] == [False, "no", {"n": 1}, False]


def test_question_that_nobody_answers_in_time_raises(journal: Journal) -> None:
    @durable(journal)
    async def desk() -> str:
        return await durable.ask("Who?", of=str, until=0.001)

    async def wait_for_it() -> None:
        while True:
            with suppress(RunWaiting):
                await desk.run("r")

    with pytest.raises(NobodyToAsk, match="Who"):
        asyncio.run(wait_for_it())


def test_agents_are_asked_once_as_parts_of_the_run(journal: Journal) -> None:
    outage = Outage(ConnectionError("down"))
    usage = Usage(3, 4)
    law, style = (
        ReActAgent(name, ScriptedModel([ModelReply(f"{name} says so", usage=usage)]))
        for name in ("law", "style")
    )

    @durable(journal)
    async def desk(text: str) -> list[str]:
        replies = await asyncio.gather(*(agent.reply(text) for agent in (law, style)))
        outage()
        return [reply.text for reply in replies]

    with pytest.raises(ConnectionError):
        asyncio.run(desk.run("r", "x"))
    assert asyncio.run(desk.run("r", "x")) == ["law says so", "style says so"]
    assert [run.id for run in journal.runs()] == ["r"]
    assert journal.run("r").model_calls == 2


def test_agents_spend_from_the_budget_of_the_function(journal: Journal) -> None:
    law = ReActAgent("law", ScriptedModel(["one", "two"]))

    @durable(journal, budget=Budget(model_calls=1))
    async def desk() -> None:
        await law.reply("x")
        await law.reply("y")

    with pytest.raises(BudgetExceeded):
        asyncio.run(desk.run("r"))
    assert journal.run("r").state == "budget"


def test_function_in_another_is_a_part_or_with_an_id_a_run_of_its_own(journal: Journal) -> None:
    @step
    async def add(number: int) -> int:
        return number + 1

    @durable
    async def child(number: int) -> int:
        return await add(number) + int(await durable.ask("More?"))

    @durable(journal)
    async def desk() -> int:
        return await child(1) + await child.run("of-its-own", 10)

    for _ in range(2):
        with pytest.raises(RunWaiting):
            asyncio.run(desk.run("r"))
        for wait in journal.waiting():
            if wait.kind == "approval":
                journal.answer(wait.run, wait.key, True)
    asyncio.run(child.on(journal).resume())
    assert asyncio.run(desk.run("r")) == 3 + 12
    assert sorted(run.id for run in journal.runs()) == ["of-its-own", "r"]


def test_stream_tells_what_the_function_emits_and_again_as_past(journal: Journal) -> None:
    @durable(journal)
    async def desk(count: int) -> int:
        for number in range(count):
            durable.emit({"number": number})
        return count

    async def events(run_id: str) -> list[Any]:
        stream = desk.stream('{"count": 2}', run_id=run_id)
        return [event async for event in stream]

    for is_past in (False, True):
        *emitted, done = asyncio.run(events("r"))
        assert [(e.value, e.past) for e in emitted if isinstance(e, Emitted)] == [
            ({"number": 0}, is_past),
            ({"number": 1}, is_past),
        ]
        assert isinstance(done, Done)
        assert done.reply.value == 2


def test_definitions_that_cannot_be_durable_are_refused(journal: Journal) -> None:
    with pytest.raises(DefinitionError, match="async def"):
        durable(journal)(lambda text: text)  # type: ignore[arg-type]

    @durable
    async def desk() -> None:
        return None

    with pytest.raises(ConfigError, match="no journal"):
        asyncio.run(desk())
    with pytest.raises(ConfigError, match="in a durable function"):
        asyncio.run(durable.ask("Pay?"))


def test_resume_goes_on_with_all_and_one_that_fails_stops_no_other(journal: Journal) -> None:
    @durable(journal)
    async def desk(name: str) -> str:
        if not await durable.ask(f"{name}?"):
            raise ValueError(name)
        return name

    for name in ("one", "two", "three"):
        with pytest.raises(RunWaiting):
            asyncio.run(desk.run(name, name))
    for wait in journal.waiting():
        journal.answer(wait.run, wait.key, wait.run != "two")
    outcomes = {each.run.id: each for each in asyncio.run(desk.resume())}
    assert {id: each.reply.value for id, each in outcomes.items() if each.reply} == {
        "one": "one",
        "two": None,
        "three": "three",
    }


async def test_orchestrator_with_other_items_than_empty_lists_is_a_mismatch(
    journal: Journal,
) -> None:
    async def open_record(items: list[list[int]]) -> None:
        about = {"task": "", "program": {"items": items}}
        async with recorded(journal, "r", "Own", "me", FunctionState, **about):  # type: ignore[arg-type]
            pass

    await open_record([[]])
    with pytest.raises(RunMismatch, match="items"):
        await open_record([[1] * 100])
