"""Sugarscape with trade: traders gather sugar and spice, eat both, and barter with whom they see.

Epstein, Axtell 1996, "Growing Artificial Societies", chapter IV, rules G1 (all grows by one a
step), M (move) and T (trade); the defaults and the order are those of Mesa's example. In each step
the traders act one after the other in a drawn order: each goes to the free cell in sight where it
would be best off, gathers, eats, and starves without sugar or spice. Then each, in a new order,
trades with those in sight, at the geometric mean of both rates of substitution, as long as both
gain and their rates do not cross.

The first rows are the cells with what grows there, which never leave. Mesa's landscape is a table
of its own; here two hills of rings are computed, and `sugar` takes any table.

    python examples/models/sugarscape.py
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import numpy as np

from moothall import Society
from moothall.society import Column, Grid, Move, Population, RowBlock, Rows, math
from moothall.society.kernel.draw import draw_below


class SugarscapeBlock(RowBlock):
    """Lets sugar and spice grow, and traders gather, starve and trade."""

    columns: ClassVar[dict[str, Column]] = {
        "trader": Column("bool"),
        "sugar": Column("float64"),  # of a trader what it has, of a cell what grows there
        "spice": Column("float64"),
        "most_sugar": Column("float64"),  # of a cell
        "most_spice": Column("float64"),
        "eats_sugar": Column("int32"),  # of a trader, in a step
        "eats_spice": Column("int32"),
        "sight": Column("int32"),  # of a trader, in cells
        "trades": Column("int32"),  # that it has begun in the last step
        "log_prices": Column("float64"),  # the sum of the logarithms of their prices
    }
    whole: ClassVar[bool] = True

    def step_rows(self, rows: Rows) -> None:
        """Let all move, then all trade."""
        market = _Market(rows)
        is_trader, goes = rows["trader"], rows.uniform("sugarscape.goes").tolist()
        order = rows.order("sugarscape.moves")
        for one in order[is_trader[order]].tolist():
            market.move(one, goes[one])
            market.eat(one)
        market.meet()
        order = rows.order("sugarscape.trades")
        for one in order[is_trader[order]].tolist():
            if one not in market.dead:
                market.trade_with_all(one)
        who = np.array(market.sellers, np.int64)
        rows["trades"] = np.bincount(who, minlength=len(rows)).astype(np.int32)
        rows["log_prices"] = np.bincount(who, math.log(market.prices), len(rows))
        cells = len(rows.city)
        rows["sugar"] = np.concatenate([market.sugar_at, market.sugar[cells:]])
        rows["spice"] = np.concatenate([market.spice_at, market.spice[cells:]])
        place = np.array(market.place)
        rows.want(Move, place != rows["place"], to=place)
        rows.remove(sorted(market.dead))


class _Market:
    """What grows and what traders have, within a step."""

    def __init__(self, rows: Rows) -> None:
        self.grid = rows.city
        cells = len(self.grid)
        self.sugar_at = np.minimum(rows["sugar"] + 1, rows["most_sugar"])[:cells]
        self.spice_at = np.minimum(rows["spice"] + 1, rows["most_spice"])[:cells]
        self.sugar, self.spice = rows["sugar"].tolist(), rows["spice"].tolist()
        self.eats_sugar, self.eats_spice = rows["eats_sugar"].tolist(), rows["eats_spice"].tolist()
        self.sight, self.place = rows["sight"].tolist(), rows["place"].tolist()
        self.there = np.bincount(rows["place"][cells:], minlength=cells + 1)
        self.there[cells] = 1  # beyond the border, where none can go
        self.dead: set[int] = set()
        self.sellers: list[int] = []
        self.prices: list[float] = []

    def welfare(self, one: int, sugar: Any, spice: Any) -> Any:
        """Return how well off a trader is with so much."""
        eats = self.eats_sugar[one] + self.eats_spice[one]
        return sugar ** (self.eats_sugar[one] / eats) * spice ** (self.eats_spice[one] / eats)

    def move(self, one: int, drawn: float) -> None:
        """Go to the nearest of the free cells in sight in which one is best off."""
        here, cells = self.place[one], self.grid.cells
        near = self.grid.within(self.sight[one])[here]
        near = near[self.there[near] == 0]
        if not len(near):
            return
        well = self.welfare(
            one, self.sugar[one] + self.sugar_at[near], self.spice[one] + self.spice_at[near]
        )
        best = near[well >= well.max() * (1 - 1e-9)]
        away = ((cells[best] - cells[here]) ** 2).sum(axis=1)
        best = best[away == away.min()]
        to = int(best[int(drawn * len(best))])
        self.there[here] -= 1
        self.there[to] += 1
        self.place[one] = to

    def eat(self, one: int) -> None:
        """Gather what is there, and eat; who then lacks one of both dies."""
        here = self.place[one]
        self.sugar[one] += float(self.sugar_at[here]) - self.eats_sugar[one]
        self.spice[one] += float(self.spice_at[here]) - self.eats_spice[one]
        self.sugar_at[here] = self.spice_at[here] = 0
        if self.sugar[one] <= 0 or self.spice[one] <= 0:
            self.there[here] -= 1
            self.dead.add(one)

    def meet(self) -> None:
        """Find which trader is in each cell."""
        cells = len(self.grid)
        self.trader = np.full(cells + 1, -1)  # the last: beyond the border
        for one in range(cells, len(self.place)):
            if one not in self.dead:
                self.trader[self.place[one]] = one

    def trade_with_all(self, one: int) -> None:
        """Trade with each that is in sight, until there is nothing to gain."""
        near = self.trader[self.grid.within(self.sight[one])[self.place[one]]]
        for other in near[near >= 0].tolist():
            while self.trade(one, other):
                pass

    def rate(self, one: int, sugar: float, spice: float) -> float:
        """Return for how much spice a trader would give one sugar, with so much of both."""
        return float((spice / self.eats_spice[one]) / (sugar / self.eats_sugar[one]))

    def trade(self, one: int, other: int) -> bool:
        """Exchange once; return whether it was done."""
        mine = self.rate(one, self.sugar[one], self.spice[one])
        its = self.rate(other, self.sugar[other], self.spice[other])
        if abs(mine - its) <= 1e-9 * max(mine, its):
            return False
        price = (mine * its) ** 0.5
        buyer, seller = (one, other) if mine > its else (other, one)
        sugar, spice = (1, int(price)) if price >= 1 else (int(1 / price), 1)
        after = (
            (buyer, self.sugar[buyer] + sugar, self.spice[buyer] - spice),
            (seller, self.sugar[seller] - sugar, self.spice[seller] + spice),
        )
        if min(after[0][2], after[1][1]) <= 0:
            return False
        for who, new_sugar, new_spice in after:
            now = self.welfare(who, self.sugar[who], self.spice[who])
            if self.welfare(who, new_sugar, new_spice) <= now:
                return False
        if self.rate(*after[0]) <= self.rate(*after[1]):
            return False
        for who, new_sugar, new_spice in after:
            self.sugar[who], self.spice[who] = new_sugar, new_spice
        self.sellers.append(one)
        self.prices.append(price)
        return True


def sugarscape(
    seed: int = 0,
    *,
    width: int = 50,
    height: int = 50,
    traders: int = 200,
    endowment: tuple[int, int] = (25, 50),
    eats: tuple[int, int] = (1, 5),
    sight: tuple[int, int] = (1, 5),
    sugar: Any = None,
) -> Population:
    """Return cells, of which some have sugar and others spice, and traders at drawn ones.

    Metrics: how many `traders` live, how many `trades` the step had, and their `price`, the
    geometric mean, in spice for sugar; NaN without trades.

    Args:
        seed: the seed of all draws
        width: columns; 3 or more
        height: rows; 3 or more
        traders: how many there are at the start
        endowment: the least and the most sugar, and spice, that a trader has at the start
        eats: the least and the most sugar, and spice, that it eats in a step
        sight: how far it sees at least and at most, in cells of the four directions
        sugar: the most sugar of the cells, a row for each column of the grid, in the place of two
            hills; the most spice is the same from the other side
    """
    grid = Grid(width, height, around=4, capacity=None, cell_seconds=0)
    cells, count = len(grid), len(grid) + traders
    x, y = grid.cells[:, 0], grid.cells[:, 1]
    most = hills(width, height) if sugar is None else np.asarray(sugar, np.float64)
    rows = np.arange(count, dtype=np.uint64)
    is_trader = rows >= cells

    def drawn(purpose: str, low: int, high: int) -> Any:
        """Return a number of each trader, and 0 of each cell."""
        each = low + draw_below(high - low + 1, seed, rows, 0, f"sugarscape.{purpose}")
        return np.where(is_trader, each, 0)

    def of_cells(table: Any) -> Any:
        """Return what a table has in each cell, and 0 of each trader."""
        return np.concatenate([table[x, y], np.zeros(traders)])

    place = draw_below(cells, seed, rows, 0, "sugarscape.place")
    table = {
        "trader": is_trader,
        "place": np.where(is_trader, place, rows).astype(np.int32),
        "most_sugar": of_cells(most),
        "most_spice": of_cells(most[:, ::-1]),
        "sugar": of_cells(most) + drawn("sugar", *endowment),
        "spice": of_cells(most[:, ::-1]) + drawn("spice", *endowment),
        "eats_sugar": drawn("eats_sugar", *eats).astype(np.int32),
        "eats_spice": drawn("eats_spice", *eats).astype(np.int32),
        "sight": drawn("sight", *sight).astype(np.int32),
    }
    metrics = {
        "traders": lambda columns: int(columns["trader"].sum()),
        "trades": lambda columns: int(columns["trades"].sum()),
        "price": price,
    }
    return Population(table, grid, [SugarscapeBlock()], seed, metrics=metrics)


def hills(width: int, height: int) -> Any:
    """Return two hills, in opposite quarters, of rings with 1 to 4 sugar."""
    x, y = np.mgrid[:width, :height]
    x, y = x / width, y / height
    away = np.minimum(np.hypot(x - 0.2, y - 0.8), np.hypot(x - 0.7, y - 0.3))
    return (away[..., None] <= (0.47, 0.33, 0.22, 0.115)).sum(axis=-1).astype(np.float64)


def price(columns: Any) -> float:
    """Return the geometric mean of the step's prices; NaN without trades."""
    trades = columns["trades"].sum()
    return float(math.exp(columns["log_prices"].sum() / trades)) if trades else float("nan")


async def main() -> None:
    """Print who survives, and at which price they trade."""
    async with Society(sugarscape(seed=1)) as society:
        rows = await society.run(steps=51)
    for row in rows[::10]:
        print(
            f"step {row['step']}: {row['traders']} traders, {row['trades']} trades at "
            f"{row['price']:.2f} spice a sugar"
        )


if __name__ == "__main__":
    asyncio.run(main())
