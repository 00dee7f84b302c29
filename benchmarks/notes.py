"""What a thousand notes cost: the tokens of their index, and the time to make and to search it.

    python -m benchmarks.notes [--quick]

Tokens are counted by the tokenizer of the local model, where its weights are there; else four
characters are one.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from typing import Any

from benchmarks.measure import emit, side_by_side
from moothall import Call, LocalModel, Notes, ReActAgent, ScriptedModel
from moothall.foundation.errors import WeightsError

MANY = 1000


def write(notes: Notes) -> None:
    """Have an agent write the notes, each of a line and some more."""
    texts = (f"# Customer {n}\nAsked for offer {n * 7}, and likes pears." for n in range(MANY))
    calls = tuple(
        Call(f"c{n}", "note", {"name": f"customer-{n}", "text": text})
        for n, text in enumerate(texts)
    )
    turns = [calls[at : at + 100] for at in range(0, MANY, 100)]
    agent = ReActAgent(
        "writer", ScriptedModel([*turns, "Done."]), blocks=[notes], max_iterations=99
    )
    assert agent.reply_sync("Go.").text == "Done."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.notes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 15
    with tempfile.TemporaryDirectory() as folder:
        notes = Notes(folder, by="shared")
        write(notes)
        find = {"name": "find_notes", "args": {"words": "offer customer 500"}}
        models = {
            "limit": lambda: (ScriptedModel(["Done."]), []),
            "its index": lambda: (ScriptedModel(["Done."]), [notes]),
            "and a search": lambda: (ScriptedModel([find, "Done."]), [notes]),
        }
        prompts: list[dict[str, Any]] = []

        def work(make: Any) -> Any:
            def run() -> int:
                model, blocks = make()
                reply = asyncio.run(ReActAgent("reader", model, blocks=blocks).reply("go"))
                assert reply.text == "Done."
                prompts[:] = model.received[0][:1]
                return 1

            return run

        figures = side_by_side({name: work(make) for name, make in models.items()}, rounds)
    try:
        asked = asyncio.run(LocalModel(max_tokens=1).complete(prompts))
        tokens, counted = asked.usage.input_tokens, "by the tokenizer of the local model"
    except WeightsError:
        tokens, counted = len(prompts[0]["content"]) // 4, "four characters each"
    emit(
        "notes", f"{MANY} of an agent, in its prompt, {counted}", tokens, "tokens", target="<= 500"
    )
    for name, figure in figures.items():
        if name != "limit":
            milliseconds = (figure.seconds - figures["limit"].seconds) * 1000
            emit("notes: a reply", f"{MANY} of an agent, {name}", milliseconds, "ms more")


if __name__ == "__main__":
    main()
