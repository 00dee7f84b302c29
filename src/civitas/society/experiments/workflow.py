"""The workflow of an experiment: its items, and what each does with a society."""

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

_KINDS: Final = ("run", "step", "interview", "survey", "intervene", "save", "branch")


class Row(NamedTuple):
    """A value that was measured.

    Attributes:
        condition: the condition, and after a slash the branch
        step: how many steps were lived
        metric: what was measured
        value: the value; None for a text
        text: what was said in an interview
    """

    condition: str
    step: int
    metric: str
    value: float | None
    text: str | None = None


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(_Part):
    """Live for some time: `days`, `steps`, or a length such as `6h`."""

    days: float | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, ge=1)
    length: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_length(cls, given: Any) -> Any:
        return {"length": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(each is not None for each in (self.days, self.steps, self.length)) != 1:
            raise ValueError("must have days or steps, or be a length such as 6h")
        if self.length is not None:
            seconds_of(self.length, "a length")
        return self

    def count(self, step_s: int) -> int:
        """How many steps it has."""
        if self.steps is not None:
            return self.steps
        seconds = seconds_of(self.length) if self.length else (self.days or 0) * DAY_S
        if seconds % step_s or seconds != int(seconds):
            raise ConfigError(f"{seconds:g} s are not a whole number of steps of {step_s} s")
        return int(seconds) // step_s


class Asked(_Part):
    """A question of a survey, with the fields of `Question`.

    `by` is the rule: `status.NAME.NAME` of the citizen, `file.py:function`, or a function.
    """

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    kind: str = "scale"
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    by: Source | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "text":
            raise ValueError("a survey of an experiment takes no texts: use an interview")
        self.question(None)
        return self

    def question(self, by: Callable[[Respondent], Any] | None) -> Question:
        """The question with its rule."""
        low, high = (
            int(each) if each is not None and each == int(each) else each
            for each in (self.low, self.high)
        )
        return Question(self.id, self.text, self.kind, self.choices, low, high, by)


class Surveyed(_Part):
    """A survey of all citizens, or of some."""

    name: str = Field(min_length=1)
    questions: list[Asked] = Field(min_length=1)
    citizens: list[str | int] | None = None


class Interviewed(_Part):
    """A question to one citizen in free text."""

    citizen: str | int
    question: str


class Payment(_Part):
    """A payment of an intervention; `to` or `sender` may be `everyone`."""

    sender: str = Field(alias="from")
    to: str
    cents: int = Field(ge=1)


class Changes(_Part):
    """What an intervention changes, at the start of the step that comes next.

    As of `Intervention`; `close` and `open` take kinds of places too, and a payment is
    `{from: government, to: everyone, cents: 100}`.
    """

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

        def places(named: list[str]) -> list[str]:
            kinds = () if city is None or not hasattr(city, "by_kind") else city.kinds()
            each = [city.by_kind(name) if name in kinds else [name] for name in named]
            return [place for some in each for place in some]

        pay = [
            (sender, to, each.cents)
            for each in self.pay
            for sender in (citizens if each.sender == "everyone" else [each.sender])
            for to in (citizens if each.to == "everyone" else [each.to])
        ]
        return Intervention(
            step,
            facts=self.facts,
            close=places(self.close),
            open=places(self.open),
            status=self.status,
            citizens=self.citizens,
            pay=pay,
            news=self.news,
        )


class Branch(_Part):
    """Another society from a saved state, which lives a workflow of its own.

    What is measured there has the condition `CONDITION/NAME`.
    """

    of: str
    name: str = Field(min_length=1, max_length=100)
    workflow: list[Item] = Field(min_length=1)


class Item(_Part):
    """An item of a workflow; it has one of these fields.

    Attributes:
        run: lives for some time
        step: lives for so many steps
        interview: asks one citizen
        survey: asks citizens
        intervene: changes the world
        save: keeps the state under a name
        branch: lives something else from a saved state
    """

    run: Run | None = None
    step: int | None = Field(default=None, ge=1)
    interview: Interviewed | None = None
    survey: Surveyed | None = None
    intervene: Changes | None = None
    save: str | None = Field(default=None, min_length=1)
    branch: Branch | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.model_fields_set) != 1 or self.kind is None:
            raise ValueError(f"an item has one of {', '.join(_KINDS)}")
        return self

    @property
    def kind(self) -> str | None:
        """Which of them it is."""
        return next((kind for kind in _KINDS if getattr(self, kind) is not None), None)


class ImpossibleItem(ConfigError):
    """An item of a workflow cannot be done.

    Attributes:
        where: the path of the item
    """

    def __init__(self, where: tuple[str | int, ...], what: str) -> None:
        super().__init__(what)
        self.where = where


def steps_of(workflow: Iterable[Item], step_s: int) -> int:
    """How many steps a workflow lives, those of its branches too.

    Raises:
        ImpossibleItem: an item cannot be done after those before it, or nothing is lived
    """
    steps = _steps(workflow, step_s, set())
    if steps == 0:
        raise ImpossibleItem((), "the workflow lives no step: it needs a run")
    return steps


def _steps(workflow: Iterable[Item], step_s: int, saved: set[str]) -> int:
    steps = 0
    for index, item in enumerate(workflow):
        try:
            if item.run is not None:
                steps += item.run.count(step_s)
        except ConfigError as error:
            raise ImpossibleItem((index, "run"), str(error)) from None
        steps += item.step or 0
        if item.save is not None:
            if item.save in saved:
                raise ImpossibleItem((index, "save"), f"{item.save!r} is saved twice")
            saved.add(item.save)
        if item.branch is not None:
            if item.branch.of not in saved:
                what = f"no state {item.branch.of!r} is saved before it"
                raise ImpossibleItem((index, "branch", "of"), what)
            try:
                steps += _steps(item.branch.workflow, step_s, set(saved))
            except ImpossibleItem as error:
                where = (index, "branch", "workflow", *error.where)
                raise ImpossibleItem(where, str(error)) from None
    return steps


class Life:
    """A society that lives a workflow, and what is measured of it.

    Args:
        make: gives the society, the same each time
        metrics: the name of each, and its function or where it is
        every: after how many steps something is measured
        step: how long a step is
        folder: where functions are
        lived: told how many steps were lived
        rows: where what is measured goes

    Attributes:
        totals: failures, fallbacks and calls of models, in all
        failures: the first failures, in words
    """

    def __init__(
        self,
        make: Callable[[], Any],
        metrics: Iterable[tuple[str, Source | None]],
        every: int,
        step: str | int,
        folder: Path,
        lived: Callable[[int], None],
        rows: list[Row],
    ) -> None:
        self._make = make
        self._metrics = [(n, None if by is None else function_of(by, folder)) for n, by in metrics]
        self._every, self._step = every, step
        self._folder = folder
        self._lived = lived
        self._rows = rows
        self.totals = dict.fromkeys(("failures", "fallbacks", "model_calls"), 0)
        self.failures: list[str] = []

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
            self._measure(society, condition, None)
            for item in workflow:
                if item.run is not None:
                    await self._run(society, condition, item.run.count(seconds_of(self._step)))
                elif item.step is not None:
                    await self._run(society, condition, item.step)
                elif item.survey is not None:
                    await self._survey(society, condition, item.survey)
                elif item.interview is not None:
                    asked = item.interview
                    said = await society.interview(asked.citizen, asked.question)
                    name = f"interview {asked.citizen}: {asked.question} (by {said.source})"
                    self._rows.append(Row(condition, society.number, name, None, str(said)))
                elif item.intervene is not None:
                    ids = sorted(_citizens(society), key=id_order) if item.intervene.pay else []
                    society.intervene(
                        item.intervene.intervention(society.number, society.city, ids)
                    )
                elif item.save is not None:
                    saved[item.save] = society.state_dict()
                elif item.branch is not None:
                    name = f"{condition}/{item.branch.name}"
                    await self.live(item.branch.workflow, name, saved, item.branch.of)
            self.failures += [f"step {n}, {who}: {what}" for n, who, what in society.failures][:5]

    async def _run(self, society: Any, condition: str, steps: int) -> None:
        while steps > 0:
            chunk = min(steps, self._every - society.number % self._every)
            rows = await society.run(step=self._step, steps=chunk)
            for name in self.totals:
                self.totals[name] += sum(row.get(name, 0) for row in rows)
            self._measure(society, condition, rows[-1])
            self._lived(chunk)
            steps -= chunk

    def _measure(self, society: Any, condition: str, row: Mapping[str, Any] | None) -> None:
        """Take the metrics down; before the first step only those by functions."""
        for name, by in self._metrics:
            if by is not None:
                value = by(society)
                if value is None:
                    continue
            elif row is None or "." in name:  # what a survey asks is taken down by the survey
                continue
            elif name not in row:
                there = ", ".join(key for key in row if is_number(row[key]))
                raise ConfigError(f"metrics: there is no column {name!r}; there are: {there}")
            else:
                value = row[name]
            if not is_number(value):
                raise ConfigError(
                    f"metrics: {name} must be a finite number, got {value!r:.80} after step "
                    f"{society.number}"
                )
            self._rows.append(Row(condition, society.number, name, float(value)))

    async def _survey(self, society: Any, condition: str, surveyed: Surveyed) -> None:
        questions = [each.question(_rule(each.by, self._folder)) for each in surveyed.questions]
        answers = await society.survey(Survey(surveyed.name, questions), surveyed.citizens)
        for question in questions:
            given = [each for each in answers if each.question == question.id]
            values = [each.value for each in given if each.source != "none"]
            if not values:
                raise ConfigError(
                    f"survey {surveyed.name!r}: nobody answers {question.id!r}: "
                    f"{given[0].reason if given else 'there is no citizen'}"
                )
            name = f"{surveyed.name}.{question.id}"
            means = {name: values}
            if question.kind == "choice":
                means = {f"{name}={c}": [v == c for v in values] for c in question.choices}
            for metric, each in means.items():
                mean = float(sum(each)) / len(each)
                self._rows.append(Row(condition, society.number, metric, mean))
        by_model = sum(each.source == "model" for each in answers)
        if by_model:
            part = by_model / len(answers)
            self._rows.append(Row(condition, society.number, f"{surveyed.name}.by_model", part))


def _citizens(society: Any) -> list[str]:
    """The ids of the citizens."""
    return list(society.books.where)


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


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and abs(value) < float("inf")
