"""What shipped blocks do before the turns of citizens, for all of these at once.

A citizen with turns has its blocks prepare one after the other. Until the first that has code of
its own prepares, what they do depends on nothing that happens in the step: so it runs as for rows,
ahead of all turns, for those who have no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from moothall import Agent, Block
from moothall.build import is_ours
from moothall.society.arrays import Array, ArrayLike, np
from moothall.society.columns.rows import Rows
from moothall.society.columns.turn_row import moment_of
from moothall.society.kernel.citizen import CitizenAgent
from moothall.society.kernel.perception import View
from moothall.society.kernel.wants import Want
from moothall.society.population.population import Population
from moothall.society.population.step import Wants, call_rule, merge_wants

_FEW: Final = 3
"""So many prepare sooner one by one: a call of numpy takes as long for one as for a hundred."""
_HOOKS: Final = ("run", "before_forward", "before_blocks")
_shared: dict[tuple[type, tuple[Any, ...]], tuple[Any, ...]] = {}


class TurnRows(Rows):
    """Citizens that have turns as rows of one call; nobody has told them anything.

    Attributes:
        agents: the citizens, by row
        changed_columns: the names of columns that were written
    """

    agents: dict[int, Any]
    changed_columns: set[str]
    remembers = True

    def __setitem__(self, name: str, values: ArrayLike) -> None:
        self.changed_columns.add(name)
        super().__setitem__(name, values)

    def who_remembers(self, row: int) -> Any:
        """Return the citizen of a row."""
        return self.agents[row]

    def parameter(self, block: Any, name: str) -> Any:
        """Return a parameter of a block: of each citizen's, where they differ."""
        number = [*self.blocks].index(block)
        blocks = [self.agents[row].blocks[number] for row in self.index.tolist()]
        values = [getattr(each.params, name) for each in blocks]
        return values[0] if values.count(values[0]) == len(values) else np.array(values)

    # -- what became of their wants ----------------------------------------------------------------

    def _answers(self, *kinds: type[Want]) -> Iterator[tuple[int, Any]]:
        """Yield the positions of citizens, with an answer to a want of these kinds each."""
        for at, row in enumerate(self.index.tolist()):
            for each in self.agents[row].perceived.answers:
                if isinstance(each.want, kinds):
                    yield at, each

    @property
    def is_answered(self) -> bool:
        """Whether anybody has an answer."""
        return any(each.perceived.answers for each in self.agents.values())

    def answers(self, kind: type[Want]) -> tuple[Array, Array]:
        """Return the outcome of each row's last want of a kind in the step before."""
        outcome, value = np.zeros(len(self), np.int8), np.zeros(len(self), np.int64)
        for at, each in self._answers(kind):
            outcome[at], value[at] = (1, each.value or 0) if each.done else (-1, 0)
        return outcome, value

    def gained(self, kind: type[Want]) -> Array | None:
        """Return the sum of what came of each row's wants of a kind in the step before."""
        sums, has_any = np.zeros(len(self), np.int64), False
        for at, each in self._answers(kind):
            has_any = True
            sums[at] += (each.value or 0) if each.done else 0
        return sums if has_any else None

    def refused(self, *kinds: type[Want]) -> Array | None:
        """Return which rows had a want of these kinds refused in the step before."""
        is_refused = np.zeros(len(self), bool)
        is_refused[[at for at, each in self._answers(*kinds) if not each.done]] = True
        return is_refused if is_refused.any() else None

    def reason(self, kind: type[Want], row: int) -> str:
        """Return why a row's last refused want of a kind was refused; "" if none was."""
        answers = [each for each in self.agents[row].perceived.answers if not each.done]
        return next((each.reason for each in reversed(answers) if isinstance(each.want, kind)), "")


def prepare_together(population: Population, view: View, mailboxes: Iterable[Any]) -> None:
    """Do what shipped blocks do before turns, of those who have these and no message."""
    by_classes: dict[tuple[type, ...], list[Any]] = {}
    for mailbox in mailboxes:
        agent = mailbox.agent
        if mailbox.takes_steps and not mailbox.mail and _may_run_ahead(population, agent):
            by_classes.setdefault((type(agent), *map(type, agent.blocks)), []).append(agent)
    for classes, agents in by_classes.items():
        until, hooked = _prepared_first(classes)
        if len(agents) <= _FEW or not hooked:
            continue
        for number in hooked:
            by_params: dict[int, list[Any]] = {}
            for agent in agents:
                if not isinstance(agent.prepared, Exception):
                    key = id(_shared_params(agent.blocks[number]))
                    by_params.setdefault(key, []).append(agent)
            for alike in by_params.values():
                _prepare(population, view, alike, number)
        for agent in agents:
            agent.prepared = agent.prepared or until


def _may_run_ahead(population: Population, agent: Any) -> bool:
    """Return whether a citizen prepares by what its class and its blocks' classes say."""
    if not isinstance(agent, CitizenAgent) or agent.llm is not None:
        return False
    if getattr(agent.memory.status, "register", None) is not population:
        return False
    for each in agent.blocks:
        if each.own_llm is not None or "before_forward" in vars(each):
            return False
    return vars(agent).keys().isdisjoint(_HOOKS)


@cache
def _prepared_first(classes: tuple[Any, ...]) -> tuple[int, list[int]]:
    """Return how many blocks come before the first that prepares otherwise than rows do.

    And which of them prepare.
    """
    agent, *blocks = classes
    if agent.before_blocks is not CitizenAgent.before_blocks:
        return 0, []
    if agent.run is not Agent.run or agent.before_forward is not Agent.before_forward:
        return 0, []
    hooked: list[int] = []
    for number, block in enumerate(blocks):
        if block.before_forward is Block.before_forward:
            continue
        if not is_ours(block) or not hasattr(block, "before_rows") or block.needs_population:
            return number, hooked
        hooked.append(number)
    return len(blocks), hooked


def _shared_params(block: Any) -> Any:
    """Return what blocks that prepare in one call have in common: one object for equal ones."""
    params, shared = block.shared_params
    if params is not block.params:
        values = tuple(each for each in block.params if each[0] not in block.by_citizen)
        try:
            shared = _shared.setdefault((type(block.params), values), values)
        except TypeError:  # such as a list, in a class of one's own
            shared = block.params
        block.shared_params = block.params, shared
    return shared


def _prepare(population: Population, view: View, agents: list[Any], number: int) -> None:
    """Let one block of each prepare; who fails loses its turn."""
    by_row = {each.memory.status.row: each for each in agents}
    block = agents[0].blocks[number]
    wants: Wants = {}
    try:
        if len(agents) <= _FEW:
            for agent in agents:
                own_block = agent.blocks[number]
                own_block.before_rows(own_block.own_row())
            return
        rows = TurnRows(population, moment_of(view, population), 0, len(population), wants)
        rows.agents, rows.blocks, rows.changed_columns = by_row, agents[0].blocks, set()
        rows.city = view.city if hasattr(view.city, "by_kind") else None
        chosen = np.array(sorted(by_row))
        call_rule(rows, block, "before_rows", chosen)
    except Exception as error:
        for agent in agents:
            agent.prepared = error
        return
    statuses = [each.memory.status for each in agents]
    hidden = frozenset[str]().union(*{each.not_given for each in statuses})
    for name in hidden & rows.changed_columns:
        for row in chosen[population.arrays[name][chosen].nonzero()[0]].tolist():
            by_row[row].memory.status.show(name)
    for status in statuses if "act" in rows.changed_columns else ():
        dict.pop(status, "act", None)  # one that no column knows is over
    for table in merge_wants([wants]).values():
        for entry, row in enumerate(table.sender.tolist()):
            by_row[row].want(table.want(entry, population))
