"""The outcome of a run: its exit code, and why it ended in words."""

from __future__ import annotations

import re
from typing import Final

from moothall import Reply, Step
from moothall.build import shorten
from moothall.journal import REASONS

_COMMAND_ACTIONS: Final = ("run_command", "shell_command")
_EXIT_MARK: Final = re.compile(r"(?:^|\n)\[(exit code \d+|killed by [^\]\n]+)\]\Z")
_SMALL_MODEL_HINT: Final = (
    "The model in the box follows one plain instruction at a time, such as 'List the files'. For "
    "more, name a larger one: --model openai:gpt-4o-mini, or --model local:qwen3-4b after "
    "`moothall models fetch qwen3-4b`."
)


def exit_code(reply: Reply) -> int:
    """Return 0 if the reply is an answer, else 1."""
    return 0 if reply.stop_reason in REASONS.answered else 1


def failed_actions(reply: Reply) -> str:
    """Return which actions failed of a reply that is an answer; empty if none did."""
    if exit_code(reply):
        return ""
    failures = [(shorten(step.action, 40), _failure(step)) for step in reply.steps]
    failed = [f"{name}{why}" for name, why in failures if why is not None]
    if not failed:
        return ""
    actions = "action" if len(failures) == 1 else "actions"
    names = ", ".join(dict.fromkeys(failed))
    return f"{len(failed)} of {len(failures)} {actions} failed: {names}"


def model_hint(reply: Reply, model: str) -> str:
    """Return what to do about a reply of the bundled model without an answer; else empty."""
    if reply.stop_reason != "max_iterations" or model != "local":
        return ""
    return _SMALL_MODEL_HINT


def _failure(step: Step) -> str | None:
    """Return the text after a failed step's action name; None if the step did not fail."""
    if step.error is not None:
        return None if str(step.error).startswith("skipped:") else ""
    result = step.result.get("result") if isinstance(step.result, dict) else None
    if step.action not in _COMMAND_ACTIONS or not isinstance(result, str):
        return None
    match = _EXIT_MARK.search(result)
    return f" ({match[1]})" if match else None
