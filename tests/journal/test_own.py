"""An orchestrator of one's own on the record, killed wherever it can be, and resumed."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from journal.own import RUN, URLS, World, digest
from journal.process import KILLED, Processes, effects
from moothall import Journal, Later
from moothall.build import APPENDED, StepHandle, recorded
from moothall.foundation.errors import ConfigError, InDoubt, JournalError, RunMismatch
from moothall.journal import Done


@dataclass
class Ended:
    stop_reason: str
    text: str


SIZE = 400_000  # of the name of a page, so that each is a file beside the journal


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes("journal.own") as made:
        yield made


def ended(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((folder / "reply.json").read_text())
    assert made["summary"] == "Two pages. paid 5"
    assert made["pages"] == [sha256(url.encode() * SIZE).hexdigest() for url in URLS]
    return made


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> int:
    folder = tmp_path_factory.mktemp("whole")
    assert processes.run(folder) == 0
    assert max(effects(folder).values()) == 1
    return int(ended(folder)["commits"])


@pytest.mark.parametrize("step", (pytest.param(1, marks=pytest.mark.long), 3))
def test_killed_at_commits_nothing_that_ended_is_done_again(
    processes: Processes, tmp_path: Path, commits: int, step: int
) -> None:
    for number, when in [*product(range(1, commits + 1), ("before", "after"))][::step]:
        folder = tmp_path / f"{number}-{when}"
        folder.mkdir()
        assert processes.run(folder, commit=[number, when]) == KILLED
        with Journal(folder / "journal") as journal:
            doubts = journal.in_doubt(RUN) if journal.runs() else []
            begun = effects(folder)
            for doubt in doubts:
                assert doubt.action == "pay"
                how: Any = Done("paid 5") if begun["end pay"] else "repeat"
                journal.decide(RUN, {doubt.number: how})
        assert processes.run(folder) == 0
        done = effects(folder)
        ended(folder)
        assert done["end pay"] == 1
        # Repeated only where the process died between the effect and its record.
        assert sum(done[f"end {what}"] for what in ("fetch one", "fetch two", "ask")) <= 5


@pytest.mark.parametrize("where", ("begin approve", "end approve", "begin hook pre"))
def test_step_killed_while_it_asks_for_permission_is_not_in_doubt(
    processes: Processes, tmp_path: Path, where: str
) -> None:
    assert processes.run(tmp_path, effect=where) == KILLED
    with Journal(tmp_path / "journal") as journal:
        assert journal.in_doubt(RUN) == []
    assert processes.run(tmp_path) == 0
    ended(tmp_path)
    assert effects(tmp_path)["end pay"] == 1


def test_step_that_was_permitted_is_not_asked_for_again(
    processes: Processes, tmp_path: Path
) -> None:
    assert processes.run(tmp_path, effect="begin pay") == KILLED
    with Journal(tmp_path / "journal") as journal:
        (doubt,) = journal.in_doubt(RUN)
        assert (doubt.action, doubt.args) == ("pay", {"amount": 5})
        journal.decide(RUN, {1: "repeat"})
    assert processes.run(tmp_path) == 0
    assert effects(tmp_path)["begin approve"] == 1


def test_agent_in_doubt_stops_until_somebody_decides(processes: Processes, tmp_path: Path) -> None:
    assert processes.run(tmp_path, effect="begin pay") == KILLED
    with Journal(tmp_path / "journal") as journal:
        world = World(lambda _: None, SIZE)
        with pytest.raises(InDoubt, match="decide"):
            asyncio.run(digest(journal, RUN, world))


def test_large_value_is_a_file_of_its_own_and_read_back(
    processes: Processes, tmp_path: Path
) -> None:
    size = 20_000_000 // 3
    assert processes.run(tmp_path, effect="begin ask", size=size) == KILLED
    assert (tmp_path / "journal").stat().st_size < 100_000
    folder = tmp_path / "journal-kept"
    assert not any(each.stat().st_mode & 0o077 for each in (folder, *folder.iterdir()))
    assert processes.run(tmp_path, size=size) == 0
    assert effects(tmp_path)["begin fetch one"] == 1
    pages = json.loads((tmp_path / "reply.json").read_text())["pages"]
    assert pages == [sha256(url.encode() * size).hexdigest() for url in URLS]


def test_large_value_that_is_missing_is_named(processes: Processes, tmp_path: Path) -> None:
    assert processes.run(tmp_path, effect="end fetch two") == KILLED
    kept = sorted((tmp_path / "journal-kept").iterdir())
    assert [file.name for file in kept] == [sha256(b"one" * SIZE).hexdigest()]
    os.unlink(kept[0])
    with Journal(tmp_path / "journal") as journal:
        world = World(lambda _: None, SIZE)
        with pytest.raises(JournalError, match=kept[0].name):
            asyncio.run(digest(journal, RUN, world))


def test_agent_without_a_journal_does_the_same() -> None:
    state = asyncio.run(digest(None, RUN, World(lambda _: None, SIZE)))
    assert state.summary == "Two pages. paid 5"


@dataclass
class Lines:
    lines: list[str] = field(default_factory=list, metadata=APPENDED)
    count: int = 0


async def test_list_that_grows_is_recorded_item_by_item(journal: Journal) -> None:
    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        state = Lines()
        for number in range(200):
            state.lines.append("x" * 1000)
            state.count = number + 1
            record.save(state)
        await record.end("done")
    written = sum(len(json.dumps(entry.data)) for entry in journal.entries("R"))
    assert written < 300_000
    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        assert record.state == state
    assert journal.replay("R")["state"]["count"] == 200


async def test_value_can_be_read_before_it_is_committed(journal: Journal) -> None:
    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        assert record.stored_value(record.keep(b"one")) == b"one"


async def test_kept_value_is_written_with_the_entry_that_names_it(tmp_path: Path) -> None:
    """A value that nothing names yet could be deleted meanwhile, as nothing holds it."""

    @dataclass
    class State:
        page: str = ""

    for value in (b"", b"page", b"x" * 2_000_000):
        with Journal(tmp_path / "j") as journal:
            async with recorded(journal, f"r{len(value)}", "own", "a", State) as record:
                name = record.keep(value)
                record.note("heard", "anything")  # written, whatever is kept after this
                await record.commit()
                later = record.keep(value + b"!")
                await record.commit()
                assert record.stored_value(name) == value
                assert record.stored_value(later) == value + b"!"
                record.save(State(later))
                await record.commit()
            assert journal.kept(later) == value + b"!"


async def test_step_that_failed_is_called_again(journal: Journal) -> None:
    called: list[str] = []

    async def pay(step: StepHandle) -> str:
        await step.begins()
        called.append("pay")
        if len(called) == 1:
            raise ConnectionError("no answer")
        return "paid"

    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        with pytest.raises(ConnectionError):
            await record.step("pay", pay, outcome="ask")
        await record.commit()
    assert journal.in_doubt("R") == []
    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        assert await record.step("pay", pay, outcome="ask") == "paid"


@pytest.mark.parametrize(
    ("options", "paid"),
    (({}, []), ({"idempotent": True}, [6]), ({"decided": lambda past: past.decision.word}, [])),
)
async def test_effect_that_was_cut_off_is_done_again_only_if_it_is_idempotent(
    journal: Journal, options: dict[str, Any], paid: list[int]
) -> None:
    has_begun, amounts = asyncio.Event(), list[int]()

    async def pay(step: StepHandle) -> str:
        assert [each.kind for each in journal.entries("R")][1:] == ["started"]  # in the file
        has_begun.set()
        await asyncio.Event().wait()
        return ""

    async def pay_again(step: StepHandle) -> str:
        amounts.append(step.args["amount"])
        return "paid"

    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        effect = record.effect("pay", pay, args={"amount": 5}, action="pay", **options)
        task = asyncio.create_task(effect)
        await has_begun.wait()
        task.cancel()
        await asyncio.wait([task])
    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        effect = record.effect("pay", pay_again, args={"amount": 6}, action="pay", **options)
        if options.get("idempotent"):
            assert await effect == "paid"
        else:
            with pytest.raises(InDoubt, match="decide"):
                await effect
    assert amounts == paid
    if not paid:
        journal.decide("R", {1: "skip"})
        async with recorded(journal, "R", "Lines", "me", Lines) as record:
            effect = record.effect("pay", pay_again, args={"amount": 6}, **options)
            assert await effect == ("skip" if "decided" in options else None)
    assert amounts == paid


async def test_run_waits_for_a_result_and_goes_on_with_it_in_the_next_process(
    journal: Journal,
) -> None:
    async def sign(record: Any) -> Ended:
        signature = await record.wait("sign", Later("signature"), action="sign")
        assert await record.wait("rest", Later(until=datetime(2020, 1, 1, tzinfo=UTC))) is None
        return Ended("done", str(signature))

    for answer in (None, "Eva"):
        if answer is not None:
            journal.answer("R", "signature", answer)
        async with recorded(journal, "R", "Lines", "me", Lines) as record:
            ended = await record.run_to_end(
                partial(sign, record), vars, lambda stop: Ended(stop.reason, stop.detail)
            )
    assert ended == Ended("done", "Eva")
    with pytest.raises(ConfigError, match="needs a journal"):
        async with recorded(None, "R", "Lines", "me", Lines) as record:
            await record.wait("sign", Later("signature"))


@pytest.mark.parametrize("value", ("x" * 3000, {"\0": "a"}, {"\0": {"\0": "x" * 3000}}))
async def test_entry_is_read_as_it_was_noted(journal: Journal, value: Any) -> None:
    part = await journal.begin("R", "Mine", "me", "go")
    part.note("mine", {"value": value})
    await part.commit()
    part.close()
    assert journal.entries("R")[0].data == {"value": value}


async def test_run_of_another_program_is_not_resumed(journal: Journal) -> None:
    async with recorded(journal, "R", "Lines", "me", Lines, program={"urls": ["a"]}) as record:
        await record.commit()
    with pytest.raises(RunMismatch, match="urls"):
        async with recorded(journal, "R", "Lines", "me", Lines, program={"urls": ["b"]}):
            pass


async def test_follow_yields_each_entry_as_it_is_written(tmp_path: Path) -> None:
    async with asyncio.timeout(20):
        with Journal(tmp_path / "j") as journal, Journal(tmp_path / "j") as elsewhere:
            async with recorded(journal, "R", "Lines", "me", Lines) as record:
                await record.commit()
                views = [at.follow("R") for at in (journal, elsewhere)]
                assert [(await anext(view)).kind for view in views] == ["begun"] * 2
                record.save(Lines(["one"]))
                waiting = [asyncio.ensure_future(anext(view)) for view in views]
                await asyncio.sleep(0)
                await record.commit()
                assert [(await each).kind for each in waiting] == ["state"] * 2
                await record.end("done")
            rest = [[entry.kind async for entry in view] for view in views]
    assert rest == [["over"]] * 2


async def test_follow_yields_entries_of_its_own_process_at_once(journal: Journal) -> None:
    with pytest.raises(ConfigError, match="after= must be a whole number from 0 up, got -1"):
        await anext(journal.follow("R", after=-1))
    async with recorded(journal, "R", "Lines", "me", Lines) as record:
        view = journal.follow("R", after=1)
        began = time.monotonic()
        for number in range(20):  # of another process, each would come after 0.25 s
            record.save(Lines([f"{number}"]))
            coming = asyncio.ensure_future(anext(view))
            await asyncio.sleep(0)
            await record.commit()
            assert (await coming).kind == "state"
        assert time.monotonic() - began < 3
        await view.aclose()
