"""One step of rows: each block runs over chunks of citizens, one for each thread or more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from moothall.society.arrays import Array, np
from moothall.society.columns.register import Register
from moothall.society.columns.row_part import Moment
from moothall.society.columns.rows import Rows
from moothall.society.columns.want_table import Table, join_wants
from moothall.society.kernel.draw import integers
from moothall.society.kernel.perception import View
from moothall.society.kernel.wants import Want
from moothall.society.people.means import UNKNOWN_INCOME
from moothall.society.people.params import PeopleParams
from moothall.society.population.people import draw

CHUNK: Final = 1 << 18
"""So many citizens run at a time at most: calls of numpy then cost little beside its work."""

Wants = dict[type[Want], list[tuple[Array, Mapping[str, Array]]]]


def fill_rest(population: Register, params: PeopleParams, filled: Iterable[str] = ()) -> None:
    """Draw the citizens, and have the blocks fill their columns, but none of `filled`."""
    all_rows = Rows(population, Moment(View(city=population.city)), 0, len(population), {})
    if hasattr(population.city, "by_kind"):
        draw(all_rows, params, filled)
    if "pay" in population.arrays:  # of a table, whose people were not drawn
        population.arrays["pay"][population.arrays["pay"] == UNKNOWN_INCOME] = 0
    saved = {
        name: np.array(population.arrays[name]) for name in filled if name in population.arrays
    }
    for block in population.blocks:
        if hasattr(block, "begin_rows"):
            call_rule(all_rows, block, "begin_rows", None)
    for name, values in saved.items():
        population.arrays[name][...] = values


def run_slice(population: Register, moment: Moment, first: int, until: int) -> Wants:
    """Run rows `first` … `until` − 1 for a step; return their wants."""
    wants: Wants = {}
    rows = Rows(population, moment, first, until, wants)
    full = population.full[first:until]
    plain_rows = (~full).nonzero()[0] if full.any() else None
    if plain_rows is not None and not len(plain_rows):
        return wants
    blocks = population.blocks
    for block in blocks:
        if hasattr(block, "before_rows"):
            call_rule(rows, block, "before_rows", plain_rows)
    for number, block_rows in _mixed(rows, blocks, _choose_blocks(rows, blocks, plain_rows)):
        call_rule(rows, blocks[number], "step_rows", block_rows)
    for block in blocks:
        if hasattr(block, "after_rows"):
            call_rule(rows, block, "after_rows", plain_rows)
    return wants


def _choose_blocks(
    rows: Rows, blocks: Iterable[Any], plain_rows: Array | None
) -> Iterable[tuple[int, Array | None]]:
    """Return the rows of each block: a row runs the block that fits best, of equals the first."""
    best: Any = 0.0
    numbers: Any = -1
    for number, block in enumerate(blocks):
        score = block.fits_rows(rows.of(block, plain_rows))
        if type(numbers) is int and isinstance(score, float | int):
            if score > best:
                best, numbers = score, number
            continue
        is_better = np.greater(score, best)
        dtype = np.result_type(best, score)
        if type(numbers) is int:
            count = len(rows) if plain_rows is None else len(plain_rows)
            best, numbers = np.full(count, best, dtype), np.full(count, numbers, np.int8)
        best = best.astype(dtype, copy=False)
        np.fmax(best, score, out=best)
        numbers *= ~is_better  # faster than by a mask
        numbers += is_better * np.int8(number)
    if type(numbers) is int:
        return [(numbers, plain_rows)] if numbers >= 0 else []
    chosen = []
    for number in range(int(numbers.max()) + 1):
        positions = (numbers == number).nonzero()[0]
        if len(positions):
            chosen.append((number, positions if plain_rows is None else plain_rows[positions]))
    return chosen


def _mixed(
    rows: Rows, blocks: Sequence[Any], chosen: Iterable[tuple[int, Array | None]]
) -> Iterable[tuple[int, Array | None]]:
    """Return the rows of each block; of blocks that say `mixed`, by runs in one drawn order."""
    mixed: list[tuple[int, Any]] = [
        each for each in chosen if getattr(blocks[each[0]], "mixed", False)
    ]
    if len(mixed) < 2:
        return chosen
    numbers = np.concatenate([np.full(len(part), number) for number, part in mixed])
    parts = np.concatenate([part for _, part in mixed])
    population = rows.population
    keys = integers(population.seed, population.ids[parts], rows.step, "blocks.mixed")
    order = np.argsort(keys, kind="stable")
    ends = np.diff(numbers[order]).nonzero()[0] + 1
    runs = [(int(numbers[each[0]]), np.sort(parts[each])) for each in np.split(order, ends)]
    other_parts = [each for each in chosen if not getattr(blocks[each[0]], "mixed", False)]
    return [*other_parts, *runs]


def call_rule(rows: Rows, block: Any, hook: str, chosen: Array | None = None) -> Any:
    """Call a block's rule for all or some of these rows; return what it returns."""
    part = rows.of(block, chosen)
    try:
        result = getattr(block, hook)(part)
        part.write_back()
        return result
    except Exception as error:
        error.add_note(
            f"in block {block.name!r} of the population: {hook}, rows {rows.first} to "
            f"{rows.until}, step {rows.step}"
        )
        raise


def merge_wants(parts: Iterable[Wants]) -> dict[type[Want], Table]:
    """Take the wants out of consecutive parts of a population; return one table per kind."""
    by_kind: Wants = {}
    for part in parts:
        for kind in [*part]:
            by_kind.setdefault(kind, []).extend(part.pop(kind))
    return {kind: join_wants(kind, by_kind.pop(kind)) for kind in [*by_kind]}


def run_in_threads(
    population: Register,
    moment: Moment,
    pool: ThreadPoolExecutor | None,
    threads: int = 1,
    chunk: int = CHUNK,
) -> list[Wants]:
    """Run a whole population for a step by chunks; return the chunks' wants in order."""
    first, count = population.base, population.until - population.base
    if threads > 1 and chunk > 1:
        chunk *= 2  # threads wait for each other between calls
    # As many for each thread, all of a size, and none without a row.
    parts = min(count, -(-count // (chunk * threads)) * threads)
    if any(getattr(block, "whole", False) for block in population.blocks):
        parts = 1
    ends = [first + count * part // parts for part in range(parts + 1)]

    def run_chunk(begin: int, end: int) -> Wants:
        return run_slice(population, moment, begin, end)

    return list((map if pool is None else pool.map)(run_chunk, ends[:-1], ends[1:]))
