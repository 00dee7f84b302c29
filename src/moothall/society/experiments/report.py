"""The report of an experiment: a self-contained HTML page, and pictures beside it.

Pictures have curves with intervals over seeds, or means if there are no curves.
"""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moothall import ConfigError, Interval
from moothall.build import counted, error_text
from moothall.society.arrays import import_package
from moothall.society.clock import DAY_S, seconds_of
from moothall.society.experiments.design import Design
from moothall.society.experiments.design_parts import Chart, MetricDesign, Published
from moothall.society.experiments.models import function_of, importable, is_of_file
from moothall.society.experiments.pictures import COLOURS, SHAPES, figure_of, save_figure
from moothall.society.experiments.results import Results
from moothall.society.tables import file_name, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLE: Final = (
    "body{font:16px/1.5 Georgia,serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#111}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:.9rem}"
    "td,th{border-bottom:1px solid #ccc;padding:.25rem .7rem;text-align:left;vertical-align:top}"
    "img{max-width:100%}figure{margin:1.5rem 0}figcaption{font-size:.9rem;color:#333}"
    "pre{background:#f4f4f4;padding:.8rem;overflow-x:auto;font-size:.85rem}"
)
_TEXTS: Final = 12  # how many interviews are shown
_LINES: Final = ("-", "--", "-.", ":")
_MOST: Final = 12  # how many curves a picture has at most; more could not be told apart
_NARROW_LETTERS: Final = 36  # how many letters fit into half of a picture's width
_Curve = tuple[str, tuple[str, str, str]]
"""A curve of a picture: its name; the metric, the condition and the parameters as JSON."""
_FEW_SEEDS: Final = 4  # with fewer seeds than this Student's t makes intervals wide


def write_report(design: Design, results: Results, folder: Path) -> Path:
    """Write a PNG for each metric, and `report.html`, which loads nothing from elsewhere."""
    pictures = {}
    measured = [each.name for each in design.metrics if each.name in results.metrics]
    for metric in dict.fromkeys([*measured, *results.metrics]):
        path = folder / file_name(metric, ".png")
        draw_metric(design, results, metric, path)
        pictures[metric] = path
    charts = {}
    for name in design.charts:
        path = folder / file_name(f"chart-{name}", ".png")
        draw_chart(design, results, name, path)
        charts[name] = path
    manifest = json.loads((folder / "experiment.json").read_text(encoding="utf-8"))
    page = _page(design, results, pictures, charts, manifest)
    path = folder / "report.html"
    write_whole(path, lambda file: Path(file).write_text(page, encoding="utf-8"))
    return path


def _page(
    design: Design,
    results: Results,
    pictures: dict[str, Path],
    charts: dict[str, Path],
    manifest: dict[str, Any],
) -> str:
    totals = manifest["totals"]
    decided_by = "rules alone; no model was asked"
    if totals["model_calls"]:
        decided_by = (
            f"rules and a model, which was to decide {totals['model_calls']:,} times; in "
            f"{totals['fallbacks']:,} of them it could not, and the rule decided{results.by_rule}"
        )
        decided_by += f"; the first: {results.first_fallback}" * bool(results.first_fallback)
    seeds = design.all_seeds
    days = max(cell.steps for cell in design.cells()) * seconds_of(design.society.step) / DAY_S
    setup = [
        ("society", _settings_in_words(manifest["experiment"]["society"])),
        ("conditions", ", ".join(each.label or name for name, each in design.conditions.items())),
        ("swept", _settings_in_words(design.parameters)),
        ("seeds", f"{len(seeds)}: {seeds[0]} … {seeds[-1]}" if len(seeds) > 3 else f"{seeds}"),
        ("lived", f"{days:g} simulated days in steps of {design.society.step}"),
        ("decided by", decided_by),
        ("failures", "; ".join([f"{totals['failures']:,}", *totals["first_failures"]])),
        ("versions", ", ".join(f"{name} {each}" for name, each in manifest["versions"].items())),
        ("after", design.source),
        ("notes", design.notes),
    ]
    parts = [f"<h1>{escape(design.name)}</h1><p>{escape(design.question)}</p><h2>Set-up</h2>"]
    parts += [_table((), [each for each in setup if each[1]]), "<h2>Results</h2>"]
    for metric, path in pictures.items():
        curves = _curves_of(design, results, metric)
        label = _metric_design(design, metric).label or metric
        caption = _caption(results, metric, curves)
        parts.append(_figure(path, f"{label}: {caption}. Intervals are by Student's t."))
        head = ("", "at the end", f"above {_label_of(design, curves[0][1])!r}, seed by seed")
        parts.append(_table(head, _last_means(results, metric, curves)))
    parts += [_figure(path, _caption_of(design, name)) for name, path in charts.items()]
    first = f", with {json.dumps(design.grid()[0])}" if design.parameters else ""
    if design.maps:
        for name in design.conditions:
            path = results.path.parent / file_name(f"map-{name}", ".png")
            if path.exists():  # missing if the cell ran before maps were wanted
                caption = (
                    f"{_label_of(design, name)}: the map at the end, of the first seed{first}."
                )
                parts.append(_figure(path, caption))
    if design.published:
        parts.append("<h2>Beside published figures</h2>")
        rows = [(each.quantity, each.published, _ours(results, each)) for each in design.published]
        parts.append(_table(("quantity", "published", f"here{first}"), rows))
    if results.texts:
        parts.append("<h2>Interviews</h2>")
        rows = [
            (f"{c}, {values + ', ' if design.parameters else ''}seed {seed}", q, text)
            for c, values, seed, _, q, text in results.texts[:_TEXTS]
        ]
        parts.append(_table(("who", "asked", "said"), rows))
    settings = json.dumps(manifest["experiment"], indent=2, ensure_ascii=False)
    command = "the program that has made it"
    if design.command is not None:
        command = f"<code>{escape(design.command)}</code>"
    parts.append(
        "<h2>To repeat it</h2><p>The same file, code, versions and seeds give the same table, as "
        f"far as a model answers the same: {command}.</p><details><summary>The experiment as run"
        "</summary><pre>"
        f"{escape(settings)}</pre></details>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv='
        '"Content-Security-Policy" content="default-src \'none\'; img-src data:; style-src '
        f"'unsafe-inline'\"><title>{escape(design.name)}</title><style>{_STYLE}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _last_means(
    results: Results, metric: str, curves: list[tuple[str, str, str]]
) -> list[tuple[str, str, str]]:
    """Return each curve's last mean, and how far it is above the first with equal parameters."""
    rows = []
    firsts: dict[str, str] = {}
    for label, condition, values in curves:
        first = firsts.setdefault(values, condition)
        above = ""
        if first != condition:
            with suppress(ConfigError):  # no seed has a value in both
                above = str(results.difference(metric, condition, first, None, values))
        rows.append((label, str(results.interval(metric, condition, None, values)), above))
    return rows


def _ours(results: Results, published: Published) -> str:
    """Return our figure beside a published one, or why it is missing."""
    try:
        values = results.values(
            published.metric, published.condition, published.step, results.grid[0]
        )
    except ConfigError as error:
        return str(error)
    return str(Interval.of_values([each * published.scale for each in values.values()]))


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _settings_in_words(settings: Mapping[str, object]) -> str:
    """Return settings as a reader takes them in, a name and its value each."""
    texts = {
        k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)
        for k, v in settings.items()
    }
    return "; ".join(f"{name.replace('_', ' ')}: {text}" for name, text in texts.items())


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    top = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = ["<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows]
    return f"<table>{f'<tr>{top}</tr>' if head else ''}{''.join(lines)}</table>"


# -- pictures --------------------------------------------------------------------------------------


def _label_of(design: Design, condition: str) -> str:
    """Return the label of a condition, or of a branch of it."""
    base, _, branch = condition.partition("/")
    label = design.conditions[base].label or base
    return f"{label}, {branch}" if branch else label


def _curves_of(design: Design, results: Results, metric: str) -> list[tuple[str, str, str]]:
    """Return the curves of one picture as (label, condition, parameters)."""
    swept = [name for name, values in design.parameters.items() if len(values) > 1]
    curves = []
    for condition, values in results.measured(metric):
        parameters = json.loads(values)
        swept_values = "".join(f", {name} = {parameters[name]}" for name in swept)
        curves.append((_label_of(design, condition) + swept_values, condition, values))
    return curves


def _metric_design(design: Design, metric: str) -> MetricDesign:
    """Return the design's entry for a metric, or one without a label."""
    entry = next((each for each in design.metrics if each.name == metric), MetricDesign(name="?"))
    is_share = not entry.unit and any(metric in each.shares for each in design.surveys())
    return entry.model_copy(update={"unit": "share of answers"}) if is_share else entry


def _caption(results: Results, metric: str, curves: list[tuple[str, str, str]]) -> str:
    """Return the caption of a picture; it says if curves are left out, or seeds are few."""
    seeds = len(results.values(metric, curves[0][1], None, curves[0][2]))
    text = f"mean and 95 % interval over {counted(seeds, 'seed')}"
    if seeds == 1:
        text = "values of 1 seed, without an interval"
    elif seeds < _FEW_SEEDS:
        text += " (wide because there are few seeds)"
    return text + (f"; first {_MOST} of {len(curves)} shown" if len(curves) > _MOST else "")


def draw_metric(
    design: Design,
    results: Results,
    metric: str,
    path: str | Path | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Return a picture of a metric: a curve for each condition, or means if there are no curves."""
    entry = _metric_design(design, metric)
    curves = _curves_of(design, results, metric)
    pairs: list[_Curve] = [(label, (metric, at, values)) for label, at, values in curves]
    axis = (entry.label or metric, entry.unit)
    return _draw(design, results, pairs, axis, _caption(results, metric, curves), path, ax)


def draw_chart(
    design: Design, results: Results, name: str, path: str | Path | None = None
) -> Figure:
    """Return a chart of the design: several metrics in one picture, or what its function draws."""
    chart = design.charts[name] or Chart()
    if is_of_file(name):
        picture, axes = figure_of(6.5, 4.2)
        with importable(design.folder):
            try:
                function_of(name, design.folder)(results, axes)
            except Exception as error:
                raise ConfigError(f"charts: {name!r} cannot draw: {error_text(error)}") from error
        return save_figure(picture, path)
    pairs: list[_Curve] = []
    for metric in chart.metrics:
        title = _metric_design(design, metric).label or metric
        many = len(curves := _curves_of(design, results, metric)) > 1
        for label, at, values in curves:
            pairs.append((f"{title}, {label}" if many else title, (metric, at, values)))
    if not pairs:
        raise ConfigError(f"charts: none of the metrics of {name!r} was measured")
    first = pairs[0][1][0]
    caption = _caption(results, first, [(label, at, values) for label, (_, at, values) in pairs])
    return _draw(design, results, pairs, (chart.label or name, chart.unit), caption, path)


def _caption_of(design: Design, name: str) -> str:
    """Return the caption of a chart below its picture."""
    label = (design.charts[name] or Chart()).label
    return label or name.rpartition(":")[2]


def _draw(
    design: Design,
    results: Results,
    all_curves: list[_Curve],
    labels: tuple[str, str],
    caption: str,
    path: str | Path | None,
    ax: Axes | None = None,
) -> Figure:
    """Return a picture of curves, or of means if there are no curves."""
    label, unit = labels
    axis = _wrap_text(label, _NARROW_LETTERS)
    axis += f"\n({_wrap_text(unit, _NARROW_LETTERS)})" if unit else ""
    curves = all_curves[:_MOST]
    is_short = all(len(name) <= _NARROW_LETTERS for name, _ in curves)
    styles = _styles(curves)
    intervals = [
        {
            step: _drawn_interval(Interval.of_values([*by_seed.values()]), unit)
            for step, by_seed in results.curve(*key).items()
        }
        for _, key in curves
    ]
    has_curves = max(map(len, intervals)) > 2
    width = _NARROW_LETTERS if is_short or not has_curves else 2 * _NARROW_LETTERS
    names = [_wrap_text(name, width) for name, _ in curves]
    lines = sum(text.count("\n") + 1 for text in (*names, axis))
    height = 3.2 + 0.22 * lines if has_curves else 1.0 + 0.2 * (lines + len(curves))
    picture, axes = figure_of(6.5, height) if ax is None else _of_user(ax)
    if has_curves:
        _draw_curves(axes, intervals, styles, seconds_of(design.society.step))
        axes.set_ylabel(axis)
        legend_place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "frameon": False}
        axes.legend(axes.lines, names, ncols=1 + is_short, **legend_place)
    else:
        for number, (by_step, style) in enumerate(zip(intervals, styles, strict=True)):
            interval = by_step[max(by_step)]
            half = [[interval.mean - interval.low], [interval.high - interval.mean]]
            axes.errorbar(interval.mean, number, xerr=half, capsize=4, **style | {"linestyle": "-"})
        axes.set_yticks(range(len(curves)), names)
        axes.set(ylim=(len(curves) - 0.5, -0.5), xlabel=axis)
        axes.margins(x=0.15)
    axes.ticklabel_format(axis="y" if has_curves else "x", useOffset=False)
    axes.grid(color="#e5e5e5")
    if ax is None:
        picture.suptitle(caption, fontsize=9, x=0.01, ha="left")
    else:
        axes.set_title(caption, fontsize=9, loc="left")
    return save_figure(picture, path)


def _of_user(axes: Axes) -> tuple[Any, Any]:
    if not isinstance(axes, import_package("matplotlib.axes").Axes):
        of_several = "such as axes[0] of figure, axes = plt.subplots(2)"
        raise ConfigError(f"ax= must be one Axes of matplotlib, {of_several}, got {axes!r:.80}")
    return axes.figure, axes


def _styles(curves: list[_Curve]) -> list[dict[str, Any]]:
    """Return each curve's style; a colour per metric and condition if values vary, too."""
    conditions = list(dict.fromkeys(key[:2] for _, key in curves))
    values = list(dict.fromkeys(key[2] for _, key in curves))
    styles = []
    for number, (_, key) in enumerate(curves):
        condition, value = key[:2], key[2]
        colour = line = shape = number
        if len(conditions) > 1 and len(values) > 1:
            colour, line = conditions.index(condition), values.index(value)
            shape = colour + line  # no two curves have the same line and shape, in grey print
        style = {"linestyle": _LINES[line % len(_LINES)], "marker": SHAPES[shape % len(SHAPES)]}
        styles.append({"color": COLOURS[colour % len(COLOURS)], **style})
    return styles


def _wrap_text(text: str, width: int) -> str:
    """Return a text in lines; a dollar is not the begin of a formula."""
    return textwrap.fill(text, width).replace("$", r"\$")


def _drawn_interval(interval: Interval, unit: str) -> Interval:
    """Return the interval to draw; that of a share is cut to 0 … 1."""
    if ("share" not in unit.lower() and "0 to 1" not in unit) or not 0 <= interval.mean <= 1:
        return interval
    return replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))


def _draw_curves(
    axes: Any, intervals: list[dict[int, Interval]], styles: list[dict[str, Any]], step_s: int
) -> None:
    """Draw each curve, with its interval as a band."""
    longest = max(max(each) for each in intervals) * step_s
    unit, size = ("days", DAY_S) if longest >= 3 * DAY_S else ("hours", 3600)
    for by_step, style in zip(intervals, styles, strict=True):
        times = [step * step_s / size for step in by_step]
        mean = [each.mean for each in by_step.values()]
        marker_step = max(1, len(times) // 15)
        axes.plot(times, mean, markersize=4, markevery=marker_step, **style)
        low, high = ([getattr(e, bound) for e in by_step.values()] for bound in ("low", "high"))
        axes.fill_between(times, low, high, color=style["color"], alpha=0.18, linewidth=0)
    axes.set_xlabel(f"simulated time ({unit})")
    axes.locator_params(axis="x", integer=True)
