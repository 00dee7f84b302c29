"""Pictures of an experiment: curves with intervals over seeds, or means where there is no curve."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from civitas.clock import DAY_S, seconds_of
from civitas.society.experiments.design import Design, Metric
from civitas.society.experiments.pictures import COLOURS, DPI, SHAPES, figure_of
from civitas.society.experiments.results import Interval, Results

_LINES: Final = ("-", "--", "-.", ":")
MOST: Final = 12
"""More curves than this in a picture nobody can tell apart."""
_FEW: Final = 4
"""With fewer seeds than this Student's t makes intervals wide."""


def label_of(design: Design, condition: str) -> str:
    """What readers are told a condition, or a branch of it, is."""
    own, _, branch = condition.partition("/")
    label = design.conditions[own].label or own
    return f"{label}, {branch}" if branch else label


def series(design: Design, results: Results, metric: str) -> list[tuple[str, str, str]]:
    """What one picture compares: label, condition and parameters of each curve."""
    swept = [name for name, values in design.parameters.items() if len(values) > 1]
    found = []
    for condition in results.conditions:
        label = label_of(design, condition)
        for values in results.grid:
            if results.has(metric, condition, values):
                each = json.loads(values)
                more = "".join(f", {name} = {each[name]}" for name in swept)
                found.append((label + more, condition, values))
    return found


def about_of(design: Design, metric: str) -> Metric:
    """What the design says of a metric."""
    return next((each for each in design.metrics if each.name == metric), Metric(name=metric))


def caption(results: Results, metric: str, shown: list[tuple[str, str, str]]) -> str:
    """What a picture of these series shows; it says where some are left out, or seeds are few."""
    seeds = len(results.values(metric, shown[0][1], None, shown[0][2]))
    said = f"mean and 95 % interval over {seeds} seed{'s' * (seeds != 1)}"
    if seeds == 1:
        said = "values of 1 seed, without an interval"
    elif seeds < _FEW:
        said += " (wide because there are few seeds)"
    return said + (f"; first {MOST} of {len(shown)} shown" if len(shown) > MOST else "")


def draw_metric(design: Design, results: Results, metric: str, path: str) -> None:
    """Write a PNG of a metric: for each condition a curve, or a mean where it has none."""
    about = about_of(design, metric)
    label = about.label or metric
    axis = f"{label}\n({about.unit})" if about.unit else label
    every = series(design, results, metric)
    shown = every[:MOST]
    styles = _styles(shown)
    curves = [results.curve(metric, condition, values) for _, condition, values in shown]
    means = [
        {step: _drawn(Interval.of(list(of.values())), about.unit) for step, of in curve.items()}
        for curve in curves
    ]
    has_curves = max(map(len, means)) > 2
    picture, axes = figure_of(
        6.5, 3.4 + 0.22 * len(shown) if has_curves else 1.2 + 0.4 * len(shown)
    )
    if has_curves:
        _curves(axes, means, styles, seconds_of(design.society.step))
        axes.set_ylabel(axis)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
    else:
        for number, (by_step, style) in enumerate(zip(means, styles, strict=True)):
            interval = by_step[max(by_step)]
            half = [[interval.mean - interval.low], [interval.high - interval.mean]]
            axes.errorbar(interval.mean, number, xerr=half, capsize=4, **style | {"linestyle": "-"})
        axes.set_yticks(range(len(shown)), [name for name, _, _ in shown])
        axes.set(ylim=(len(shown) - 0.5, -0.5), xlabel=axis.replace("\n", " "))
        axes.margins(x=0.15)
    axes.grid(color="#e5e5e5")
    axes.set_title(caption(results, metric, every), fontsize=9, loc="left")
    picture.savefig(path, dpi=DPI)


def _styles(shown: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Label and style of each: of several conditions and values, a colour for each condition."""
    conditions, values = (list(dict.fromkeys(each[at] for each in shown)) for at in (1, 2))
    styles = []
    for number, (label, condition, value) in enumerate(shown):
        colour = line = number
        if len(conditions) > 1 and len(values) > 1:
            colour, line = conditions.index(condition), values.index(value)
        style = {"linestyle": _LINES[line % len(_LINES)], "marker": SHAPES[line % len(SHAPES)]}
        styles.append({"label": label, "color": COLOURS[colour % len(COLOURS)], **style})
    return styles


def _drawn(interval: Interval, unit: str) -> Interval:
    """The interval as it is drawn: that of a share stays within 0 and 1."""
    if ("share" not in unit.lower() and "0 to 1" not in unit) or not 0 <= interval.mean <= 1:
        return interval
    return replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))


def _curves(
    axes: Any, means: list[dict[int, Interval]], styles: list[dict[str, Any]], step_s: int
) -> None:
    """Draw a curve for each, with its interval as a band."""
    longest = max(max(each) for each in means) * step_s
    unit, size = ("days", DAY_S) if longest >= 3 * DAY_S else ("hours", 3600)
    for by_step, style in zip(means, styles, strict=True):
        times = [step * step_s / size for step in by_step]
        mean = [each.mean for each in by_step.values()]
        few = max(1, len(times) // 15)
        axes.plot(times, mean, markersize=4, markevery=few, **style)
        low, high = ([getattr(e, end) for e in by_step.values()] for end in ("low", "high"))
        axes.fill_between(times, low, high, color=style["color"], alpha=0.18, linewidth=0)
    axes.set_xlabel(f"simulated time ({unit})")
