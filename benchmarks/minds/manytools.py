"""Twenty tasks over 168 functions that are deferred: found by words, called, and used.

The functions and the tasks are of the leaderboard's *simple* ones. A task's function is *found* if
a search has it among its hits, *called* if it is called at all, and the task is right if it is
called with accepted arguments, and the reply ends as done. Every second task is shut.
"""

from __future__ import annotations

from typing import Any

from benchmarks.minds import bfcl
from benchmarks.minds.mind import Outcomes
from moothall import ReActAgent
from moothall.models import Model

TOOLS = 168


def one(model: Model, actions: list[Any], task: dict[str, Any], wanted: list[Any]) -> Any:
    """What an agent does with a task."""
    ((name, _),) = wanted[0].items()
    agent = ReActAgent("a", model, actions=actions, max_iterations=6)
    reply = agent.reply_sync(task["question"][0][-1]["content"])
    hits = [
        hit["name"]
        for step in reply.steps
        if step.action == "find_actions" and isinstance(step.result, dict)
        for hit in step.result.get("result") or ()
        if isinstance(hit, dict)
    ]
    made = [(step.action, step.args) for step in reply.steps if step.action != "find_actions"]
    return {
        "right": reply.stop_reason == "done" and bfcl.right(made, wanted),
        "found": name.replace(".", "_") in [each.replace(".", "_") for each in hits],
        "called": name in [called for called, _ in made],
        "calls": [[step.action, step.args] for step in reply.steps],
        "hits": hits,
        "text": reply.text[:300],
        "stop": f"{reply.stop_reason}: {reply.detail}"[:200],
    }


def run(model: Model, outcomes: Outcomes, count: int, shut: bool) -> Any:
    """The outcomes of some tasks."""
    named: dict[str, tuple[dict[str, Any], list[Any], Any]] = {}
    for half in (False, True):
        for task, wanted in bfcl.tasks("simple", 400, half):
            function = task["function"][0]
            if function["name"] not in named and len(named) < TOOLS:
                named[function["name"]] = (task, wanted, function)
    actions = [bfcl.action(function) for _, _, function in named.values()]
    for each in actions:
        each.deferred = True
    chosen = [*named.values()][:: TOOLS // 20][:20]
    return [
        outcomes.of("many tools", task["id"], lambda t=task, w=wanted: one(model, actions, t, w))
        for task, wanted, _ in chosen[shut::2][:count]
    ]
