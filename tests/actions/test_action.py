"""Action, ActionRegistry and @action by themselves."""

import asyncio
import copy
import functools
import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from moothall import (
    ACCESS_DENIED,
    ACCESS_PERMITTED,
    ACCESS_REQUESTED,
    Action,
    ActionRegistry,
    Agent,
    ReActAgent,
    Retry,
    ScriptedModel,
    action,
)
from moothall.foundation.errors import DefinitionError, InvalidArguments


@dataclass
class Point:
    x: int


def read_file(name: str, lines: int = 10) -> str:
    """Read a file.

    Args:
        name: which
        lines: at most so many
    """
    return f"{lines} lines of {name}"


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}},
    "required": ["name"],
}

# -- @action ---------------------------------------------------------------------------------------


def test_access_policies_are_three_texts():
    assert len({ACCESS_PERMITTED, ACCESS_DENIED, ACCESS_REQUESTED}) == 3
    assert all(isinstance(p, str) for p in (ACCESS_PERMITTED, ACCESS_DENIED, ACCESS_REQUESTED))


@pytest.mark.parametrize("mark", (action, action()), ids=("bare", "with parentheses"))
def test_marked_function_stays_what_it_was(mark):
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    marked = mark(double)
    assert marked is double
    assert marked(2) == 4
    made = Action.of(marked)
    assert (made.name, made.description) == ("double", "Double.")
    assert made.access_policy == ACCESS_PERMITTED
    assert (made.terminal, made.idempotent, made.timeout) == (False, False, None)


def test_marked_functions_options_are_those_of_its_action():
    @action(
        name="twice",
        help={"my": "own"},
        access_policy=ACCESS_REQUESTED,
        terminal=True,
        idempotent=True,
        timeout=2.5,
        detached=True,
    )
    async def double(n: int) -> int:
        return 2 * n

    made = Action.of(double)
    assert made.name == "twice"
    assert made.help == {"my": "own"}
    assert made.access_policy == ACCESS_REQUESTED
    assert (made.terminal, made.idempotent, made.detached, made.timeout) == (True, True, True, 2.5)
    assert made.is_async
    assert asyncio.run(made.execute(n=2)) == 4


def test_options_that_are_none_are_as_if_left_out():
    unstated = {"help": None, "access_policy": None, "timeout": None}

    @action(name=None, **unstated)
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    for made in (Action.of(double), Action("double", double, None, None, **unstated)):
        assert made.name == "double"
        assert made.access_policy == ACCESS_PERMITTED
        assert made.help["description"] == "Double."


def test_help_that_is_no_json_is_refused():
    with pytest.raises(DefinitionError, match="help= must be a JSON value"):
        action(help=object())(read_file)


@pytest.mark.parametrize(
    "option",
    (
        *({"access_policy": "sometimes"}, {"timeout": 0}, {"timeout": True}, {"help": {1}}),
        *({"access_policy": []}, {"timeout": "5"}, {"timeout": float("nan")}, {"help": {1: "one"}}),
        *({"terminal": 1}, {"idempotent": "no"}, {"detached": 1}),
    ),
    ids=str,
)
def test_action_option_of_a_wrong_kind_is_refused_either_way(option):
    for make in (lambda: action(**option)(print), lambda: Action("print", print, **option)):
        with pytest.raises(DefinitionError, match=f"print.*: {next(iter(option))}"):
            make()


def test_unknown_option_names_the_nearest_either_way():
    for make in (lambda: action(timout=1)(print), lambda: Action("print", print, timout=1)):
        with pytest.raises(DefinitionError, match=r"has no argument timout=.*'timeout'"):
            make()


def test_positional_options_are_refused():
    with pytest.raises(DefinitionError, match="name"):
        action("name")
    with pytest.raises(TypeError):
        action(read_file, "name")


# -- Action ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("", "x" * 256, 7, None, "\ud800"))
def test_action_name_has_1_to_255_characters_that_a_text_can_carry(name):
    for make in (lambda: Action(name, read_file), lambda: action(name=name or "")(read_file)):
        with pytest.raises(DefinitionError, match="name"):
            make()
    assert len(Action("x" * 255, read_file).name) == 255


def test_action_is_made_as_in_the_definitions_by_hand():
    made = Action(
        name="read",
        function=read_file,
        description="Reads a file",
        parameters=SCHEMA,
        terminal=False,
    )
    assert (made.name, made.function, made.description) == ("read", read_file, "Reads a file")
    assert made.parameters == SCHEMA
    assert made.terminal is False
    assert made.execute(name="x") == "10 lines of x"
    assert Action("end", print, "Ends", {}, True).terminal is True


def test_action_description_and_parameters_default_to_the_functions():
    made = Action("read", read_file)
    assert made.description == "Read a file."
    assert made.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "which"},
            "lines": {"type": "integer", "description": "at most so many", "default": 10},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert made.help == {
        "description": "Read a file.",
        "args": {
            "name": {"type": "string", "description": "which"},
            "lines": {"type": "integer", "description": "at most so many", "default": 10},
        },
        "returns": {"type": "string"},
    }


def test_action_parameters_and_help_are_copies():
    made = Action("read", read_file)
    made.parameters["properties"]["name"]["type"] = "changed"
    made.help["args"].clear()
    assert made.parameters["properties"]["name"]["type"] == "string"
    assert set(made.help["args"]) == {"name", "lines"}


def test_action_description_by_hand_may_be_empty():
    assert Action("read", read_file, "").description == ""


def test_description_and_parameters_may_be_set():
    made = Action("read", read_file)
    made.description = "another"
    made.parameters = SCHEMA
    assert made.description == "another"
    assert made.parameters == SCHEMA
    with pytest.raises(InvalidArguments):
        made.check({"name": "x", "lines": 0})


@pytest.mark.parametrize(
    ("args", "text"),
    (
        ({}, '"read" missing argument "name"'),
        ({"name": "x", "size": 1}, '"read" unexpected argument "size"'),
        ({"name": 1}, '"read" argument "name" must be string, not integer'),
    ),
)
def test_check_refuses_by_the_signature(args, text):
    with pytest.raises(InvalidArguments) as caught:
        Action("read", read_file).check(args)
    assert str(caught.value) == text


def test_check_gives_python_objects():
    def move(to: Point, by: float = 1.0) -> None:
        pass

    assert Action("move", move).check({"to": {"x": 1}, "by": 2}) == {"to": Point(1), "by": 2.0}


def test_check_names_the_action_as_it_is_told_to():
    with pytest.raises(InvalidArguments, match=r'^"Host\.read" missing argument "name"$'):
        Action("read", read_file).check({}, "Host.read")


@pytest.mark.parametrize(
    ("args", "pattern"),
    (
        ({}, r'"read": .*name'),
        ({"name": 1}, r'"read" argument "name": .*string'),
        ({"name": "x", "lines": 0}, r'"read" argument "lines": .*minimum'),
        ({"name": "x", "lines": "1"}, r'"read" argument "lines": .*integer'),
    ),
)
def test_check_refuses_by_the_schema_given_by_hand(args, pattern):
    made = Action("read", read_file, "Reads", SCHEMA)
    with pytest.raises(InvalidArguments, match=pattern):
        made.check(args)
    assert made.check({"name": "x", "lines": 1}) == {"name": "x", "lines": 1}


NAMES = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    "names",
    (
        {"anyOf": [NAMES, {"type": "null"}]},
        {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/names"}]},
        {**NAMES, "type": ["array", "null"]},
    ),
    ids=("any", "one, referred to", "types"),
)
def test_check_by_a_schema_says_what_a_list_or_null_may_hold(names):
    schema = {"properties": {"names": names}, "$defs": {"names": NAMES}}
    made = Action("read", read_file, "Reads", schema)
    assert made.check({"names": ["a"]}) == {"names": ["a"]}
    assert made.check({"names": None}) == {"names": None}
    told = []
    for wrong in (5, "a", ["a", 5]):
        with pytest.raises(InvalidArguments) as caught:
            made.check({"names": wrong})
        told.append(str(caught.value).removeprefix('"read" argument '))
    for each, given in zip(told, ("integer", "string"), strict=False):
        assert each in (
            f'"names": must be array of string or null, not {given}',
            f'"names": must be null or array of string, not {given}',
        )
    assert told[2] == "\"names.1\": 5 is not of type 'string'"


def test_action_check_tells_a_long_wrong_value_in_short():
    made = Action("read", read_file, "Reads", {"properties": {"name": {"type": "integer"}}})
    with pytest.raises(InvalidArguments) as caught:
        made.check({"name": "x" * 100_000})
    assert len(str(caught.value)) < 400


WRONG_SCHEMAS = {
    "no such type": ({"type": "no such type"}, "'no such type' is not valid"),
    "no JSON": ({"type": "object", "default": {1, 2}}, "set"),
    "no pattern": ({"properties": {"a": {"pattern": "("}}}, "regular expression"),
    "nowhere": ({"properties": {"q": {"$ref": "#/definitions/q"}}}, "#/definitions/q.*nowhere"),
    "no anchor": ({"$ref": "#q"}, "#q.*nowhere"),
    "of a part": ({"anyOf": [{"items": {"not": {"$ref": "#/$defs/a"}}}]}, "nowhere"),
    "remote": ({"$ref": "http://127.0.0.1:9/schema.json"}, "nothing is fetched"),
    "a file": ({"$ref": "file:///etc/hostname"}, "nothing is fetched"),
    "to a text": ({"$ref": "#/title", "title": "a text"}, "'a text' is not of type"),
    "to none": ({"$ref": "#/x/y", "x": {"y": {"type": "z"}}}, "x.y.type"),
    "by one": ({"$ref": "#/x", "x": {"$ref": "#/gone"}}, "#/gone.*nowhere"),
    "no address": ({"$id": "http://[/x", "properties": {"c": {"$id": "y", "$ref": "z"}}}, r"\$id"),
}


@pytest.mark.parametrize(("schema", "told"), WRONG_SCHEMAS.values(), ids=WRONG_SCHEMAS)
def test_action_schema_that_cannot_be_used_is_refused_at_once(schema, told):
    with pytest.raises(DefinitionError, match=f"'read': parameters is not a JSON schema: .*{told}"):
        Action("read", read_file, "Reads", schema)
    made = Action("read", read_file)
    with pytest.raises(DefinitionError, match="'read'"):
        made.parameters = schema
    assert made.parameters["properties"].keys() == {"name", "lines"}


def test_references_within_a_schema_are_followed():
    tree = {
        "type": "object",
        "properties": {
            "tree": {"$ref": "#/$defs/tree"},
            "$ref": {"type": "string"},
            "by": {"$ref": "#unit"},
        },
        "$defs": {
            "tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            "unit": {"$anchor": "unit", "enum": ["m"], "default": {"$ref": "no reference"}},
        },
    }
    made = Action("grow", lambda **kwargs: kwargs, "Grows", tree)
    args = {"tree": [[], [[]]], "$ref": "x", "by": "m"}
    assert made.check(args) == args
    with pytest.raises(InvalidArguments, match="array"):
        made.check({"tree": [[1]]})
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArguments, match=r'"grow" argument "tree.*nested deeper than'):
        made.check({"tree": deep})


def test_action_schema_pattern_cannot_hang_the_program():
    slow = {"properties": {"name": {"pattern": "^(a|a)*b$"}}}
    made = Action("read", read_file, "Reads", slow)
    with pytest.raises(InvalidArguments, match='"read" argument "name"'):
        made.check({"name": "a" * 60})  # Python's re would take years


def test_action_with_a_schema_can_be_copied():
    made = Action("read", read_file, "Reads", SCHEMA)
    made.check({"name": "x"})
    assert copy.deepcopy(made).check({"name": "x"}) == {"name": "x"}


def test_action_schema_may_describe_a_function_that_has_none():
    made = Action("show", lambda **kwargs: kwargs, "Shows", {"type": "object"})
    assert made.execute(**made.check({"a": 1})) == {"a": 1}
    assert made.help == {"description": "Shows", "args": {}}


class Callable:
    """A callable object."""

    def __call__(self, n: int) -> int:
        """Double it."""
        return 2 * n


class AsyncCallable:
    async def __call__(self, n: int) -> int:
        return 2 * n


async def double(n: int) -> int:
    return 2 * n


class Holder:
    def method(self, n: int) -> int:
        """A method."""
        return 2 * n

    async def async_method(self, n: int) -> int:
        return 2 * n

    @staticmethod
    def static(n: int) -> int:
        return 2 * n

    @classmethod
    def of_class(cls, n: int) -> int:
        return 2 * n


CALLABLES: dict[str, tuple[Any, str, bool]] = {
    "function": (lambda n: 2 * n, "<lambda>", False),
    "async function": (double, "double", True),
    "object": (Callable(), "Callable", False),
    "async object": (AsyncCallable(), "AsyncCallable", True),
    "method": (Holder().method, "method", False),
    "async method": (Holder().async_method, "async_method", True),
    "static method": (Holder.static, "static", False),
    "class method": (Holder.of_class, "of_class", False),
    "partial": (functools.partial(Holder().method), "method", False),
    "partial of async": (functools.partial(double), "double", True),
}


@pytest.mark.parametrize("case", CALLABLES)
def test_action_may_be_of_every_callable(case):
    function, name, is_async = CALLABLES[case]
    made = Action.of(function)
    assert made.name == name
    assert made.is_async is is_async
    assert list(made.parameters["properties"]) == ["n"]
    value = made.execute(**made.check({"n": 2}))
    assert (asyncio.run(value) if is_async else value) == 4


def test_action_of_a_function_is_made_once():
    assert Action.of(read_file) is Action.of(read_file)
    made = Action("x", read_file)
    assert Action.of(made) is made


def test_action_of_a_copied_function_is_its_own():
    @functools.wraps(read_file)
    def shout(*args: Any, **kwargs: Any) -> str:
        return read_file(*args, **kwargs).upper()

    Action.of(read_file)
    assert Action.of(shout).execute(name="x") == "10 LINES OF X"
    assert Action.of(read_file).execute(name="x") == "10 lines of x"


def test_action_repr_says_what_it_is():
    assert repr(Action("read", read_file)) == "<Action 'read'>"


@pytest.mark.parametrize("source", (None, 1, "read_file", {}, [read_file]))
def test_action_of_what_is_not_callable_is_refused(source):
    for make in (Action.of, lambda source: Action("go", source)):
        with pytest.raises(DefinitionError, match=r"must be (a function|callable)"):
            make(source)


def test_action_of_a_generator_is_refused():
    def count(upto: int):
        yield upto

    async def count_later(upto: int):
        yield upto

    for each, make in itertools.product((count, count_later), (action, Action.of)):
        with pytest.raises(DefinitionError, match="an action returns one value; it cannot yield"):
            make(each)


# -- ActionRegistry --------------------------------------------------------------------------------


class Librarian(Agent):
    @action
    async def find(self, title: str) -> str:
        """Find a book."""
        return f"{title} for {self.id}"

    @action(name="give back", terminal=True, access_policy=ACCESS_REQUESTED)
    def give_back(self, title: str) -> None:
        pass

    def unmarked(self) -> None:
        pass


def test_registry_is_empty_at_first():
    registry = ActionRegistry()
    assert registry.actions == {}
    assert registry.get_actions() == []
    assert registry.get_action("read") is None


def test_registry_finds_what_was_registered():
    registry = ActionRegistry()
    made = Action("read", read_file, "Reads", SCHEMA)
    registry.register(made)
    assert registry.get_action("read") is made
    assert registry.get_actions() == [made]
    assert registry.actions == {"read": made}
    assert registry.get_action("Read") is None


def test_registry_replaces_an_action_by_a_later_one_of_its_name():
    registry = ActionRegistry()
    first, second = Action("read", read_file), Action("read", read_file)
    registry.register(first)
    registry.register(second)
    assert registry.get_actions() == [second]


def test_registry_takes_functions_and_methods():
    registry = ActionRegistry()
    registry.register(read_file)
    agent = Librarian("agent")
    registry.register(agent.find)
    registry.register(agent.give_back)
    assert list(registry.actions) == ["read_file", "find", "give back"]
    found = registry.get_action("find")
    assert found.description == "Find a book."
    assert list(found.parameters["properties"]) == ["title"]
    assert asyncio.run(found.execute(title="Emma")) == "Emma for agent"
    assert registry.get_action("give back").terminal is True


def test_registry_takes_an_agent_with_all_that_it_offers():
    registry = ActionRegistry()
    agent = Librarian("agent")
    registry.register(agent)
    assert list(registry.actions) == ["find", "give back"]
    assert asyncio.run(registry.get_action("find").execute(title="Emma")) == "Emma for agent"
    assert registry.get_action("give back").access_policy == ACCESS_REQUESTED


def test_registry_refuses_an_agent_whose_actions_are_there_already():
    registry = ActionRegistry()
    registry.register(Librarian("one"))
    before = dict(registry.actions)
    with pytest.raises(DefinitionError, match="find, give back"):
        registry.register(Librarian("two"))
    assert registry.actions == before


@pytest.mark.parametrize("thing", (None, 1, "read", {"name": "x"}, []))
def test_registry_takes_nothing_else(thing):
    registry = ActionRegistry()
    with pytest.raises(DefinitionError):
        registry.register(thing)
    assert registry.actions == {}


# -- what an agent offers --------------------------------------------------------------------------


def test_agent_offers_its_marked_methods_without_the_special_ones():
    agent = Librarian("agent")
    assert list(agent.offers) == ["find", "give back"]
    assert all(isinstance(offer, Action) for offer in agent.offers.values())
    assert agent.offers["find"].help["args"] == {"title": {"type": "string"}}
    assert Agent("bare").offers == {}


def test_agent_offers_cannot_be_changed_from_outside():
    agent = Librarian("agent")
    agent.offers.clear()
    assert list(agent.offers) == ["find", "give back"]


# -- retries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    (
        ({"longest": float("inf")}, "longest= must be a number of seconds from 0 up"),
        ({"on": ()}, "on= must be an exception class"),
        ({"on": "ConnectionError"}, "on= must be an exception class"),
        ({"on": (KeyboardInterrupt,)}, "on= must be an exception class"),
    ),
)
def test_retry_refuses_wrong_arguments(given: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        Retry(**given)


def test_retries_are_refused_for_an_action_that_may_not_be_repeated() -> None:
    with pytest.raises(DefinitionError, match="say idempotent=True, or Retry"):
        action(retries=Retry())(read_file)
    with pytest.raises(DefinitionError, match="retries= must be a Retry, got 3"):
        Action("read_file", read_file, idempotent=True, retries=3)  # type: ignore[arg-type]
    assert action(retries=Retry(no_effect=True))(read_file) is read_file


def test_retry_pauses_grow_up_to_the_longest() -> None:
    retry = Retry(backoff=1, longest=5)
    for call, most in ((2, 1), (3, 2), (4, 4), (5, 5), (2000, 5)):
        assert 0.75 * most <= retry.pause(call) <= most


def test_retries_hold_where_a_model_calls_the_action() -> None:
    calls = []

    def look(place: str) -> str:
        """Look somewhere."""
        calls.append(place)
        if len(calls) < 3:
            raise ConnectionError("the line is down")
        return f"nothing in {place}"

    looking = Action("look", look, idempotent=True, retries=Retry(backoff=0))
    model = ScriptedModel([{"name": "look", "args": {"place": "there"}}, "ok"])
    agent = ReActAgent("bot", model, actions=[looking])
    reply = agent.reply_sync("look")
    assert (calls, reply.steps[0].error) == (["there"] * 3, None)


def test_action_changed_is_described_as_before_and_calls_the_other_function() -> None:
    known = Action.of(read_file)
    counted = known.changed(lambda name, lines=10: len(name) * lines, terminal=True)
    assert (counted.name, counted.description) == (known.name, known.description)
    assert counted.parameters == known.parameters
    assert counted.terminal
    assert not known.terminal
    assert counted.execute(name="ab", lines=3) == 6
    assert known.execute(name="ab", lines=3) == "3 lines of ab"
