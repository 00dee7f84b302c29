"""A study's description by the ODD protocol, written from the study itself.

The elements are those of Grimm et al. 2020, "The ODD protocol for describing agent-based and other
simulation models: a second update", Journal of Artificial Societies and Social Simulation 23(2) 7.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel

from moothall.build import counted, one_line
from moothall.society.clock import DAY_S, seconds_of
from moothall.society.experiments.cell import Cell, society_maker
from moothall.society.experiments.design import Design
from moothall.society.experiments.models import plain_value
from moothall.society.kernel.citizen import CitizenAgent
from moothall.society.kernel.wants import Move, Pay, Want
from moothall.society.society import Society

_CONCEPTS: Final = {
    "principles": "Basic principles",
    "emergence": "Emergence",
    "adaptation": "Adaptation",
    "objectives": "Objectives",
    "learning": "Learning",
    "prediction": "Prediction",
    "sensing": "Sensing",
    "interaction": "Interaction",
    "stochasticity": "Stochasticity",
    "collectives": "Collectives",
    "observation": "Observation",
}
_NOT_STATED: Final = "*The study does not state this; its field `about` may.*"
_MAX_VALUE: Final = 100  # characters of a value


def odd_page(design: Any) -> str:
    """Return the page, in Markdown. It makes the society of the first cell, and runs no step."""
    cell: Cell = design.cells()[0]
    with society_maker(cell)() as society:
        page = _OddPage(design, cell, society)
        parts = [
            f"# {design.name}: ODD protocol",
            "The elements are those of Grimm et al. 2020, JASSS 23(2) 7. This page is written from "
            "the study itself: its file, its code, and the society that these make.",
            f"## 1. Purpose and patterns\n\n{page.purpose()}",
            f"## 2. Entities, state variables and scales\n\n{page.entities()}",
            f"## 3. Process overview and scheduling\n\n{page.scheduling()}",
            f"## 4. Design concepts\n\n{page.concepts()}",
            f"## 5. Initialization\n\n{page.initialization()}",
            f"## 6. Input data\n\n{page.input()}",
            f"## 7. Submodels\n\n{page.submodels()}",
        ]
    return "\n\n".join(parts) + "\n"


class _OddPage:
    """What a study tells of itself, element by element."""

    def __init__(self, design: Design, cell: Cell, society: Society) -> None:
        self.design, self.cell, self.society = design, cell, society
        self.citizens = [each for each in society.agents if isinstance(each, CitizenAgent)]
        population = society.rows
        blocks = () if population is not None or not self.citizens else self.citizens[0].blocks
        self.blocks: list[Any] = [*(blocks if population is None else population.blocks)]

    def _element(self, element: str, *parts: str) -> str:
        """Return the author's text of an element, then what was found; or that it is not stated."""
        texts = [each for each in (self.design.about.get(element, ""), *parts) if each]
        return "\n\n".join(texts) or _NOT_STATED

    def purpose(self) -> str:
        """Return the question, and the known figures that results are compared with."""
        design = self.design
        figures = [(each.quantity, each.published, each.metric) for each in design.published]
        source = f"After: {design.source}" if design.source else ""
        patterns = _table(("pattern", "published", "metric"), figures)
        patterns = self._element("patterns", patterns, source)
        return f"{self._element('purpose', design.question)}\n\n**Patterns.**\n\n{patterns}"

    def entities(self) -> str:
        """Return the kinds of entities with their state, and the scales of time and space."""
        society, parts = self.society, []
        if society.rows is not None:
            population = society.rows
            rows = [
                (name, f"{values.dtype}", "several" if values.ndim > 1 else "one")
                for name, values in sorted(population.arrays.items())
            ]
            parts.append(f"**Citizens**: {len(population):,}, in columns.")
            parts.append(_table(("variable", "type", "values"), rows))
        elif self.citizens:
            citizen = self.citizens[0]
            rows = [
                (name, _value_kind(value), one_line(json.dumps(value, default=str), _MAX_VALUE))
                for name, value in citizen.status.items()
            ]
            parts.append(f"**Citizens** (`{type(citizen).__name__}`): {len(self.citizens):,}.")
            parts.append(_table(("variable", "type", "of the first, at the start"), rows))
        agents = Counter(
            type(each).__name__ for each in society.agents if each not in self.citizens
        )
        if agents:
            counts = ", ".join(f"{count:,} `{name}`" for name, count in sorted(agents.items()))
            parts.append(f"**Other agents**: {counts}.")
        services = Counter(type(each).__name__ for each in society.services.values())
        if services:
            counts = ", ".join(f"{count:,} `{name}`" for name, count in sorted(services.items()))
            parts.append(f"**Services**: {counts}.")
        return self._element("entities", *parts, f"**Space.** {self._space()}", self._time())

    def _space(self) -> str:
        city = self.society.city
        if city is None:
            return "None: citizens have no places."
        kind = type(city).__name__
        if hasattr(city, "kinds") and hasattr(city, "by_kind"):
            places = ", ".join(f"{len(city.by_kind(each)):,} {each}" for each in city.kinds())
            return f"A `{kind}` of places: {places}."
        return f"A `{kind}` of {len(city.ids()):,} places."

    def _time(self) -> str:
        step = seconds_of(self.design.society.step)
        steps = self.cell.steps
        days = f"{steps * step / DAY_S:g} days"
        return f"**Time.** {counted(steps, 'step')} of {step:,} s in a run, {days}."

    def scheduling(self) -> str:
        """Return what happens in a step, in order."""
        kinds: set[type[Want]] = {Move, Pay}.union(
            *(each.takes for each in self.society.services.values())
        )
        order = sorted(kinds, key=lambda kind: (kind.turn, kind.__name__))
        wants = ", ".join(f"`{each.__name__}`" for each in order)
        lines = [
            "1. All citizens perceive the city, the time and each other as the step before left "
            "them.",
            "2. Each has its turn: it handles its messages, then its blocks prepare, one block "
            "that fits acts, and its blocks clean up. The order of turns has no effect.",
            f"3. The commit stage settles what they want, kind by kind ({wants}), within a kind in "
            "an order of the citizens that is drawn in each step, and writes.",
            "4. Messages and answers are delivered in the next step, in that order of their "
            "senders.",
        ]
        workflow = [
            f"- {name}: {one_line(json.dumps(plain_value(self._workflow(name))), 1000)}"
            for name in self.design.conditions
        ]
        workflows = "\n".join(["The workflow of each condition:", "", *workflow])
        return self._element("scheduling", "\n".join(lines), workflows)

    def _workflow(self, name: str) -> Any:
        workflow = self.design.conditions[name].workflow
        return self.design.workflow if workflow is None else workflow

    def concepts(self) -> str:
        """Return the design concepts, those that the engine determines filled in."""
        surveys = [each.name for each in self.design.surveys()]
        metrics = [f"`{each.name}` ({each.label or each.name})" for each in self.design.metrics]
        metrics += [f"the survey `{name}`" for name in dict.fromkeys(surveys)]
        steps = "step" if self.design.every == 1 else f"{self.design.every} steps"
        society = self.society
        texts = {
            "sensing": "A citizen perceives the time and facts, its place and who is there, news, "
            "its messages, and the answers to its wants, all of the step before.",
            "interaction": "By messages, which arrive in the next step; by wants, which the commit "
            "stage settles; and by being at the same place.",
            "stochasticity": "Each random number is a function (splitmix64) of the seed, the "
            "citizen, the step, the purpose and a counter. "
            + (
                "A language model decides as well; its answers are not deterministic."
                if society.default_model is not None
                else "The same seed gives the same results, byte by byte."
            ),
            "observation": f"{', '.join(metrics)}; measured after each {steps}." if metrics else "",
        }
        return "\n\n".join(
            f"**{title}.** {self._element(name, texts.get(name, ''))}"
            for name, title in _CONCEPTS.items()
        )

    def initialization(self) -> str:
        """Return the parameters of the society in each condition, the seeds, and the start."""
        design, cell = self.design, self.cell
        rows = [(name, _value(value)) for name, value in sorted(cell.parameters.items())]
        conditions = [
            (name, one_line(json.dumps(plain_value(each.parameters)), 1000))
            for name, each in design.conditions.items()
            if each.parameters
        ]
        swept = [(name, _value(values)) for name, values in design.parameters.items()]
        seeds = design.all_seeds
        parts = [
            f"The society is made by `{plain_value(cell.source)}`; it begins at "
            f"{self.society.clock.start.isoformat(sep=' ')}. Seeds: {one_line(str(seeds), 200)}.",
            _table(("parameter", "value in the first cell"), rows),
            _table(("condition", "other parameters"), conditions),
            _table(("swept parameter", "values"), swept),
        ]
        return self._element("initialization", *parts)

    def input(self) -> str:
        """Return the files that are read, with their hashes, and the facts."""
        cell, rows = self.cell, []
        for name in ("citizens", "city", "answers"):
            file = cell.parameters.get(name)
            if isinstance(file, str) and (cell.folder / file).is_file():
                digest = hashlib.sha256((cell.folder / file).read_bytes()).hexdigest()
                rows.append((name, file, digest))
        parts = [_table(("what", "file", "SHA-256"), rows)]
        facts = cell.parameters.get("facts")
        if facts:
            parts.append(f"Facts that hold everywhere: {_value(facts)}.")
        if model := cell.parameters.get("llm"):
            parts.append(f"Decisions of the model `{model}`.")
        return self._element("input", *parts) if any(parts) else self._element("input", "None.")

    def submodels(self) -> str:
        """Return each block: its docstring and its parameters; and the versions."""
        parts = []
        if not self.blocks and self.citizens:
            kind = type(self.citizens[0])
            parts.append(f"### {kind.__name__}\n\n{_doc(kind)}")
        for block in self.blocks:
            kind = type(block)
            table = _table(("parameter", "value", "meaning"), _parameter_rows(block.params))
            parts.append(f"### {kind.__name__}\n\n{_doc(kind)}\n\n{table}".rstrip())
        kinds = dict.fromkeys(type(each) for each in self.society.services.values())
        parts += [f"### {kind.__name__}\n\n{_doc(kind)}" for kind in kinds]
        versions = ", ".join(f"{name} {version(name)}" for name in ("moothall", "numpy"))
        parts.append(f"Versions: python {platform.python_version()}, {versions}.")
        return self._element("submodels", *parts)


def _doc(kind: type) -> str:
    """Return a class's docstring without the sections that are for programmers."""
    lines = (inspect.getdoc(kind) or "").splitlines()
    ends = ("Args:", "Attributes:", "Raises:", "Returns:")
    end = next((at for at, line in enumerate(lines) if line.strip() in ends), len(lines))
    return "\n".join(lines[:end]).strip() or "*It has no docstring.*"


def _parameter_rows(params: object) -> Iterator[tuple[str, str, str]]:
    if not isinstance(params, BaseModel):
        return
    for name, field in type(params).model_fields.items():
        value = getattr(params, name)
        if name not in ("by_model", "prompt", "block_memory") or value != field.default:
            yield name, _value(value), field.description or ""


def _value_kind(value: object) -> str:
    names = {dict: "mapping", list: "list", str: "text", int: "whole number", float: "number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def _value(value: object) -> str:
    return one_line(json.dumps(plain_value(value), ensure_ascii=False, default=str), _MAX_VALUE)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of Markdown; empty for no rows."""
    lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    if not lines:
        return ""
    table = [[*head], ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)
