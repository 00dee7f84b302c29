"""Whether a run may be resumed, by what the journal has of it, and its fork if it may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from moothall import NoSuchRun, RunMismatch, StateError
from moothall.build import Record
from moothall.journal import REASONS, Doubt, Journal, Outline
from moothall.studio.orders.act import is_small_model
from moothall.studio.orders.order import ActOrder, AnyOrder, order_of


@dataclass(frozen=True)
class ResumeRefusal:
    """Why a run may not be resumed.

    Attributes:
        reason: it has ended, it has a fork, or calls of it are in doubt
        text: the reason as an error says it
        fork: the id of its last fork, if that is the reason
        doubts: the calls in doubt, if they are the reason
    """

    reason: Literal["ended", "forked", "in_doubt"]
    text: str
    fork: str = ""
    doubts: Sequence[Doubt] = ()


def resume_refusal(
    journal: Journal, run_id: str, *, allow_ended: bool = False, forked: bool = False
) -> ResumeRefusal | None:
    """Return why a run may not be resumed; None if it may, or if there is no such run.

    Args:
        journal: the journal
        run_id: the run's id
        allow_ended: whether a run that has ended may be resumed
        forked: whether a run that has a fork may be resumed
    """
    try:
        run: Outline | None = journal.run(run_id)
    except NoSuchRun:
        run = None
    state = None if run is None else run.state
    if state in REASONS.final and not allow_ended:
        return ResumeRefusal("ended", f"run {run_id!r} has ended ({state}): begin another run")
    # The fork may have executed the same actions.
    if not forked and (fork_ids := forks_of(journal, run_id)):
        text = f"run {run_id!r} was forked as {fork_ids[-1]!r}: resume the fork"
        return ResumeRefusal("forked", text, fork=fork_ids[-1])
    if run is None or run.under_way:
        return None  # a call under way in another process is not in doubt
    doubts = journal.in_doubt(run_id)
    if not doubts:
        return None
    text = (
        f"run {run_id!r} cannot be resumed before you decide: it is unknown whether "
        f"{', '.join(each.action for each in doubts)} took effect when it was cut off: "
        f"decide in the studio's tab Runs, or as `moothall runs {run_id}` shows"
    )
    return ResumeRefusal("in_doubt", text, doubts=doubts)


def forks_of(journal: Journal, run_id: str) -> list[str]:
    """Return the ids of a run's forks, which were resumed in its place."""
    return [each.id for each in journal.runs(forked_from=run_id)]


def recorded_order(journal: Journal, run_id: str) -> AnyOrder | None:
    """Return the order of a run to resume, None for a run of a program; StateError if it is empty.

    Raises:
        NoSuchRun: there is no such run
        StateError: nothing is recorded of it, or another version of moothall recorded its order
    """
    outline = journal.run(run_id)
    if not outline.entries and not outline.under_way:
        raise StateError(
            f"nothing is recorded of run {run_id!r}, whose process ended as it began: begin another"
        )
    return order_of(journal.entries(run_id))


def run_for_change(
    error: RunMismatch, journal: Journal, run_id: str, order: AnyOrder | None, force: bool = False
) -> tuple[str, str]:
    """Return the run by which a changed program goes on, and what has changed.

    It is the run itself if that waits, since others know it by its id; else a fork. Only files that
    came or went are reason enough without `force`: else `error` is raised again.
    """
    # A small model's actions name the files, so they change with the folder.
    is_small = isinstance(order, ActOrder) and is_small_model(order.model)
    only_files = is_small and error.changed == ("actions",)
    if not (only_files or force):
        raise error
    changed = "the folder has other files now" if only_files else "the program has changed"
    if journal.run(run_id).state not in Outline.parked:
        return journal.fork(run_id), changed
    journal.waits.hand_over(run_id)
    return run_id, changed


def check_program(journal: Journal, run_id: str, agent: Any) -> None:
    """Check, before a run is under way, that the agent is the one that began it."""
    try:
        entries = journal.entries(run_id)
    except NoSuchRun:
        return
    without_states = [each for each in entries if each.state is None]  # perhaps of another version
    record = Record.read(run_id, without_states, agent.state_type)
    if record.start is not None:
        record.check(record.start["kind"], str(agent.id), agent.describe_program())
