"""What our models are asked to fill, by the rules for prompts in ARCHITECTURE.md."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.society.blocks.living import citizen, live, town

from moothall import (
    Agent,
    AgentToolbox,
    ChosenBy,
    Conversation,
    HandOver,
    HumanDecision,
    MaxTurns,
    ReActAgent,
)
from moothall.agents.block import Block
from moothall.agents.dualact.comparing import COMPARED_SCHEMA, OWN_SCHEMA
from moothall.models import ModelReply
from moothall.research import Researcher
from moothall.society.blocks.plan import PlanBlock
from moothall.society.blocks.social import SocialBlock


class Listening:
    """A model that keeps the schemas of what it is asked for, and says nothing of use."""

    name, context_tokens = "listening", 4096

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []

    async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
        if schema is not None:
            self.schemas.append(schema)
        words = next((each for each in (schema or {}).get("properties", {})), "")
        said = {"last_said": "so", "is_over": "no"} if words == "last_said" else {}
        if words == "to_do":
            said = {"to_do": "so", "blocks": {}}
        if words == "asked_for":
            said = {"asked_for": "so", "to": schema["properties"]["to"]["enum"][0]}
        return ModelReply(json.dumps(said))


class Small(Listening):
    """One in this process, which is asked one thing at a time."""

    in_process = True


class Walk(Block):
    """Walks."""


class Talk(Block):
    """Talks."""


def schemas() -> list[dict[str, Any]]:
    """Every schema that a model of ours fills."""
    model, small = Listening(), Small()
    for each in (model, small):
        agent = Agent("a", toolbox=AgentToolbox(each), blocks=[Walk(), Talk()])
        asyncio.run(agent.dispatcher.dispatch("What now?"))
    Conversation([ReActAgent(name, small) for name in "abc"], HandOver()).reply_sync("Go")
    members = [ReActAgent(name, model) for name in ("Ann", "Bob", "Cy")]
    Conversation(members, ChosenBy(model, may_end=True), MaxTurns(2)).reply_sync("Go")
    Researcher("r", model, objectives=["Zorp"], tools=[look_up], iterations=1).report_sync()
    live(citizen([PlanBlock(llm=model)]), 0, city=town())
    live(citizen([SocialBlock(llm=model)], relations={"2": 500}), 8, city=town())
    kept = [HumanDecision.schema, OWN_SCHEMA, COMPARED_SCHEMA, *model.schemas, *small.schemas]
    return list({json.dumps(each, sort_keys=True): each for each in kept}.values())


def look_up(query: str) -> str:
    """Look something up."""
    return f"{query}: it is blue."


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema, and every schema in it."""
    yield schema
    for each in schema.get("properties", {}).values():
        yield from parts(each)
    if "items" in schema:
        yield from parts(schema["items"])


@pytest.fixture(scope="module")
def asked() -> list[dict[str, Any]]:
    found = schemas()
    assert len(found) >= 10
    return [part for each in found for part in parts(each)]


def test_model_schema_has_no_none_among_names(asked: list[dict[str, Any]]) -> None:
    for each in asked:
        assert not {None, "none", "null", ""} & {*each.get("enum", ())}, each


def test_model_schema_bounds_every_text_below_a_small_models_cut(
    asked: list[dict[str, Any]],
) -> None:
    for each in asked:
        if each.get("type") == "string" and "enum" not in each:
            assert each.get("maxLength", 0) or "pattern" in each, each


def test_model_schema_list_says_what_it_lists(asked: list[dict[str, Any]]) -> None:
    for each in asked:
        if each.get("type") == "array":
            item = each["items"]
            described = [item, *item.get("properties", {}).values()]
            assert any("description" in one for one in described), each


def test_model_schema_has_its_decision_after_a_text(asked: list[dict[str, Any]]) -> None:
    decided = {"action", "same", "is_over", "blocks", "tool", "to"}
    seen = set()
    for each in asked:
        names = list(each.get("properties", {}))
        for name in decided & {*names}:
            seen.add(name)
            assert each["properties"][names[0]].get("type") == "string", each
            assert names[0] != name
    assert seen == decided
