"""Journals, budgets and an orchestrator of one's own, as docs/journal-extend.md shows them."""

from dataclasses import dataclass, field
from typing import Any, Literal, assert_type

from moothall import Budget, Journal, ModelReply, ReActAgent, ScriptedModel, Spent
from moothall.agents.replies.step import StepHandle
from moothall.build import APPENDED, recorded
from moothall.journal import Done, Doubt, Entry, Outline


def look(journal: Journal) -> list[str]:
    for run in journal.runs():
        assert_type(run, Outline)
        print(run.id.upper(), run.changed - run.began, run.forked_from)
        print(run.when)  # error
    print(journal.runs()[0].task.title())
    print(journal.run(3))  # error
    return [f"{each.sequence} {each.kind}" for each in journal.entries("bread-1", after=3)]


def decide(journal: Journal) -> None:
    left = journal.decide("bread-1", {1: "repeat", 2: "skip", 3: Done({"paid": True})})
    assert_type(left, list[Doubt])
    journal.decide("bread-1", "skip")
    journal.decide("bread-1", {1: "twice"})  # error
    journal.decide("bread-1", "never")  # error
    for doubt in journal.in_doubt("bread-1"):
        print(doubt.number + 1, doubt.action.upper(), doubt.args.get("coins"))
    assert_type(journal.fork("bread-1", upto=3), str)
    assert_type(journal.kept("ab"), bytes)


async def follow(journal: Journal) -> int:
    last = 0
    async for entry in journal.follow("bread-1", after=last):
        assert_type(entry, Entry)
        last = entry.sequence
    entry = next(journal.follow("bread-1"))  # error
    return last


def spend(journal: Journal) -> int | None:
    whole = Budget(tokens=100_000, usd=2.5, seconds=60, journal=journal, name="whole")
    ada = whole.child(tokens=30_000, name="ada")
    assert_type(ada.spent, Spent)
    agent = ReActAgent("a", ScriptedModel(["Yes."]), budget=ada, journal=journal)
    agent.reply_sync("Well?", run_id="r", budget=ada.child(model_calls=2))
    Budget(coins=3)  # error
    Budget(tokens="many")  # error
    whole.child(tokens=None, minutes=3)  # error
    return ada.left.tokens


@dataclass
class Shopping:
    paid: list[str] = field(default_factory=list[str], metadata=APPENDED)


async def shop(journal: Journal, items: list[str], state: Literal["open", "closed"]) -> str:
    about: dict[str, Any] = {"task": "Shop.", "program": {"items": items}}
    async with recorded(journal, "shop-1", "Shop", "me", Shopping, **about) as record:
        had = record.state or Shopping()
        assert_type(had, Shopping)
        for item in items[len(had.paid) :]:

            async def pay(step: StepHandle, item: str = item) -> str:
                await step.begins({"item": item})
                return f"{item}, {state}"

            paid = await record.step(f"pay.{item}", pay, outcome="ask", action="pay")
            assert_type(paid, str)
            had.paid.append(paid)
            record.save(had)

        async def ask(step: StepHandle) -> ModelReply:
            await step.begins()
            return ModelReply("Paid.")

        answer = await record.step("ask", ask, of=ModelReply)
        assert_type(answer, ModelReply)
        await record.end("done", text=answer.text)
        return answer.text
