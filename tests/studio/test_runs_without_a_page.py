"""What the tab Runs gives of runs, without a page: a search, two runs compared, calls in doubt."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from moothall import Action, Call, ReActAgent, ScriptedModel
from moothall.studio import Studio


def look(studio: Studio, run_id: str, in_rome: str) -> None:
    """A run that looks at the weather of two places."""
    weather = {"Rome": in_rome, "Oslo": "snow"}

    def see(place: str) -> str:
        """Look."""
        return weather[place]

    places = [Call(each, "see", {"place": each}) for each in weather]
    agent = ReActAgent(
        "a", ScriptedModel([*places, "Seen."]), actions=[see], journal=studio.journal
    )
    with ThreadPoolExecutor(1) as thread:  # in this one Playwright may have a loop
        thread.submit(agent.reply_sync, "How is it?", run_id=run_id).result()


def test_search_in_a_run_gives_the_entries_with_the_text_alone(studio: Studio) -> None:
    look(studio, "r", "sun")
    found = studio.runs.search("r", " SNOW ")
    assert [each["line"].partition(" … ")[0] for each in found] == [
        'tool result: see: "snow"',
        "turn finished (2 messages, 1 step)",
    ]
    assert "content : snow" in found[1]["line"]  # where it stands
    assert studio.runs.search("r", "rain") == []


def test_compared_runs_have_steps_of_the_same_input_beside_each_other(studio: Studio) -> None:
    look(studio, "one", "sun")
    look(studio, "other", "rain")
    rows = studio.runs.compare("one", "other")["rows"]
    assert [(left["line"], right["line"]) for left, right, same in rows if not same] == [
        ('tool result: see: "sun"', 'tool result: see: "rain"')
    ]
    assert len(rows) == 5


def test_call_of_a_run_under_way_is_not_in_doubt(studio: Studio) -> None:
    begun, held = threading.Event(), threading.Event()

    def pay() -> str:
        """Pay."""
        begun.set()
        assert held.wait(60)
        return "paid"

    model = ScriptedModel([Call("c", "pay", {}), "Paid."])
    agent = ReActAgent("a", model, actions=[Action("pay", pay)], journal=studio.journal)
    with ThreadPoolExecutor(1) as thread:
        reply = thread.submit(agent.reply_sync, "Pay.", run_id="r")
        assert begun.wait(60)
        assert studio.runs.run("r")["in_doubt"] == []
        held.set()
        assert reply.result().text == "Paid."
