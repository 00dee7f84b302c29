"""The marks of messages: no model, hook, event or reply has them; stores keep them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from actions.provenance.test_carrying import ATTACK, PAGE, READ, TASK, Bank, call
from moothall import (
    Block,
    CallbackApprover,
    Context,
    Journal,
    Memory,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.memory.memory import AnyMemory

PLAIN = {"role", "content", "tool_calls", "tool_call_id", "name"}
READ_BEFORE: list[dict[str, Any]] = [
    {"role": "user", "content": TASK},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "1", **READ}]},
    {
        "role": "tool",
        "tool_call_id": "1",
        "name": "read_page",
        "content": PAGE,
        "provenance": {"sources": ["evil.example/page"]},
    },
    {
        "role": "assistant",
        "content": "It says so.",
        "provenance": {"sources": ["evil.example/page"]},
    },
]
"""A memory with the marks of what was read."""


def test_marks_are_seen_by_no_model_hook_or_reader_of_a_reply(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def shown(_: Any, kwargs: dict[str, Any]) -> None:
        seen.extend(kwargs.get("messages", ()))
        seen.extend([kwargs["message"]] if "message" in kwargs else ())

    async def colour(context: Context[Any]) -> str:
        """Ask for a colour."""
        return await context.ask_person("Which?")

    bank = Bank()
    approver = CallbackApprover(lambda request: True, answer=lambda question: "blue")
    answers = (call("colour"), call("nothing", x=1), READ, ATTACK, "done")
    model, memory = ScriptedModel(answers), Memory()
    journal = Journal(tmp_path / "j.db")
    actions = [*bank.actions(), action(colour)]
    one = ReActAgent("a", model, actions=actions, approver=approver, memory=memory, journal=journal)
    for type in ("pre_reasoning", "pre_observe", "post_observe"):
        one.register_hook(type, "look", shown)  # type: ignore[arg-type]

    async def run() -> list[Any]:
        await one.observe({**READ_BEFORE[3]})
        async with one.stream(TASK, run_id="r") as stream:
            return [event async for event in stream]

    events = asyncio.run(run())
    reply = events[-1].reply
    assert (reply.text, bank.paid) == ("done", ["mallory@evil.example"])
    told = [each.message for each in events if each.kind == "message_added"]
    shown_to_model = [each for prompt in model.received for each in prompt]
    for message in [*seen, *shown_to_model, *told, *reply.messages]:
        assert set(message) <= PLAIN
    assert reply.outside == ("evil.example/page",)
    kept = {name for each in memory.items for name in each.get("provenance", {})}
    assert {"sources", "said"} <= kept
    states = [each.data["appended"] for each in journal.entries("r") if each.kind == "state"]
    assert all(set(m) <= PLAIN for each in states for m in each.get("messages", ()))
    marks = [mark for each in states for mark in each.get("marks", ())]
    assert {"sources": ["evil.example/page"]}.items() <= marks[-1]["provenance"].items()
    assert all(set(m) <= PLAIN for m in journal.replay("r").messages)
    journal.close()


def test_marks_in_a_memory_hold() -> None:
    bank, memory = Bank(), Memory()
    memory.items = [dict(each) for each in READ_BEFORE]
    one = bank.agent("a", ATTACK, "no", memory=memory)
    one.reply_sync("Go on.")
    assert (bank.paid, len(bank.asked)) == ([], 1)
    model: Any = one.model
    assert all(set(each) <= PLAIN for prompt in model.received for each in prompt)


def test_permission_for_a_thread_in_a_memory_holds() -> None:
    bank, memory = Bank(), Memory()
    keys = ["pay.to=mallory@evil.example", "pay.amount=999"]
    permitted = {"role": "tool", "tool_call_id": "2", "name": "pay", "content": "paid"}
    memory.items = [*map(dict, READ_BEFORE), {**permitted, "provenance": {"always": keys}}]
    bank.agent("a", ATTACK, "done", memory=memory).reply_sync("Pay once more.")
    assert (bank.paid, bank.asked) == (["mallory@evil.example"], [])


def test_marks_of_what_only_the_first_try_of_a_call_was_given_hold_in_a_memory() -> None:
    """An action that may have kept it may give it back, decoded or joined."""

    class Again(Block):
        async def around_action(self, step: Any, call: Any) -> Any:
            result = await call()
            if step.name != "note":
                return result
            step.args = {"text": "nothing"}
            return await call()

    @action(guard=())
    def note(text: str) -> str:
        """Write a note."""
        return "written"

    @action
    def payee() -> str:
        """Look up whom to pay."""
        return "carl@d.example"

    bank, memory = Bank(), Memory()
    first = (READ, call("note", text="at once"), "It is noted.")
    options: dict[str, Any] = {"actions": [*bank.actions(), note, payee], "memory": memory}
    bank.agent("a", *first, blocks=[Again()], **options).reply_sync(TASK)
    pay = call("pay", to="carl@d.example", amount=50)
    bank.agent("a", call("payee"), pay, "no", **options).reply_sync("Go on.")
    assert (bank.paid, len(bank.asked)) == ([], 1)


class OwnMemory:
    """A memory of a user's own, which keeps JSON."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add_memory(self, memory: dict[str, Any]) -> None:
        self.lines.append(json.dumps(memory))

    def get_memories(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.lines]


def test_memory_of_the_users_own_that_keeps_json_keeps_the_marks() -> None:
    bank = Bank()
    memory: AnyMemory = OwnMemory()
    one = bank.agent("a", READ, "read", memory=memory)
    one.reply_sync("Read it.")
    other = bank.agent("a", ATTACK, "no", memory=memory)
    other.reply_sync("Go on.")
    assert (bank.paid, len(bank.asked)) == ([], 1)
