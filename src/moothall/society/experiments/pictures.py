"""Pictures of a society: the map with its citizens, and the curves of its days."""

from __future__ import annotations

import functools
import io
from collections import Counter
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError
from moothall.society.arrays import import_package, np
from moothall.society.city.grid import Grid
from moothall.society.city.network import Network
from moothall.society.city.plane import Plane
from moothall.society.map_positions import Whereabouts
from moothall.society.society import Society
from moothall.society.tables import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, told apart with any colour vision; shapes are for print in grey.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHAPES: Final = ("s", "^", "P", "D", "v", "X", "p")
DPI: Final = 150
_INK: Final = 15_000  # square points of all circles of citizens together, about a twentieth
_MANY_PLACES: Final = 100
_NAMED_PLACES: Final = 20  # with more places than this, a map has no room for their ids
_MAX_SINGLE_CITIZENS: Final = 5_000  # with more citizens than this, the map shows their density


def draw_map(
    society: Society,
    path: str | PathLike[str] | None = None,
    *,
    by: str | None = None,
    layer: str | None = None,
) -> Figure:
    """Return a picture of the places by kind, the roads, and where the citizens are.

    With `by`, with `layer`, on a `Plane` and on a network, it shows each citizen in a colour.

    Args:
        society: a society whose places have positions, whose citizens have columns `x` and `y` on a
            `Plane`, or are a network: without a city, a population's `network`
        path: the file that it is written to, by its suffix: PNG, SVG or PDF; None for no file
        by: what the colours of citizens show: a number of their status or a column, such as
            `money`, `needs.hunger` or `opinions.music`
        layer: which of the population's `layers` the colours of places show, below the citizens

    Returns:
        the figure of matplotlib, which a notebook shows

    Raises:
        ConfigError: its places have no positions, there is no such layer, or no citizen has a
            number `by`
        MissingExtra: matplotlib is not installed
        FileError: the file cannot be written
    """
    city = society.city
    network = city if isinstance(city, Network) else getattr(society.rows, "network", None)
    is_network = isinstance(city, Network) or (city is None and network is not None)
    if by is not None or layer is not None or is_network or isinstance(city, Plane):
        return save_figure(_coloured_map(society, by, layer, network if is_network else None), path)
    figure, axes = figure_of(7.5, 8)
    positions = society.positions()
    if positions is None:
        raise ConfigError("a map needs a city whose places have positions, such as a City")
    if len(positions.ids) > _MAX_SINGLE_CITIZENS:
        points = [(x, y) for x, y in zip(positions.x, positions.y, strict=True) if x is not None]
        scale = {"bins": "log", "mincnt": 1, "cmap": "viridis", "linewidths": 0}
        cells = axes.hexbin(*zip(*points, strict=True), gridsize=70, **scale)
        figure.colorbar(cells, ax=axes, label="citizens in a hexagon", shrink=0.8)
        axes.set_aspect("equal")
    else:
        _draw_places(axes, positions, city)
        axes.set_aspect("equal", "datalim")
        legend_place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.09), "ncols": 4}
        axes.legend(**legend_place, frameon=False, fontsize=9)
    axes.set(**_axis_labels(city))
    axes.set_title(f"{len(positions.ids):,} citizens, {society.clock}")
    return save_figure(figure, path)


def _axis_labels(city: object) -> dict[str, str]:
    if isinstance(city, Grid | Plane):
        return {"xlabel": "column", "ylabel": "row"} if isinstance(city, Grid) else {}
    return {"xlabel": "metres to the east", "ylabel": "metres to the north"}


def _coloured_map(
    society: Society, by: str | None, layer: str | None, network: Network | None
) -> Figure:
    """Return a map of each citizen in the colour of its number `by`; of none, all alike."""
    city = society.city
    limits: dict[str, object] = {}
    positions = society.positions()
    if positions is None:
        rule = (
            "citizens with the columns 'x' and 'y'"
            if isinstance(city, Plane)
            else "a city whose places have positions, such as a City"
        )
        subject = "a map" if city is None else f"a map of a {type(city).__name__}"
        raise ConfigError(f"{subject} needs {rule}")
    x, y = (np.array(each, float) for each in (positions.x, positions.y))
    if isinstance(city, Plane):
        limits = {"xlim": (0, city.width), "ylim": (0, city.height)}
    figure, axes = figure_of(7.5, 8)
    if network is not None:
        spots, (starts, targets) = network.drawn(), network.links
        sources = np.repeat(np.arange(len(network)), np.diff(starts))
        ends = np.stack([spots[sources], spots[targets]], axis=1)[sources < targets]
        line_class = import_package("matplotlib.collections").LineCollection
        axes.add_collection(line_class(ends, colors="#d9d9d9", linewidths=0.8, zorder=1))
        axes.set_axis_off()
    if layer is not None:
        _draw_layer(figure, axes, society, layer)
    side = max(city.width, city.height) if isinstance(city, Grid) else 60
    style: dict[str, object] = {"marker": "s" if isinstance(city, Grid) else "o", "linewidths": 0}
    style["s"] = (380 / side) ** 2
    values = np.zeros(len(x)) if by is None else society.levels(by)
    if np.isnan(values).all():
        raise ConfigError(f"no citizen has a number {by!r:.80}")
    distinct_values = np.unique(values[~np.isnan(values)])
    if len(distinct_values) > len(COLOURS):
        points = axes.scatter(x, y, c=values, cmap="viridis", **style)
        figure.colorbar(points, ax=axes, label=by, shrink=0.8)
    else:
        column = None if society.rows is None else society.rows.declared.get(by or "")
        words = column.words if column is not None else ()
        for distinct_value, colour in zip(distinct_values.tolist(), COLOURS, strict=False):
            has_value = values == distinct_value
            label = words[int(distinct_value)] if words else f"{by} {distinct_value:g}"
            axes.scatter(x[has_value], y[has_value], color=colour, label=label, **style)
        if by is not None:
            legend_place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.09), "ncols": 4}
            axes.legend(**legend_place, frameon=False, fontsize=9)
    axes.set_aspect("equal")
    axes.set(**_axis_labels(city), **limits)
    axes.set_title(f"{len(x):,} citizens, {society.clock}")
    return figure  # type: ignore[no-any-return]


def _draw_layer(figure: Any, axes: Any, society: Society, name: str) -> None:
    """Draw what places have, below the citizens."""
    population, city = society.rows, society.city
    if population is None or name not in population.layers:
        raise ConfigError(f"there is no layer {name!r:.80}: Population(…, layers=) declares one")
    values = population.layers[name]
    if values.ndim > 1 or not hasattr(city, "position"):
        raise ConfigError(f"layer {name!r} cannot be drawn: it needs one value at a position each")
    style: dict[str, object] = {"cmap": "Greens", "zorder": 0}
    if isinstance(city, Grid):
        cells = np.full((city.height, city.width), np.nan)
        cells[city.cells[:, 1], city.cells[:, 0]] = values
        image = axes.imshow(cells, origin="lower", interpolation="nearest", **style)
    else:
        x, y = np.array([city.position(place) for place in city.ids()], float).T
        image = axes.scatter(x, y, c=values, s=60, marker="s", linewidths=0, **style)
    figure.colorbar(image, ax=axes, label=name, shrink=0.8)


def _draw_places(axes: Any, positions: Whereabouts, city: Any) -> None:
    """Draw the roads, the places by kind, and how many citizens are where."""
    roads = [[city.position(road.a), city.position(road.b)] for road in getattr(city, "roads", ())]
    line_class = import_package("matplotlib.collections").LineCollection
    axes.add_collection(line_class(roads, colors="#d9d9d9", linewidths=0.8, zorder=1))
    kinds = [kind for kind in city.kinds() if kind != "home"]
    for number, kind in enumerate(kinds):
        shape, colour = SHAPES[number % len(SHAPES)], COLOURS[number % len(COLOURS)]
        spots_of_kind = [city.position(place) for place in city.by_kind(kind)]
        style: dict[str, Any] = {"marker": shape, "color": colour, "label": kind, "zorder": 4}
        axes.scatter(
            *zip(*spots_of_kind, strict=True), s=14 if len(spots_of_kind) > 100 else 40, **style
        )
    homes = [city.position(place) for place in city.by_kind("home")]
    if homes:
        style = {"marker": "s", "color": "#8c8c8c", "label": "home", "zorder": 2}
        axes.scatter(*zip(*homes, strict=True), s=5, **style)
    spots = [
        each
        for each in zip(positions.x, positions.y, positions.place, strict=True)
        if each[0] is not None
    ]
    counts = Counter((x, y) for x, y, place in spots if place is not None)
    if counts:
        highest = max(counts.values())
        largest = min(600, _INK / len(counts))  # of very many, circles would hide the map
        sizes = [max(4, largest * count / highest) for count in counts.values()]
        width = 0.7 if len(counts) <= _MANY_PLACES else 0.25
        style = {"facecolors": "#33333318", "edgecolors": "#000000", "linewidths": width}
        style["zorder"] = 5
        label = f"citizens at a place, by area (at most {highest:,})"
        axes.scatter(*zip(*counts, strict=True), s=sizes, label=label, **style)
    for place in city.ids() if len(city.ids()) <= _NAMED_PLACES else ():
        style = {"textcoords": "offset points", "fontsize": 9, "ha": "center"}
        axes.annotate(place, city.position(place), (0, 8), **style)
    travellers = [(x, y) for x, y, place in spots if place is None]
    if travellers:
        style = {"s": 8, "color": "#D4B106", "linewidths": 0.3, "edgecolors": "#333333"}
        axes.scatter(*zip(*travellers, strict=True), zorder=6, label="citizen on the way", **style)


def draw_day(rows: list[dict[str, Any]], path: str | PathLike[str] | None = None) -> Figure:
    """Return a picture of how many are at home, at work and on the way, and what they own.

    Args:
        rows: rows of metrics, as `Society.run` returns them; one or more
        path: the file that it is written to, by its suffix: PNG, SVG or PDF; None for no file

    Returns:
        the figure of matplotlib, which a notebook shows

    Raises:
        ConfigError: one of them is not such a row
        MissingExtra: matplotlib is not installed
        FileError: the file cannot be written
    """
    for key in ("time", "home", "work", "moving", "owned"):
        if any(key not in row for row in rows):
            raise ConfigError(f"rows must be of Society.run: one has no {key!r}")
    figure, (people, money) = figure_of(7.5, 5, 2, height_ratios=(3, 1), sharex=True)
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    curves = (("home", "at home", "-"), ("work", "at work", "--"), ("moving", "on the way", "-."))
    for (key, label, line), colour in zip(curves, COLOURS, strict=False):
        people.plot(times, [row[key] for row in rows], line, color=colour, label=label)
    people.set(ylabel="citizens", ylim=(0, None))
    people.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3, frameon=False)
    money.plot(times, [row["owned"] / 1e6 for row in rows], color=COLOURS[3])
    money.set(ylabel="citizens' money\nand savings\n(million cents)", xlabel="simulated time")
    dates = import_package("matplotlib.dates")
    locator = dates.AutoDateLocator(minticks=4, maxticks=9)
    money.xaxis.set(major_locator=locator, major_formatter=dates.ConciseDateFormatter(locator))
    people.yaxis.set_major_formatter("{x:,.0f}")
    money.ticklabel_format(axis="y", useOffset=False, style="plain")
    for axes in (people, money):
        axes.grid(color="#e5e5e5")
    return save_figure(figure, path)


def save_figure(figure: Figure, path: str | PathLike[str] | None) -> Figure:
    """Return a figure, written to a file if there is a path."""
    if path is not None:
        write_whole(Path(path), functools.partial(figure.savefig, dpi=DPI))
    return figure


@functools.cache
def _notebook_class(base: type[Figure]) -> type[Figure]:
    """Return the class of figures that a notebook shows: without pyplot it shows no `Figure`."""

    def as_png(self: Any) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()

    return type("Figure", (base,), {"_repr_png_": as_png})


def figure_of(width: float, height: float, rows: int = 1, **options: Any) -> tuple[Any, Any]:
    """Return a figure, sized in inches, and its axes; it is independent of windows and pyplot."""
    base = import_package("matplotlib.figure", "a picture", "pictures").Figure
    figure = _notebook_class(base)(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, **options)
