"""Answers by a schema: what the value is, what is refused, what the model is told."""

from __future__ import annotations

import asyncio
import enum
import json
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import jsonschema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.replies.answers import Answers, say
from moothall import (
    Conversation,
    DefinitionError,
    DualActAgent,
    DualActConfig,
    ReActAgent,
    Reply,
    ScriptedModel,
)


@dataclass
class City:
    name: str
    people: int


class Place(TypedDict):
    x: int
    y: int


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


class Tree(pydantic.BaseModel):
    value: int
    children: list[Tree] = []


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


def ask(schema: Any, *answers: str) -> Any:
    return ReActAgent("thinker", ScriptedModel(answers)).reply_sync("go", schema=schema)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    (
        (CITY, '{"name": "Bern", "people": 134000}', {"name": "Bern", "people": 134000}),
        (City, '{"name": "Bern", "people": 134000}', City("Bern", 134000)),
        (Place, '{"x": 1, "y": 2}', {"x": 1, "y": 2}),
        (Person, ' {"name": "Ann", "age": 3}\n', Person(name="Ann", age=3)),
        (
            Tree,
            '{"value": 1, "children": [{"value": 2}]}',
            Tree(value=1, children=[Tree(value=2)]),
        ),
        (list[int], "[1, 2, 3]", [1, 2, 3]),
        (int, "7", 7),
        (bool, "true", True),
        (str, '"text"', "text"),
        (str, "5 texts\n", "5 texts"),
        (str, "5", "5"),
        (Colour, "red", Colour.RED),
        (Colour, '"red"', Colour.RED),
        (Literal["yes", "no"], '"no"', "no"),
        (int | None, "null", None),
        ({}, "[null]", [None]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, "5", 5),
        (int, "```json\n7\n```", 7),
        (int, "```JSON 7```", 7),
        (int, "```7```", 7),
        (int, "```JSON\n7```", 7),
        (dict, '```json {"a": "`b`"} ```\n', {"a": "`b`"}),
    ),
)
def test_schema_answer_is_the_value_of_its_text(schema: Any, text: str, value: Any) -> None:
    reply = ask(schema, text)
    assert (reply.stop_reason, reply.detail) == ("done", "")
    assert reply.value == value
    assert type(reply.value) is type(value)
    assert reply.text == text


@pytest.mark.parametrize(
    ("schema", "text", "told"),
    (
        (CITY, "Bern has 134000 people.", "is not JSON: Expecting value at character 0"),
        (CITY, 'Here:\n```json\n{"name": "Bern", "people": 1}\n```', "is not JSON"),
        (CITY, '{"name": "Bern", "people": 1} Done!', "is not JSON: Extra data"),
        (CITY, '{"name": "Bern", "people": 1, "people": 2}', "a key appears twice"),
        (CITY, '{"name": "Bern", "people": NaN}', "NaN is not JSON"),
        (CITY, '{"name": "Bern", "people": -5}', "answer.people is wrong: -5 is less than"),
        (CITY, '{"name": "Bern"}', "'people' is a required property"),
        (CITY, "[" * 100_000, "nested too deep"),
        (City, '{"name": "Bern", "people": "many"}', "must be integer, not string"),
        (City, "[]", "must be"),
        (Person, '{"name": "Ann", "age": -1}', "age"),
        (list[int], '[1, "2"]', "answer[1] must be integer, not string"),
        (str, '"\\ud800"', "is not JSON"),
        (int, "1e400", "is not JSON"),
    ),
)
def test_schema_answer_that_does_not_follow_is_asked_for_again(
    schema: Any, text: str, told: str
) -> None:
    good = {
        id(CITY): '{"name": "Bern", "people": 1}',
        id(City): '{"name": "Bern", "people": 1}',
        id(Person): '{"name": "Ann", "age": 1}',
        id(str): '"x"',
        id(int): "1",
    }.get(id(schema), "[1]")
    model = ScriptedModel([text, good])
    reply = ReActAgent("thinker", model).reply_sync("go", schema=schema)
    assert reply.stop_reason == "done"
    assert json.loads(reply.text) == json.loads(good)
    again = model.received[1][-1]
    assert again["role"] == "user"
    assert told in again["content"]
    assert "Answer with JSON alone that follows this schema: {" in again["content"]


def test_schema_that_is_never_met_ends_as_unreadable() -> None:
    reply = ask(City, "no", "no", '{"name": "Bern", "people": 1}')
    assert reply.stop_reason == "unreadable"
    assert (reply.text, reply.value) == ("no", None)
    reply = ask({"not": {}}, "1", "2", "3")
    assert reply.stop_reason == "unreadable"
    assert "does not follow the schema" in reply.detail


def test_schema_is_given_to_the_model_whose_actions_still_work() -> None:
    given: list[Any] = []

    class Model:
        name = "model"
        context_tokens = None

        def __init__(self) -> None:
            self.script = ScriptedModel([{"name": "people_of", "args": {"city": "Bern"}}, "134000"])

        async def complete(self, messages: Any, actions: Any = None, schema: Any = None) -> Any:
            given.append((schema, [action.name for action in actions]))
            return await self.script.complete(messages, actions)

    def people_of(city: str) -> int:
        """How many people live in a city."""
        return 134000

    agent = ReActAgent("thinker", Model(), actions=[people_of])
    reply = agent.reply_sync("How many?", schema=int)
    assert reply.value == 134000
    assert given == [({"type": "integer"}, ["people_of"])] * 2
    agent.reply_sync("How many?", schema=Tree)
    schema, _ = given[-1]
    jsonschema.validate({"value": 1, "children": [{"value": 2}]}, schema)
    with pytest.raises(jsonschema.ValidationError, match="is not of type 'integer'"):
        jsonschema.validate({"value": 1, "children": [{"value": "2"}]}, schema)


def test_schema_terminal_actions_result_is_the_value() -> None:
    from moothall import Action

    agent = ReActAgent(
        "thinker",
        ScriptedModel([{"name": "stop"}]),
        actions=[Action("stop", lambda: "stopped", terminal=True)],
    )
    reply = agent.reply_sync("go", schema=int)
    assert (reply.stop_reason, reply.value) == ("terminal", "stopped")


@pytest.mark.parametrize(
    "schema",
    (
        {"type": "nonsense"},
        {"properties": 7},
        {"type": object()},
        print,
        7,
        "a text",
        lambda: None,
        type("Opaque", (), {}),
    ),
)
def test_schema_that_is_wrong_is_refused_before_the_model_is_asked(schema: Any) -> None:
    model = ScriptedModel(["1"])
    agent = ReActAgent("thinker", model)
    with pytest.raises(DefinitionError, match="schema="):
        agent.reply_sync("go", schema=schema)
    assert (model.received, agent.memory.get_memories()) == ([], [])
    assert agent.reply_sync("go").text == "1"


@pytest.mark.parametrize("kind", ("agent", "dual act", "conversation"))
@pytest.mark.parametrize("ref", ("#/definitions/q", "http://127.0.0.1:9/schema.json"))
def test_schema_reference_that_leads_nowhere_is_an_error_of_the_asker(kind: str, ref: str) -> None:
    models = [ScriptedModel(["1"]), ScriptedModel(["1"])]
    a, b = (ReActAgent(id, model) for id, model in zip("ab", models, strict=True))
    asked: Any = {
        "agent": lambda: a,
        "dual act": lambda: DualActAgent(DualActConfig(a, b, first="reactive")),
        "conversation": lambda: Conversation([a, b]),
    }[kind]()
    schema = {"type": "object", "allOf": [{"$ref": ref}]}
    with pytest.raises(DefinitionError, match=r"schema= is not a JSON schema: .*reference"):
        asked.reply_sync("go", schema=schema)
    assert [model.received for model in models] == [[], []]


def test_schema_that_refers_to_itself_alone_fits_any_answer() -> None:
    agent = ReActAgent("thinker", ScriptedModel(["1"]))
    assert agent.reply_sync("go", schema={"allOf": [{"$ref": "#"}]}).value == 1


def test_reply_without_a_value_of_its_own_has_its_text_as_the_value() -> None:
    assert Reply("Yes.").value == "Yes."
    assert Reply("Yes.", None).value is None


def test_schema_reference_to_a_url_is_not_fetched() -> None:
    agent = ReActAgent("thinker", ScriptedModel(["ok"]))
    with pytest.raises(
        DefinitionError, match=r"schema= is not a JSON schema: .*nothing is fetched"
    ):
        agent.reply_sync("go", schema={"$ref": "http://127.0.0.1:9/schema.json"})
    assert agent.reply_sync("go").text == "ok"


def test_schema_answer_that_was_cut_says_so() -> None:
    from moothall import ModelReply

    cut = ModelReply('{"name": "Be', finish_reason="length")
    model = Answers(cut, say('{"name": "Bern", "people": 1}'))
    reply = ReActAgent("thinker", model).reply_sync("go", schema=City)
    assert reply.value == City("Bern", 1)
    assert "cut at the model's length limit" in model.prompts[1][-1]["content"]


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_schema_answer_of_any_text_is_a_value_or_says_it_is_none(text: str) -> None:
    if not text.strip():
        return
    reply = asyncio.run(ReActAgent("a", ScriptedModel([text, text])).reply("go", schema=list[int]))
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, list) and all(type(item) is int for item in value):
        assert (reply.stop_reason, reply.value) == ("done", value)
    else:
        assert reply.stop_reason == "unreadable"
