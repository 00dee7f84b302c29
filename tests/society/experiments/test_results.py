"""What results say: intervals, differences, pictures and the report."""

from __future__ import annotations

import asyncio
import html
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from moothall import Interval, ScriptedModel
from moothall.foundation.errors import ConfigError, MissingExtra
from moothall.society import Experiment, Population, Results, Society
from moothall.society.experiments.report import draw_metric

EVIL = "<script>alert('1')</script>"


def made(seed: int, more: int = 0, citizens: int = 2) -> Society:
    return Society(citizens, seed=seed)


def chance(society: Any) -> float:
    return float(society.seed % 5 + society.number)


def far(society: Any) -> float:
    return float(10 * society.seed)


def experiment(**fields: Any) -> Experiment:
    return Experiment(
        **{
            "name": "two",
            "question": EVIL,
            "society": {"make": made, "step": "6h"},
            "metrics": [
                {"name": "chance", "by": chance, "label": "by chance", "unit": "points"},
                {"name": "a/b", "by": far},
            ],
            "workflow": [{"run": {"days": 1}}, {"interview": {"citizen": 1, "question": EVIL}}],
            "conditions": {
                "base": {},
                "other": {"label": EVIL, "workflow": [{"run": {"days": 2}}]},
            },
            "published": [
                {"quantity": "theirs", "published": EVIL, "metric": "chance", "scale": 100},
                {"quantity": "at first", "published": "2", "metric": "chance", "step": 0},
                {"quantity": "none", "published": "1", "metric": "chance", "step": 999},
            ],
            "seeds": 4,
            **fields,
        }
    )


def run(made: Experiment, **options: Any) -> Results:
    return asyncio.run(made.run(jobs=0, **options))


def test_interval_is_students(tmp_path: Path) -> None:
    values = [3.0, 5.0, 4.0, 9.0]
    found = Interval.of_values(values)
    from scipy import stats

    low, high = stats.t.interval(0.95, 3, loc=5.25, scale=stats.sem(values))
    assert (found.mean, found.n) == (5.25, 4)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    assert 5 in found
    assert 10 not in found
    assert str(found) == f"5.250 [{low:.3f}, {high:.3f}]"
    for value, said in (
        (1234567.0, "1,234,567"),
        (7.0, "7"),
        (-3.0, "-3"),
        (0.5, "0.5000"),
        (12e-6, "1.2e-05"),
    ):
        assert str(Interval.of_values([value])) == said
    with pytest.raises(ConfigError, match="no value"):
        Interval.of_values([])


def test_values_differences_and_what_is_not_there() -> None:
    results = run(experiment(parameters={"more": [1, 2]}))
    assert {(row["parameters"], row["more"]) for row in results.rows} == {
        ('{"more": 1}', 1),
        ('{"more": 2}', 2),
    }
    one = {"more": 1}
    assert results.values("chance", "base", 0, one) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert results.interval("chance", "base", None, one).mean == 5.5
    above = results.difference("chance", "other", "base", None, one)
    assert (above.mean, above.low, above.high) == (4, 4, 4)
    for given, told in (
        (("chance",), "say which parameters"),
        (("chance", "no", 0, one), "metrics: chance, a/b; conditions: base, other"),
        (("chance", "base", 3, {"more": 3}), 'parameters must be {"more": 1} or {"more": 2}'),
        (("chance", "base", 99, one), "was not measured after 99 steps"),
    ):
        with pytest.raises(ConfigError, match=told):
            results.values(*given)


@pytest.mark.parametrize("wrong", ((1,), [1], "few", 3, {"limit": 9}, {1: object()}))
def test_results_wrong_parameters_are_told_with_those_that_there_are(wrong: Any) -> None:
    def made(seed: int, limit: int) -> Population:
        return Population(2)

    def two(society: Society) -> float:
        return 2.0

    many = Experiment(
        name="p",
        society={"make": made},
        parameters={"limit": [1, 2]},
        metrics={"two": two},
        workflow=[{"run": {"steps": 1}}],
    )
    results = many.run_sync(jobs=0, report=False)
    assert results.values("two", parameters={"limit": np.int64(2)}) == {0: 2.0}
    with pytest.raises(ConfigError, match=r'must be {"limit": 1} or {"limit": 2}, got '):
        results.values("two", parameters=wrong)


def test_report_of_an_experiment_is_one_page_that_loads_nothing(tmp_path: Path) -> None:
    run(experiment(), out=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6
    # Nothing is loaded, and nothing could be.
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?(?!data:)\w", page)
    assert page.count("data:image/png;base64,") == 2
    # By seed 4, 5, 6 and 7 at the end, and 0, 1, 2 and 3 at first.
    assert f"</td><td>{Interval.of_values([400, 500, 600, 700])}</td>" in page
    assert f"<td>at first</td><td>2</td><td>{Interval.of_values([0, 1, 2, 3])}</td>" in page
    for told in ("rules alone", "4: 0 … 3", "2 simulated days", "theirs", "the program that"):
        assert told in page, told
    for name in ("chance.png", "a%2Fb.png"):
        png = (tmp_path / name).read_bytes()
        assert png.startswith(b"\x89PNG")
        assert min(struct.unpack(">II", png[16:24])) >= 500


def test_report_tells_how_often_a_model_was_asked_and_shows_some_interviews(
    tmp_path: Path,
) -> None:
    def asking(seed: int) -> Society:
        return Society(2, seed=seed, model=ScriptedModel(["?"] * 100))

    told = [{"step": 1}, {"interview": {"citizen": 1, "question": "How are you?"}}]
    asked = experiment(
        society={"make": asking, "step": "6h"}, workflow=told, conditions={"base": {}}, seeds=13
    )
    run(asked, out=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert re.search(r"which was to decide [1-9]\d* times; in [1-9]\d* of them it could not", page)
    assert "and the rule decided (PlanBlock 26); the first: PlanBlock: the model" in page
    assert page.count("interview 1: How are you? (by rule)") == 12


def test_report_has_a_map_of_each_conditions_first_seed_at_the_end(tmp_path: Path) -> None:
    named = {"late shift": {"label": "late"}}
    fields = {"workflow": [{"step": 1}], "conditions": named, "metrics": [], "published": []}
    town = {"citizens": 5, "step": "6h"}
    run(experiment(society=town, maps=True, seeds=2, **fields), out=tmp_path)
    assert [each.name for each in tmp_path.glob("map-*")] == ["map-late shift.png"]
    page = (tmp_path / "report.html").read_text()
    assert "<figcaption>late: the map at the end, of the first seed." in page
    first = (tmp_path / "map-late shift.png").read_bytes()
    for seeds in ([1], [0, 1]):  # in a folder that has both seeds
        run(experiment(society=town, maps=True, seeds=seeds, **fields), out=tmp_path)
        shown = tmp_path / "map-late shift.png"
        assert shown.exists() == (seeds == [0, 1])  # the cell of seed 1 has drawn none
    assert shown.read_bytes() == first


def test_report_says_of_which_values_its_maps_and_published_figures_are(
    tmp_path: Path,
) -> None:
    fields: dict[str, Any] = {"workflow": [{"step": 1}], "conditions": {"base": {}}, "seeds": 1}
    fields["metrics"] = [{"name": "chance", "by": lambda town: len(town.ids())}]
    town = {"step": "6h"}
    maps = []
    for values in ([12, 30], [30, 12]):
        folder = tmp_path / str(values[0])
        swept = experiment(society=town, maps=True, parameters={"citizens": values}, **fields)
        run(swept, out=folder)
        page = html.unescape((folder / "report.html").read_text())
        with_first = f', with {{"citizens": {values[0]}}}'
        assert f"of the first seed{with_first}." in page
        assert f"<th>here{with_first}</th>" in page
        assert f"<td>theirs</td><td>{EVIL}</td><td>{values[0] * 100:,}</td>" in page
        maps.append((folder / "map-base.png").read_bytes())
    alone = experiment(society={**town, "citizens": 30}, maps=True, **fields)
    run(alone, out=tmp_path / "alone", report=False)
    assert maps[1] == (tmp_path / "alone" / "map-base.png").read_bytes() != maps[0]


def test_report_tells_failures_and_no_difference_without_a_common_seed(tmp_path: Path) -> None:
    def sometimes(town: Any) -> float | None:
        return 3.5 if town.seed == len(town.ids()) else None

    conditions = {str(n): {"parameters": {"citizens": n}} for n in (1, 2)}
    metrics = [{"name": "m", "by": sometimes}]
    metrics += [{"name": name, "by": lambda _, n=n: n} for n, name in enumerate(("a b", "a-b"))]
    fields: dict[str, Any] = {"conditions": conditions, "metrics": metrics}
    wrong = {"intervene": {"status": {"mood": 1}, "citizens": [1, 77]}}
    fields |= {"workflow": [wrong, {"step": 1}], "published": []}
    run(experiment(seeds=[1, 2], **fields), out=tmp_path)
    page = html.unescape((tmp_path / "report.html").read_text())
    told = "; step 0, intervention: status: there is no citizen '77'"
    assert f"<td>failures</td><td>4{told * 3}</td>" in page
    assert "<td>society</td><td>" in page
    assert "<td>society</td><td>{" not in page  # it is in words
    assert len(set(re.findall(r'src="(data:[^"]+)"', page))) == 3  # each metric has its picture
    assert "<td>1</td><td>3.500</td><td></td>" in page
    assert "<td>2</td><td>3.500</td><td></td>" in page


def test_seeds_that_only_one_condition_has_are_in_no_difference(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"condition": ["a", "a", "b", "b"], "seed": [0, 1, 1, 2]}
    same = {"parameters": "{}", "metric": "m", "step": 3, "text": None}
    columns |= {name: [each] * 4 for name, each in same.items()}
    columns["value"] = [1.0, 2.0, 5.0, 6.0]
    pq.write_table(pa.table(columns), tmp_path / "r.parquet")
    above = Results(tmp_path / "r.parquet").difference("m", "b", "a")
    assert (above.mean, above.n) == (3, 1)


def test_results_metric_measured_once_has_a_picture(tmp_path: Path) -> None:
    survey: dict[str, Any] = {
        "name": "s",
        "questions": [{"id": "q", "text": "?", "by": lambda one: 2}],
    }
    choice = {
        "id": "c",
        "text": "?",
        "kind": "choice",
        "choices": ["<1", ">1", "да", "не", "x" * 300],
    }
    agrees = {"id": "y", "text": "?", "kind": "yes_no", "by": lambda one: True}
    survey["questions"] += [{**choice, "by": lambda one: "<1"}, agrees]
    one = experiment(metrics=[], published=[], workflow=[{"step": 1}, {"survey": survey}])
    run(one, out=tmp_path)
    assert (tmp_path / "s.q.png").read_bytes().startswith(b"\x89PNG")
    texts = drawn(one, tmp_path / "a.svg", "s.q")
    assert {"base", "2.00"} <= set(texts)  # its mean, on an axis around it
    assert len([*tmp_path.glob("s.c*.png")]) == 5  # a picture of its own for each choice
    for share in ("s.c=да", "s.y"):
        draw_metric(one, Results(tmp_path / "results.parquet"), share, str(tmp_path / "a.svg"))
        assert "<!-- (share of answers) -->" in (tmp_path / "a.svg").read_text()


def test_report_names_file_options_labels_and_the_first_condition(tmp_path: Path) -> None:
    code = "from moothall.society import Society\n\ndef made(seed, more='x', size=2):\n"
    (tmp_path / "m.py").write_text(
        code + "    return Society(size, seed=seed)\n\ndef one(society):\n    return 1\n"
    )
    (tmp_path / "my file.yaml").write_text("""\
name: report
society: {make: m.py:made, step: 6h}
metrics: [{name: messages, label: all messages}, {name: one, by: m.py:one}]
workflow: [step: 1]
conditions: {plain: {label: as it was}, large: {parameters: {size: 3}}}
""")
    path = tmp_path / "my file.yaml"
    said = f"moothall simulate '{path}' --sweep 'more=x,\"true\",3'"
    values = {"more": ["x", "true", 3]}
    swept = Experiment.from_yaml(path, command=said, seeds=2, parameters=values)
    run(swept, out=tmp_path / "out")
    page = html.unescape((tmp_path / "out" / "report.html").read_text())
    assert f"<code>{said}</code>" in page
    assert "above 'as it was', seed by seed" in page
    assert page.index("<figcaption>all messages: mean and") < page.index("<figcaption>one: mean")


def test_experiment_command_repeats_a_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "my e.yaml"
    path.write_text("name: e\nworkflow: [step: 1]\n")
    assert Experiment.from_yaml(path).command == f"moothall simulate '{path}'"
    assert Experiment.from_yaml(path, seeds=2).command is None


def drawn(experiment: Experiment, path: Path, metric: str = "chance", **options: Any) -> list[str]:
    """The texts in a picture, which as SVG has each in a comment."""
    draw_metric(experiment, run(experiment, **options), metric, str(path))
    return re.findall("<!-- (.*?) -->", path.read_text())


def test_picture_shows_all_of_two_conditions_with_six_values(tmp_path: Path) -> None:
    conditions: dict[str, Any] = {"base": {}, "other": {"label": "else"}}
    sweep = experiment(parameters={"more": [1, 2, 3, 4, 5, 6]}, conditions=conditions, seeds=1)
    texts = drawn(sweep, tmp_path / "a.svg")
    labels = {f"{name}, more = {n}" for name in ("base", "else") for n in range(1, 7)}
    assert labels <= set(texts)
    assert not [each for each in texts if "shown" in each]


@pytest.mark.parametrize(
    ("conditions", "values"),
    (
        pytest.param(4, 1, marks=pytest.mark.long),
        pytest.param(1, 3, marks=pytest.mark.long),
        (3, 2),
    ),
)
def test_curves_differ_by_line_and_shape_where_print_has_no_colours(
    tmp_path: Path, conditions: int, values: int
) -> None:
    fields: dict[str, Any] = {"published": [], "workflow": [{"step": 3}]}
    fields |= {"conditions": {f"c{n}": {} for n in range(conditions)}}
    fields |= {"parameters": {"more": [*range(values)]}, "seeds": 1}
    drawn(experiment(**fields), tmp_path / "a.svg")
    line = r'(?:fill: none;|stroke-dasharray: ([\d., ]+);[^"]*) stroke: (#\w+); stroke-width: 1.5'
    mark = r'[^"]*"/>\s*<defs>\s*<path id="\w+" d="([^"]+)"'
    found = re.findall(line + mark, (tmp_path / "a.svg").read_text())
    assert len({(dash, shape) for dash, _, shape in found}) == len(found) == conditions * values
    assert len({colour for _, colour, _ in found}) == (values if conditions == 1 else conditions)


def test_picture_and_report_say_what_is_left_out(tmp_path: Path) -> None:
    many = experiment(parameters={"more": [*range(7)]}, workflow=[{"step": 1}], seeds=2)
    texts = drawn(many, tmp_path / "a.svg", out=tmp_path / "out")
    said = "over 2 seeds (wide because there are few seeds); first 12 of 14 shown"
    assert [each for each in texts if said in each]
    assert said in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("steps", (pytest.param(1, marks=pytest.mark.long), 4))
def test_long_names_are_wrapped_and_a_dollar_begins_no_formula(tmp_path: Path, steps: int) -> None:
    names = ["from $10 to $20 a month", " ".join(["where"] * 40), "short"]
    many = {"by": lambda society: 123_456_000 + society.number, "label": "paid in $ of $" * 9}
    fields: dict[str, Any] = {"metrics": [{"name": "chance", **many}], "published": []}
    conditions = {f"c{at}": {"label": name} for at, name in enumerate(names)}
    fields |= {"workflow": [{"step": steps}], "conditions": conditions}
    texts = drawn(experiment(**fields), tmp_path / "a.svg")
    assert {"short", names[0]} <= set(texts)
    assert not [each for each in texts if each.startswith("+")]  # ticks are not "+1.23456e8"
    assert "".join(texts).count("where") == 40
    assert max(map(len, texts)) < 80


def test_results_one_long_condition_makes_a_picture_of_curves(tmp_path: Path) -> None:
    for steps, is_curve in ((1, False), (2, True)):  # and before the first
        other = {"other": {"workflow": [{"step": steps}]}}
        fields = {"workflow": [{"step": 1}], "conditions": {"base": {}, **other}}
        texts = drawn(experiment(seeds=1, **fields), tmp_path / "a.svg")
        assert ("simulated time (hours)" in texts) == is_curve


def test_chart_of_three_days_and_one_seed_has_days_and_no_interval(tmp_path: Path) -> None:
    one = experiment(seeds=1, workflow=[{"run": {"days": 3}}], conditions={"base": {}})
    texts = drawn(one, tmp_path / "a.svg")
    assert {"simulated time (days)", "values of 1 seed, without an interval"} <= set(texts)
    assert texts[: texts.index("simulated time (days)")] == ["0", "1", "2", "3"]
    assert "(points)" in texts


def test_picture_band_of_a_share_stays_within_0_and_1(tmp_path: Path) -> None:
    def share(society: Any) -> float:
        return float(society.seed % 2)

    metric = {"name": "share", "by": share, "unit": "share of citizens"}
    one = experiment(metrics=[metric], conditions={"base": {}}, published=[])
    texts = drawn(one, tmp_path / "a.svg", "share")
    ticks = texts[texts.index("simulated time (hours)") + 1 : texts.index("share")]
    assert (ticks[0], ticks[-1]) == ("0.0", "1.0")


def test_report_that_cannot_be_drawn_is_refused_before_a_cell_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    small = experiment(conditions={"base": {}}, seeds=1, workflow=[{"run": {"steps": 1}}])
    with pytest.raises(MissingExtra, match=r"report=False"):
        small.run_sync(jobs=0, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert small.run_sync(jobs=0, out=tmp_path / "out", report=False).metrics


def test_results_plot_a_metric_of_what_was_run_and_refuse_what_has_no_labels(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    one = experiment(workflow=[{"step": 3}])
    results = one.run_sync(jobs=0, out=tmp_path, progress=lambda far: told.append(str(far)))
    metric = results.metrics[0]
    results.plot(path=tmp_path / "first.png")
    results.plot(metric, tmp_path / "named.png")
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "named.png").read_bytes()
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert results.plot(metric, ax=right) is figure
    assert (bool(left.lines), bool(right.lines)) == (False, True)
    for wrong in (figure, np.array([left, right]), "left"):
        with pytest.raises(ConfigError, match="ax= must be one Axes of matplotlib, such as"):
            results.plot(ax=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"metric must be .*{metric}.*, got 'nosuch'"):
        results.plot("nosuch")
    with pytest.raises(ConfigError, match=r"plot what experiment\.run"):
        Results(results.path).plot()
    assert told[-1].startswith(f"{len(one.cells())} of {len(one.cells())} cells, 100 %")
