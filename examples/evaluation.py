"""Measure a better prompt on recorded runs, their world frozen: no note is written again.

python examples/evaluation.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from moothall import Journal, ReActAgent, Reply, ScriptedModel, action
from moothall.evals import Case, Dataset, Evaluation, called, same_calls_as_record

LETTERS = {
    "My lamp is broken": "repair",
    "The lamp is dark, and I am angry": "repair",
    "Where is my parcel?": "parcel",
    "My parcel never came": "parcel",
    "You are the best shop": "praise",
    "Your bill is wrong": "bill",
}
NOTES: list[str] = []


@action
async def note(desk: str, letter: str) -> str:
    """Hand a letter to a desk.

    Args:
        desk: repair, parcel, praise or bill
        letter: the letter
    """
    NOTES.append(f"{desk}: {letter}")
    return f"noted at {desk}"


def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
    """Answer as a model would that knows only what its prompt tells."""
    letter = next(each["content"] for each in messages if each["role"] == "user")
    if messages[-1]["role"] == "tool":
        return messages[-1]["content"]
    desk = "repair" if "lamp" in letter else "parcel" if "parcel" in letter else "praise"
    if "Bills go to the bill desk." in messages[0]["content"] and "bill" in letter:
        desk = "bill"
    return {"name": "note", "args": {"desk": desk, "letter": letter}}


def make_clerk() -> ReActAgent:
    """The clerk, who sorts letters."""
    prompt = "You hand letters to desks."
    return ReActAgent("clerk", ScriptedModel(answer), actions=[note], system_prompt=prompt)


def right_desk(reply: Reply[Any], case: Case) -> bool:
    """Whether the letter went to the desk that knows about it."""
    desks = [step.args["desk"] for step in reply.steps if step.action == "note"]
    return desks == [LETTERS[case.inputs]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Journal(Path(folder) / "runs.db") as runs, Journal(Path(folder) / "evals.db") as evals:
            clerk = make_clerk()
            clerk.journal = runs
            for number, letter in enumerate(LETTERS):
                clerk.reply_sync(letter, thread=str(number))
            written = len(NOTES)
            better = "You hand letters to desks. Bills go to the bill desk."
            results = Evaluation(
                make_clerk,
                Dataset.from_runs(runs, agent="clerk"),
                [right_desk, same_calls_as_record, called("note")],
                {"as it is": {}, "better": {"system_prompt": better}},
                journal=evals,
                leaves=lambda name, args: f"noted at {args['desk']}",
            ).run_sync()
        for row in results.table():
            print(f"{row[0]:<22}{row[1]:<10}{row[2]:<24}{row[4]}")
        print("notes written by the evaluation:", len(NOTES) - written)


if __name__ == "__main__":
    main()
