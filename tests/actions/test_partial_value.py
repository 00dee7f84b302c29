"""What is shown of a value while a model still writes it."""

from __future__ import annotations

from typing import Any

import pytest

from moothall.actions.signature.partial_value import value_so_far

NAME = {"type": "string"}
PERSON = {
    "type": "object",
    "properties": {
        "name": NAME,
        "kind": {"enum": ["cat", "dog"]},
        "day": {"type": "string", "format": "date"},
        "n": {"type": "integer"},
        "who": {"oneOf": [{"const": "me"}, {"$ref": "#/$defs/Name"}]},
        "both": {"allOf": [NAME, {"pattern": "^a"}]},
        "nicknames": {"type": ["array", "null"], "items": NAME},
    },
    "$defs": {"Name": NAME},
}
CLOSED = {**PERSON, "additionalProperties": False}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    (
        ("", PERSON, None),
        ('{"name": "An', PERSON, {"name": "An"}),
        ('```json\n{"name": "An', PERSON, {"name": "An"}),
        ('{"name": "Ann", "kind": "ca', PERSON, {"name": "Ann"}),
        ('{"name": "Ann", "kind": "cat"', PERSON, {"name": "Ann", "kind": "cat"}),
        ('{"day": "2026-', PERSON, {}),
        ('{"n": 12', PERSON, {}),
        ('{"n": 12,', PERSON, {"n": 12}),
        ('{"n": "12', PERSON, {}),
        ('{"who": "m', PERSON, {"who": "m"}),
        ('{"both": "a', PERSON, {}),
        ('{"nicknames": ["A", "B', PERSON, {"nicknames": ["A", "B"]}),
        ('{"other": "x', PERSON, {"other": "x"}),
        ('{"other": "x', CLOSED, {}),
        ('{"other": "x"', CLOSED, {"other": "x"}),
        ('{"name": "An', {"type": "array"}, {}),
        ('["An', {"type": "object"}, []),
        ('"An', NAME, "An"),
        ('"An', {"type": "integer"}, None),
    ),
)
def test_string_is_shown_as_it_grows_where_its_schema_lets_it(
    text: str, schema: dict[str, Any], value: Any
) -> None:
    assert value_so_far(text, schema) == value
