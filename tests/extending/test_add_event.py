"""An event of a stream says its own line: terminals, other processes and doors show it by that.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

EVENT = (
    (
        "def _no_reply() -> Any:\n",
        "    raise TypeError\n\n\n"
        "@dataclass(slots=True)\n"
        "class Rested(ReplyEvent):\n"
        '    """The agent has rested."""\n\n'
        '    kind: ClassVar[Literal["rested"]] = "rested"\n'
        "    seconds: float\n\n"
        "    @property\n"
        "    def line(self) -> str:\n"
        '        return f"rested for {self.seconds:g} s"\n\n'
        "    progress = line\n\n\n"
        "def _no_reply_else() -> Any:\n",
    ),
    ("    | BudgetLow\n", "    | Rested\n"),
)
TOLD = (
    ("import MessageAdded, MessagesLeftOut", ", Rested"),
    (
        "                self.request.tell(MessageAdded, self.id, message)\n",
        "            self.request.tell(Rested, self.id, 2.5)\n",
    ),
)
USES = """
import asyncio
from io import StringIO

import httpx2

from moothall import NativeSpace, ReActAgent, RemoteAgent, ScriptedModel, show
from moothall.serving import asgi

def agent_of(name):
    return ReActAgent(name, ScriptedModel(["Yes."]))

printed = StringIO()
asyncio.run(show(agent_of("a").stream("go"), printed))
assert "rested for 2.5 s" in printed.getvalue().splitlines(), printed.getvalue()

async def at_ag_ui():
    transport = httpx2.ASGITransport(asgi(agent_of("a")))
    body = {"threadId": "t", "runId": "r", "messages": [
        {"id": "1", "role": "user", "content": "go"}], "tools": [], "context": []}
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/ag-ui/a", json=body)
        assert "rested for 2.5 s" in answer.text, answer.text

asyncio.run(at_ag_ui())
"""


def test_event_added_in_two_files_is_shown_by_terminals_and_doors(added: Added) -> None:
    added({"agents/replies/events.py": EVENT, "agents/loop/run.py": TOLD})("-c", USES)
