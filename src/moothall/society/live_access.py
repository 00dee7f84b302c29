"""The part of a society that experiments use: ask citizens, and intervene."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moothall import (
    Agent,
    AgentToolbox,
    ConfigError,
    DefinitionError,
    ModelError,
    SpaceClosed,
    StateError,
)
from moothall.build import (
    AnswerSchema,
    LoopThread,
    Mailbox,
    NotJSON,
    Record,
    SafeHTML,
    UnreadableText,
    Unusable,
    ask_value,
    check_function,
    copy_json,
    counted,
    nearest,
    recorded,
    side_by_side,
)
from moothall.journal import Journal
from moothall.society.checkpoint import SocietyState
from moothall.society.clock import WEEKDAYS
from moothall.society.kernel.intervention import Intervention, checked_list, has_values, nobody_has
from moothall.society.kernel.model_calls import CitizenModel, CitizenModelCalls
from moothall.society.kernel.perception import RULES, Perception, View
from moothall.society.kernel.router import SocietyMailbox
from moothall.society.kernel.wants import id_order
from moothall.society.map_positions import (
    Whereabouts,
    act_counts,
    locate_citizens,
    place_positions,
    status_levels,
    status_numbers,
    topics_of,
)
from moothall.society.population.life import answers_of
from moothall.society.population.row_messages import messages_of
from moothall.society.society_step import Steps
from moothall.society.survey import (
    Interview,
    Question,
    Respondent,
    Survey,
    SurveyAnswer,
    SurveyState,
    describe_itself,
)

if TYPE_CHECKING:
    from moothall import Model
    from moothall.society.arrays import Array

_JSON_OBJECT: Final = AnswerSchema({"type": "object"})
_CHOSEN_PER_YIELD: Final = 200  # so many citizens are looked at; then the loop does what else waits
_ASKED_PER_YIELD: Final = 1000  # so many citizens are asked; then the loop does what else waits


Whom: TypeAlias = Iterable[str | int] | Mapping[str, Any] | Callable[[Respondent], object] | None
"""Whom a survey asks: ids, values of a status, or what is true of a `Respondent`; all if None."""


class Experiments(Steps):
    """The part of a society that experiments use; `Society` is one."""

    journal: Journal | None
    _state: SocietyState | None = None  # the state of the run that is under way
    _in_progress_call = False  # whether the run's `progress` is being called
    _live_interventions: tuple[str, list[Intervention]] = ("", [])
    """The id of the last run, and the interventions that were given while it was under way."""

    def __repr__(self) -> str:
        if self.is_closed:
            return super().__repr__()
        return f"<{type(self).__name__}, {', '.join(self._in_words().values())}>"

    def _repr_html_(self) -> str:
        return SafeHTML.facts(self._in_words() | {"city": self.city, "seed": self.seed})

    def _in_words(self) -> dict[str, str]:
        """Return its time and its size, by name."""
        clock = self.clock
        return {
            "time": f"day {clock.day + 1}, {WEEKDAYS[clock.weekday]} {clock.moment:%H:%M}",
            "citizens": counted(len(self.agents), "citizen"),
            "steps": counted(self.number, "step"),
        }

    @cached_property
    def _place_positions(self) -> Any:
        return place_positions(self.city)

    def attach(self, agent: Agent) -> Mailbox:
        """Give an agent its mailbox, and enter it into the books."""
        if self._state is None:
            return super().attach(agent)
        # A run reads and changes the same books on its loop.
        mailbox: Mailbox = self.loop_thread.call(super().attach, agent)
        return mailbox

    async def _run_on_loop(self, function: Callable[..., Any], *args: object) -> Any:
        """Await a function on the society's loop; if cancelled, wait until it has ended there."""
        self.start_loop()
        if LoopThread.is_here():
            if self._in_progress_call and threading.get_ident() == self.loop_thread.ident:
                return await function(*args)  # `progress` asks between two steps, on this loop
            raise DefinitionError("a society is run from outside: an agent cannot await a step")
        tasks: list[Any] = []

        async def on_loop() -> Any:
            tasks.append(asyncio.current_task())
            return await function(*args)

        async def wait_until_done() -> None:
            if tasks:
                await asyncio.wait(tasks)

        try:
            return await asyncio.wrap_future(self.loop_thread.run(on_loop))
        except asyncio.CancelledError:
            with suppress(SpaceClosed):  # the society's own loop cancels a step
                await asyncio.wrap_future(self.loop_thread.run(wait_until_done))
            raise

    def on_loop(self, function: Callable[..., object], *args: object) -> Any:
        """Call a function on the society's loop between two steps; return what it returns."""
        self.start_loop()

        def call() -> Any:
            if self._in_step:
                raise StateError(f"step {self.number} is under way: wait for it")
            return function(*args)

        return self.loop_thread.call(call)

    # -- what is asked and changed -----------------------------------------------------------------

    async def survey(
        self,
        survey: Survey,
        citizens: Whom = None,
        *,
        run_id: str | None = None,
        model: Model | str | None = None,
    ) -> list[SurveyAnswer]:
        """Ask citizens between two steps; that changes nothing in the society.

        During a run, the survey waits for the end of the step, and the next step waits for it. The
        run's `progress` may await it.

        A citizen with a model is asked once, by a prompt with all questions and the schema of the
        answers, within the society's limits of time and budget. If the model fails, or an answer
        is not of the question's type, the question's rule answers, and the citizen is counted in
        `fallbacks`. With a journal, the survey is a run of its own.

        Args:
            survey: the questions
            citizens: the ids of the citizens to ask; or a dict, such as `{"work": "office-1"}`, for
                all whose status has these values; or a plain function of a `Respondent`, for all
                of whom it is true; all citizens if left out
            run_id: the run's id in the journal; an ended survey returns its answers again
            model: the model, or its name, that answers for each citizen by its state, also in a
                town that lives by rules; a citizen's own model if left out

        Returns:
            the answers by citizen in id order, then in the order of the questions

        Raises:
            ConfigError: `survey` is not a Survey, or there is no such citizen, or no citizen's
                status has the values
            RunMismatch: another survey began the run
        """
        answers: list[SurveyAnswer] = await self._run_on_loop(
            self._survey, survey, citizens, run_id, AgentToolbox(model).model
        )
        return answers

    async def interview(
        self,
        citizen: str | int,
        question: str,
        *,
        run_id: str | None = None,
        model: Model | str | None = None,
    ) -> Interview:
        """Ask one citizen in free text, as a survey does; a rule answers with its state and plan.

        Args:
            citizen: its id
            question: the question
            run_id: as of `survey`
            model: as of `survey`

        Returns:
            the answer; `source` and `reason` are those of `SurveyAnswer`
        """
        survey = Survey("interview", [Question("answer", question, by=describe_itself)])
        (answer,) = await self.survey(survey, [citizen], run_id=run_id, model=model)
        return Interview(answer.value or "", answer.source, answer.reason)

    def positions(self) -> Whereabouts | None:
        """Return where citizens are and what they do now; from any thread, at any time.

        A citizen on the way is on the straight line between the two places. The call waits for
        the society's loop, which runs it between two turns of a step; for 10,000 citizens 10 ms.

        Returns:
            the positions for a map, on a `Plane` those of the columns `x` and `y`, in a network
            those by which it is drawn; None if there are none
        """
        self.start_loop()
        # Without a population, a city of one's own may grow.
        spots = place_positions(self.city) if self.rows is None else self._place_positions
        positions: Whereabouts | None = self.loop_thread.call(locate_citizens, self, spots)
        return positions

    def act_counts(self) -> list[int]:
        """Return the number of citizens at each act of `Whereabouts`, in its order."""
        return act_counts(self)

    def status_numbers(self) -> dict[str, str]:
        """Return the names for people of the numbers in a citizen's status, by their paths.

        A path is one such as `money`, `needs.hunger` or `opinions.music`, or a column's name.
        """
        return status_numbers(self)

    def levels(self, path: str) -> Array:
        """Return a number of each citizen's status, in id order; NaN where there is none.

        Args:
            path: a path of `status_numbers`
        """
        return status_levels(self, path)

    @property
    def topics(self) -> Sequence[str]:
        """The topics of which citizens have opinions."""
        return topics_of(self)

    def respondent(self, citizen: str | int) -> Respondent:
        """Return copies of what a citizen is now; from any thread, at any time, as `positions`.

        Raises:
            ConfigError: there is no such citizen
            StateError: its state is not JSON data
        """
        self.start_loop()

        def copy_respondent() -> Respondent:
            ((id, mailbox),) = self._to_ask([citizen]).items()
            return self._respondent(id, mailbox, self._view_now())

        respondent: Respondent = self.loop_thread.call(copy_respondent)
        return respondent

    def _to_ask(self, citizens: Iterable[str | int] | None) -> dict[str, SocietyMailbox | None]:
        """Return the citizens to ask, in id order, with their mailboxes; rows have none."""
        mailboxes = {mailbox.id: mailbox for mailbox in self.citizen_mailboxes}
        existing = self.books.where
        ids: Iterable[str] = existing
        if citizens is not None:
            ids = sorted({str(id) for id in checked_list(citizens, "citizens")}, key=id_order)
            for id in ids:
                if id not in existing:
                    example = next(iter(existing), 1)
                    raise ConfigError(
                        f"there is no citizen {id!r:.80} to ask: give an id, such as {example}"
                    )
        return {id: mailboxes.get(id) for id in ids}

    def intervene(self, intervention: Intervention) -> None:
        """Change the world at the start of a step to come.

        Interventions given before a run are part of how the society is made, as its citizens are:
        a resumed run must have the same ones, and makes those that were not made yet. The run
        records interventions given during it, and has them when it is resumed. A saved state
        holds what interventions have changed. So another society that loads the state and has
        other interventions is a branch, which differs from their step on.

        Raises:
            ConfigError: its step is past or has begun, or it names an unknown place or need
            JournalError: it cannot be recorded in the run
        """
        self.start_loop()
        self.loop_thread.call(self._intervene, intervention)

    def _intervene(self, intervention: Intervention) -> None:
        if not isinstance(intervention, Intervention):
            raise ConfigError(f"intervene takes an Intervention, got {intervention!r:.80}")
        number, clock = self.number, self.clock
        if self._in_step:
            number, clock = number + 1, clock.after()
        if intervention.is_past(number, clock):
            raise ConfigError(f"the intervention is past: step {number} comes next")
        self.changed.check(intervention)
        self._check_needs(intervention.status.get("needs"))
        self.interventions: tuple[Intervention, ...] = (*self.interventions, intervention)
        if self._state is not None:
            self._live_interventions[1].append(intervention)
            self._state.interventions.append(intervention.as_json())
            self.model_calls.record.hear(intervention.as_json())
            self.model_calls.record.commit_now()  # before the step in which it is made

    def _check_needs(self, values: object) -> None:
        """Check that somebody has the needs that an intervention sets. Raises ConfigError."""
        if not isinstance(values, Mapping):
            return
        agents = [mailbox.agent for mailbox in self.citizen_mailboxes]
        blocks = [*self.population.blocks, *(block for each in agents for block in each.blocks)]
        names = {name for block in blocks for name in getattr(block, "kinds", ())}
        names.update(name for each in agents for name in each.memory.status.get("needs", ()))
        for name in values if names else ():
            if name not in names:
                raise ConfigError(
                    f"status: there is no need {name!r}{nearest(name, sorted(names))}"
                )

    async def _choose_citizens(self, citizens: Whom) -> dict[str, SocietyMailbox | None]:
        """Return the citizens to ask, of whom a dict or a function chooses."""
        if not isinstance(citizens, Mapping) and not callable(citizens):
            return self._to_ask(citizens)
        if callable(citizens):
            check_function("citizens", citizens, "respondent", plain=True)
        view, chosen = self._view_now(), dict[str, SocietyMailbox | None]()
        for number, (id, mailbox) in enumerate(self._to_ask(None).items()):
            if number % _CHOSEN_PER_YIELD == 0:
                await asyncio.sleep(0)
            person = self._respondent(id, mailbox, view)
            if citizens(person) if callable(citizens) else has_values(person.status, citizens):
                chosen[id] = mailbox
        if not chosen and not callable(citizens):
            raise ConfigError(nobody_has(citizens))
        return chosen

    async def _survey(
        self, survey: Survey, citizens: Whom, run_id: str | None, model: object
    ) -> list[SurveyAnswer]:
        if not isinstance(survey, Survey):
            raise ConfigError(
                f'survey takes a Survey, such as Survey("mood", [Question(…)]), got {survey!r:.80}'
            )
        async with self._step_lock:
            mailboxes = await self._choose_citizens(citizens)
            program = {
                "seed": self.seed,
                "step": self.number,
                "survey": [survey.name, survey.schema],
                "citizens": list(mailboxes),
                "model": getattr(model or self.default_model, "name", None),
            }
            async with recorded(
                self.journal,
                secrets.token_hex(8) if run_id is None else run_id,
                "Survey",
                "society",
                SurveyState,
                task=f"{survey.name}: {counted(len(mailboxes), 'citizen')}",
                program=program,
            ) as record:
                if self.journal is not None:
                    self.model_calls.charge_recorded(
                        record, model or self.default_model, self.mailboxes
                    )
                if record.state is not None:
                    return [SurveyAnswer(*each) for each in record.state.answers]
                answers = await self._answers(survey, mailboxes, record, model)
                record.save(SurveyState([list(each) for each in answers]))
                await record.end("done")
                return answers

    async def _answers(
        self,
        survey: Survey,
        mailboxes: dict[str, SocietyMailbox | None],
        record: Record[Any],
        model: object,
    ) -> list[SurveyAnswer]:
        """Ask citizens side by side, at most the engine's `concurrency` at a time."""
        calls = CitizenModelCalls(
            self.model_calls.timeout_s, self.model_calls.budget, reuse=self.model_calls.reuse
        )
        calls.begin(self.number)
        calls.record = record
        view = self._view_now()
        # Those of a batch are asked at once.
        is_batch = getattr(self.default_model if model is None else model, "batch", False)
        limit = len(mailboxes) or 1 if is_batch else getattr(self._engine, "concurrency", 64)
        slots, chunk = asyncio.Semaphore(limit), max(limit, _ASKED_PER_YIELD)

        async def ask(id: str, mailbox: SocietyMailbox | None) -> list[SurveyAnswer]:
            async with slots:
                return await self._ask(id, mailbox, survey, calls, view, model)

        items, answers = list(mailboxes.items()), list[SurveyAnswer]()
        for start in range(0, len(items), chunk):
            for each in await side_by_side([ask(*item) for item in items[start : start + chunk]]):
                answers += each
        return answers

    async def _ask(
        self,
        id: str,
        mailbox: SocietyMailbox | None,
        survey: Survey,
        calls: CitizenModelCalls,
        view: View,
        model: object,
    ) -> list[SurveyAnswer]:
        """Return the answers of one citizen; a row of a population has no model of its own."""
        citizen: Any = SimpleNamespace(id=id, budget=None, llm=None, params=None)
        if mailbox is not None:
            citizen = mailbox.agent
        respondent = self._respondent(id, mailbox, view)
        reply: dict[str, Any] = {}  # the last object: the questions that it answers well count
        failed = ""

        def read(text: str) -> None:
            nonlocal reply
            reply = _JSON_OBJECT.parse(text)
            faults = (each.fault(reply.get(each.id)) for each in survey.questions)
            if reasons := [each for each in faults if each]:
                raise UnreadableText(f"cannot be used: {'; '.join(reasons)}")

        if model is None and citizen.llm is not None:
            model = citizen.llm.model
        if model is not None:
            citizen_model = CitizenModel(calls, citizen, model)
            rules = getattr(citizen.params, "decision_prompt", RULES)
            try:
                await ask_value(
                    citizen_model, survey.prompt(respondent, rules), survey.schema, read
                )
            except Unusable as error:
                failed = "" if reply else f"the model's answer {error}"
            except ModelError as error:
                failed = "" if reply else str(error)
        answers = []
        for question in survey.questions:
            reason = failed or (question.fault(reply.get(question.id)) if model is not None else "")
            if model is not None and not reason:
                value, source = reply[question.id], "model"
            else:
                value, fault = question.by_rule(respondent)
                source = "none" if fault else "rule"
                reason = "; ".join(each for each in (reason, fault) if each)
            answers.append(SurveyAnswer(id, question.id, value, source, reason, self.number))
        if model is not None and any(each.source != "model" for each in answers):
            self.fallbacks: int = self.fallbacks + 1
            calls.fell_back(id, answers[0].reason)
        return answers

    def _respondent(self, id: str, mailbox: SocietyMailbox | None, view: View) -> Respondent:
        if mailbox is None:
            population: Any = self.population
            row = population.row_of(id)
            handle = population.handles.get(row)
            events = () if handle is None else handle.memory.stream
            status, stream = self._copied_json(id, population.status_of(row), events)
            answers = tuple(answers_of(self.books, row))
            messages = [each.envelope.to_dict() for each in messages_of(self, row)]
            parts = (view, id, status, status["place"], messages, answers)
            perceived = Perception(*parts, name_of=self._name_of)
            return Respondent(id, self._name_of(id), status, stream, perceived)
        citizen: Any = mailbox.agent
        status, stream = self._copied_json(id, citizen.memory.status, citizen.memory.stream)
        messages = [each.envelope.to_dict() for each in mailbox.mail]
        parts = (view, id, status, self.books.where[id], messages, tuple(mailbox.answers))
        perceived = Perception(*parts, name_of=self._name_of)
        return Respondent(id, citizen.name or "", status, stream, perceived)

    @staticmethod
    def _copied_json(id: str, status: dict[str, Any], stream: Iterable[object]) -> tuple[Any, Any]:
        """Return copies of a status and a stream. Raises StateError: one is no JSON data."""
        try:
            return copy_json(status), copy_json([*stream])
        except NotJSON as error:
            raise StateError(f"the state of agent {id!r} must be JSON data: {error}") from None
