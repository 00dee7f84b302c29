"""A model that gives the answers of a record, as long as it is asked the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Never

from moothall import Action, ModelError, MoothallError, StateError
from moothall.build import ToolCall
from moothall.evals.equality import json_key
from moothall.journal import RecordedAnswer, RunView
from moothall.models import ModelReply, Usage

_ACTIONS_OF_LOOPS = {"find_actions", "read_result"}  # which they offer themselves


class RecordedAnswers:
    """The answers that a part of a run has had, in order, as if its own model gave them.

    Args:
        view: the run
        path: the part of it
        own_model: returns the agent's own model, which says how long prompts may be
        then: the model that is asked from answer number `at` on; None: none is, and an answer is
            given only if its request equals the recorded one
        at: the number of the first answer that `then` gives
        tell: told how a request differs, once it does
    """

    asks_others = True

    def __init__(
        self,
        view: RunView,
        path: str,
        own_model: Callable[[], Any],
        tell: Callable[[str], None],
        then: Any = None,
        at: int = 1,
    ) -> None:
        self._view = view
        self._path = path
        self._answers = view.answers.get(path, [])
        self._own_model = own_model
        self._tell = tell
        self._then = then
        self._at = at
        self._asked_count = 0
        self.name: str = self._answers[0].model if self._answers else "recorded"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "skip":
            raise AttributeError(name)
        try:
            return getattr(self._own_model(), name)
        except MoothallError as error:  # weights or a package are missing: it is not asked
            raise AttributeError(name) from error

    def skip(self, answers: int) -> None:
        """Skip answers that a resumed reply has had."""
        self._asked_count += answers

    async def complete(
        self, messages: list[dict[str, Any]], actions: Any = None, schema: Any = None
    ) -> ModelReply:
        """Return the next answer.

        Raises:
            ModelError: the request is not the recorded one, or the record has no further answer
        """
        number = self._asked_count = self._asked_count + 1
        if self._then is not None and number >= self._at:
            answer: ModelReply = await self._then.complete(messages, actions, schema)
            return answer
        if number > len(self._answers):
            self._refuse(number, f"the record has {len(self._answers)} answers")
        recorded = self._answers[number - 1]
        if self._then is None:
            self._compare(number, recorded, messages, actions, schema)
        reply: ModelReply = replace(recorded.reply, usage=Usage())  # it has cost nothing
        return reply

    def answer_to(self, key: str, messages: Any, actions: Any) -> dict[str, Any]:
        """Return the answer to a request of another framework's program, by the step's key.

        Raises:
            ModelError: the request is not the recorded one, or the record has none of this key
        """
        recorded = next((each for each in self._answers if each.key == key), None)
        if recorded is None:
            self._refuse(key, "the record has no answer of it")
        self._compare(key, recorded, messages, actions, None)
        return {**ModelReply.json_of(replace(recorded.reply, usage=Usage())), **recorded.of_program}

    def _compare(
        self, number: int | str, recorded: RecordedAnswer, messages: Any, actions: Any, schema: Any
    ) -> None:
        prompt = self._view.prompt(recorded.sequence, self._path)
        tools = [
            {"name": each.name, "description": each.description, "parameters": each.parameters}
            for each in actions or ()
        ]
        if difference := _difference(prompt or {}, messages, tools, schema):
            self._refuse(number, f"it has {difference}")

    async def stream(
        self, messages: list[dict[str, Any]], actions: Any = None, schema: Any = None
    ) -> AsyncIterator[Any]:
        """Yield the next answer: nobody looks on in a frozen world."""
        yield await self.complete(messages, actions, schema)

    def _refuse(self, number: int | str, difference: str) -> Never:
        part = f" of {self._path!r}" if self._path else ""
        difference = f"request {number}{part} is not the recorded one: {difference}"
        self._tell(difference)
        raise ModelError(f"{difference}; a model answers it: model=, or --model")


def recorded_actions(view: RunView, path: str, own_names: set[str]) -> list[Action]:
    """Return the actions of others that a part of a run was shown, as they were described."""
    other_names = _ACTIONS_OF_LOOPS | own_names
    public_names = {
        safe_name: name
        for name, safe_name in ToolCall.safe_names(each.action for each in view.calls).items()
    }
    actions: dict[str, Action] = {}
    for answer in view.answers.get(path, ()):
        for tool in (view.prompt(answer.sequence, path) or {}).get("tools", ()):
            name = public_names.get(tool["name"], tool["name"])
            if name not in other_names:
                definition = (tool["description"], tool["parameters"])
                actions[name] = Action(name, _execute_elsewhere, *definition, outside=True)
    return [*actions.values()]


def is_elsewhere(action: Any) -> bool:
    """Return whether an action is that of an agent which is not here, as it was described."""
    return getattr(action, "function", None) is _execute_elsewhere


async def _execute_elsewhere(**args: Any) -> None:
    raise StateError("the action of another agent is not executed in a frozen world")


def _difference(prompt: dict[str, Any], messages: list[Any], tools: list[Any], schema: Any) -> str:
    """Return in words what a request has that the recorded one has not; empty if they are equal."""
    recorded_messages = prompt.get("messages", [])
    pairs = zip(recorded_messages, messages, strict=False)
    for number, (old, new) in enumerate(pairs, 1):
        if json_key(old) != json_key(new):
            of_system = ", the system prompt" if new.get("role") == "system" else ""
            return f"another message {number}{of_system}"
    if len(recorded_messages) != len(messages):
        return f"{len(messages)} messages, not {len(recorded_messages)}"
    recorded_tools = {each["name"]: each for each in prompt.get("tools", ())}
    names = {each["name"] for each in tools}
    if names != recorded_tools.keys():
        changed = ", ".join(sorted(names ^ recorded_tools.keys()))
        return f"other actions: {changed}"
    for each in tools:
        if json_key(each) != json_key(recorded_tools[each["name"]]):
            return f"another description or schema of the action {each['name']!r}"
    return "another schema" if json_key(prompt.get("schema")) != json_key(schema) else ""
