"""An environment of a user's own: here it gives actions the option `tries`."""

from __future__ import annotations

from typing import Any

from moothall import Action, Environment, ReActAgent, ScriptedModel


class Trying(Environment):
    """Executes again what failed, as often as the function says by `tries`."""

    def execute_action(self, action: Action, args: dict[str, Any]) -> dict[str, Any]:
        """Return the first result that is no failure, else the last."""
        for _ in range(getattr(action.function, "tries", 1)):
            result = super().execute_action(action, args)
            if result["tool_executed"]:
                break
        return result


class Patient(ReActAgent):
    """An agent in that environment."""

    environment = Trying()


def test_environment_of_a_users_own_repeats_actions_that_fail() -> None:
    calls = []

    def look() -> str:
        """Look, which works the third time."""
        calls.append("look")
        if len(calls) < 3:
            raise OSError("not yet")
        return "seen"

    look.tries = 3  # type: ignore[attr-defined]
    agent = Patient("Ann", ScriptedModel([{"name": "look", "args": {}}, "done"]), actions=[look])
    reply = agent.reply_sync("look")
    assert (reply.text, len(calls)) == ("done", 3)
    assert agent.memory.get_memories()[-2]["content"] == "seen"
