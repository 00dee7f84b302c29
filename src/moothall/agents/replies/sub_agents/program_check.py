"""Which runs of a journal a program would take, and what differs in those that it would not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moothall.agents.replies.checked_parts import actions_of_agent
from moothall.agents.replies.read_record import ReadRecord
from moothall.agents.replies.sub_agents.call_form import check_form
from moothall.agents.replies.sub_agents.resumable import agents_that_resume, with_asked_agents
from moothall.foundation.errors import RunMismatch, StateError
from moothall.journal.entry import ROOT, Outline, parts_of
from moothall.journal.stop_reason import PARKED_STATES

if TYPE_CHECKING:
    from moothall.journal import Journal

_STATES: Final = (*PARKED_STATES, *Outline.cut_off)


class RunFit(NamedTuple):
    """A run that waits or was cut off, and what differs if a program would not take it.

    Attributes:
        run: the run
        fault: what differs; empty if the program would take it
        is_of_others: whether none of the program's agents has begun it
        unknown: whose actions it may call that are not there to be looked at, in words; else empty
    """

    run: Outline
    fault: str
    is_of_others: bool = False
    unknown: str = ""


async def get_ready(agents: Iterable[Any]) -> None:
    """Have agents know their actions, as before a reply: a server of actions is asked for them."""
    for agent in agents:
        for each in agents_that_resume(agent):
            for source in each.action_sources():
                await source.get_ready()


def fits_of(agents: Iterable[Any], journal: Journal) -> Iterator[RunFit]:
    """Yield the runs of a journal that wait or were cut off, with whether the agents take them.

    It calls no model and no action, and writes nothing.
    """
    agents, agents_by_name = [*agents], dict[tuple[str, str], Any]()
    for agent in agents:
        for each in with_asked_agents(agent):
            if kind := getattr(each, "run_kind", ""):
                agents_by_name.setdefault((kind, str(each.id)), each)
    for run in journal.runs(state=_STATES):
        agent = agents_by_name.get((run.kind, run.agent))
        if agent is None:
            yield RunFit(run, f"no agent {run.agent!r} ({run.kind})", is_of_others=True)
            continue
        try:
            _check(agent, journal, run.id, agents_by_name)
        except (RunMismatch, StateError) as error:
            yield RunFit(run, getattr(error, "detail", "") or str(error))
        else:
            yield RunFit(run, "", unknown=_unknown(agent, [str(each.id) for each in agents]))


def _unknown(agent: Any, present: Collection[str]) -> str:
    """Return which agents, whose actions an agent's runs find in its space, are not present."""
    absent: dict[str, None] = {}
    for each in with_asked_agents(agent):
        discovered = getattr(each, "discover", None) or ()
        if not isinstance(discovered, str):
            absent |= {repr(id): None for id in discovered if id not in present}
        elif {*present} <= {str(each.id)}:
            absent["all others" if discovered == "*" else repr(discovered)] = None
    return ", ".join(absent)


def _check(
    agent: Any, journal: Journal, run_id: str, agents_by_name: dict[tuple[str, str], Any]
) -> None:
    """Raise RunMismatch if an agent would not take a run, or one that it has asked a part of it."""
    parts = parts_of(journal.entries(run_id))
    records: dict[str, Any] = {}
    for path in sorted(parts, key=len):
        start = next((each.data for each in parts[path] if each.kind == "begun"), None)
        owner = agent
        if path != ROOT:  # of a call that is under way; a group's program has those of its members
            asker_path, _, call = path.rpartition("/")[0].rpartition("/")
            asker = records.get(asker_path)
            past_step = None if asker is None else asker.find(call)
            if past_step is None or past_step.state == "ended":
                continue
            owner = None if start is None else agents_by_name.get((start["kind"], start["agent"]))
        if start is None or owner is None:
            continue
        record = records[path] = ReadRecord(run_id, parts[path], owner.state_type)
        record.check(owner.run_kind, str(owner.id), owner.describe_program())
        _check_forms(owner, record, journal)


def _check_forms(agent: Any, record: Any, journal: Journal) -> None:
    """Raise RunMismatch if a call that has begun would be made in another form now."""
    actions = {each.name: each for each in actions_of_agent(agent)}
    caller: Any = SimpleNamespace(recorded=SimpleNamespace(run=SimpleNamespace(file=journal.file)))
    for past_step in record.past():
        action = actions.get(str(past_step.about.get("action")))
        if action is not None and past_step.state != "ended":
            check_form(action, past_step, caller, record)
