"""The society: a space in virtual time, whose citizens live in steps."""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from moothall import (
    Agent,
    AgentToolbox,
    Approver,
    ConfigError,
    DefinitionError,
    FileError,
    StateError,
)
from moothall.budget import Budget
from moothall.build import (
    NotJSON,
    Record,
    WorkSpan,
    check_boolean,
    check_function,
    check_integer,
    check_text,
    copy_json,
    counted,
    names_checked,
    recorded,
    refuse_on_loop,
    to_its_end,
)
from moothall.journal import Journal
from moothall.society import arguments, checkpoint, columns_first
from moothall.society.checkpoint import KIND, VERSION, SocietyState
from moothall.society.clock import DAY_S, Clock, seconds_of
from moothall.society.decision_log import Decision, decisions
from moothall.society.kernel.commit import CITY_SERVICE, Service
from moothall.society.kernel.intervention import Intervention
from moothall.society.kernel.kept import sets_own
from moothall.society.kernel.lasting_changes import LastingChanges
from moothall.society.kernel.model_calls import CitizenModelCalls
from moothall.society.kernel.router import Interceptor
from moothall.society.live_access import Experiments
from moothall.society.people.params import USUAL_PEOPLE, PeopleParams
from moothall.society.population.engine import Engine, LocalEngine
from moothall.society.population.life import begin_life, set_step_length
from moothall.society.population.population import Population
from moothall.society.population.row_books import RowBooks
from moothall.society.tables import Tables

if TYPE_CHECKING:
    from moothall import Model

MAILBOX: Final = 1_000  # the messages that an agent may receive in a step, by default


@names_checked
class Society(Experiments):
    """Agents that live together in simulated time.

    A step has two stages. First every agent has its turn: it handles the messages of the step
    before, one at a time, then does its own step (`run()`). All agents see the city, the time and
    each other as the step before left them. Then the commit stage settles their wants by the rules
    of `society/kernel/commit.py`, in an order of senders drawn in each step, and writes. So the
    order of turns has no effect.

    Messages and answers of a step are delivered in the next, in that order of their senders. An
    agent that fails loses its turn: its wants are dropped, the failure is logged, counted and kept
    in `failures`, and all others continue. Its sent messages stay sent.

    Args:
        citizens: the agents; or a number of citizens to draw by the seed (`make_people`), or the
            file of a table (`read_people`), both with all blocks; or a `Population`, whose city,
            seed and blocks the society then uses. Those that live by the same shipped rules in a
            `City` are rows of its population, to the same effect, unless there is a model
        city: a `City`, a `Network`, a `Grid`, or None
        seed: the seed of all random numbers
        model: the model, or its name, for citizens without their own model
        engine: the engine that runs the turns
        journal: the journal that records runs, so that they resume after a crash; or its file
        budget: the budget of all calls of models, except those of agents with a `budget`
        approver: as for every space
        services: the services that settle wants: firms, the bank, the government, a feed
        start: when step 0 begins
        facts: facts that hold everywhere: `Facts`, or a function of the `Clock`, such as
            `Weather(…).facts`
        model_timeout_s: the time limit of a call of a model, in seconds
        turn_timeout_s: the time limit of waiting in a turn, in seconds
        ask_once: whether citizens with the same prompt in the same step share one answer
        mailbox: the messages that an agent may receive in a step
        people: the constants that citizens are drawn from, if they are: `PeopleParams(employed=60)`

    Attributes:
        number: the number of the next step
        clock: the time at which the next step begins
        journal: the journal that records runs, or None
        books: the money and places of all
        metrics: a row for each step; in a run with `out` only the last
        failures: the last 100 failures, as `step, agent, what`
        interventions: the given interventions, in order
        changed: the facts and closed places that interventions have left
        fallbacks: how often in this step a model failed or its answer was unusable

    Raises:
        ConfigError: an argument, or a citizen's money or place, is wrong
        DuplicateAgent: two citizens have the same id
    """

    @sets_own
    def __init__(
        self,
        citizens: int | str | PathLike[str] | Population | Iterable[Agent] = (),
        city: Any = None,
        *,
        seed: int = 0,
        model: Model | str | None = None,
        engine: Engine | None = None,
        journal: Journal | str | PathLike[str] | None = None,
        budget: Budget | None = None,
        approver: Approver | None = None,
        services: Iterable[Service] = (),
        start: str | datetime = "2026-01-05T00:00",
        facts: object = None,
        model_timeout_s: float = 60,
        turn_timeout_s: float = 600,
        ask_once: bool = False,
        mailbox: int = MAILBOX,
        people: PeopleParams = USUAL_PEOPLE,
    ) -> None:
        check_integer("seed", seed, 0, 2**64 - 1)
        check_boolean("ask_once", ask_once)
        limits = {"model_timeout_s": model_timeout_s, "turn_timeout_s": turn_timeout_s}
        model = AgentToolbox(model).model
        arguments.check_parts(limits, engine=engine, budget=budget, facts=facts, city=city)
        self.services: dict[str, Service] = arguments.checked_services(services)
        citizens = arguments.listed(citizens)
        population, agents = columns_first.population_of(
            self, citizens, city, seed, people, model, engine
        )
        city, seed = arguments.city_and_seed_of(population, city, seed)
        arguments.check_places(self.services, city)
        super().__init__(approver=approver, mailbox=mailbox)
        self.loop_thread.end_with(self)
        self.city: Any = city
        self.seed: int = seed
        self.clock: Clock = Clock(start)
        self.facts: Any = facts
        self._start_time = self.clock.start.isoformat()
        self._reachable_services = (
            self.services if city is None else {"city": CITY_SERVICE, **self.services}
        )
        self.books: RowBooks = RowBooks(city, self.services, population, seed)
        self.changed: LastingChanges = LastingChanges(city)
        self.default_model: Any = model
        self._engine = LocalEngine() if engine is None else engine
        self.model_calls: CitizenModelCalls = CitizenModelCalls(
            model_timeout_s, budget, reuse=ask_once
        )
        self._turn_timeout_s = turn_timeout_s
        self.journal: Journal | None = (
            None if journal is None else Journal.from_argument(journal, "Society")
        )
        try:
            if len(population):
                self.start_loop()
            begin_life(self, population)
            self.books.is_filled = False
            for agent in agents:
                self.add(agent)
            self.books.population  # noqa: B018 - a status that does not fit is refused now
            self.books.is_filled = True
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the society and its engine."""
        super().close()
        columns_first.let_go(self.books.register)
        self._engine.close()

    # -- citizens in columns ----------------------------------------------------------------------

    @property
    def agents(self) -> Sequence[Any]:
        """The agents, in id order; that of a citizen in columns is made when it is taken, `[n]`."""
        return columns_first.Citizens(self) if self.rows_to_take else super().agents

    def agent_of_row(self, row: int) -> Any:
        """Return a row as an agent."""
        population = self.population
        self.take([population.id_of(row)])
        return population.agents.get(row) or population.handles[row]

    def take(self, ids: Iterable[str] | None = None) -> None:
        """Have agents of citizens that live in columns by the society's own choice; of all."""
        if self.rows_to_take is not None:
            self._call_between_steps(partial(columns_first.take, self, ids))

    def make_agents(self, ids: Iterable[str] | None = None) -> None:
        """Make agents of citizens that live in columns by the society's own choice; of all."""
        if self.rows_to_take is not None:
            self._call_between_steps(partial(columns_first.make_agents_now, self, ids))

    def _call_between_steps(self, function: Callable[[], object]) -> Any:
        """Call a function on the loop where no row has its turn; return what it returns."""

        async def call_between_steps() -> Any:
            async with self._step_lock:
                return function()

        self.start_loop()
        if threading.get_ident() != self.loop_thread.ident:
            return self.loop_thread.run(call_between_steps).result()
        if self._in_step and self.want_tables is None:
            raise StateError(f"step {self.number} is under way: look at citizens between two steps")
        return function()

    async def _make_ready(self) -> None:
        if self.rows_to_take is not None:
            await columns_first.make_ready(self)

    def ids(self, group: str | None = None) -> list[str]:
        """Return the ids of the agents, and of drawn citizens, in the order of their coming."""
        has_columns = not self.is_closed and self.given_population is None and self.has_columns
        return columns_first.ids_of(self) if has_columns and group is None else super().ids(group)

    def remove(
        self, agent: Agent | str | int, *, drain: bool = False, heir: str | int | None = None
    ) -> None:
        """Remove an agent, as from every space; DefinitionError for `drain`.

        `heir`, a citizen or service, gets its money and savings; without one it takes its money.
        """
        if drain:
            raise DefinitionError(
                "a Society delivers messages in its steps: instead of remove(drain=True), run a "
                "step, then remove the agent"
            )
        id = str(agent.id if isinstance(agent, Agent) else agent)
        self._name_heir(id, heir)
        self.take([id])
        super().remove(agent)

    def statistics(self, *, everywhere: bool = False) -> dict[str, Any]:
        """Return what waits and what each agent is doing, as every space does."""
        self.take()
        return super().statistics(everywhere=everywhere)

    def everyone(self) -> Iterator[tuple[str | int, str | None, dict[str, Any]]]:
        """Yield the id, the name and the status of each citizen, in id order."""
        return columns_first.everyone(self)

    def _row_name(self, id: str) -> str:
        population = None if self.given_population is not None else self.rows
        row = None if population is None else population.find_row(id)
        return "" if population is None or row is None else columns_first.name_of(population, row)

    # -- running -----------------------------------------------------------------------------------

    async def run(
        self,
        days: float | None = None,
        step: str | timedelta | int = "15min",
        *,
        steps: int | None = None,
        until: Callable[[dict[str, object]], bool] | None = None,
        run_id: str | None = None,
        save_every: int | None = None,
        progress: Callable[[dict[str, object]], object] | None = None,
        out: str | PathLike[str] | Tables | None = None,
        trajectories: bool | Iterable[str] = False,
    ) -> list[dict[str, Any]]:
        """Run some days or steps.

        With a journal the run is recorded: the same call with the same `run_id`, in a society built
        in the same way, resumes after a crash and reaches the same state, byte by byte.

        With `out`, metrics and messages are written after each step, so memory does not grow with
        the days. After an error or Ctrl-C the tables have all completed steps; a resumed run has
        each step once. Messages of a population's rows are only counted.

        Args:
            days: the number of simulated days; 1 if neither this nor `steps` is given
            step: the length of a step; a later run may have another
            steps: the number of steps, instead of `days`
            until: called with the row of metrics after each step, before `progress`: the run ends
                after the first for which it returns true, and after `days` or `steps` at the latest
            run_id: the run's id in the journal; a new one if left out
            save_every: the steps between two records of the whole state; a day if left out
            progress: called with the row of metrics after each step, which the next one waits for:
                a plain function in a thread, an `async` one on the society's loop, as what a plain
                one returns to be awaited; so a run can pause, or ask citizens by `survey`. A
                resumed run calls it again with the last recorded row, then for each later step
            out: a folder only for this run, for `metrics`, `messages` and `citizens`, as Parquet,
                or as CSV without pyarrow; a resumed run takes the same one; another's is refused
            trajectories: whether `out` also has the table `trajectories`: where each citizen was
                after each step; names of columns, or of values in the status such as
                `needs.hunger`, add these

        Returns:
            the rows of metrics of these steps; with `out` only the last

        Raises:
            ConfigError: an argument is wrong, or is of a recorded run, and there is no journal
            FileError: a table cannot be written; rows written before stay whole
            StateError: all citizens failed in the first step; an earlier step was interrupted;
                money or places were inconsistent
            RunMismatch: another society began the run
            RunHeld: another process or society works on the run
            JournalError: the journal cannot be used
            DefinitionError: a run is under way
        """
        length = seconds_of(step)
        count = arguments.count_steps(length, days, steps)
        period = max(1, DAY_S // length) if save_every is None else save_every
        check_integer("save_every", period, 1, None)
        if run_id is not None:
            check_text("run_id", run_id)
        if self.journal is None and (run_id is not None or save_every is not None):
            raise ConfigError("run_id= and save_every= need a journal: give Society(…, journal=…)")
        check_function("progress=", progress, "row", optional=True)
        check_function("until=", until, "row", optional=True)
        if trajectories is not False and out is None:
            raise ConfigError("trajectories=True writes a table: give out=, its folder, too")
        if not isinstance(out.values if isinstance(out, Tables) else trajectories, bool):
            self.make_agents()  # a status may lack a value that columns have
        rows: list[dict[str, object]] = await self._run_on_loop(
            self._run_recorded, length, count, until, run_id, period, progress, out, trajectories
        )
        return rows

    def run_sync(
        self,
        days: float | None = None,
        step: str | timedelta | int = "15min",
        *,
        steps: int | None = None,
        until: Callable[[dict[str, object]], bool] | None = None,
        run_id: str | None = None,
        save_every: int | None = None,
        progress: Callable[[dict[str, object]], object] | None = None,
        out: str | PathLike[str] | Tables | None = None,
        trajectories: bool | Iterable[str] = False,
    ) -> list[dict[str, Any]]:
        """Call `run` from a script, and wait. RuntimeError: an event loop is running there."""
        refuse_on_loop("run_sync of a Society", "run()")
        options: Any = {"steps": steps, "run_id": run_id, "save_every": save_every, "out": out}
        options |= {"trajectories": trajectories, "until": until}
        return asyncio.run(self.run(days, step, progress=progress, **options))

    async def step(self) -> dict[str, Any]:
        """Run one step of the same length as the last; return its row of metrics."""
        return (await self.run(step=self.clock.step_s, steps=1))[0]

    async def _run_recorded(
        self,
        length: int,
        count: int,
        until: Callable[[dict[str, object]], bool] | None,
        run_id: str | None,
        period: int,
        progress: Callable[[dict[str, object]], object] | None,
        out: str | PathLike[str] | Tables | None,
        trajectories: bool | Iterable[str],
    ) -> list[dict[str, Any]]:
        if self._state is not None:
            raise DefinitionError("the society is running already: wait for that run to end")
        state = self._state = SocietyState(self.number, self.number)
        self.model_calls.prompts_hash = 0
        checkpoint.note_digests(self)
        id = secrets.token_hex(8) if run_id is None else run_id
        if id != self._live_interventions[0]:
            self._live_interventions = (id, [])
        try:
            live = self._live_interventions[1]
            planned = [e for e in self.interventions if all(e is not other for other in live)]
            is_kept = out is not None or self.journal is not None
            program = self._program(length, count, planned) if is_kept else {}
            if not isinstance(out, Tables | None):
                out = Tables(out, Record.fingerprint(**program), trajectories=trajectories)
            if out is not None:
                out.check_owner(id, is_over=self.journal is not None)
            agent_count = len(self.rows or self.ids())
            steps = f"{counted(count, 'step')} of {length} s"
            async with recorded(
                self.journal,
                id,
                KIND,
                "society",
                SocietyState,
                task=f"{steps}, {counted(agent_count, 'agent')}",
                program={"task": steps, **program},  # agents may be born before it is resumed
            ) as record:
                async with self._step_lock:
                    if self.journal is not None:
                        state = self._from_record(record, state, planned)
                        self.model_calls.charge_recorded(record, self.default_model, self.mailboxes)
                    set_step_length(self, length)
                    await record.commit()
                work = partial(self._run_steps, record, state, count, until, period, progress, out)
                if record.over is not None:
                    await work()
                else:
                    owner = None if self.journal is None else record
                    await WorkSpan("workflow", "society", owner).hold(work)
                if record.over is None:
                    await record.end("done")
                return state.rows
        finally:
            self._state, self.model_calls.record = None, CitizenModelCalls.record
            self.books.faults.tell_counts()

    def _from_record(
        self, record: Record[SocietyState], new_state: SocietyState, planned: list[Intervention]
    ) -> SocietyState:
        """Save the first state of a recorded run, or restore its last; return the state."""
        self.model_calls.record = record
        if record.state is None:
            arguments.claim_parts(self)
            checkpoint.save(self, record, new_state)
            return new_state
        state = self._state = record.state
        checkpoint.restore(self, record, state)
        earlier_rows = (row for row in self.metrics if row["step"] < state.first)
        self.metrics: list[dict[str, Any]] = [*earlier_rows, *state.rows]
        for each in new_state.interventions:  # given while the journal was opened
            record.hear(each)
        state.interventions += [*record.received, *new_state.interventions]
        self._live_interventions[1][:] = [Intervention(**each) for each in state.interventions]
        self.interventions: tuple[Intervention, ...] = (*planned, *self._live_interventions[1])
        return state

    async def _run_steps(
        self,
        record: Record[SocietyState],
        state: SocietyState,
        count: int,
        until: Callable[[dict[str, object]], bool] | None,
        period: int,
        progress: Callable[[dict[str, object]], object] | None,
        tables: Tables | None,
    ) -> None:
        last = self.number if state.ended else state.first + count
        arguments.claim_parts(self)
        earlier_count = len(self.metrics) - len(state.rows)
        if tables is not None:
            tables.begin(self, state.rows, last)
        try:
            if state.rows and record.over is None:  # the process may have died before the call
                await self._report_progress(progress, state.rows[-1])
            while self.number < last:
                async with self._step_lock:
                    row = await self._step()
                    if count > 1:
                        self._check_first_step()
                        checkpoint.check_parts(self)
                    state.rows.append(row)
                    if until is not None and until(row):
                        state.ended, last = True, self.number
                    if tables is not None:
                        if tables.trajectories:  # of very many citizens it takes long
                            await to_its_end(asyncio.to_thread(tables.add, row))
                        else:
                            tables.add(row)
                        del self.metrics[earlier_count:-1]
                    is_due = self.number == last or (self.number - state.first) % period == 0
                    if is_due and self.journal is not None:
                        checkpoint.save(self, record, state)
                        await record.commit()
                    if tables is not None and is_due:
                        record.drop(state, "rows")
                await self._report_progress(progress, row)
        except BaseException:
            if tables is not None:
                with suppress(FileError):  # raise the error that stopped the run
                    await to_its_end(asyncio.to_thread(tables.end, self, complete=False))
            raise
        if tables is not None:
            del self.metrics[earlier_count:-1]
            record.drop(state, "rows")
            await to_its_end(asyncio.to_thread(tables.end, self, complete=True))

    async def _report_progress(
        self, progress: Callable[[dict[str, Any]], object] | None, row: dict[str, Any]
    ) -> None:
        if progress is None:
            return
        self._in_progress_call = True
        try:
            # A plain one may wait for a thread that uses the society.
            is_plain = not inspect.iscoroutinefunction(progress)
            result = to_its_end(asyncio.to_thread(progress, row)) if is_plain else progress(row)
            while inspect.isawaitable(result):
                result = await result
        finally:
            self._in_progress_call = False

    def _program(self, length: int, count: int, planned: list[Intervention]) -> dict[str, Any]:
        """Return what must be equal for a society to resume a run: its parts and its time."""
        population, as_agents = (
            self.given_population,
            self.given_population is None and self.has_columns,
        )
        all_agents = ((each.id, each.agent) for each in self.mailboxes)
        members = columns_first.members_as_agents(self) if as_agents else all_agents
        return {
            **arguments.program_of(members, self.city),
            "seed": self.seed,
            "time": [length, count],
            "start": self._start_time,
            # A run of another version is told by its state, which the columns' meaning depends on.
            **({} if population is None else {f"population {VERSION}": population.program()}),
            "services": [[id, type(each).__name__] for id, each in self.services.items()],
            # A part of its own: a run that began before it was recorded goes on.
            "service_settings": [arguments.settings_of(each) for each in self.services.values()],
            "model": getattr(self.default_model, "name", None),
            "interventions": [each.as_json() for each in planned],
        }

    def decisions(
        self,
        citizen: str | int | None = None,
        step: int | None = None,
        *,
        run_id: str | None = None,
    ) -> list[Decision]:
        """Return what citizens have asked their models, with prompt, answer, reason and cost.

        Args:
            citizen: only those of this citizen
            step: only those of this step
            run_id: the run in the journal; the society's last one if left out

        Raises:
            ConfigError: there is no journal, or no run yet
            NoSuchRun: there is no run of that id
        """
        run_id = self._live_interventions[0] if run_id is None else run_id
        if self.journal is None or not run_id:
            raise ConfigError("decisions are looked up in a journal: give journal= and run()")
        return decisions(self.journal, run_id, citizen, step)

    # -- messages, news and state ------------------------------------------------------------------

    def intercept(self, interceptor: Interceptor) -> None:
        """Let a function stop or change messages, in the commit stage and in their order.

        Args:
            interceptor: takes a copy of a message as a dict, and returns the message, changed or
                not, or None to stop it. It may change all but `from`. Interceptors are called in
                the order of these calls. A failing interceptor changes nothing, and is logged.
        """
        check_function("intercept: interceptor", interceptor, "message", plain=True)
        self.make_agents()
        self.interceptors: tuple[Interceptor, ...] = (*self.interceptors, interceptor)

    def announce(self, news: object) -> None:
        """Announce news to all citizens, who perceive it in the next step.

        Raises:
            ConfigError: the news is not JSON data
        """
        try:
            self.news.append(copy_json(news))
        except NotJSON as error:
            raise ConfigError(f"news must be JSON data: {error}") from None

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state between two steps, as JSON data that shares nothing with it.

        Raises:
            StateError: a step is under way, or an agent's state is not JSON data
        """
        state: dict[str, object] = self.on_loop(checkpoint.state_of, self)
        return state

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore a state of a society with the same seed and services.

        Agents that are not in the state leave.

        Raises:
            StateError: it is not such a state, it has other agents, or a step is under way
        """
        copied = json.loads(checkpoint.as_bytes(state, "a state"))
        self.on_loop(checkpoint.load, self, copied)
