"""`help`: how agents discover what others can do."""

from typing import Any

import pytest

from conformance.conftest import WAIT_S, Recorder, message
from conformance.gate import Holder
from moothall import Agent, action
from moothall.foundation.errors import ActionError, ActionNotFound

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


@pytest.fixture
def me(space):
    return space.add(Recorder("me", receive_own_broadcasts=False))


def help_of(space, me, agent) -> dict[str, Any]:
    space.add(agent)
    return me.ask(agent.id, "help").result(timeout=10)


# -- the shape -------------------------------------------------------------------------------------


def test_help_has_the_documented_shape(space, me):
    class Host(Agent):
        @action
        def shell_command(self, command: str) -> str:
            """
            Execute a shell command

            Args:
                command (str): The command to execute

            Returns:
                str: The output of the command
            """
            raise AssertionError(command)

    assert help_of(space, me, Host("Host")) == {
        "shell_command": {
            "description": "Execute a shell command",
            "args": {"command": {"type": "string", "description": "The command to execute"}},
            "returns": {"type": "string", "description": "The output of the command"},
        }
    }


def test_help_may_be_sent_and_comes_back_as_a_response(space, me):
    class One(Agent):
        @action
        async def go(self, far: int) -> None:
            """Go."""

    space.add(One("one"))
    me.send({"id": "h", **message("one", "help")})
    [(name, args)] = me.told()
    assert name == "response"
    assert args["original_message_id"] == "h"
    assert args["data"]["go"]["description"] == "Go."
    assert args["data"]["go"]["args"] == {"far": INTEGER}


def test_help_to_everyone_is_answered_by_each_agent(space, me):
    class One(Agent):
        @action
        async def go(self) -> None:
            """Go."""

    class Two(Agent):
        @action
        async def stop(self) -> None:
            """Stop."""

    space.add(One("one"))
    space.add(Two("two"))
    me.send(message("*", "help"))
    answers = {m["from"]: list(m["action"]["args"]["data"]) for m in me.wait_for(2)}
    assert answers == {"one": ["go"], "two": ["stop"]}


def test_help_of_an_agent_without_actions_of_its_own_is_empty(space, me):
    assert help_of(space, me, Agent("bare")) == {}


def test_help_lists_own_actions_and_not_the_special_ones(space, me):
    class Base(Agent):
        @action
        async def inherited(self) -> None:
            pass

        @action(name="a name of its own")
        async def renamed(self) -> None:
            pass

        async def unmarked(self) -> None:
            pass

    class Child(Base):
        @action
        async def own(self) -> None:
            pass

        @action
        async def response(self, data: Any, original_message_id: str | None = None) -> None:
            pass

        @action
        async def error(self, error: str, original_message_id: str | None = None) -> None:
            pass

    assert set(help_of(space, me, Child("child"))) == {"inherited", "a name of its own", "own"}


def test_help_of_an_override_is_its_own(space, me):
    class Base(Agent):
        @action
        async def go(self, a: int) -> None:
            """The base's."""

    class Child(Base):
        async def go(self, a: int, b: str = "x") -> None:
            """The child's."""

    assert help_of(space, me, Child("child"))["go"] == {
        "description": "The child's.",
        "args": {"a": INTEGER, "b": {"type": "string", "default": "x"}},
        "returns": {"type": "null"},
    }


# -- one action ------------------------------------------------------------------------------------


class Two(Agent):
    @action
    async def first(self) -> None:
        """The first."""

    @action(name="second one")
    async def second(self) -> None:
        """The second."""


@pytest.mark.parametrize(("name", "text"), (("first", "The first."), ("second one", "The second.")))
def test_help_of_one_action_gives_only_that_one(space, me, name, text):
    space.add(Two("two"))
    found = me.ask("two", "help", action_name=name).result(timeout=10)
    assert list(found) == [name]
    assert found[name]["description"] == text
    assert found[name] == me.ask("two", "help").result(timeout=10)[name]


@pytest.mark.parametrize("name", ("third", "second", "", "send", "*"))
def test_help_of_an_unknown_action_is_an_error(space, me, name):
    space.add(Two("two"))
    with pytest.raises((ActionError, ActionNotFound)) as caught:
        me.ask("two", "help", action_name=name).result(timeout=10)
    assert f'"{name}" not found on "two"' in str(caught.value)
    me.send({"id": "h", **message("two", "help", action_name=name)})
    [(told, args)] = me.told()
    assert told == "error"
    assert f'"{name}" not found on "two"' in args["error"]
    assert args["original_message_id"] == "h"


# -- help= and overriding --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "help",
    (
        {"You": "can define", "any": {"structure": ["you", "want", "here."]}},
        "only a text",
        ["a", "list"],
        {},
        "",
        0,
        False,
    ),
    ids=repr,
)
def test_help_given_by_hand_replaces_the_generated_wholly(space, me, help):
    class Custom(Agent):
        @action(help=help)
        def say(self, content: str) -> None:
            """This docstring is not shown."""

    shown = help_of(space, me, Custom("custom"))
    assert shown == {"say": help}
    assert type(shown["say"]) is type(help)
    assert me.ask("custom", "help", action_name="say").result(timeout=10) == {"say": help}


@pytest.mark.parametrize("marked", (True, False), ids=("marked", "unmarked"))
@pytest.mark.parametrize("form", ("async def", "def"))
def test_help_may_be_overridden_to_control_what_is_shown(space, me, marked, form):
    mark = action if marked else lambda function: function

    class Async(Two):
        @mark
        async def help(self, action_name: str | None = None) -> dict:
            return {"only": await super().help("first")}

    class Plain(Two):
        @mark
        def help(self, action_name: str | None = None) -> dict:
            return {"only": {"first": {"description": "The first."}}}

    agent = (Async if form == "async def" else Plain)("agent")
    shown = help_of(space, me, agent)
    assert list(shown) == ["only"]
    assert shown["only"]["first"]["description"] == "The first."


def test_help_changed_by_its_reader_stays_as_it_was(space, me):
    class Meddler(Two):
        @action
        async def help(self, action_name: str | None = None) -> dict:
            shown = await super().help(action_name)
            shown["first"]["description"] += " Changed."
            shown["first"]["args"]["made"] = "up"
            return shown

    space.add(Meddler("meddler"))
    for _ in range(2):
        shown = me.ask("meddler", "help").result(timeout=10)
        assert shown["first"]["description"] == "The first. Changed."
    space.add(Two("two"))
    assert me.ask("two", "help").result(timeout=10)["first"]["description"] == "The first."


class Asks(Agent):
    @action
    async def look(self) -> list[str]:
        return list(await self.ask("holder", "help"))


def test_help_is_answered_beside_the_work_of_a_busy_agent(space, me) -> None:
    holder = space.add(Holder("holder"))
    held = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    me.send(message("holder", "note", name="behind it"))
    assert "hold" in me.ask("holder", "help").result(timeout=WAIT_S)
    asked_within_an_action = space.add(Asks("asks")).id
    assert "hold" in me.ask(asked_within_an_action, "look").result(timeout=WAIT_S)
    space.remove("asks")
    me.send(message("*", "help"))
    assert [sorted(args["data"]) for _, args in me.told(1)] == [sorted(holder.offers)]
    assert not held.done()
    holder.gate("one").open()
    assert held.result(timeout=WAIT_S) == "one"
    assert holder.begun.wait_for(2) == ["one", "behind it"]
