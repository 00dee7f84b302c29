"""The workflow of an experiment: its items, and a society that lives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from civitas.clock import DAY_S, seconds_of
from civitas.errors import ConfigError
from civitas.society.experiments.functions import Source, function_of
from civitas.society.experiments.intervention import Intervention
from civitas.society.experiments.survey import Question, Respondent, Survey
from civitas.society.wants import id_order

Where = tuple[str | int, ...]
_KINDS: Final = ("run", "step", "interview", "survey", "intervene", "save", "branch")
_SHOWN: Final = 5
"""So many faults are told at once."""


class FieldError(ConfigError):
    """Fields of an experiment are wrong; `faults` has the path of each, and what is wrong."""

    def __init__(self, *faults: tuple[Where, str]) -> None:
        self.faults = faults[:_SHOWN]
        super().__init__("\n".join(f"{field_path(at)}: {what}" for at, what in self.faults))


def field_path(where: Where) -> str:
    """A path as a person writes it, such as `workflow[2].run.days`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in where)
    return text.removeprefix(".") or "it"


class Row(NamedTuple):
    """What was measured: the condition and branch, after how many steps, what, a number or text."""

    condition: str
    step: int
    metric: str
    value: float | None
    text: str | None = None


class Part(BaseModel):
    """A part of an experiment: it never changes, and has no fields but its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(Part):
    """Live for some time: `days`, `steps`, or a length such as `6h`."""

    days: float | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, ge=1)
    length: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_length(cls, given: Any) -> Any:
        return {"length": given} if isinstance(given, str) else given

    def count(self, step_s: int) -> int:
        """How many steps it has."""
        if len(self.model_fields_set) != 1:
            raise ConfigError("must have days or steps, or be a length such as 6h")
        if self.steps is not None:
            return self.steps
        days = (self.days or 0) * DAY_S
        seconds = days if self.length is None else seconds_of(self.length, "a length")
        if seconds % step_s:
            raise ConfigError(f"{seconds:g} s are not a whole number of steps of {step_s} s")
        return int(seconds) // step_s


class Asked(Part):
    """A question of a survey; its rule is `status.NAME.NAME`, `file.py:function` or a function."""

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    kind: str = "scale"
    choices: tuple[str, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    by: Source | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "text":
            raise ValueError("a survey of an experiment takes no texts: use an interview")
        self.question(None)
        return self

    def question(self, by: Callable[[Respondent], Any] | None) -> Question:
        """The question with its rule."""
        return Question(self.id, self.text, self.kind, self.choices, self.low, self.high, by)


class Surveyed(Part):
    """A survey of all citizens, or of some."""

    name: str = Field(min_length=1)
    questions: list[Asked] = Field(min_length=1)
    citizens: list[str | int] | None = None


class Interviewed(Part):
    """A question to one citizen in free text."""

    citizen: str | int
    question: str


class Payment(Part):
    """A payment of an intervention; `from` or `to` may be `everyone`."""

    sender: str = Field(alias="from")
    to: str
    cents: int = Field(ge=1)


class Changes(Part):
    """What an intervention changes at the next step; `close` and `open` take kinds of places."""

    facts: dict[str, Any] = Field(default_factory=dict)
    close: list[str] = Field(default_factory=list)
    open: list[str] = Field(default_factory=list)
    status: dict[str, Any] = Field(default_factory=dict)
    citizens: list[str | int] | dict[str, Any] | None = None
    pay: list[Payment] = Field(default_factory=list)
    news: list[Any] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.intervention(0, None, ["1"])
        return self

    def intervention(self, step: int, city: Any, citizens: list[str]) -> Intervention:
        """The intervention in a step of a society."""
        kinds = city.kinds() if hasattr(city, "by_kind") else ()

        def places(named: list[str]) -> list[str]:
            return [p for name in named for p in (city.by_kind(name) if name in kinds else [name])]

        def who(name: str) -> list[str]:
            return citizens if name == "everyone" else [name]

        pay = [(a, b, p.cents) for p in self.pay for a in who(p.sender) for b in who(p.to)]
        return Intervention(
            step,
            close=places(self.close),
            open=places(self.open),
            pay=pay,
            **self.model_dump(include={"facts", "status", "citizens", "news"}),
        )


class Branch(Part):
    """Another society, from a saved state, with a workflow; its condition is `CONDITION/NAME`."""

    of: str
    name: str = Field(min_length=1, max_length=100)
    workflow: list[Item] = Field(min_length=1)


class Item(Part):
    """An item of a workflow: one of these fields."""

    run: Run | None = None
    step: int | None = Field(default=None, ge=1)
    interview: Interviewed | None = None
    survey: Surveyed | None = None
    intervene: Changes | None = None
    save: str | None = Field(default=None, min_length=1)
    branch: Branch | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if [getattr(self, kind) is None for kind in _KINDS].count(False) != 1:
            raise ValueError(f"an item has one of {', '.join(_KINDS)}")
        return self


def steps_of(
    workflow: Iterable[Item], step_s: int, where: Where = (), before: Iterable[str] = ()
) -> int:
    """How many steps it lives, branches too; FieldError where an item cannot be done there."""
    steps, saved = 0, set(before)
    for index, item in enumerate(workflow):
        at = (*where, index)
        if item.run is not None:
            try:
                steps += item.run.count(step_s)
            except ConfigError as error:
                raise FieldError(((*at, "run"), str(error))) from None
        steps += item.step or 0
        if item.save is not None:
            if item.save in saved:
                raise FieldError(((*at, "save"), f"{item.save!r} is saved twice"))
            saved.add(item.save)
        if item.branch is not None:
            if item.branch.of not in saved:
                what = f"no state {item.branch.of!r} is saved before it"
                raise FieldError(((*at, "branch", "of"), what))
            steps += steps_of(item.branch.workflow, step_s, (*at, "branch", "workflow"), saved)
    if steps == 0:
        raise FieldError((where, "the workflow lives no step: it needs a run"))
    return steps


class Life:
    """A society that lives a workflow: the rows that are measured, and totals of failures."""

    def __init__(
        self,
        make: Callable[[], Any],
        metrics: Iterable[tuple[str, Source | None]],
        every: int,
        step: str | int,
        folder: Path,
        lived: Callable[[int], None],
        at_end: Callable[[Any], None] | None = None,
    ) -> None:
        self._at_end = at_end
        self._make, self._every, self._step = make, every, step
        self._metrics = [(n, None if by is None else function_of(by, folder)) for n, by in metrics]
        self._folder, self._lived = folder, lived
        self.rows: list[Row] = []
        self.totals: dict[str, Any] = dict.fromkeys(("failures", "fallbacks", "model_calls"), 0)
        self.totals["first_failures"] = []

    async def live(
        self,
        workflow: Iterable[Item],
        condition: str,
        saved: Mapping[str, Any] | None = None,
        start: str = "",
    ) -> None:
        """Live a workflow in a new society, from a saved state or from the start."""
        saved = dict(saved or {})
        async with self._make() as society:
            if start:
                society.load_state_dict(saved[start])
            self._measure(society, condition, {})
            for item in workflow:
                if item.run is not None or item.step is not None:
                    count = item.step or (item.run or Run()).count(seconds_of(self._step))
                    await self._run(society, condition, count)
                elif item.survey is not None:
                    await self._survey(society, condition, item.survey)
                elif item.interview is not None:
                    who, question = item.interview.citizen, item.interview.question
                    said = await society.interview(who, question)
                    name = f"interview {who}: {question} (by {said.source})"
                    self.rows.append(Row(condition, society.number, name, None, str(said)))
                elif item.intervene is not None:
                    everyone = society.books.where if item.intervene.pay else ()
                    ids = sorted(everyone, key=id_order)
                    made = item.intervene.intervention(society.number, society.city, ids)
                    society.intervene(made)
                elif item.save is not None:
                    saved[item.save] = society.state_dict()
                elif item.branch is not None:
                    name = f"{condition}/{item.branch.name}"
                    await self.live(item.branch.workflow, name, saved, item.branch.of)
            if self._at_end is not None and not start:
                self._at_end(society)
            told = [f"step {n}, {who}: {what}" for n, who, what in society.failures]
            self.totals["first_failures"] = (self.totals["first_failures"] + told)[:3]

    async def _run(self, society: Any, condition: str, steps: int) -> None:
        while steps > 0:
            chunk = min(steps, self._every - society.number % self._every)
            rows = await society.run(step=self._step, steps=chunk)
            for name in ("failures", "fallbacks", "model_calls"):
                self.totals[name] += sum(row.get(name, 0) for row in rows)
            self._measure(society, condition, rows[-1])
            self._lived(chunk)
            steps -= chunk

    def _measure(self, society: Any, condition: str, row: Mapping[str, Any]) -> None:
        """Take the metrics down; before the first step only those by functions."""
        for name, by in self._metrics:
            value = row.get(name) if by is None else by(society)
            if by is None and row and name not in row and "." not in name:  # nor of a survey
                raise ConfigError(
                    f"metrics: there is no column {name!r}; there are: "
                    f"{', '.join(key for key in row if key != 'time')}"
                )
            if value is None:
                continue
            if not isinstance(value, int | float) or not abs(value) < float("inf"):
                raise ConfigError(
                    f"metrics: {name} must be a finite number, got {value!r:.80} after step "
                    f"{society.number}"
                )
            self.rows.append(Row(condition, society.number, name, float(value)))

    async def _survey(self, society: Any, condition: str, surveyed: Surveyed) -> None:
        """Ask, and take down the mean answer of each question."""
        questions = [each.question(_rule(each.by, self._folder)) for each in surveyed.questions]
        answers = await society.survey(Survey(surveyed.name, questions), surveyed.citizens)
        means: dict[str, list[Any]] = {}
        for question in questions:
            given = [each for each in answers if each.question == question.id]
            values = [each.value for each in given if each.source != "none"]
            if not values:
                why = given[0].reason if given else "there is no citizen"
                raise ConfigError(f"survey {surveyed.name!r}: nobody answers: {why}")
            if question.kind == "choice":
                for choice in question.choices:
                    means[f"{question.id}={choice}"] = [value == choice for value in values]
            else:
                means[question.id] = values
        by_model = [each.source == "model" for each in answers]
        if any(by_model):
            means["by_model"] = by_model
        for name, each in means.items():
            mean = float(sum(each)) / len(each)
            self.rows.append(Row(condition, society.number, f"{surveyed.name}.{name}", mean))


def _rule(by: Source | None, folder: Path) -> Callable[[Respondent], Any] | None:
    """The rule of a question: a value of the status, or a function."""
    if by is None or not isinstance(by, str) or not by.startswith("status."):
        return None if by is None else function_of(by, folder)

    def rule(respondent: Respondent) -> Any:
        value: Any = respondent.status
        for name in by.split(".")[1:]:
            value = value[name]
        return value

    return rule
