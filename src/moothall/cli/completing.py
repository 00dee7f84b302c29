"""What a shell completes from a journal: runs, what they wait for, agents and states."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from click.shell_completion import CompletionItem

from moothall import MoothallError
from moothall.journal import REASONS, Journal, Outline, Waits

_MAX_ITEMS: Final = 100
"""So many are proposed, the newest."""

Completer = Callable[[Any, Any, str], list[CompletionItem]]


def _of_journal(find: Callable[[Journal, Any], Iterable[tuple[str, str]]]) -> Completer:
    """Return what completes by texts and their help, which are found in the journal, if any."""

    def complete(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        path = ctx.params.get("journal") or (ctx.parent and ctx.parent.params.get("journal"))
        if path is None or not (Journal.is_url(path) or os.path.exists(path)):
            return []
        try:
            with Journal(path) as journal:
                return [
                    CompletionItem(text, help=help)
                    for text, help in find(journal, ctx)
                    if text.startswith(incomplete)
                ]
        except MoothallError:  # a shell shows no error: the command itself tells it
            return []

    return complete


def _runs(journal: Journal, ctx: Any, **filters: Any) -> list[tuple[str, str]]:
    outlines = journal.runs(sort="-began", limit=_MAX_ITEMS, **filters)
    return [(each.id, f"{each.state}: {each.task}") for each in outlines]


runs: Completer = _of_journal(_runs)
runs_to_resume: Completer = _of_journal(
    lambda journal, ctx: _runs(journal, ctx, state=(*Outline.cut_off, *Outline.parked))
)
agents: Completer = _of_journal(
    lambda journal, ctx: [
        (agent, "")
        for agent in sorted({each.agent for each in journal.runs(sort="-began", limit=_MAX_ITEMS)})
    ]
)
waiting_runs: Completer = _of_journal(
    lambda journal, ctx: {each.run: str(each) for each in journal.waiting()}.items()
)
waiting_keys: Completer = _of_journal(
    lambda journal, ctx: [
        (each.key, str(each))
        for each in journal.waiting()
        if ctx.params.get("run_id") in (None, each.run)
    ]
)
approvals: Completer = _of_journal(
    lambda journal, ctx: [
        (each.key, f"{each.run}: {each}") for each in journal.waiting(kind=Waits.of_a_person)
    ]
)


def states(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Complete the states of runs, the last one of a list."""
    before, comma, last = incomplete.rpartition(",")
    names = dict.fromkeys(("running", "stopped", *REASONS))
    return [CompletionItem(f"{before}{comma}{each}") for each in names if each.startswith(last)]
