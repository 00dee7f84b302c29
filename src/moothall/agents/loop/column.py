"""A column of texts: each is answered by itself, so many at once, and the replies are in order."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moothall.agents.replies.reply import Reply
from moothall.agents.replies.reply_request import ReplyOptions, checked_content
from moothall.foundation.arguments import (
    check_function,
    check_integer,
    check_text,
    unknown_argument_error,
)
from moothall.foundation.errors import ConfigError
from moothall.foundation.threads.waiting import side_by_side

Progress = Callable[[int, int], object]
"""Receives how many texts were answered, and how many there are."""
_BAR_CELLS: Final = 30


async def replies_to_each(
    agent: Any,
    texts: Iterable[Any],
    concurrency: int,
    run_id: str | None,
    progress: bool | Progress,
    options: Mapping[str, Any],
) -> list[Reply[Any]]:
    """Return the agent's replies to texts, in their order; `ReActAgent.map` says how."""
    name = f"agent {agent.id!r}: map"
    check_integer(f"{name}: concurrency=", concurrency)
    check_text(f"{name}: run_id=", run_id, optional=True)
    if isinstance(texts, str | Mapping) or not isinstance(texts, Iterable):
        raise ConfigError(f"{name} takes texts, such as a list or a column, got {texts!r:.80}")
    if hasattr(texts, "columns"):  # its texts would be the names of its columns
        raise ConfigError(f"{name} takes one column of a data frame, such as frame['text']")
    _check_options(agent, options)
    if progress is not False and progress is not True:
        check_function(f"{name}: progress=", progress, "done", "total", plain=True)
    tell: Progress = progress if callable(progress) else show_bar if progress else lambda *_: None
    prompts, slots, done = [*texts], asyncio.Semaphore(concurrency), 0
    for number, each in enumerate(prompts):  # before the first is paid
        if not isinstance(each, str | list):
            text = f"{name}: text number {number} must be a text or a list of blocks"
            raise ConfigError(f"{text}, got {each!r:.80}")
        checked_content(each, f"{name}: text number {number}")
    if run_id is not None:
        check_text(f"{name}: run_id= and a text's number", f"{run_id}/{len(prompts)}")
    more = {**options, "history": [*(options.get("history") or ())]}
    # A thread of its own each, since replies of one thread wait for each other.
    thread = secrets.token_hex(8) if run_id is None else run_id

    async def reply(number: int) -> Reply[Any]:
        nonlocal done
        async with slots:
            answer: Reply[Any] = await agent.reply(
                prompts[number],
                thread=f"{thread}/{number}",
                run_id=None if run_id is None else f"{run_id}/{number}",
                **more,
            )
        done += 1
        tell(done, len(prompts))
        return answer

    return await side_by_side([reply(number) for number in range(len(prompts))])


def _check_options(agent: Any, options: Mapping[str, Any]) -> None:
    """Raise DefinitionError if there is an option that a text's reply cannot have."""
    names, owner = [*ReplyOptions.__annotations__, "schema"], type(agent)
    if unknown := unknown_argument_error(owner.map, options, names, owner):
        raise unknown


def show_bar(done: int, total: int) -> None:
    """Show a bar on standard error: one line, which each call writes anew."""
    filled = _BAR_CELLS * done // total
    bar = "#" * filled + "." * (_BAR_CELLS - filled)
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r[{bar}] {done:,} of {total:,}{end}")
    sys.stderr.flush()
