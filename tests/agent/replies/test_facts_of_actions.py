"""`@action(facts=…)`: what whoever approves a call reads beside it, wherever that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_REQUESTED,
    Agent,
    ApprovalRequest,
    Call,
    CallbackApprover,
    ConfigError,
    Journal,
    NativeSpace,
    NotPermitted,
    ReActAgent,
    Rule,
    RuleApprover,
    ScriptedModel,
    Waiting,
    action,
)

FACTS = {"danger": "high", "cost_usd": 0.2, "undone": True}


@action(access_policy=ACCESS_REQUESTED, facts=FACTS)
def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"{disk} is empty"


@action(access_policy=ACCESS_REQUESTED)
def mount(disk: str) -> str:
    """Mount a disk."""
    return f"{disk} is there"


def keeper(**options: Any) -> ReActAgent:
    calls = [Call("1", "wipe", {"disk": "a"}), Call("2", "mount", {"disk": "a"})]
    return ReActAgent("keeper", ScriptedModel([calls, "Done."]), actions=[wipe, mount], **options)


def results(agent: ReActAgent) -> list[Any]:
    return [each["content"] for each in agent.reply_sync("Go.").messages if each["role"] == "tool"]


def test_approval_request_has_the_facts_of_the_action_in_data_and_words() -> None:
    asked: list[ApprovalRequest] = []
    approver = CallbackApprover(lambda request: asked.append(request) or True)
    keeper(approver=approver).reply_sync("Go.")
    mounting, wiping = sorted(asked, key=lambda each: each.action)  # they are asked side by side
    assert (dict(wiping.facts), dict(mounting.facts)) == (FACTS, {})
    assert str(wiping) == '/keeper.wipe disk:"a" (danger: high, cost_usd: 0.2, undone: true)'
    assert wiping.fingerprint == ApprovalRequest.of(wiping.message).fingerprint


async def test_approval_request_for_a_message_has_the_facts_of_the_receivers_action() -> None:
    class Disks(Agent):
        @action(access_policy=ACCESS_REQUESTED, facts={"danger": "high"})
        async def wipe(self, disk: str) -> str:
            """Wipe a disk."""
            return f"{disk} is empty"

    asked: list[ApprovalRequest] = []
    approver = CallbackApprover(lambda request: bool(asked.append(request)))
    async with NativeSpace(approver=approver) as space:
        user = space.add(Agent("user"))
        space.add(Disks("disks"))
        with pytest.raises(NotPermitted):
            await user.ask("disks", "wipe", disk="b")
    assert [(str(each), each.facts) for each in asked] == [
        ('/disks.wipe disk:"b" (danger: high)', {"danger": "high"})
    ]


def test_rule_permits_and_refuses_by_facts() -> None:
    rules = [Rule(facts={"danger": "high", "cost_usd": "0.*"}, permit=False), Rule()]
    wiped, mounted = results(keeper(approver=RuleApprover(rules)))
    assert "not permitted" in wiped
    assert "a is there" in mounted
    with pytest.raises(ConfigError, match="facts= must be patterns by name"):
        Rule(facts=["danger"])  # type: ignore[arg-type]


def test_wait_in_the_journal_has_the_facts_of_the_action(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Journal(path) as journal:
        keeper(journal=journal, approver=Waiting()).reply_sync("Go.", run_id="r")
    with Journal(path) as journal:
        waits = {each.action: each for each in journal.waiting("r")}
        assert waits["wipe"].facts == waits["wipe"].to_json()["facts"] == FACTS
        assert waits["mount"].facts == {}
        words = 'wipe(disk="a") (danger: high, cost_usd: 0.2, undone: true)'
        assert f"the approval of {words}, since" in str(waits["wipe"])


def test_facts_stand_in_the_help_of_an_action() -> None:
    class Disks(Agent):
        @action(facts={"danger": "high"})
        def wipe(self, disk: str) -> None:
            """Wipe a disk."""

    assert Disks("disks").offers["wipe"].help["facts"] == {"danger": "high"}


@pytest.mark.parametrize(
    ("facts", "error"),
    (
        (["danger"], "must be facts by name"),
        ({"": "high"}, "must have a name"),
        ({"danger": None}, "'danger' must be a text, a finite number or a boolean, got None"),
        ({"cost": float("nan")}, "a finite number"),
        ({"cost": {"usd": 1}}, "'cost' must be a text"),
    ),
)
def test_facts_that_are_no_texts_numbers_or_booleans_by_name_are_refused(
    facts: Any, error: str
) -> None:
    with pytest.raises(ConfigError, match=error):
        action(facts=facts)(lambda: None)
