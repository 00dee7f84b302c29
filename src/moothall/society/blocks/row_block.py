"""Blocks whose rule is written once, for rows of a population."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from moothall import Block, ConfigError
from moothall.build import check_function
from moothall.society.arrays import Number, np
from moothall.society.blocks.citizen_block import CitizenBlock
from moothall.society.columns.column import Column
from moothall.society.columns.ledger import definer, has_rows_rule
from moothall.society.columns.rows import Rows
from moothall.society.kernel.citizen import CitizenAgent
from moothall.society.kernel.perception import Perception

HOOKS = {
    "before_forward": "before_rows",
    "forward": "step_rows",
    "after_forward": "after_rows",
    "fits": "fits_rows",
}
"""What a block does for one citizen, and for rows."""


class RowBlock(CitizenBlock):
    """A block whose rule is written once, for rows; a full agent runs it for its own row.

    `step_rows` writes the columns that the block declares, by assigning them
    (`rows["wealth"] = …`), and may read all others. It decides for each row alone, from what it
    reads of it, `rows.seen` and its random numbers, so that any parts of a population come to the
    same. What it wants of the world it asks by `rows.want`. `before_rows`, `after_rows` and
    `fits_rows` are optional: what rows do before and after the block of a step, and how well the
    block fits. Random numbers come from `rows.below`, `rows.uniform`, `rows.integer` and
    `rows.choice`.

    Attributes:
        columns: what it keeps of each citizen, by name; in a status, by the column's key
        words: the texts that its wants use, such as `("food",)`
        whole: whether it is given the rows of all citizens in one part, in one process, as
            `rows.order` and `rows.turns` need
        mixed: whether, of a block that says `whole`, its rows act in one drawn order with those of
            the other blocks that say so: `step_rows` is called for each run of its own rows
    """

    needs_population = True
    columns: ClassVar[Mapping[str, Column]] = {}
    words: ClassVar[Iterable[str]] = ()
    whole: ClassVar[bool] = False
    mixed: ClassVar[bool] = False

    def fits(self, context: Perception) -> float:
        """Return `fits_rows` of the citizen's own row; 1 of an intention in words."""
        if type(self).fits_rows is RowBlock.fits_rows or not isinstance(context, Perception):
            return 1.0
        return float(np.ravel(self._run_hook("fits_rows", context))[0])

    def fits_rows(self, rows: Rows) -> Number:
        """Return 1: of equal blocks the first acts, so a block alone acts in every step."""
        return 1.0

    def step_rows(self, rows: Rows) -> None:
        """Do a step of rows."""
        raise NotImplementedError(f"{type(self).__name__} must define `def step_rows(self, rows)`")

    async def before_forward(self) -> None:
        """Do `before_rows` for the citizen's own row."""
        if hasattr(self, "before_rows"):
            self._run_hook("before_rows", self.perceived)

    async def forward(self) -> Any:
        """Do `step_rows` for the citizen's own row."""
        self._run_hook("step_rows", self.perceived)

    async def after_forward(self) -> None:
        """Do `after_rows` for the citizen's own row."""
        if hasattr(self, "after_rows"):
            self._run_hook("after_rows", self.perceived)

    def _run_hook(self, hook: str, perceived: Perception) -> Any:
        if perceived.view.others is None:
            raise _without_population(self, perceived.id)
        return perceived.view.others.by_rows(self, hook, self.agent)


def _without_population(block: RowBlock, citizen: object) -> ConfigError:
    return ConfigError(
        f"block {block.name!r} runs for rows, and citizen {citizen} is not of a Population: give "
        "the block to one, such as Population(people, city, [block]), and that to the Society"
    )


def check_for_agent(agent: CitizenAgent, *, has_rows: bool) -> None:
    """Check that blocks run for one citizen, of a population or of none. ConfigError: one does not.

    Args:
        agent: the citizen
        has_rows: whether there is a population
    """
    for block in agent.blocks:
        if not isinstance(block, RowBlock) or type(block).forward is not RowBlock.forward:
            continue
        if not has_rows:
            raise _without_population(block, agent.id)
        if block.whole:
            raise ConfigError(
                f"block {block.name!r} says `whole = True`: it runs for all citizens in one part, "
                f"and not for citizen {agent.id} alone: do not promote it, or give it other blocks"
            )


def missing_method(block: object) -> str:
    """Return the name of a rows method that a block lacks; "" if it lacks none."""
    kind = type(block)
    for scalar_hook, rows_hook in HOOKS.items():
        scalar_definer = definer(kind, scalar_hook)
        if scalar_definer in (None, RowBlock):
            continue
        if scalar_definer is Block and scalar_hook != "forward":
            continue
        # A subclass that overrides one form alone would have two rules.
        if not has_rows_rule(kind, scalar_hook, rows_hook):
            return rows_hook
    return ""


def check_block_set(blocks: Iterable[object]) -> tuple[Any, ...]:
    """Return the blocks of a population as a tuple. Raises ConfigError: they cannot be together."""
    if not isinstance(blocks, Iterable):
        raise ConfigError(f"blocks must be a list of citizens' blocks, got {blocks!r:.80}")
    checked_blocks = tuple(blocks)
    columns: dict[str, object] = {}
    for block in checked_blocks:
        if not isinstance(block, CitizenBlock):
            raise ConfigError(f"blocks must be citizens' blocks, got {block!r:.80}")
        for hook in ("begin_rows", *HOOKS.values()):
            rule = getattr(block, hook, None)
            check_function(f"block {block.name!r}: {hook}", rule, "rows", plain=True, optional=True)
        if getattr(block, "mixed", False) and not getattr(block, "whole", False):
            raise ConfigError(f"block {block.name!r} says `mixed = True`: say `whole = True` too")
        for name, column in getattr(block, "columns", {}).items():
            if columns.setdefault(name, column) != column:
                raise ConfigError(
                    f"block {block.name!r} declares the column {name!r} otherwise than another: "
                    "give it another name, or the same Column"
                )
    return checked_blocks
