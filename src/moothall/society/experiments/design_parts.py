"""The parts of an experiment's design: the society, metrics, charts, conditions, figures."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from moothall.society.clock import seconds_of
from moothall.society.experiments.models import TOWN, Source, is_of_file
from moothall.society.experiments.workflow import DesignPart


class SocietyDesign(BaseModel):
    """A society to run: a town or what your own function makes, a step, and its parameters."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    make: Source | None = None
    step: str | int = "15min"

    @field_validator("step")
    @classmethod
    def _length(cls, length: str | int) -> str | int:
        seconds_of(length)
        return length

    @property
    def source(self) -> Source:
        """The function, or the text that names it."""
        return TOWN if self.make is None else self.make

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the function, except the seed."""
        return dict(self.model_extra or {})


class MetricDesign(DesignPart):
    """A metric: a column of a society's metrics or a function, with label and unit of its axis."""

    name: str = Field(min_length=1, max_length=100)
    by: Source | None = None
    label: str = ""
    unit: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> Any:
        if isinstance(value, str):
            return metric_of(value)
        if callable(value):
            name = getattr(value, "__name__", "")
            if not name.isidentifier():
                raise ValueError('a lambda has no name: write {"name": "…", "by": …}')
            return {"name": name, "by": value}
        return value


class Chart(DesignPart):
    """A picture of the report: curves of several metrics, or what a function of a file draws."""

    metrics: list[str] = Field(default_factory=list)
    label: str = ""
    unit: str = ""


ODD_ELEMENTS: Final = (
    *("purpose", "patterns", "entities", "scheduling"),
    *("principles", "emergence", "adaptation", "objectives", "learning", "prediction", "sensing"),
    *("interaction", "stochasticity", "collectives", "observation"),
    *("initialization", "input", "submodels"),
)
"""The elements of the ODD protocol for which an experiment may state a text."""


class ConditionDesign(DesignPart):
    """A condition: other parameters (of the society or for `$name`s) or workflow; a label."""

    parameters: dict[str, Any] = Field(default_factory=dict)
    workflow: list[dict[str, Any]] | None = None
    label: str = ""


class Published(DesignPart):
    """A published figure, to compare with a metric, times `scale`, after `step` steps."""

    quantity: str
    published: str
    metric: str
    condition: str = "base"
    scale: float = 1
    step: int | None = None


def metric_of(name: str) -> dict[str, str]:
    """Return a metric of a name: a column, or `file.py:function`, which is called as its column."""
    return {"name": name.rpartition(":")[2], "by": name} if is_of_file(name) else {"name": name}
