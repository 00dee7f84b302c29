"""A kind of answer to an approval is a class and a row: whatever asks a person has it then.

A user cannot add one, so this test adds "yes, and the same call again in this run" and "not
this call again in this run" to a copy of the package.
"""

from __future__ import annotations

import pytest
from tests.extending.conftest import Added

ADDED = (
    (
        'logger: logging.Logger = logging.getLogger("moothall.actions")\n',
        '''

@dataclass(frozen=True, slots=True)
class SameInRun:
    """A permission that also holds for exactly this call, whenever it is made in the run."""


def _same_in_run(request: ApprovalRequest) -> tuple[str, ...]:
    exact = f"{request.run_id} {request.fingerprint} {json.dumps({**request.facts})}"
    return (exact,) if request.run_id and not request.note else ()


@dataclass(frozen=True, slots=True)
class NotSameInRun:
    """A refusal that also holds for exactly this call, whenever it is made in the run."""
''',
    ),
    ("Decision: TypeAlias = bool | Refused", " | SameInRun | NotSameInRun"),
    (
        "            for_request=_check_changed_args,\n        ),\n",
        """        DecisionKind(
            SameInRun,
            "same_in_run",
            lambda value: SameInRun() if value is True else None,
            lambda decision: {"same_in_run": True},
            word="same",
            label="This call again in this run",
            outcome="permitted again in this run",
            for_callers=True,
            scope="run",
            holds=_same_in_run,
        ),
        DecisionKind(
            NotSameInRun,
            "not_same_in_run",
            lambda value: NotSameInRun() if value is True else None,
            lambda decision: {"not_same_in_run": True},
            permits=False,
            takes_reason=False,
            word="drop",
            label="Not this call again in this run",
            outcome="refused again in this run",
            for_callers=True,
            scope="run",
            holds=_same_in_run,
        ),
""",
    ),
)
EXPORTED = (
    (
        "from moothall.actions.approval.decision import Refused as Refused\n",
        "from moothall.actions.approval.decision import SameInRun as SameInRun\n"
        "from moothall.actions.approval.decision import NotSameInRun as NotSameInRun\n",
    ),
)
CLERK = """
from moothall import ACCESS_REQUESTED, Call, ModelReply, ReActAgent, ScriptedModel, action

paid = []

@action(access_policy=ACCESS_REQUESTED)
def pay(coins: int) -> str:
    "Pay."
    paid.append(coins)
    return f"paid {coins}"

def clerk(approver, journal=None, *coins):
    calls = [Call(str(n), "pay", {"coins": each}) for n, each in enumerate(coins)]
    model = ScriptedModel([*(ModelReply("", (each,)) for each in calls), "Done."])
    return ReActAgent("clerk", model, actions=[pay], approver=approver, journal=journal)
"""
USES = """
import asyncio, io, json
from clerks import clerk, paid
from moothall import CallbackApprover, TerminalApprover
from moothall.actions.approval import NotSameInRun, SameInRun
from moothall.studio.cards.cards import Cards
from moothall.studio.event_feed import EventFeed

# By a program.
answers = [SameInRun(), False]
approver = CallbackApprover(lambda request: answers.pop(0))
clerk(approver, None, 3, 3, 4).reply_sync("Pay.")
assert (paid, answers) == ([3, 3], [])
answers = [SameInRun(), NotSameInRun(), True]
clerk(approver, None, 1, 2, 1, 2, 2, 8).reply_sync("Pay.")
assert (paid, answers) == ([3, 3, 1, 1, 8], [])
paid.clear()

# At a terminal, whose question offers it.
shown = io.StringIO()
clerk(TerminalApprover(io.StringIO("same\\nn\\n"), shown), None, 5, 5, 6).reply_sync("Pay.")
assert paid == [5, 5]
assert "Permit this? [y/N/always/run/never/same/drop] " in shown.getvalue()
shown = io.StringIO()
clerk(TerminalApprover(io.StringIO("n\\ndrop\\n"), shown), None, 5, 6, 6).reply_sync("Pay.")
assert (paid, shown.getvalue().count("Permit this?")) == ([5, 5], 2)

# On a card.
cards = Cards(EventFeed())

async def at_the_page(*answers):
    reply = asyncio.create_task(clerk(cards, None, 7, 7, 8, 8, 7, 8).reply("Pay."))
    for answer in answers:
        while not (open_cards := cards.to_json()):
            await asyncio.sleep(0)
        (card,) = open_cards
        assert card["choices"]["same"] == "This call again in this run", card
        cards.decide(card["number"], {"fingerprint": card["fingerprint"], **answer})
    await reply

asyncio.run(at_the_page({"choice": "same"}, {"choice": "drop"}))
assert paid == [5, 5, 7, 7, 7]
asyncio.run(at_the_page({"permit": True, "choice": "drop"}, {"choice": "drop"}))
assert paid == [5, 5, 7, 7, 7]
"""
DOOR = """
import asyncio, json
import httpx2
from clerks import clerk, paid
from moothall.serving import asgi

async def at_a_door(payload):
    transport = httpx2.ASGITransport(app=asgi(clerk(None, None, 3, 3)))
    message = {"id": "m", "role": "user", "content": "Pay."}
    body = {"threadId": "t", "runId": "r", "messages": [message], "tools": [], "context": []}
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/ag-ui", json=body)
        last = json.loads(answer.text.strip().splitlines()[-1].removeprefix("data: "))
        (interrupt,) = last["outcome"]["interrupts"]
        offered = interrupt["responseSchema"]["properties"]["for"]["enum"]
        assert offered == ["run", "never", "same", "drop"]
        assert interrupt["metadata"]["for"]["same"] == "This call again in this run"
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
        answer = await client.post("/ag-ui", json={**body, "resume": [entry]})
        return json.loads(answer.text.strip().splitlines()[-1].removeprefix("data: "))["outcome"]

assert asyncio.run(at_a_door({"approved": False, "for": "drop"}))["type"] == "success"
assert paid == []
assert asyncio.run(at_a_door({"approved": True, "for": "drop"}))["type"] == "interrupt"
assert paid == []
assert asyncio.run(at_a_door({"approved": True, "for": "same"}))["type"] == "success"
assert paid == [3, 3]
"""
WAITS = """
from clerks import clerk
from moothall import Journal, Waiting

with Journal("runs.db") as journal:
    reply = clerk(Waiting(), journal, 1, 1, 2).reply_sync("Pay.", run_id="r")
    print(journal.waiting("r")[0].key)
"""
GOES_ON = """
from clerks import clerk, paid
from moothall import Journal, Waiting

with Journal("runs.db") as journal:
    reply = clerk(Waiting(), journal, 1, 1, 2).reply_sync("Pay.", run_id="r")
    assert (reply.stop_reason, paid) == ("waiting", [1, 1]), (reply, paid)
    (wait,) = journal.waiting("r")
    assert wait.args == {"coins": 2}
    permitted = [each.data for each in journal.entries("r") if each.kind == "permitted"]
    assert (permitted[0]["same_in_run"], permitted[0]["by"]) == (True, "eva")
    print(wait.key)
"""
ENDS = """
from clerks import clerk, paid
from moothall import Journal, Waiting

with Journal("runs.db") as journal:
    reply = clerk(Waiting(), journal, 1, 1, 2, 2, 1).reply_sync("Pay.", run_id="r")
    assert (reply.text, paid) == ("Done.", [1]), (reply, paid)
    kinds = [each.kind for each in journal.entries("r") if each.kind in ("permitted", "refused")]
    assert kinds == ["permitted", "permitted", "refused", "permitted"], kinds
"""


@pytest.mark.long
def test_answer_added_in_two_files_is_offered_read_recorded_and_holds_when_resumed(
    added: Added,
) -> None:
    names = {"actions/approval/decision.py": ADDED, "actions/approval/__init__.py": EXPORTED}
    run = added({**names, "../clerks.py": (("", CLERK),)})
    run("-c", USES)
    run("-c", DOOR)
    key = run("-c", WAITS).strip()
    permit = ("-m", "moothall", "approvals", "permit", key, "--journal", "runs.db", "--as", "eva")
    permitted = run(*permit, "--for", "same", "--reason", "a routine")
    assert permitted.startswith("permitted again in this run: the approval of pay(coins=1)")
    key = run("-c", GOES_ON).strip()
    refuse = ("-m", "moothall", "approvals", "refuse", key, "--journal", "runs.db", "--as", "eva")
    refused = run(*refuse, "--for", "drop")
    assert refused.startswith("refused again in this run: the approval of pay(coins=2)")
    run("-c", ENDS)
    shown = run("-m", "moothall", "runs", "r", "--journal", "runs.db")
    assert "permitted again in this run by eva: pay(coins=1)\n" in shown
    assert "refused again in this run by eva: pay(coins=2)\n" in shown
