"""Twelve programs of a user's first day; each takes an empty folder and raises where it is wrong.

    python programs.py NAME FOLDER

Runs in environments that have moothall and nothing of its tests.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from moothall import (
    Agent,
    Budget,
    CallbackApprover,
    City,
    Conversation,
    DualActAgent,
    Journal,
    NativeSpace,
    ReActAgent,
    Researcher,
    ScriptedModel,
    Society,
    SQLiteMemory,
    TurnEnded,
    Waiting,
    action,
)

Program = Callable[[Path], Awaitable[None]]


def in_stock(item: str) -> int:
    """How many of an item are in stock.

    Args:
        item: apples or pears
    """
    return {"apples": 12, "pears": 3}[item]


def look(item: str = "pears") -> dict[str, object]:
    """A call that a model makes."""
    return {"name": "in_stock", "args": {"item": item}}


def shop(*answers: object, **options: object) -> ReActAgent:
    """An agent that looks, and says how many there are."""
    script = ScriptedModel([*(answers or (look(), "There are 3 pears."))])
    return ReActAgent("shop", script, actions=[in_stock], **options)


async def reply(folder: Path) -> None:
    """A model calls a function."""
    answered = await shop().reply("How many pears are in stock?")
    check(answered.text, "There are 3 pears.")
    check([(step.action, step.args) for step in answered.steps], [("in_stock", {"item": "pears"})])


async def stream(folder: Path) -> None:
    """The pieces of an answer are the answer, and umlauts come whole."""
    pieces = [each async for each in shop("Zwölf Äpfel.").stream("Wie viele Äpfel?")]
    check(pieces[-1].reply.text, "Zwölf Äpfel.")


async def approval(folder: Path) -> None:
    """A person permits a call, and refuses another one."""
    asked: list[str] = []

    def permit(request: object) -> bool:
        asked.append("asked")
        return len(asked) == 1

    model = ScriptedModel([{"name": "refund", "args": {"cents": n}} for n in (1, 2)] + ["Done."])
    clerk = ReActAgent("clerk", model, actions=[refund], approver=CallbackApprover(permit))
    done = await clerk.reply("Refund both.")
    check([step.error is None for step in done.steps], [True, False])


@action(access_policy="requested")
def refund(cents: int) -> str:
    """Give money back."""
    return f"{cents} paid"


async def journal(folder: Path) -> None:
    """A run waits for a permission, and another agent of the same journal goes on with it."""
    path = folder / "runs.db"
    call = {"name": "refund", "args": {"cents": 5}}

    def clerk(*answers: object) -> ReActAgent:
        model = ScriptedModel([*answers])
        return ReActAgent("clerk", model, actions=[refund], journal=path, approver=Waiting())

    waits = await clerk(call).reply("Refund 5.", run_id="r-1")
    check(waits.stop_reason, "waiting")
    with Journal(path) as opened:
        (wait,) = opened.waiting()
        opened.answer(wait.run, wait.key, True, by="eva")
    done = await clerk(call, "Refunded.").reply("Refund 5.", run_id="r-1")
    check((done.text, done.steps[0].error), ("Refunded.", None))


async def memory(folder: Path) -> None:
    """A thread is in a file, and a budget bounds what an agent spends."""
    kept = SQLiteMemory(folder / "chat.db")
    await shop("Hello, Eva.", memory=kept).reply("I am Eva.", thread="eva")
    check(kept.threads(), ["eva"])
    stopped = await shop(budget=Budget(model_calls=1)).reply("How many pears?")
    check(stopped.stop_reason, "budget")


class Calculator(Agent):
    """Adds."""

    @action
    def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b


async def space(folder: Path) -> None:
    """Agents of a space ask one another."""
    with NativeSpace() as room:
        room.add(Calculator("Calculator"))
        me = room.add(Agent("me"))
        check(await me.ask("Calculator", "add", a=1, b=2), 3)


async def conversation(folder: Path) -> None:
    """Two agents talk in turn."""
    members = [ReActAgent(name, ScriptedModel([f"I am {name}."] * 2)) for name in ("ann", "bob")]
    talk = Conversation(members, max_turns=2).stream("Who are you?")
    turns = [each.speaker async for each in talk if isinstance(each, TurnEnded)]
    check(turns, ["ann", "bob"])


async def dual_act(folder: Path) -> None:
    """A reviewer accepts at the second look."""
    decisions = [
        json.dumps({"action": each, "new_instruction": "Look.", "reasoning": ""})
        for each in ("CONTINUE", "TERMINATE")
    ]
    human = ReActAgent("planner", ScriptedModel(decisions))
    pair = DualActAgent(human=human, reactive=shop(), max_hr_loops=3)
    check((await pair.reply("How many pears?")).text, "There are 3 pears.")


async def door(folder: Path) -> None:
    """OpenAI's interface answers."""
    from moothall.serving import asgi

    application = asgi(shop("Hello."), token="tok-0123456789abcdef")
    body = json.dumps({"model": "shop", "messages": [{"role": "user", "content": "Hi"}]}).encode()
    sent: list[dict[str, object]] = []
    headers = {
        b"host": b"127.0.0.1",
        b"authorization": b"Bearer tok-0123456789abcdef",
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
    }
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "root_path": "",
        "query_string": b"",
        "headers": [*headers.items()],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, object]:
        if parts:
            return parts.pop()
        return await asyncio.Event().wait() or {}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await application(scope, receive, send)
    check(sent[0]["status"], 200)
    answer = b"".join(each.get("body", b"") for each in sent)  # type: ignore[misc]
    check(json.loads(answer)["choices"][0]["message"]["content"], "Hello.")


async def town(folder: Path) -> None:
    """Twenty citizens live a day by rules; the same seed gives the same day."""
    days = []
    for _ in range(2):
        async with Society(20, City.generate(seed=7, citizens=20), seed=7) as made:
            days.append(await made.run(days=1, step="1h"))
    check(len(days[0]), 24)
    check(days[0], days[1])


async def research(folder: Path) -> None:
    """A report quotes a file of a folder."""
    from moothall.research import search_folder

    (folder / "alpha.md").write_text("# Alpha\n\nThe alpha protocol uses port 4711.\n")
    asks = Researcher(
        "researcher",
        None,
        objectives=["Which port does alpha use?"],
        tools=[search_folder(folder)],
    )
    check(
        [each.sentence for each in (await asks.report()).citations],
        ["“The alpha protocol uses port 4711.”"],
    )


async def studio(folder: Path) -> None:
    """The page starts, and answers."""
    from urllib.request import ProxyHandler, build_opener

    from moothall.studio import Studio

    with NativeSpace() as room, Studio("Ann") as page:
        room.add(Calculator("Calculator"))
        room.add(page.user)
        address = page.launch(0, journal=folder / "studio.db", prevent_thread_lock=True, quiet=True)
        browser = build_opener(ProxyHandler({}))  # a proxy of the surroundings is not for this page
        with await asyncio.to_thread(browser.open, address) as answer:
            check(answer.status, 200)


PROGRAMS: dict[str, Program] = {
    each.__name__: each
    for each in (
        *(reply, stream, approval, journal, memory, space),
        *(conversation, dual_act, door, town, research, studio),
    )
}


def check(got: object, wanted: object) -> None:
    """Raise if something is not as it must be; `assert` is nothing under `-O`."""
    if got != wanted:
        raise AssertionError(f"must be {wanted!r}, got {got!r}")


def run(name: str, folder: str) -> str:
    """Run a program in a loop of its own; return its name."""
    asyncio.run(PROGRAMS[name](Path(folder)))
    return name


if __name__ == "__main__":
    print(run(*sys.argv[1:]))
