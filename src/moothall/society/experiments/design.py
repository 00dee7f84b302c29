"""An experiment as data: a society, a workflow, conditions, seeds and parameters."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    StrictInt,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from moothall import Block, ConfigError
from moothall.build import NotJSON, copy_json, nearest
from moothall.society.clock import seconds_of
from moothall.society.experiments.cell import Cell
from moothall.society.experiments.design_parts import (
    ODD_ELEMENTS,
    Chart,
    ConditionDesign,
    MetricDesign,
    Published,
    SocietyDesign,
    metric_of,
)
from moothall.society.experiments.fields import faults_of, list_fields, with_field_paths
from moothall.society.experiments.models import (
    Source,
    block_of,
    function_of,
    is_of_file,
    plain_value,
    town_parameters,
)
from moothall.society.experiments.workflow import (
    DesignPart,
    FieldError,
    FieldPath,
    Item,
    SurveyItem,
    count_asked,
    count_steps,
    surveys_of,
)
from moothall.society.people.table import read_people

_NO_PARAMETER: Final = "the society has no such parameter"
_CELLS: Final = 100_000
_NAME_DOT: Final = re.compile(r"\.(?!py:)")
"""What is between the names of a parameter deep inside: no dot of `file.py:Block`."""


class Design(DesignPart):
    """The fields of an `Experiment`, which documents them."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w][\w .-]*$")
    question: str = ""
    society: SocietyDesign = Field(default_factory=SocietyDesign)
    metrics: list[MetricDesign] = Field(default_factory=list)
    charts: dict[str, Chart | None] = Field(default_factory=dict)
    every: int = Field(default=1, ge=1)
    workflow: list[dict[str, Any]] = Field(min_length=1)
    conditions: dict[str, ConditionDesign] = Field(
        default_factory=lambda: {"base": ConditionDesign()}
    )
    seeds: StrictInt | list[StrictInt] = 1
    parameters: dict[str, list[Any]] = Field(default_factory=dict)
    maps: bool = False
    trajectories: bool = False
    published: list[Published] = Field(default_factory=list)
    source: str = ""
    notes: str = ""
    about: dict[str, str] = Field(default_factory=dict)
    folder: Path = Field(default=Path(), exclude=True)

    @field_validator("metrics", mode="before")
    @classmethod
    def _by_name(cls, metrics: object) -> Any:
        if not isinstance(metrics, Mapping):
            return metrics
        return [
            {**metric_of(name), **(fields or {})} if isinstance(fields, Mapping | None) else fields
            for name, fields in metrics.items()
        ]

    _command: str | None = PrivateAttr(default=None)
    _cells: list[Cell] = PrivateAttr(default_factory=list)

    def __init__(self, **fields: object) -> None:
        metrics = fields.get("metrics")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self._as_error(faults_of(error, type(self)), metrics) from None
        try:
            self._check()
        except FieldError as error:
            raise self._as_error(error.faults, metrics) from None

    # -- what it asks for --------------------------------------------------------------------------

    @property
    def all_seeds(self) -> list[int]:
        """The seeds: 0 … n−1 if a number is given."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    @property
    def command(self) -> str | None:
        """The command that repeats the experiment; None if a program has made it."""
        return self._command

    def set_command(self, command: str | None) -> None:
        """Note the command that repeats the experiment."""
        self._command = command

    def grid(self) -> list[dict[str, Any]]:
        """Return the combinations of the parameters' values."""
        names = list(self.parameters)
        values = itertools.product(*self.parameters.values())
        return [dict(zip(names, each, strict=True)) for each in values]

    def cells(self) -> list[Cell]:
        """Return every condition with every combination of parameters and every seed."""
        return self._cells

    def shared(self) -> dict[str, Any]:
        """Return what determines all cells alike: if it changes, earlier results are of no use."""
        return {
            "name": self.name,
            "every": self.every,
            "workflow": self.workflow,
            "society": self.society.model_dump(),
            "metrics": [[each.name, each.by] for each in self.metrics],
            "conditions": [[n, c.parameters, c.workflow] for n, c in self.conditions.items()],
        }

    def surveys(self) -> Iterator[SurveyItem]:
        """Yield the surveys of all workflows."""
        workflows = {id(cell.workflow): cell.workflow for cell in self._cells}
        return itertools.chain.from_iterable(map(surveys_of, workflows.values()))

    def _all_cells(self) -> list[Cell]:
        metrics = [(each.name, each.by) for each in self.metrics]
        common = (self.name, self.folder, self.society.source, self.society.step)
        cells: list[Cell] = []
        for name in self.conditions:
            for index, values in enumerate(self.grid()):
                fields = (*common, *self._resolve_condition(name, values), metrics, self.every)
                for seed in self.all_seeds:
                    has_map = self.maps and index == 0 and seed == self.all_seeds[0]
                    cells.append(Cell(name, seed, values, *fields, has_map, self.trajectories))
        return cells

    def _resolve_condition(
        self, name: str, values: Mapping[str, object]
    ) -> tuple[dict[str, Any], list[Item]]:
        """Return the society's parameters and the workflow of a condition with these values."""
        place: FieldPath = ("workflow",)
        items = self.workflow
        condition = self.conditions[name]
        if condition.workflow is not None:
            place, items = ("conditions", name, "workflow"), condition.workflow
        settings = {**condition.parameters, **values}
        used: set[str] = set()
        try:
            filled_items = _fill_values(items, settings, used, place)
            workflow = TypeAdapter(list[Item]).validate_python(filled_items, context=self.folder)
        except ValidationError as error:
            raise FieldError(
                *(((*place, *at), text) for at, text in faults_of(error, list[Item]))
            ) from None
        count_steps(workflow, seconds_of(self.society.step), place)
        parameters = copy_json(self.society.parameters)
        arguments = self.arguments()
        places: dict[str, FieldPath] = {}  # of parameters that are not set under `society`
        by_depth = sorted(settings.items(), key=lambda each: each[0].count("."))
        for key, value in by_depth:
            at: FieldPath = ("parameters", key)
            if key in condition.parameters:
                at = ("conditions", name, *at)
                if key in values:
                    raise FieldError((at, "it is swept, so no condition can set it"))
            root, *path = _NAME_DOT.split(key)
            if arguments is not None and root not in arguments:
                if key not in used:
                    near = nearest(root, arguments)
                    text = f"{_NO_PARAMETER}{near}, and no ${key} is in the workflow; "
                    text += list_fields(arguments)
                    raise FieldError((at, text))
                continue
            target, places[key] = parameters, at
            for step, each in itertools.pairwise((root, *path)):
                target = target.setdefault(step, {})
                if not isinstance(target, dict):
                    raise FieldError((at, f"{step!r} has no {each!r}"))
            target[path[-1] if path else root] = copy_json(value)  # another cell adds to its own
        if self.society.make is None:
            kind = self._town(parameters, places)
            try:
                kind.model_validate(parameters, context=self.folder)
            except ValidationError as error:
                raise FieldError(*with_field_paths(faults_of(error, kind), places)) from None
        return parameters, workflow

    def _town(
        self, parameters: Mapping[str, object], places: Mapping[str, FieldPath]
    ) -> type[BaseModel]:
        """Return the model of a town's parameters, with the blocks of files that they name."""
        file_blocks: list[tuple[str, type[Block]]] = []
        blocks = parameters.get("blocks")
        for name in blocks if isinstance(blocks, Mapping) else ():
            if is_of_file(name):
                try:
                    file_blocks.append((name, block_of(name, self.folder)))
                except ConfigError as error:
                    fault = (("blocks", name), str(error))
                    raise FieldError(*with_field_paths([fault], places)) from None
        return town_parameters(tuple(file_blocks))

    def arguments(self) -> list[str] | None:
        """Return the names of the society's parameters; None if it takes any."""
        where = ("society", "make")
        parameters = inspect.signature(self._function(where, self.society.source)).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return None
        if self.society.make is None:
            reserved = ("seed", "folder", "budget", "journal")
            return [name for name in parameters if name not in reserved]
        if not parameters:
            raise FieldError((where, f"{self.society.source!r} must take the seed"))
        _, *names = parameters  # the first is the seed, whatever it is called
        return [name for name in names if name != "folder"]

    # -- checks ------------------------------------------------------------------------------------

    def _check(self) -> None:
        seed_count = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        count = seed_count * len(self.conditions) * math.prod(map(len, self.parameters.values()))
        if count > _CELLS:  # before a list of so many is made
            raise FieldError(((), f"it has {count:,} cells, and may have {_CELLS:,}: sweep less"))
        seeds = self.all_seeds
        are_seeds = all(0 <= each < 1 << 64 for each in seeds)
        if not seeds or len(set(seeds)) != len(seeds) or not are_seeds:
            text = "must be 1 or more, or a list of different seeds, 0 to 2**64 - 1"
            raise FieldError((("seeds",), text))
        if not self.conditions:
            raise FieldError((("conditions",), "must have one or more, or be left out"))
        for name in self.conditions:
            if not name.strip() or "/" in name:
                raise FieldError((("conditions", name), "its name must have a letter, and no /"))
        for name, each in self.parameters.items():
            if not each or any(each.count(value) > 1 for value in each):
                text = "must be a list of one value or more, each once"
                raise FieldError((("parameters", name), text))
        measured = {each.name for each in self.metrics}
        if len(measured) != len(self.metrics):
            raise FieldError((("metrics",), "two metrics have the same name"))
        groups = [
            (("society",), self.society.parameters),
            (("parameters",), self.parameters),
            *((("conditions", n, "parameters"), c.parameters) for n, c in self.conditions.items()),
        ]
        for place, values in groups:
            for name, value in values.items():
                try:
                    copy_json(value)
                except NotJSON as error:
                    raise FieldError(((*place, name), f"must be JSON data: {error}")) from None
        arguments = self.arguments()
        for name in self.society.parameters:
            if arguments is not None and name not in arguments:
                text = f"{_NO_PARAMETER}{nearest(name, arguments)}; {list_fields(arguments)}"
                raise FieldError((("society", name), text))
        self._cells = self._all_cells()
        surveyed = dict.fromkeys(name for each in self.surveys() for name in each.metrics)
        for index, metric in enumerate(self.metrics):
            if metric.by is not None:
                self._function(("metrics", index, "by"), metric.by, "society")
            elif "." in metric.name and metric.name not in surveyed:
                text = f"no survey measures it; {list_fields(surveyed or ['none'])}"
                raise FieldError((("metrics", index, "name"), text))
        for name in self.about:
            if name not in ODD_ELEMENTS:
                text = f"it is no element of ODD{nearest(name, ODD_ELEMENTS)}"
                raise FieldError((("about", name), f"{text}; {list_fields(ODD_ELEMENTS)}"))
        for name, chart in self.charts.items():
            self._check_chart(("charts", name), name, chart or Chart(), (*measured, *surveyed))
        for index, figure in enumerate(self.published):
            if figure.metric not in (*measured, *surveyed):
                text = f"no metric {figure.metric!r} is measured"
                raise FieldError((("published", index, "metric"), text))
            if figure.condition.partition("/")[0] not in self.conditions:
                text = f"there is no condition {figure.condition!r}"
                raise FieldError((("published", index, "condition"), text))

    def _check_chart(
        self, where: FieldPath, name: str, chart: Chart, measured: Iterable[str]
    ) -> None:
        if is_of_file(name):
            self._function(where, name, "results", "axes")
            if chart.metrics:
                raise FieldError(((*where, "metrics"), "the function chooses what it draws"))
        elif not chart.metrics:
            raise FieldError((where, "must have metrics, or be named file.py:function"))
        for index, each in enumerate(chart.metrics):
            if each not in (names := [*measured]):
                text = f"no metric {each!r} is measured{nearest(each, names)}; {list_fields(names)}"
                raise FieldError(((*where, "metrics", index), text))

    @staticmethod
    def _as_error(faults: Iterable[tuple[FieldPath, str]], metrics: object) -> FieldError:
        """Return faults as an error; metrics by name have that name in their paths."""
        names = [*metrics] if isinstance(metrics, Mapping) else ()
        renamed: list[tuple[FieldPath, str]] = []
        for where, text in faults:
            index = where[1] if where[:1] == ("metrics",) and len(where) > 1 else None
            if isinstance(index, int) and index < len(names):
                where = ("metrics", names[index], *where[2:])
            renamed.append((where, text))
        return FieldError(*renamed)

    def _function(self, where: FieldPath, source: Source, *takes: str) -> Callable[..., Any]:
        try:
            return function_of(source, self.folder, *takes)
        except ConfigError as error:
            raise FieldError((where, str(error))) from None

    def size(self) -> dict[str, int]:
        """Return its size: cells, agent_steps and, if a model is named, model_calls (estimated).

        The calls of a survey are as many as the citizens it may ask, those of an interview one.
        """
        signature = inspect.signature(function_of(self.society.source, self.folder)).parameters
        default = getattr(signature.get("citizens"), "default", None)
        cells = self.cells()
        count_rows = functools.cache(lambda name: len(read_people(self.folder / name)))
        agent_steps = calls = 0
        for cell in cells:
            count = cell.parameters.get("citizens", default)
            if isinstance(count, str) and self.society.make is None:
                count = count_rows(count)
            count = count if type(count) is int else 1
            steps = cell.steps * count
            agent_steps += steps
            if cell.parameters.get("llm"):
                calls += steps * 6 // 5 + count_asked(cell.workflow, count)
        return {"cells": len(cells), "agent_steps": agent_steps, "model_calls": calls}

    def as_json(self) -> dict[str, Any]:
        """Return the design as JSON data, with functions by name."""
        data = plain_value(self.model_dump(exclude_defaults=True))
        return {"society": {}, **data}


def _fill_values(value: object, values: Mapping[str, object], used: set[str], at: FieldPath) -> Any:
    """Return a workflow with its `$name`s replaced by values; collect these names in `used`."""
    if isinstance(value, str) and value[:1] == "$":
        name = value[1:]
        if name in values:
            used.add(name)
            return values[name]
        if name.isidentifier():
            raise FieldError((at, f"no parameter of this condition is named {name!r}"))
    if isinstance(value, Mapping):
        return {key: _fill_values(each, values, used, (*at, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill_values(each, values, used, (*at, index)) for index, each in enumerate(value)]
    return value
