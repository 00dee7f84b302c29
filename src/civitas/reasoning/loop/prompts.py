"""What a model is told: who it is, what came of its calls, what was wrong with its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from civitas.goal import Goal, format_goals
from civitas.jsonvalue import json_text, readable
from civitas.text import cut

MAX_RESULT_CHARS = 20_000
"""How much of a result a model is shown."""

EMPTY = "Your answer was empty. Answer with text, or call an action."
NOT_RUN = "not executed, because another call of the same answer was wrong"


def system_text(system_prompt: str | None, goals: Iterable[Goal]) -> str:
    """The system part of a prompt; empty if there is none."""
    return "\n\n".join(part for part in (system_prompt, format_goals(goals)) if part)


def result_content(result: dict[str, Any], limit: int) -> str:
    """A result as a model is shown it: the value as JSON (a text as it is), or the error alone.

    A traceback is for people; it is in the step.
    """
    error = result.get("error")
    if error is not None:
        return json.dumps({"error": cut(readable(str(error)), limit)}, ensure_ascii=False)
    if "result" in result:
        return cut(json_text(result["result"]), limit)
    rest = {key: value for key, value in result.items() if key != "traceback"}
    return cut(json_text(rest), limit)
