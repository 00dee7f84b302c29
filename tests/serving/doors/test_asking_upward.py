"""Callers of a door are asked for what their requests lead to, whichever agent does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moothall import ACCESS_REQUESTED, Agent, Context, Journal, ReActAgent, ScriptedModel, action
from moothall.models.protocol import Call
from moothall.serving import asgi
from serving.doors.a2a_calls import asked, data, plain, rpc, started, state

Serve = Callable[[Any], str]


class Bank(Agent):
    """What the clerk's model finds; it has no approver."""

    @action(access_policy=ACCESS_REQUESTED)
    async def buy(self, item: str) -> str:
        """Buy an item."""
        return f"bought {item}"

    @action
    async def ask(self, item: str, context: Context[Any]) -> str:
        """Ask a person."""
        return f"{await context.ask_person('What colour?')} {item}"


@action(access_policy=ACCESS_REQUESTED)
async def buy(item: str) -> str:
    """Buy an item."""
    return f"bought {item}"


@action
async def ask(item: str, context: Context[Any]) -> str:
    """Ask a person."""
    return f"{await context.ask_person('What colour?')} {item}"


def calling(name: str, **args: Any) -> ScriptedModel:
    return ScriptedModel(
        lambda said, _: said[-1]["content"] if said[-1]["role"] == "tool" else Call("0", name, args)
    )


def found(name: str, journal: Any) -> list[Agent]:
    model = calling(f"Bank_{name}", item="tea")
    return [ReActAgent("shop", model, discover=["Bank"], journal=journal), Bank("Bank")]


def helped(form: str) -> Callable[[str, Any], list[Agent]]:
    def agents(name: str, journal: Any) -> list[Agent]:
        helper = ReActAgent("helper", calling(name, item="tea"), actions=[buy, ask])
        asking = helper.as_action(fresh=form == "fresh")
        model = calling("helper", text="go")
        return [ReActAgent("shop", model, actions=[asking], journal=journal)]

    return agents


@pytest.mark.parametrize("has_journal", (True, False))
@pytest.mark.parametrize("name", ("buy", "ask"))
@pytest.mark.parametrize(
    "agents", (found, helped("kept"), helped("fresh")), ids=("found", "kept", "fresh")
)
def test_caller_decides_what_another_agent_asks_on_its_behalf(
    serve: Serve, journal: Journal, agents: Any, name: str, has_journal: bool
) -> None:
    url = serve(asgi(agents(name, journal if has_journal else None)))
    task = started(url, "Buy.")
    assert state(task) == "TASK_STATE_INPUT_REQUIRED"
    said = plain("blue", taskId=task["id"])
    if name == "buy":
        said = data({"approval": asked(task)["approval"], "permit": True}, taskId=task["id"])
    ended = rpc(url, "SendMessage", said)["result"]["task"]
    assert state(ended) == "TASK_STATE_COMPLETED"
    text = ended["artifacts"][0]["parts"][0]["text"]
    assert text == ("bought tea" if name == "buy" else "blue tea")
