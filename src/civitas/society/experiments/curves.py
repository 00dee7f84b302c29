"""Pictures of an experiment: curves with intervals over seeds, or means where there is no curve."""

from __future__ import annotations

import json
from typing import Any, Final

from civitas.clock import DAY_S, seconds_of
from civitas.society.experiments.design import Design, Metric
from civitas.society.experiments.pictures import COLOURS, DPI, SHAPES, figure_of
from civitas.society.experiments.results import Interval, Results

_LINES: Final = ("-", "--", "-.", ":")
_MOST: Final = 8
"""More curves than this in a picture nobody can tell apart."""


def series(design: Design, results: Results, metric: str) -> list[tuple[str, str, str]]:
    """What one picture compares: label, condition and parameters of each curve."""
    swept = [name for name, values in design.parameters.items() if len(values) > 1]
    found = []
    for condition in results.conditions:
        own, _, branch = condition.partition("/")
        label = design.conditions[own].label or own
        label += f", {branch}" if branch else ""
        for values in results.grid:
            if results.has(metric, condition, values):
                each = json.loads(values)
                more = "".join(f", {name} = {each[name]}" for name in swept)
                found.append((label + more, condition, values))
    return found


def draw_metric(design: Design, results: Results, metric: str, path: str) -> None:
    """Write a PNG of a metric: for each condition a curve, or a mean where it has none."""
    about = next((each for each in design.metrics if each.name == metric), Metric(name=metric))
    label = about.label or metric
    axis = f"{label}\n({about.unit})" if about.unit else label
    shown = series(design, results, metric)[:_MOST]
    curves = [results.curve(metric, condition, values) for _, condition, values in shown]
    means = [
        {step: Interval.of(list(values.values())) for step, values in curve.items()}
        for curve in curves
    ]
    has_curves = max(map(len, means)) > 2
    picture, axes = figure_of(
        6.5, 3.4 + 0.22 * len(shown) if has_curves else 1.2 + 0.4 * len(shown)
    )
    if has_curves:
        _curves(axes, means, [each[0] for each in shown], seconds_of(design.society.step))
        axes.set_ylabel(axis)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
    else:
        for number, (by_step, (name, _, _)) in enumerate(zip(means, shown, strict=True)):
            interval = by_step[max(by_step)]
            half = [[interval.mean - interval.low], [interval.high - interval.mean]]
            style = {"marker": SHAPES[number % len(SHAPES)], "color": COLOURS[number % 7]}
            axes.errorbar(interval.mean, number, xerr=half, capsize=4, label=name, **style)
        axes.set_yticks(range(len(shown)), [name for name, _, _ in shown])
        axes.set(ylim=(len(shown) - 0.5, -0.5), xlabel=axis.replace("\n", " "))
        axes.margins(x=0.15)
    axes.grid(color="#e5e5e5")
    seeds = means[0][max(means[0])].n
    axes.set_title(f"mean and 95 % interval over {seeds} seeds", fontsize=9, loc="left")
    picture.savefig(path, dpi=DPI)


def _curves(axes: Any, means: list[dict[int, Interval]], names: list[str], step_s: int) -> None:
    """Draw a curve for each, with its interval as a band."""
    longest = max(max(each) for each in means) * step_s
    unit, size = ("days", DAY_S) if longest >= 3 * DAY_S else ("hours", 3600)
    for number, (by_step, name) in enumerate(zip(means, names, strict=True)):
        colour, line = COLOURS[number % len(COLOURS)], _LINES[number % len(_LINES)]
        times = [step * step_s / size for step in by_step]
        few = {"marker": SHAPES[number % len(SHAPES)], "markersize": 4} if len(times) < 30 else {}
        mean = [each.mean for each in by_step.values()]
        axes.plot(times, mean, line, color=colour, label=name, **few)
        low, high = ([getattr(e, end) for e in by_step.values()] for end in ("low", "high"))
        axes.fill_between(times, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel(f"simulated time ({unit})")
