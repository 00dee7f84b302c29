from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moothall import (
    Agent,
    DefinitionError,
    InvalidMessage,
    MoothallError,
    NativeSpace,
    SlashError,
    action,
    format_slash,
    parse_slash,
)
from moothall.build import Envelope
from moothall.spaces.complete import completions

OLD = sys.version_info < (3, 13)
"""Later ones say of a comma at the end what it is, and point at it."""

WAIT = 10
LONGEST = 1_000_000


def to(receiver: str, name: str, /, **args: Any) -> dict[str, Any]:
    return {"to": receiver, "action": {"name": name, "args": args}}


def wrong(line: str) -> SlashError:
    with pytest.raises(SlashError) as caught:
        parse_slash(line)
    return caught.value


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    (
        (
            '/agent_id.action_name arg1:"value 1" arg2:2',
            to("agent_id", "action_name", arg1="value 1", arg2=2),
        ),
        ("/*.help", to("*", "help")),
        ('/Host.help action_name:"say"', to("Host", "help", action_name="say")),
        ("Hello, world!", to("*", "say", content="Hello, world!")),
        ("  not / a command\r\n", to("*", "say", content="  not / a command")),
        ('/"Ann Lee".say content:"Hi"', to("Ann Lee", "say", content="Hi")),
        (r'/"a.b \"c\"\n".say', to('a.b "c"\n', "say")),
        ("/Zoë.say", to("Zoë", "say")),
        ("/Town.block.move", to("Town", "block.move")),
        ('/Town."an action" x:1', to("Town", "an action", x=1)),
        ('/"*".help', to("*", "help")),
        ("/-1.add a:-0.5 b:1e3 c:1E-2", to("-1", "add", a=-0.5, b=1000.0, c=0.01)),
        ("/A.b x:true y:false z:null", to("A", "b", x=True, y=False, z=None)),
        (
            '/A.b x:[1, [], {"k": {"l": [null]}}] y:{}',
            to("A", "b", x=[1, [], {"k": {"l": [None]}}], y={}),
        ),
        ('/A.b "an argument":1 "":2', to("A", "b", **{"an argument": 1, "": 2})),
        (r'/A.b c:"\u0041\ud83d\ude00\t"', to("A", "b", c="A😀\t")),
        ("  /A.b \t x: 1  ", to("A", "b", x=1)),
        ("/A.b größe:1", to("A", "b", größe=1)),
        pytest.param(f"/{'a' * 255}.{'b' * 255}", to("a" * 255, "b" * 255), id="longest"),
    ),
)
def test_slash_line_is_a_message(line: str, message: dict[str, Any]) -> None:
    assert parse_slash(line) == message


@pytest.mark.parametrize("line", ("", " ", "\n", " \t\r\n"))
def test_slash_line_that_is_blank_is_nothing(line: str) -> None:
    assert parse_slash(line) is None


def test_integers_stay_integers() -> None:
    read: Any = parse_slash(f"/A.b x:1 y:1.0 z:{10**4299}")
    args = read["action"]["args"]
    assert (type(args["x"]), type(args["y"]), args["z"]) == (int, float, 10**4299)


@pytest.mark.parametrize(
    ("line", "column", "said"),
    (
        ("/", 2, "an agent's id or *"),
        ("/.say", 2, "an agent's id or *"),
        ("/Host", 6, 'expected "." and an action, such as /Host.help, not the end of the line'),
        ("/Ann Lee.say", 5, '"." and an action'),
        ("/Host.", 7, "an action's name"),
        ("/Host. x:1", 7, "an action's name"),
        ('/"Host', 7, 'end with "'),
        ('/"".say', 2, "1 to 255 characters, not 0"),
        ("/" + "a" * 256 + ".say", 2, "1 to 255 characters, not 256"),
        ("/A." + "a" * 256, 4, "1 to 255 characters, not 256"),
        ("/A.b c", 7, '":" and the value of "c"'),
        ("/A.b c :1", 7, '":" and the value of "c"'),
        ("/A.b 1:1", 6, "an argument as NAME:VALUE"),
        ("/A.b c:", 8, "a JSON value"),
        ("/A.b c:hello", 8, 'or "hello", not "h"'),
        ("/A.b c:'hello'", 8, "a JSON value"),
        ("/A.b c:True", 8, "a JSON value"),
        ("/A.b c:NaN", 8, "a JSON value"),
        ("/A.b c:[1, Infinity]", 8, "a JSON value"),
        ("/A.b c:-Infinity", 8, "a JSON value"),
        ("/A.b c:1e999", 8, "inf is not JSON"),
        ("/A.b c:+1", 8, "a JSON value"),
        ("/A.b c:.5", 8, "a JSON value"),
        ("/A.b c:1.", 9, "a space or the end"),
        ("/A.b c:01", 9, "a space or the end"),
        ("/A.b c:٣", 8, "a JSON value"),
        ("/A.b c:1" + "0" * 4300, 8, "4300 digits"),
        ("/A.b c:1 d:2 c:3", 14, 'other than "c"'),
        ('/A.b c:1 "c":3', 10, 'other than "c"'),
        ('/A.b c:{"a": 1, "a": 2}', 8, "a key appears twice"),
        ('/A.b c:{"a": 1,}', *((16, "property name") if OLD else (15, "trailing comma"))),
        ("/A.b c:{a: 1}", 9, 'property name enclosed in double quotes), not "a"'),
        ('/A.b c:{"a" 1}', 13, "':'"),
        ("/A.b c:[1, ]", *((12, "Expecting value") if OLD else (10, "trailing comma"))),
        ("/A.b c:[1 2]", 11, "','"),
        ("/A.b c:[1", 10, "',' delimiter), not the end of the line"),
        ('/A.b c:"x', 10, 'end with "'),
        ('/A.b c:"x\ny"', 10, 'Invalid control character at), not "\\n"'),
        (r'/A.b c:"x\q"', 10, "Invalid \\escape"),
        (r'/A.b c:"\ud83d"', 8, "a lone surrogate"),
        ('/A.b c:"x"d:1', 11, "a space or the end"),
        ("/A.b c:1 \x1b[2J", 10, 'not "\\u001b"'),
        ("/A\u202eB.b", 3, "printable characters"),
        ("text \udce9", 6, "no text can carry"),
    ),
)
def test_slash_error_says_where_and_what_was_expected(line: str, column: int, said: str) -> None:
    error = wrong(line)
    assert error.column == column
    assert str(error).startswith(f"column {column}: expected ")
    assert said in error.reason
    assert str(error).isprintable()
    assert isinstance(error, MoothallError)
    assert isinstance(error, ValueError)


def test_slash_line_is_of_bounded_length() -> None:
    line = '/A.b c:"' + "x" * (LONGEST - 9) + '"'
    assert len(line) == LONGEST
    assert parse_slash(line) is not None
    assert wrong(line + " ").column == LONGEST + 1
    assert wrong("x" * (LONGEST + 1)).column == LONGEST + 1
    with pytest.raises(SlashError, match="1,000,000"):
        format_slash(to("A", "b", c="x" * (LONGEST - 8)))
    assert format_slash(to("A", "b", c="x" * (LONGEST - 9))) == line


def test_slash_value_is_as_deep_as_a_message_may_be() -> None:
    deepest = "/A.b c:" + "[" * 127 + "]" * 127
    message: Any = parse_slash(deepest)
    assert Envelope.from_message(message, "me").args == message["action"]["args"]
    assert format_slash(message) == deepest
    deeper = "/A.b c:" + "[" * 128 + "]" * 128
    assert wrong(deeper).column == 8
    with pytest.raises(InvalidMessage):
        Envelope.from_message(
            {"to": "A", "action": {"name": "b", "args": {"c": json.loads(deeper[7:])}}}, ""
        )
    assert "nested too deep" in wrong("/A.b c:" + '{"":' * 200_000 + "0").reason


@pytest.mark.parametrize("text", ('"' + "a" * 900_000, '"' + "\\n" * 400_000 + "\\", "1" * 900_000))
def test_slash_value_without_an_end_is_refused_at_once(text: str) -> None:
    assert wrong(f"/A.b c:{text}").column <= len(text) + 8


def test_slash_line_that_is_no_text_is_refused() -> None:
    with pytest.raises(DefinitionError, match="got bytes"):
        parse_slash(b"/*.help")  # type: ignore[arg-type]


# -- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "line"),
    (
        (to("A", "b"), "/A.b"),
        ({"to": "A", "action": {"name": "b"}}, "/A.b"),
        ({"to": 7, "action": {"name": "b"}}, "/7.b"),
        (to("*", "say", content="Hi"), '/*.say content:"Hi"'),
        (to("Ann Lee", "say"), '/"Ann Lee".say'),
        (to("a.b", "c.d"), '/"a.b".c.d'),
        (to("Zoë", "grüßen", größe="groß"), '/"Zoë"."grüßen" größe:"groß"'),
        (to("A", ".b"), '/A.".b"'),
        (
            to("A", "b", **{"not a name": 1, "x": [1, {"k": None}]}),
            '/A.b "not a name":1 x:[1, {"k": null}]',
        ),
        (to("A", "b", c="a\u202eb\x1b[2J\U000e0001"), r'/A.b c:"a\u202eb\u001b[2J\udb40\udc01"'),
        (
            {"id": "1", "meta": {"k": 1}, "from": "me", "to": "A", "action": {"name": "b"}},
            "/A.b",
        ),
    ),
)
def test_slash_message_is_a_line(message: dict[str, Any], line: str) -> None:
    assert format_slash(message) == line


@pytest.mark.parametrize(
    ("message", "field"),
    (
        ({}, "action"),
        ({"to": "A", "action": {"name": ""}}, "action.name"),
        ({"to": "A", "action": {"name": "b", "args": {"c": float("nan")}}}, "action.args.c"),
        ({"to": "A", "action": {"name": "b"}, "x": 1}, "x"),
        ("/A.b", "message"),
        ("from A: /A.b", "message"),
        (5, "message"),
    ),
)
def test_format_slash_of_what_is_no_message_is_refused(message: Any, field: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        format_slash(message)
    assert caught.value.field == field


def test_slash_line_is_what_a_space_delivers() -> None:
    class Calculator(Agent):
        @action
        async def add(self, a: int, b: int) -> int:
            return a + b

    seen: list[dict[str, Any]] = []
    with NativeSpace() as space:
        space.observe(seen.append)
        space.add(Calculator("The calculator"))
        me = space.add(Agent("me"))
        message = parse_slash('/"The calculator".add a:1 b:2')
        assert message is not None
        assert me.request(message).result(WAIT) == 3
    assert format_slash(seen[0]) == '/"The calculator".add a:1 b:2'


# -- there and back --------------------------------------------------------------------------------

TEXT = st.text(max_size=30)
NAMES = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.text(min_size=1, max_size=255),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
ARGS = st.dictionaries(st.one_of(st.sampled_from(["a", "content"]), TEXT), VALUES, max_size=5)
ACTIONS = st.one_of(
    st.fixed_dictionaries({"name": NAMES, "args": ARGS}), st.fixed_dictionaries({"name": NAMES})
)
RECEIVERS = st.one_of(st.just("*"), NAMES, st.integers())
MESSAGES = st.fixed_dictionaries(
    {"to": RECEIVERS, "action": ACTIONS},
    optional={
        "id": TEXT,
        "meta": st.dictionaries(TEXT, SCALARS, max_size=2),
        "from": st.just("me"),
    },
)


def typed(value: Any) -> Any:
    """A value in which 1, 1.0 and True are three."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value), repr(value))


@given(MESSAGES)
def test_slash_message_of_any_kind_comes_back_from_its_line(message: dict[str, Any]) -> None:
    sent = Envelope.from_message(message, "me")
    line = format_slash(message)
    assert line.isprintable()
    assert typed(parse_slash(line)) == typed(to(sent.to, sent.name, **sent.args))
    assert format_slash(parse_slash(line) or {}) == line


PIECES = st.sampled_from(
    (
        *'/*.:"\\1-e[]{}, \n\ud800\x1bé\u2028',
        "Host",
        "help",
        "true",
        "null",
        "NaN",
        '"x"',
        r"\u0041",
    )
)
LINES = st.one_of(
    st.text(st.characters()),
    st.lists(PIECES, max_size=30).map("".join),
    st.lists(PIECES, max_size=20).map(lambda pieces: "/A.b c:" + "".join(pieces)),
    st.builds(
        lambda message, at, piece: (line := format_slash(message))[:at] + piece + line[at + 1 :],
        MESSAGES,
        st.integers(0, 60),
        PIECES,
    ),
)


@given(LINES)
@example("/")
@example('/A.b c:"\ud800"')
def test_slash_line_of_any_text_is_a_message_or_an_error_in_it(line: str) -> None:
    refused: SlashError | None = None
    message = None
    try:
        message = parse_slash(line)
    except SlashError as error:
        refused = error
    if refused is not None:
        # One past its end is where a line ends too early.
        assert 1 <= refused.column <= len(line) + 1
        assert str(refused).isprintable()
        return
    if message is None:
        assert line.strip() == ""
        return
    sent = Envelope.from_message(message, "me")
    assert typed(message) == typed(to(sent.to, sent.name, **sent.args))
    assert typed(parse_slash(format_slash(message))) == typed(message)


@given(VALUES)
def test_values_are_json_as_python_reads_it(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert typed(parse_slash(f"/A.b c:{text}")) == typed(to("A", "b", c=json.loads(text)))


def test_names_that_cannot_be_called_are_not_completed() -> None:
    async def help_of(id: str) -> Any:
        return {"": {}, "x\ud800": {}, "add": {"args": {"a": {}}}}

    assert asyncio.run(completions("/A.", ["A"], help_of)) == (0, ["add ", "help "])


def test_argument_that_a_line_has_is_not_offered_again() -> None:
    async def help_of(id: str) -> Any:
        return {"add": {"args": {"a": {}, "b": {"type": "string"}, "c": {}}}}

    assert asyncio.run(completions("/A.add a:1 ", ["A"], help_of)) == (0, ['b:"', "c:"])
