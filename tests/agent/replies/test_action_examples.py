"""Examples of calls in an action's definition."""

from __future__ import annotations

from typing import Any

import pytest

from moothall import Action, Agent, ConfigError, Context, DefinitionError, ReActAgent, ScriptedModel
from moothall import action as marked
from moothall.models.protocol import ModelReply


class Shown:
    """A model that keeps the descriptions that it was shown."""

    name = "shown"

    def __init__(self) -> None:
        self.descriptions: dict[str, str] = {}

    async def complete(self, messages: Any, actions: Any = None) -> ModelReply:
        self.descriptions |= {each.name: each.description for each in actions}
        return ModelReply("Done.")


def test_action_examples_stand_behind_the_description_for_the_model() -> None:
    class Desk(Agent):
        @marked(examples=[{"day": "Müsli"}, {"day": "2026-05-01", "seats": 2}])
        def book(self, day: str, seats: int = 1, *, context: Context[Any]) -> str:
            """Book seats."""
            return day

    model = Shown()
    plain = Action(
        "plain",
        lambda n: n,
        "Plain.",
        {"properties": {"n": {"type": "integer"}}},
        examples=({"n": 1},),
    )
    ReActAgent("clerk", model, actions=[Desk("desk"), plain]).reply_sync("Go.")
    assert model.descriptions["book"] == (
        'Book seats.\n\nExamples of its arguments:\n{"day": "Müsli"}\n'
        '{"day": "2026-05-01", "seats": 2}'
    )
    assert model.descriptions["plain"] == 'Plain.\n\nExamples of its arguments:\n{"n": 1}'


@pytest.mark.parametrize("example", ({"seats": "many"}, {"day": "x"}, {"seats": 1, "on": "x"}))
def test_action_example_that_does_not_fit_is_refused_when_the_agent_is_made(
    example: dict[str, Any],
) -> None:
    @marked(examples=[{"seats": 1}, example])
    def book(seats: int) -> None:
        """Book seats."""

    with pytest.raises(DefinitionError, match=r'cannot use "book": examples\[1\] does not fit'):
        ReActAgent("clerk", ScriptedModel([]), actions=[book])


@pytest.mark.parametrize("examples", ("x", {"a": 1}, [1], [{}], [{"a": {1, 2}}], 3))
def test_examples_that_are_no_arguments_are_refused(examples: Any) -> None:
    with pytest.raises(ConfigError, match=r"examples(\[0\]|=)"):
        marked(examples=examples)(lambda a: a)
    with pytest.raises(ConfigError, match=r"action 'a': examples(\[0\]|=)"):
        Action("a", lambda a: a, examples=examples)
