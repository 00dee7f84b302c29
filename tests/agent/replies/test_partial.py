"""The value of a schema while its answer is streamed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest

from moothall import AskAgain, ReActAgent, ScriptedModel, TextPiece


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Item:
    name: str
    amount: int = 1


@dataclass
class Order:
    to: str
    kind: Literal["gift", "sale"]
    colour: Colour
    due: date
    price: float
    paid: bool
    items: list[Item] = field(default_factory=list)
    note: str | None = None


TEXT = (
    '{"to": "An\\u00e4 \\"B\\"", "kind": "gift", "colour": "green", "due": "2026-11-26", '
    '"price": 12.50, "paid": true, "items": [{"name": "pear", "amount": 34}], "note": "so"}'
)


async def pieces(text: str, size: int = 1) -> Any:
    for at in range(0, len(text), size):
        yield text[at : at + size]


async def partials(answers: list[str], schema: Any, **options: Any) -> list[Any]:
    model = ScriptedModel([lambda _, __, text=text: pieces(text) for text in answers])
    agent = ReActAgent("clerk", model, **options)
    async with agent.stream("Go.", schema=schema) as events:
        return [event.partial async for event in events if isinstance(event, TextPiece)]


def steps(found: list[Any]) -> list[Any]:
    """The values without repetitions."""
    return [each for number, each in enumerate(found) if not number or found[number - 1] != each]


async def test_texts_grow_and_all_else_is_shown_whole() -> None:
    found = steps(await partials([TEXT], Order))
    assert found[:3] == [{}, {"to": ""}, {"to": "A"}]
    names = [each["to"] for each in found[1:] if "kind" not in each]
    assert names == ["", "A", "An", "Anä", "Anä ", 'Anä "', 'Anä "B', 'Anä "B"']
    seen: dict[str, list[Any]] = {}
    for each in found[1:]:
        for name, value in each.items():
            if value not in seen.setdefault(name, []):
                seen[name].append(value)
    assert seen["kind"] == ["gift"]
    assert seen["colour"] == ["green"]
    assert seen["due"] == ["2026-11-26"]
    assert seen["price"] == [12.5]
    assert seen["paid"] == [True]
    assert seen["note"] == ["", "s", "so"]
    names = [item["name"] for value in seen["items"] for item in value if "name" in item]
    assert [*dict.fromkeys(names)] == ["", "p", "pe", "pea", "pear"]
    amounts = [item["amount"] for value in seen["items"] for item in value if "amount" in item]
    assert {*amounts} == {34}
    assert found[-1]["items"] == [{"name": "pear", "amount": 34}]


async def test_partial_value_of_a_refused_answer_begins_anew() -> None:
    def check(order: dict[str, Any]) -> None:
        if order["to"] == "Eve":
            raise AskAgain("Not to Eve.")

    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    found = steps(await partials(['{"to": "Eve"}', '{"to": "Al"}'], schema, check=check))
    assert found == [
        *({}, {"to": ""}, {"to": "E"}, {"to": "Ev"}, {"to": "Eve"}),
        *({}, {"to": ""}, {"to": "A"}, {"to": "Al"}),
    ]


@pytest.mark.parametrize(
    ("schema", "text", "wanted"),
    (
        (list[str], '["ab", "c"]', [[], [""], ["a"], ["ab"], ["ab", ""], ["ab", "c"]]),
        (list[int], "[1, 23]", [[], [1], [1, 23]]),
        (dict[str, str], '{"k": "v"}', [{}, {"k": ""}, {"k": "v"}]),
        (Literal["yes", "no"], '"yes"', [None, "yes"]),
        (list[Literal["ab", "abc"]], '["ab", "abc"]', [[], ["ab"], ["ab", "abc"]]),
        (str | Literal["auto"], '"au"', ["", "a", "au"]),
        (
            {"properties": {"a": {"enum": ["x"]}}, "anyOf": [{"required": ["a"]}, {}]},
            '{"a": "x"}',
            [{}, {"a": "x"}],
        ),
        ({"allOf": [{"enum": ["ab"]}, {"description": "so"}]}, '"ab"', [None, "ab"]),
        ({"$ref": "#/$defs/a", "enum": ["ab"], "$defs": {"a": {}}}, '"ab"', [None, "ab"]),
        ({"patternProperties": {"^a": {"enum": ["x"]}}}, '{"ab": "x"}', [{}, {"ab": "x"}]),
        (
            {"if": {"required": ["k"]}, "then": {"properties": {"a": {"enum": ["x"]}}}},
            '{"b": "y", "a": "x"}',
            [{}, {"b": ""}, {"b": "y"}, {"b": "y", "a": "x"}],
        ),
        (
            {"if": True, "else": {"properties": {"a": {"enum": ["x"]}}}},
            '{"a": "x"}',
            [{}, {"a": "x"}],
        ),
        (
            {"dependentSchemas": {"a": {"properties": {"a": {"pattern": "x"}}}}},
            '{"a": "x"}',
            [{}, {"a": "x"}],
        ),
        (str | dict[str, Literal["x"]], '{"a": "x"}', [{}, {"a": "x"}]),
        (
            list[Item],
            '```json\n[{"name": "p"}]\n```',
            [None, [], [{}], [{"name": ""}], [{"name": "p"}]],
        ),
    ),
)
async def test_partial_value_follows_each_kind_of_schema(
    schema: Any, text: str, wanted: list[Any]
) -> None:
    assert steps(await partials([text], schema)) == wanted


async def test_partial_value_is_none_without_a_schema_or_json() -> None:
    assert {*await partials(["Hello there."], None)} == {None}
    found = await partials(["I think 12 is it.", '{"a": NaN}', "{}"], dict[str, float], tries=2)
    assert [each for each in found if each] == []


async def test_partial_value_of_a_long_answer_is_read_only_when_it_is_looked_at() -> None:
    text = '{"to": "' + "x" * 200_000 + '"}'
    model = ScriptedModel([lambda _, __: pieces(text, 20)])
    count, last = 0, None
    async with ReActAgent("clerk", model).stream("Go.", schema=dict[str, str]) as events:
        async for event in events:
            if isinstance(event, TextPiece):
                count, last = count + 1, event
    assert count > 10_000
    assert last is not None
    assert last.partial == {"to": "x" * 200_000}
