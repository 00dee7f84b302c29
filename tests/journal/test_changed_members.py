"""A group goes on with a run only with the members that it had, whoever's turn was cut off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    Conversation,
    DualActAgent,
    DualActConfig,
    Goal,
    Journal,
    MaxTurns,
    ReActAgent,
    Reply,
    ScriptedModel,
    on_error,
)
from moothall.foundation.errors import RunMismatch
from moothall.models.protocol import Usage


def decision(action: str, instruction: str = "") -> str:
    return json.dumps({"action": action, "new_instruction": instruction, "reasoning": "so"})


def look(n: int) -> int:
    """Look."""
    return n


class Own:
    """A member that keeps no record."""

    def __init__(self, id: str, text: str) -> None:
        self.id = id
        self.text = text

    async def reply(self, text: Any, *args: Any, **options: Any) -> Reply:
        return Reply(self.text, self.text, [], [], Usage(), "done", "", None, "")

    async def observe(self, message: dict[str, Any]) -> None:
        pass


class Other(Own):
    """Another one."""


def member(id: str, *script: Any, name: str = "m", **options: Any) -> ReActAgent:
    return ReActAgent(id, ScriptedModel(script, name), **options)


Changes = dict[str, dict[str, Any]]
"""What is changed of whom."""


def dual(journal: Any, script: tuple[Any, ...], changes: Changes) -> Any:
    """H is cut off after R's first turn."""
    human = member("H", *script, **changes.get("H", {}))
    worker = member("R", "one", "two", **changes.get("R", {}))
    config = DualActConfig(human=human, reactive=worker, **changes.get("pair", {}))
    return DualActAgent(config, "pair", journal=journal)


def talk(journal: Any, script: tuple[Any, ...], changes: Changes) -> Any:
    """B is cut off after A's turn."""
    first = member("R", "one", "three", **changes.get("R", {}))
    second = member("H", *script[1:], **changes.get("H", {}))
    return Conversation([first, second], until=MaxTurns(3), id="talk", journal=journal)


def nested(journal: Any, script: tuple[Any, ...], changes: Changes) -> Any:
    """As a dual act, whose R is a conversation of one."""
    human = member("H", *script, **changes.get("H", {}))
    worker = Conversation(
        [member("R", "one", "two", **changes.get("R", {}))], until=MaxTurns(1), id="talk"
    )
    return DualActAgent(DualActConfig(human=human, reactive=worker), "pair", journal=journal)


CUT_OFF = (decision("CONTINUE", "go"), OSError("down"), decision("REDIRECT", "again"))
WHOLE = (*CUT_OFF, decision("TERMINATE"))
MEMBERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("model", {"name": "other"}),
    ("system prompt", {"system_prompt": "Hurry."}),
    ("actions", {"actions": [look]}),
    ("goals", {"goals": [Goal(1, "g", "d")]}),
)


@pytest.mark.parametrize("group", (dual, talk, nested))
@pytest.mark.parametrize("whose", ("R", "H"))
@pytest.mark.parametrize(("part", "options"), MEMBERS)
def test_member_that_has_changed_is_named_whoever_was_cut_off(
    journal: Journal,
    group: Callable[..., Any],
    whose: str,
    part: str,
    options: dict[str, Any],
) -> None:
    assert group(journal, CUT_OFF, {}).reply_sync("go", run_id="r").stop_reason == "error"
    before = journal.entries("r")
    changed = group(journal, WHOLE, {whose: options})
    with pytest.raises(RunMismatch, match=rf"agent '{whose}': {part}: .*fork\('r'\)") as no:
        changed.reply_sync("go", run_id="r")
    assert no.value.changed == (part,)
    assert journal.entries("r") == before
    forked = journal.fork("r")
    assert changed.reply_sync("go", run_id=forked).stop_reason in ("terminated", "done")
    last = group(journal, WHOLE, {}).reply_sync("go", run_id="r")
    assert last.stop_reason in ("terminated", "done")


@pytest.mark.parametrize(
    ("part", "options"),
    (("review", {"review": on_error}), ("shared memory", {"shared_memory": True})),
)
def test_options_of_a_dual_act_are_part_of_the_program(
    journal: Journal, part: str, options: dict[str, Any]
) -> None:
    dual(journal, CUT_OFF, {}).reply_sync("go", run_id="r")
    with pytest.raises(RunMismatch) as refused:
        dual(journal, WHOLE, {"pair": options}).reply_sync("go", run_id="r")
    assert refused.value.changed == (part,)


@pytest.mark.parametrize("group", (dual, talk))
def test_mismatch_names_all_changed_members_together(
    journal: Journal, group: Callable[..., Any]
) -> None:
    group(journal, CUT_OFF, {}).reply_sync("go", run_id="r")
    changes = {"R": {"name": "other"}, "H": {"name": "other", "system_prompt": "Hurry."}}
    with pytest.raises(RunMismatch) as refused:
        group(journal, WHOLE, changes).reply_sync("stop", run_id="r")
    assert set(refused.value.changed) == {"task", "model", "system prompt"}
    assert all(f"agent '{id}': " in str(refused.value) for id in ("R", "H"))


@pytest.mark.parametrize("group", (dual, talk))
def test_limits_of_members_are_no_part_of_it(journal: Journal, group: Callable[..., Any]) -> None:
    group(journal, CUT_OFF, {}).reply_sync("go", run_id="r")
    more = {"R": {"max_iterations": 3}, "H": {"max_result_chars": 900}}
    reply = group(journal, WHOLE, more).reply_sync("go", run_id="r")
    assert reply.stop_reason in ("terminated", "done")


def test_copy_belongs_to_the_program_that_takes_it_up_first(journal: Journal) -> None:
    talk(journal, CUT_OFF, {}).reply_sync("go", run_id="r")
    forked = journal.fork("r")
    changes = {"R": {"name": "other"}}
    script = (*CUT_OFF[:2], OSError("still down"))
    talk(journal, script, changes).reply_sync("go", run_id=forked)
    with pytest.raises(RunMismatch, match="agent 'R': model"):
        talk(journal, WHOLE, {}).reply_sync("go", run_id=forked)
    again = talk(journal, (*script, "two"), changes).reply_sync("go", run_id=forked)
    assert (again.stop_reason, again.text) == ("done", "three")
    assert journal.replay(forked).text == "three"


@pytest.mark.parametrize("group", ("dual", "talk"))
def test_mismatch_member_without_a_record_is_compared_by_class_and_id(
    tmp_path: Path, group: str
) -> None:
    def made(of: type[Own], text: str, *script: Any) -> Any:
        own, other = of("R", text), member("H", *script)
        if group == "talk":
            return Conversation([own, other], until=MaxTurns(2), journal=tmp_path / "j")
        config = DualActConfig(human=other, reactive=own, first="reactive")
        return DualActAgent(config, journal=tmp_path / "j")

    down = OSError("down")
    assert made(Own, "one", down).reply_sync("go", run_id="r").stop_reason == "error"
    with pytest.raises(RunMismatch, match="agent 'R': agent: was"):
        made(Other, "one", down, decision("TERMINATE")).reply_sync("go", run_id="r")
    reply = made(Own, "two", down, decision("TERMINATE")).reply_sync("go", run_id="r")
    assert reply.stop_reason in ("terminated", "done")


def test_model_that_cannot_be_made_fails_in_its_members_turn(tmp_path: Path) -> None:
    weights = tmp_path / "damaged.gguf"
    weights.write_bytes(b"GGUF")
    worker = ReActAgent("R", f"gguf:{weights}")
    group = Conversation([member("H", "one"), worker], until=MaxTurns(2), journal=tmp_path / "j")
    reply = group.reply_sync("go", run_id="r")
    assert reply.stop_reason == "error"
    assert "damaged.gguf" in reply.detail
    assert [each["content"] for each in reply.messages][:2] == ["go", "one"]
