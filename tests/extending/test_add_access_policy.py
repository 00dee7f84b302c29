"""An access policy that asks is named in one file and asks in another: all who ask have it.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

POLICY = (
    ('AccessPolicy: TypeAlias = Literal["permitted", "denied", "requested"', ', "once"'),
    ('ACCESS_REQUESTED: Final = "requested"\n', 'ACCESS_ONCE: Final = "once"\n'),
)
ASKS = (
    (
        "        actions = proposed_actions(self, proposed_message)\n",
        "        permitted_once = self.__dict__.setdefault('permitted_once', set())\n"
        "        if all(e.access_policy == 'once' and e.name in permitted_once for e in actions):\n"
        "            return True\n"
        "        permitted_once |= {each.name for each in actions}\n",
    ),
)
USES = """
import asyncio

import httpx2

from moothall import Agent, CallbackApprover, ConfigError, NativeSpace, ReActAgent
from moothall import ScriptedModel, action
from moothall.serving import asgi

asked = []
approver = CallbackApprover(lambda request: bool(asked.append(request.action)) or True)

class Bank(Agent):
    @action(access_policy="once")
    async def pay(self, coins: int) -> int:
        return coins

class Clerk(ReActAgent):
    @action(access_policy="once")
    async def say(self, content: str, thread: str | None = None) -> str:
        \"\"\"Say something.\"\"\"
        return await super().say(content, thread)

@action(access_policy="once")
def look() -> str:
    \"\"\"Look.\"\"\"
    return "seen"

script = ScriptedModel([{"name": "look"}, {"name": "look"}, "Done."])
looking = ReActAgent("looking", script, actions=[look], approver=approver)
assert [step.error for step in looking.reply_sync("go").steps] == [None, None]
assert asked == ["look"], asked
asked.clear()

with NativeSpace(approver=approver) as space:
    bank, me = space.add(Bank("bank")), space.add(Agent("me"))
    assert [me.ask("bank", "pay", coins=n).result() for n in (1, 2)] == [1, 2]
assert asked == ["pay"], asked
asked.clear()

async def at_door():
    clerk = Clerk("clerk", ScriptedModel(["Yes."] * 2), approver=approver)
    transport = httpx2.ASGITransport(asgi(clerk))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        body = {"model": "clerk", "messages": [{"role": "user", "content": "go"}]}
        for _ in range(2):
            answer = await client.post("/v1/chat/completions", json=body)
            assert answer.json()["choices"][0]["message"]["content"] == "Yes.", answer.text

asyncio.run(at_door())
assert asked == ["say"], asked
try:
    action(access_policy="twice")(look)
except ConfigError as error:
    assert "ACCESS_ONCE" in str(error), error
else:
    raise AssertionError
"""


def test_access_policy_added_in_two_files_asks_in_loops_spaces_and_doors(added: Added) -> None:
    added({"actions/marking.py": POLICY, "agents/agent.py": ASKS})("-c", USES)
