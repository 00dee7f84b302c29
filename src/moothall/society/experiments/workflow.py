"""The workflow of an experiment: its items, and how many steps they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from moothall import ConfigError
from moothall.build import counted, excerpt
from moothall.society.clock import DAY_S, seconds_of
from moothall.society.experiments.models import Source, function_of
from moothall.society.kernel.intervention import CHANGE_FIELDS, Intervention
from moothall.society.survey import Question, Respondent, Survey

FieldPath = tuple[str | int, ...]
_MAX_FAULTS: Final = 5  # faults of an error's text


class FieldError(ConfigError):
    """Fields of an experiment are wrong; `faults` has the path of each, and what is wrong."""

    def __init__(self, *faults: tuple[FieldPath, str]) -> None:
        self.faults: tuple[tuple[FieldPath, str], ...] = faults
        super().__init__(first_faults([f"{field_path(path)}: {text}" for path, text in faults]))


def first_faults(lines: list[str]) -> str:
    """Return the lines of the first faults, and how many more there are."""
    first_lines, more_count = lines[:_MAX_FAULTS], len(lines[_MAX_FAULTS:])
    if more_count:
        first_lines.append(f"and {counted(more_count, 'more fault')}")
    return "\n".join(first_lines)


def field_path(place: FieldPath) -> str:
    """Return a path as a person writes it, such as `workflow[2].run.days`."""
    names = (
        f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{excerpt(part)}]"
        for part in place
    )
    return "".join(names).removeprefix(".") or "it"


class DesignPart(BaseModel):
    """A part of an experiment: it is immutable, and refuses unknown fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class RunLength(DesignPart):
    """Run for some time: `days`, `steps`, or a length such as `6h`."""

    days: float | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, ge=1)
    length: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_length(cls, value: object) -> Any:
        if isinstance(value, str):
            return {"length": value}
        if not isinstance(value, cls | dict):
            expected = "a length such as 6h, {days: 2} or {steps: 8}"
            raise ValueError(f"must be {expected}, got {value!r:.80}")
        return value

    def count(self, step_s: int) -> int:
        """Return how many steps it has."""
        if len(self.model_fields_set) != 1:
            raise ConfigError("must have days or steps, or be a length such as 6h")
        if self.steps is not None:
            return self.steps
        days = round((self.days or 0) * DAY_S, 6)
        seconds = days if self.length is None else seconds_of(self.length, "a length")
        if seconds % step_s:
            raise ConfigError(f"{seconds:g} s are not a whole number of steps of {step_s} s")
        return int(seconds) // step_s


class SurveyQuestion(DesignPart):
    """A question of a survey; its rule is `status.NAME.NAME`, `file.py:function` or a function."""

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    kind: str = "scale"
    choices: tuple[str, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    by: Source | None = None

    @field_validator("by")
    @classmethod
    def _check_rule(cls, value: Source | None, info: ValidationInfo) -> Source | None:
        if isinstance(value, str) and value.startswith("status."):
            return value
        if value is not None and info.context is not None:  # a cell's process has no folder
            function_of(value, info.context, "respondent")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.question(None)
        return self

    def question(self, by: Callable[[Respondent], object] | None) -> Question:
        """Return the question with its rule."""
        return Question(self.id, self.text, self.kind, self.choices, self.low, self.high, by)


class SurveyItem(DesignPart):
    """A survey of all citizens, or of some; `keep` has the results know each one's answers."""

    name: str = Field(min_length=1)
    questions: list[SurveyQuestion] = Field(min_length=1)
    citizens: list[str | int] | dict[str, Any] | Source | None = None
    keep: bool = False

    @field_validator("citizens")
    @classmethod
    def _check_citizens(cls, value: object, info: ValidationInfo) -> Any:
        if (isinstance(value, str) or callable(value)) and info.context is not None:
            function_of(value, info.context, "respondent")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        questions = [each.question(None) for each in self.questions]
        Survey(self.name, questions)
        if not self.keep and not all(each.measures for each in questions):
            raise ValueError("texts cannot be measured: say keep: true, or use an interview")
        return self

    @property
    def metrics(self) -> list[str]:
        """The names under which its answers may be measured."""
        return [*self._measures(is_share=False), *self.shares]

    @property
    def shares(self) -> list[str]:
        """Those of `metrics` that are shares of the answers."""
        return [*self._measures(is_share=True), f"{self.name}.by_model"]

    def _measures(self, is_share: bool) -> list[str]:
        measures = (each.question(None).measures.items() for each in self.questions)
        chosen = (name for name, each in chain(*measures) if each.is_share == is_share)
        return [f"{self.name}.{name}" for name in chosen]


class InterviewItem(DesignPart):
    """A question to one citizen in free text."""

    citizen: str | int
    question: str = Field(min_length=1)


class Branch(DesignPart):
    """A new society from a saved state, with a workflow; its condition is `CONDITION/NAME`."""

    of: str
    name: str = Field(min_length=1, max_length=100)
    workflow: list[Item] = Field(min_length=1)


class Item(DesignPart):
    """An item of a workflow: it has exactly one of these fields."""

    run: RunLength | None = None
    step: int | None = Field(default=None, ge=1)
    interview: InterviewItem | None = None
    survey: SurveyItem | None = None
    intervene: dict[str, Any] | None = None
    save: str | None = Field(default=None, min_length=1)
    branch: Branch | None = None

    @field_validator("intervene")
    @classmethod
    def _changes(cls, changes: dict[str, Any] | None) -> dict[str, Any] | None:
        for name in changes or ():
            if name not in CHANGE_FIELDS:
                raise ValueError(f"there is no {name!r}, but {', '.join(CHANGE_FIELDS)}")
        if changes is not None:
            Intervention(0, **changes)
        return changes

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = type(self).model_fields
        if [getattr(self, kind) is None for kind in kinds].count(False) != 1:
            raise ValueError(f"an item has one of {', '.join(kinds)}")
        return self


def surveys_of(workflow: Iterable[Item]) -> Iterator[SurveyItem]:
    """Yield a workflow's surveys, those of branches too."""
    for item in workflow:
        if item.survey is not None:
            yield item.survey
        if item.branch is not None:
            yield from surveys_of(item.branch.workflow)


def count_asked(workflow: Iterable[Item], citizens: int) -> int:
    """Return how many citizens its surveys and interviews ask at most, those of branches too."""
    count = 0
    for item in workflow:
        if item.survey is not None:
            ids = item.survey.citizens
            count += min(len({*map(str, ids)}), citizens) if isinstance(ids, list) else citizens
        if item.branch is not None:
            count += count_asked(item.branch.workflow, citizens)
        count += item.interview is not None
    return count


def count_steps(
    workflow: Iterable[Item], step_s: int, where: FieldPath = (), before: Iterable[str] = ()
) -> int:
    """Return how many steps it runs, branches too; FieldError if an item is not possible there."""
    steps, saved = 0, set(before)
    branches: set[str] = set()
    pending_intervention: FieldPath = ()
    for index, item in enumerate(workflow):
        path = (*where, index)
        if item.run is not None:
            try:
                steps += item.run.count(step_s)
            except ConfigError as error:
                raise FieldError(((*path, "run"), str(error))) from None
        steps += item.step or 0
        if item.intervene is not None:
            pending_intervention = (*path, "intervene")
        elif item.run is not None or item.step is not None or item.save is not None:
            pending_intervention = ()
        if item.save is not None:
            if item.save in saved:
                raise FieldError(((*path, "save"), f"{item.save!r} is saved twice"))
            saved.add(item.save)
        if item.branch is not None:
            if item.branch.of not in saved:
                text = f"no state {item.branch.of!r} is saved before it"
                raise FieldError(((*path, "branch", "of"), text))
            if item.branch.name in branches or "/" in item.branch.name:
                text = f"{item.branch.name!r} must have no /, and be of one branch alone"
                raise FieldError(((*path, "branch", "name"), text))
            branches.add(item.branch.name)
            steps += count_steps(item.branch.workflow, step_s, (*path, "branch", "workflow"), saved)
    if steps == 0:
        raise FieldError((where, "the workflow runs no step: it needs a run"))
    if pending_intervention:
        raise FieldError(
            (pending_intervention, "no step is run after it, in which it would be made")
        )
    return steps
