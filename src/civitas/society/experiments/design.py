"""An experiment as data: a society, a workflow, conditions, seeds and parameters."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from civitas.clock import DAY_S, seconds_of
from civitas.errors import ConfigError
from civitas.jsonvalue import NotJSON, copy_json
from civitas.society.experiments.cell import Cell
from civitas.society.experiments.functions import Source, function_of, in_words
from civitas.society.experiments.models import MODELS
from civitas.society.experiments.workflow import Item, steps_of

Where = tuple[str | int, ...]
_SHOWN: Final = 5
"""So many faults are told at once."""
_CELLS: Final = 100_000
_TAGS: Final = frozenset(("int", "str", "float", "list[int]", "callable"))
"""What pydantic puts into a path for the alternatives of a type."""


class FieldError(ConfigError):
    """A field of an experiment is wrong.

    Attributes:
        faults: the path of each field, and what is wrong with it
    """

    def __init__(self, faults: Iterable[tuple[Where, str]], prefix: str = "") -> None:
        self.faults = list(faults)
        shown = [f"{field_path(where) or 'it'}: {what}" for where, what in self.faults[:_SHOWN]]
        super().__init__(prefix + "\n".join(shown))


def field_path(where: Where) -> str:
    """A path as a person writes it, such as `workflow[2].run.days`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in where)
    return text.removeprefix(".")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SocietyDesign(BaseModel):
    """What is lived in; the fields that are not named here are parameters of the function.

    Attributes:
        model: the name of a function of `civitas.society.experiments.models.MODELS`
        make: instead of it, one's own: `file.py:function` beside the YAML, or a function; it is
            called with the seed and the parameters, and gives a `Society`
        step: how long a step is
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str = "town"
    make: Source | None = None
    step: str | int = "15min"

    @field_validator("step")
    @classmethod
    def _length(cls, given: str | int) -> str | int:
        seconds_of(given)
        return given

    @field_validator("model")
    @classmethod
    def _known(cls, given: str) -> str:
        if given not in MODELS:
            raise ValueError(f"must be one of {', '.join(sorted(MODELS))}, got {given!r}")
        return given

    @property
    def source(self) -> Source:
        """The function, or where it is."""
        return MODELS[self.model] if self.make is None else self.make

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the function but for the seed."""
        return dict(self.model_extra or {})


class Metric(_Part):
    """What is measured.

    Attributes:
        name: of a column of a society's metrics, or, with `by`, one of your own
        by: a function of a society that gives a number: `file.py:function`, or the function
        label: what the axis says; the name if left out
        unit: the unit of the values, for the axis
    """

    name: str = Field(min_length=1, max_length=100)
    by: Source | None = None
    label: str = ""
    unit: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class Condition(_Part):
    """What a condition changes.

    Attributes:
        parameters: other parameters of the society, or values of `$name` in the workflow
        workflow: another workflow
        label: what legends say; the condition's name if left out
    """

    parameters: dict[str, Any] = Field(default_factory=dict)
    workflow: list[dict[str, Any]] | None = None
    label: str = ""


class Published(_Part):
    """A figure that somebody has published, beside which ours is told.

    Attributes:
        quantity: what it is
        published: the figure, as it is printed
        metric: ours
        condition: in which condition
        scale: by what ours is multiplied, such as 100 for per cent
        step: after how many steps; the last if left out
    """

    quantity: str
    published: str
    metric: str = ""
    condition: str = ""
    scale: float = 1
    step: int | None = None


class Design(_Part):
    """The fields of an `Experiment`, which documents them."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w][\w .-]*$")
    question: str = ""
    society: SocietyDesign = Field(default_factory=SocietyDesign)
    metrics: list[Metric] = Field(default_factory=list)
    every: int = Field(default=1, ge=1)
    workflow: list[dict[str, Any]] = Field(min_length=1)
    conditions: dict[str, Condition] = Field(default_factory=lambda: {"base": Condition()})
    seeds: int | list[int] = 1
    parameters: dict[str, list[Any]] = Field(default_factory=dict)
    published: list[Published] = Field(default_factory=list)
    source: str = ""
    notes: str = ""
    folder: Path = Field(default=Path(), exclude=True)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise FieldError(faults_of(error)) from None
        self._check()

    # -- what it asks for --------------------------------------------------------------------------

    @property
    def all_seeds(self) -> list[int]:
        """The seeds: 0 … n−1 where a number is given."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def grid(self) -> list[dict[str, Any]]:
        """The combinations of the parameters' values."""
        names = list(self.parameters)
        values = itertools.product(*self.parameters.values())
        return [dict(zip(names, each, strict=True)) for each in values]

    def cells(self) -> list[Cell]:
        """Every condition with every combination of parameters and every seed."""
        made: list[Cell] = []
        for name, condition in self.conditions.items():
            for values in self.grid():
                parameters, workflow = self._resolved(name, condition, values)
                made += [
                    Cell(
                        condition=name,
                        seed=seed,
                        values=values,
                        source=self.society.source,
                        step=self.society.step,
                        parameters=parameters,
                        workflow=workflow,
                        metrics=tuple((each.name, each.by) for each in self.metrics),
                        every=self.every,
                    )
                    for seed in self.all_seeds
                ]
        return made

    def _resolved(
        self, name: str, condition: Condition, values: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Item]]:
        """The society's parameters and the workflow of a condition with some values."""
        where: Where = ("workflow",)
        raw: Any = self.workflow
        if condition.workflow is not None:
            where, raw = ("conditions", name, "workflow"), condition.workflow
        both = sorted(set(condition.parameters) & set(values))
        if both:
            field = ("conditions", name, "parameters", both[0])
            raise FieldError([(field, "it is swept, so no condition can set it")])
        given = {**condition.parameters, **values}
        used: set[str] = set()
        raw = _filled(raw, given, used)
        try:
            workflow = TypeAdapter(list[Item]).validate_python(raw)
        except ValidationError as error:
            raise FieldError(((*where, *at), what) for at, what in faults_of(error)) from None
        try:
            steps_of(workflow, seconds_of(self.society.step))
        except ConfigError as error:
            raise FieldError([((*where, *getattr(error, "where", ())), str(error))]) from None
        parameters = copy.deepcopy(self.society.parameters)
        known = self._arguments()
        for key, value in given.items():
            root, *path = key.split(".")
            if known is None or root in known:
                into = parameters
                for step, each in itertools.pairwise((root, *path)):
                    into = into.setdefault(step, {})
                    if not isinstance(into, dict):
                        raise FieldError([(("parameters", key), f"{step!r} has no {each!r}")])
                into[path[-1] if path else root] = value
            elif key not in used:
                group = "parameters" if key in values else f"conditions.{name}.parameters"
                raise FieldError(
                    [
                        (
                            (*group.split("."), key),
                            f"it is no parameter of the society and no ${key} is in the workflow; "
                            f"there are: {', '.join(sorted(known or ()))}",
                        )
                    ]
                )
        return parameters, workflow

    def _arguments(self) -> set[str] | None:
        """The names of the society's parameters; None where it takes any."""
        where = ("society", "model" if self.society.make is None else "make")
        signature = inspect.signature(self._function(where, self.society.source))
        kinds = {each.kind for each in signature.parameters.values()}
        if inspect.Parameter.VAR_KEYWORD in kinds:
            return None
        return set(list(signature.parameters)[1:]) - {"folder"}

    # -- checks ------------------------------------------------------------------------------------

    def _check(self) -> None:
        seeds = self.all_seeds
        if not seeds or len(set(seeds)) != len(seeds):
            raise FieldError([(("seeds",), "must be 1 or more, or a list of different seeds")])
        for seed in seeds:
            if not 0 <= seed < 1 << 64:
                raise FieldError([(("seeds",), f"a seed is from 0 to 2**64 - 1, got {seed}")])
        if not self.conditions:
            raise FieldError([(("conditions",), "must have one or more, or be left out")])
        for name, each in self.parameters.items():
            if not each:
                raise FieldError([(("parameters", name), "must be a list of one value or more")])
        if len({each.name for each in self.metrics}) != len(self.metrics):
            raise FieldError([(("metrics",), "two metrics have the same name")])
        count = len(seeds) * len(self.conditions)
        for each in self.parameters.values():
            count *= len(each)
        if count > _CELLS:
            raise FieldError([((), f"it has {count:,} cells, and may have {_CELLS:,}: sweep less")])
        try:
            copy_json({"society": self.society.parameters, "parameters": self.parameters})
        except NotJSON as error:
            raise FieldError([((), f"parameters must be JSON data: {error}")]) from None
        known = self._arguments()
        for name in self.society.parameters:
            if known is not None and name not in known:
                there = ", ".join(sorted(known))
                raise FieldError([(("society", name), f"there is no such parameter; {there}")])
        for index, metric in enumerate(self.metrics):
            if metric.by is not None:
                self._function(("metrics", index, "by"), metric.by)
        for name, condition in self.conditions.items():
            for values in self.grid():
                self._resolved(name, condition, values)

    def _function(self, where: Where, source: Source) -> Callable[..., Any]:
        try:
            return function_of(source, self.folder)
        except ConfigError as error:
            raise FieldError([(where, str(error))]) from None

    # -- how large it is ---------------------------------------------------------------------------

    def size(self) -> dict[str, int]:
        """How large it is: cells, agent_steps and, where a model is named, model_calls, about."""
        signature = inspect.signature(function_of(self.society.source, self.folder)).parameters
        agent_steps = calls = count = 0
        for cell in self.cells():
            count += 1
            many = 1
            for name in ("citizens", "n"):
                default = getattr(signature.get(name), "default", None)
                value = cell.parameters.get(name, default)
                if type(value) is int:
                    many = value
                    break
            steps = steps_of(cell.workflow, seconds_of(cell.step))
            agent_steps += many * steps
            if cell.parameters.get("llm"):
                calls += many * steps * 6 // 5
        return {"cells": count, "agent_steps": agent_steps, "model_calls": calls}

    def as_json(self) -> dict[str, Any]:
        """What it says, as JSON data; functions are told by name."""
        made: dict[str, Any] = in_words(self.model_dump(exclude_defaults=True))
        made.setdefault("society", {})
        return made

    @property
    def days(self) -> float:
        """How many simulated days the longest cell has."""
        step_s = seconds_of(self.society.step)
        return max(steps_of(each.workflow, step_s) for each in self.cells()) * step_s / DAY_S


def faults_of(error: ValidationError) -> list[tuple[Where, str]]:
    """What pydantic found wrong, without its own words for alternatives."""
    found: dict[Where, str] = {}
    for each in error.errors(include_url=False, include_context=False):
        loc = each["loc"]
        where = tuple(itertools.takewhile(lambda part: str(part) not in _TAGS, loc))
        what = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            what = "there is no such field"
        found.setdefault(where, what)
    return list(found.items())


def _filled(value: Any, given: Mapping[str, Any], used: set[str]) -> Any:
    """A workflow with the values of its `$name`s."""
    if isinstance(value, str) and value[:1] == "$" and value[1:] in given:
        used.add(value[1:])
        return given[value[1:]]
    if isinstance(value, Mapping):
        return {key: _filled(each, given, used) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, given, used) for each in value]
    return value
