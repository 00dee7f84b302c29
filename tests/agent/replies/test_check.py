"""A check of an answer's value, and how often an unusable answer is asked for again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from journal.crash import crash
from moothall import AskAgain, Context, Journal, ReActAgent, ScriptedModel
from moothall.foundation.errors import DefinitionError


@dataclass
class Flight:
    number: str
    price: int


CHEAP, DEAR = '{"number": "A1", "price": 90}', '{"number": "B2", "price": 900}'


def affordable(flight: Flight) -> None:
    if flight.price > 100:
        raise AskAgain(f"{flight.number} costs {flight.price}; at most 100")


async def within(flight: Flight, context: Context[int]) -> Flight:
    if flight.price > context.deps:
        raise AskAgain(f"{flight.number} costs {flight.price}; at most {context.deps}")
    return flight


@pytest.mark.parametrize("check", (affordable, within))
async def test_check_that_refuses_a_value_asks_for_it_again(check: Any) -> None:
    model = ScriptedModel([DEAR, CHEAP])
    agent = ReActAgent("a", model, check=check)
    reply = await agent.reply("Find a flight.", Flight, deps=100)
    assert (reply.stop_reason, reply.value) == ("done", Flight("A1", 90))
    told = model.received[1][-1]
    assert told == {"role": "user", "content": "B2 costs 900; at most 100"}


async def test_check_without_a_schema_reads_the_text() -> None:
    def polite(text: str) -> None:
        if "please" not in text:
            raise AskAgain("Say please.")

    reply = await ReActAgent("a", ScriptedModel(["Go.", "Go, please."]), check=polite).reply("?")
    assert reply.text == "Go, please."


@pytest.mark.parametrize(("tries", "asked"), ((0, 1), (1, 2), (3, 4)))
@pytest.mark.parametrize("answer", (DEAR, "no JSON"))
async def test_check_that_refuses_after_all_tries_is_unreadable(
    answer: str, tries: int, asked: int
) -> None:
    model = ScriptedModel([answer] * 6)
    agent = ReActAgent("a", model, check=affordable, tries=tries)
    reply = await agent.reply("Find a flight.", Flight)
    assert (reply.stop_reason, len(model.received)) == ("unreadable", asked)
    assert ("B2 costs 900" if answer == DEAR else "not JSON") in reply.detail


async def test_check_counts_tries_anew_after_a_usable_answer() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([DEAR, {"name": "look"}, DEAR, CHEAP])
    agent = ReActAgent("a", model, actions=[look], check=affordable)
    assert (await agent.reply("Find a flight.", Flight)).value == Flight("A1", 90)


@pytest.mark.parametrize(
    ("result", "said"),
    ((LookupError("no fares"), "LookupError: no fares"), (False, "must return None or the value")),
)
async def test_check_that_fails_ends_the_reply_and_says_so(result: Any, said: str) -> None:
    def check(value: Any) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    reply = await ReActAgent("a", ScriptedModel(["Hello."]), check=check).reply("Hi")
    assert reply.stop_reason == "error"
    assert "the check failed" in reply.detail
    assert said in reply.detail


async def test_check_is_not_repeated_by_a_resumed_run(tmp_path: Path) -> None:
    checked: list[int] = []

    def check(flight: Flight) -> None:
        checked.append(flight.price)
        affordable(flight)

    def agent(journal: Journal) -> ReActAgent:
        def answer(messages: list[dict[str, Any]], actions: Any) -> str:
            if messages[-1]["content"].startswith("B2"):
                if journal.path.endswith("journal"):
                    crash(journal.path, tmp_path / "left")
                return CHEAP
            return DEAR

        model = ScriptedModel([answer] * 4)
        return ReActAgent("a", model, check=check, journal=journal)

    for name, prices in (("journal", [900, 90]), ("left", [90])):
        with Journal(tmp_path / name) as journal:
            reply = await agent(journal).reply("Find a flight.", Flight, run_id="r")
        assert reply.value == Flight("A1", 90)
        assert checked == prices
        checked.clear()


@pytest.mark.parametrize("wrong", ({"check": "x"}, {"tries": -1}, {"tries": "two"}))
def test_agent_wrong_check_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=f"{next(iter(wrong))}="):
        ReActAgent("a", ScriptedModel([]), **wrong)
