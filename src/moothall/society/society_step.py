"""One step of a society: turns, the commit stage, and agents that come or leave in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from moothall import (
    Agent,
    ConfigError,
    DefinitionError,
    DuplicateAgent,
    InvalidArguments,
    StateError,
)
from moothall.build import Delivery, Mailbox, Router, Space, WorkSpan
from moothall.society.blocks.row_block import check_for_agent
from moothall.society.clock import Clock
from moothall.society.columns.lives import Changes
from moothall.society.columns.want_table import Say, Table
from moothall.society.kernel.citizen import CitizenAgent, CitizenMemory
from moothall.society.kernel.commit import CITY_SERVICE, Service, Submission
from moothall.society.kernel.draw import turn_key
from moothall.society.kernel.faults import fault_in_words
from moothall.society.kernel.intervention import Intervention
from moothall.society.kernel.kept import Token
from moothall.society.kernel.lasting_changes import LastingChanges
from moothall.society.kernel.model_calls import CitizenModel, CitizenModelCalls
from moothall.society.kernel.perception import Perception, View
from moothall.society.kernel.router import (
    CitizenTurn,
    Interceptor,
    SentItem,
    SocietyMailbox,
    SocietyRouter,
)
from moothall.society.kernel.wants import Move, Pay, Want, help_of, want_of
from moothall.society.metrics import METRICS, Measure
from moothall.society.population import life
from moothall.society.population.changing import change_rows
from moothall.society.population.engine import Engine
from moothall.society.population.population import Population
from moothall.society.population.row_books import RowBooks
from moothall.society.population.row_messages import deliver_to_rows, split_utterances
from moothall.society.population.together import prepare_together

logger: logging.Logger = logging.getLogger("moothall.society")

_MAX_FAILURES: Final = 100  # the failures kept as text; all are counted
_MAX_LOGGED: Final = 10  # of the failures of an intervention, so many are logged


class Steps(Space):
    """A space in virtual time; `Society` runs and records its steps."""

    mailbox_type: type[Mailbox] = SocietyMailbox

    city: Any
    seed: int
    clock: Clock
    facts: Any
    services: dict[str, Service]
    _reachable_services: dict[str, Service]
    """The receivers besides agents: the services, and the city, which settles `Move`."""
    number: int = 0
    fallbacks: int = 0
    books: RowBooks
    # Of who may be a row: `Society` has them by `columns_first`.
    everyone: Any
    make_agents: Any
    take: Any
    _make_ready: Any
    _row_name: Any
    interventions: tuple[Intervention, ...] = ()
    changed: LastingChanges
    default_model: Any
    _engine: Engine
    model_calls: CitizenModelCalls
    _turn_timeout_s: float
    interceptors: tuple[Interceptor, ...] = ()
    _in_step = False
    want_tables: dict[type[Want], Table] | None = (
        None  # what rows want, while agents have their turns
    )
    broken: str = ""  # why no further step can be taken
    first_digests: dict[tuple[str, str], object] | None = None  # what no state has, as it began

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.token: Token = Token()
        self.news: list[Any] = []
        self.metrics: list[dict[str, Any]] = []
        self.failures: list[tuple[int, str, str]] = []
        self.unmade: list[tuple[int, str]] = []  # what interventions could not change: step, why
        self._step_lock = asyncio.Lock()  # held by a step, and by work between two steps
        self._sorted_mailboxes: list[SocietyMailbox] | None = []
        self._arriving: list[SocietyMailbox] = []
        self._leaving_ids: list[str] = []
        self._heirs: dict[str, str | None] = {}  # of who is being removed
        self.new_agent_rows: list[int] = []  # the rows that became agents after their turn

    # -- one step ----------------------------------------------------------------------------------

    async def _step(self) -> dict[str, Any]:
        """Take a step and return its row, in a span of its own."""
        span = WorkSpan("part", "invoke_workflow", self, str(self.number))
        self.model_calls.span = span
        try:
            return await span.hold(self._take_step)
        finally:
            self.model_calls.span = None

    async def _take_step(self) -> dict[str, Any]:
        if self.broken:
            raise StateError(
                f"{self.broken}: resume from its journal (the same call with the same run_id), or "
                "from a state by load_state_dict"
            )
        router = self.router
        await self._wait_for_arrivals()
        await self._make_ready()
        self.broken = f"step {self.number} was broken off"
        self._in_step = True
        self.books.faults.step_failures.clear()
        self.fallbacks = 0
        self.model_calls.begin(self.number)
        try:
            self._intervene_now()
            sent = router.collect(self.interceptors)  # messages sent since the last step
            sent = self._sort_by_turn(sent)
            delivered = router.deliver(sent)
            tables: dict[type[Want], Table] = {}
            view = self._view_now()
            del self.news[: len(view.news)]  # later announcements are for the next step
            if self.has_columns:
                delivered += deliver_to_rows(self, sent, True)
                router.is_at_own_work = True  # calls of numpy may keep the interpreter for seconds
                tables = await life.run_population(self.population, view, self.books, self._engine)
                router.is_at_own_work = False
            self.want_tables = tables
            with_turns = self._perceive(view)
            prepare_together(self.population, view, with_turns)
            await self._engine.run(with_turns, router)
            await self._make_ready()
            router.is_at_own_work = True
            to_services = [s for s in sent if s.envelope.to in self._reachable_services]
            row = self._commit(delivered, to_services, tables)
        except asyncio.CancelledError:
            await router.break_off()
            raise
        finally:
            router.is_at_own_work = False
            self._in_step, self.want_tables = False, None
        self.broken = ""
        return row

    async def _wait_for_arrivals(self) -> None:
        """Wait for the `after_add` of new agents."""
        for mailbox in self.mailboxes:
            if mailbox.arrival is not None:
                if not mailbox.arrival.answered:
                    arrived = asyncio.Event()
                    mailbox.arrival.on_end(arrived.set)
                    await arrived.wait()
                mailbox.arrival = None

    def _intervene_now(self) -> None:
        for each in self.interventions:
            faults = each.change(self) if each.falls_in(self.number, self.clock) else []
            for fault in faults:
                self.books.faults.add((), "intervention", self.number, fault)
            rest = [f"{len(faults) - _MAX_LOGGED:,} others"] if len(faults) > _MAX_LOGGED else []
            for fault in [*faults[:_MAX_LOGGED], *rest]:  # of very many citizens, many cannot pay
                logger.warning("intervention in step %d: %s", self.number, fault)

    def _view_now(self) -> View:
        """Return the view that all citizens share in the next step."""
        clock, facts = self.clock, self.facts
        return View(
            step=self.number,
            clock=clock,
            facts=self.changed.with_facts(facts(clock) if callable(facts) else facts),
            city=self.city,
            seconds=clock.step_s,
            time=clock.time,
            news=tuple(self.news),
            at=self.books.at,
            lasted=self.books.seconds,
        )

    def _perceive(self, view: View) -> list[SocietyMailbox]:
        """Set every citizen's perception; return the mailboxes that have a turn."""
        population, with_turns = self.population, list[SocietyMailbox]()
        numbers = population.arrays["place"].tolist() if "place" in population.arrays else None
        for mailbox in self.mailboxes:
            agent = mailbox.agent
            mail = mailbox.mail
            if isinstance(agent, CitizenAgent):
                messages = [each.envelope.to_dict() for each in mail] if mail else ()
                id = mailbox.id
                if (status := population.views.get(id)) is None:  # it came while rows had turns
                    continue
                number, answers = -1 if numbers is None else numbers[status.row], mailbox.answers
                place = None if number < 0 else population.places[number]
                agent.perceived = Perception(
                    view, id, status, place, messages, answers, name_of=self._name_of
                )
                mailbox.answers = ()
            if mailbox.takes_steps or mail:
                with_turns.append(mailbox)
        return with_turns

    def _on_turn_end(self, turn: CitizenTurn, error: BaseException | None) -> None:
        mailbox = turn.mailbox
        if error is None or not mailbox.open or turn.is_cancelling or self.router.ending:
            return
        mailbox.wants = mailbox.wants and []  # None: it is not in `router.wanting`
        if turn.is_late:
            error = TimeoutError(f"its turn waited longer than {self._turn_timeout_s} s")
        text, place = fault_in_words(error)
        self._fail(mailbox, text, "lost its turn", place)
        logger.debug("agent %r, step %d", mailbox.id, self.number, exc_info=error)

    def _fail(
        self, mailbox: SocietyMailbox, text: str, manner: str = "failed", place: str = ""
    ) -> None:
        manner = f"agent {mailbox.id!r} {manner}"
        self.books.faults.add(mailbox.rank, mailbox.id, self.number, text, manner, place)

    def _check_first_step(self) -> None:
        """Raise StateError if all citizens have failed in the first step: none has lived."""
        if self.number != 1 or len(self.citizen_mailboxes) < len(self.population):
            return
        failed = {source for _, source, _ in self.books.faults.step_failures}
        citizens = [each.id for each in self.citizen_mailboxes if each.takes_steps]
        if citizens and failed.issuperset(citizens):
            faults = "; ".join(str(each) for each in [*self.books.faults.by_key.values()][:3])
            raise StateError(f"all {len(citizens):,} citizens failed in the first step: {faults}")

    def _commit(
        self, delivered: int, to_services: list[SentItem], tables: dict[type[Want], Table]
    ) -> dict[str, Any]:
        """Run the commit stage: settle, write, deliver; return the row of metrics."""
        router, books = self.router, self.books
        self._update_membership()
        books.step, books.clock, books.seconds = self.number, self.clock, self.clock.step_s
        total = books.total
        for mailbox in self.citizen_mailboxes:
            memory, status = cast(Any, mailbox.agent).memory, self.population.views.get(mailbox.id)
            if status is not None and memory.status is not status:
                memory.status = status
                fault = "it changed its own status for another dict"
                self._fail(mailbox, f"{fault}, which only the commit stage may change: undone")
        utterances = tables.pop(Say, None)
        if utterances is not None:
            utterances = split_utterances(self, utterances)
        sent = router.collect(self.interceptors)
        to_services += [each for each in sent if each.envelope.to in self._reachable_services]
        self._settle(to_services, tables)
        while self.new_agent_rows:
            row_number = self.new_agent_rows.pop()
            new_mailbox: Any = self.population.agents[row_number].space_mailbox
            new_mailbox.answers = life.answers_of(books, row_number)
        books.end_step()
        books.check(total)
        if to_services:  # deliver the services' answers in the next step too
            sent = [each for each in sent if each.envelope.to not in self._reachable_services]
            sent += router.collect(self.interceptors)
        sent = self._sort_by_turn(sent)
        delivered += router.deliver(sent)
        delivered += deliver_to_rows(self, sent, False, utterances)
        if self._arriving or self._leaving_ids:  # by a service, after the wants of the step
            self._update_membership()
            total = books.total
        # In id order, independent of the order of turns.
        books.faults.step_failures.sort(key=lambda each: each[0])
        failed = [(self.number, source, text) for _, source, text in books.faults.step_failures]
        self.failures = [*self.failures, *failed][-_MAX_FAILURES:] if failed else self.failures
        change_rows(self)
        row = self._metrics_row(total, delivered, len(failed))
        self.metrics.append(row)
        self.number += 1
        self.clock = self.clock.after()
        return row

    def _settle(self, to_services: list[SentItem], tables: dict[type[Want], Table]) -> None:
        """Settle the wants of agents, of rows (in `tables`) and of messages to services."""
        router = self.router
        wanting_mailboxes, router.mailboxes_with_wants = router.mailboxes_with_wants, []
        wants: list[Submission] = []
        for mailbox in wanting_mailboxes:
            own_wants, mailbox.wants = mailbox.wants or (), None
            if own_wants and mailbox.open:
                answers: list[Any] = [None] * len(own_wants)
                mailbox.answers = () if mailbox.is_row else answers
                wants += [
                    Submission(mailbox.id, want, (answers, number))
                    for number, want in enumerate(own_wants)
                ]
        for sent in to_services:
            receiver = self._reachable_services[sent.envelope.to]
            try:
                if sent.envelope.name == "help":
                    kinds = (Move,) if receiver is CITY_SERVICE else receiver.takes
                    router.answer(sent, help_of(kinds, sent.envelope.args), None)
                    continue
                want = want_of(sent.envelope.name, sent.envelope.args)
            except InvalidArguments as error:
                router.answer(sent, None, error)
                continue
            by_books = isinstance(want, Move | Pay) and type(want.to) is str  # not a service
            service = None if by_books else receiver
            wants.append(Submission(sent.envelope.sender, want, sent, service))
        for token, answer in self.books.settle(wants, tables):
            if type(token) is SentItem:
                value = {"done": answer.done, "reason": answer.reason, "value": answer.value}
                router.answer(token, value, None)
            else:
                token[0][token[1]] = answer

    def _sort_by_turn(self, sent: list[SentItem]) -> list[SentItem]:
        """Return messages in the order in which their senders are heard in this step."""
        return sorted(sent, key=lambda each: turn_key(self.seed, each.envelope.sender, self.number))

    def _metrics_row(self, money: int, delivered: int, failures: int) -> dict[str, Any]:
        """Return the row of metrics after the commit stage."""
        owned_money = sum(each.owed for each in self.books.owing)
        owned_money += int(self.population.arrays["money"].sum())
        home, work, own_metrics = life.population_measures(self.population)
        measure = Measure(self, home, work, money, owned_money, delivered, failures)
        return {
            "step": self.number,
            "time": self.clock.moment.isoformat(),
            **{each.name: each.of(measure) for each in METRICS},
            **own_metrics,
        }

    # -- agents ------------------------------------------------------------------------------------

    @property
    def router(self) -> SocietyRouter:
        """The router of messages."""
        return cast(SocietyRouter, super().router)

    @property
    def agents(self) -> Sequence[Any]:
        """The full agents, in id order."""
        return [mailbox.agent for mailbox in self.mailboxes]

    @property
    def population(self) -> Population:
        """The citizens, with all who have come and left."""
        return self.books.population

    @property
    def given_population(self) -> Population | None:
        """The population that a user has made; None for other citizens."""
        return self.books.register if self.books.register.is_given else None

    @property
    def rows(self) -> Population | None:
        """The population, if a user has made it, or any citizen of it is a row."""
        population = self.books.register
        has_rows = len(population.agents) < len(population) - len(population.leaving)
        return population if has_rows or population.is_given else None

    @property
    def rows_to_take(self) -> Population | None:
        """The population, if it has rows, of which agents are made where somebody takes them."""
        return None if self.is_closed or self.given_population is not None else self.rows

    @property
    def mailboxes(self) -> list[SocietyMailbox]:
        """The mailboxes of all agents, in id order."""
        if self._sorted_mailboxes is None:
            mailboxes: Iterable[Any] = list(self.router.mailboxes.values())
            self._sorted_mailboxes = sorted(mailboxes, key=lambda mailbox: mailbox.rank)
        return self._sorted_mailboxes

    @property
    def citizen_mailboxes(self) -> list[SocietyMailbox]:
        """The mailboxes of citizens that are no rows, in id order."""
        return [e for e in self.mailboxes if isinstance(e.agent, CitizenAgent) and not e.is_row]

    def make_router(self) -> Router:
        """Return a router that delivers messages in steps."""
        return SocietyRouter(
            self.loop_thread,
            self.mailbox_capacity,
            self._reachable_services,
            self._turn_timeout_s,
            self._on_turn_end,
        )

    def attach(self, agent: Agent) -> Mailbox:
        """Give an agent its mailbox, and enter it into the books."""
        if str(agent.id) in self._reachable_services:
            raise ConfigError(f"{agent.id!r} is the id of a service: give the agent another")
        id, population = str(agent.id), self.rows_to_take
        row = None if population is None else population.find_row(id)
        if population is not None and row is not None:
            if population.handles.get(row) is agent and row in population.new_views:
                cast(Any, agent).memory.status = population.new_views.pop(row)
                return self.add_handle(agent)
            if population.agents.get(row) is agent and id not in self.router.mailboxes:
                return self._enter(agent)
            raise DuplicateAgent(f"a citizen {id!r} is in the society already, and ids are unique")
        return self._enter(agent)

    def _enter(self, agent: Agent, *, now: bool = False) -> Mailbox:
        """Add an agent to the books, within a step in the commit stage, or now."""
        mailbox = cast(SocietyMailbox, super().attach(agent))
        self._sorted_mailboxes = None
        if self._in_step and not now:
            self._arriving.append(mailbox)
            return mailbox
        try:
            self.enter_books(mailbox)
        except ConfigError:
            self.detach(mailbox)
            raise
        return mailbox

    def detach(self, mailbox: Mailbox, *spared: Delivery | None) -> None:
        """Take an agent out of the society, and of its books once its step is over."""
        super().detach(mailbox, *spared)
        if isinstance(mailbox, SocietyMailbox) and mailbox.shares_memory:
            cast(Any, mailbox.agent).shared = False  # elsewhere each sender has its own again
        self._sorted_mailboxes = None
        if self._in_step:
            self._leaving_ids.append(mailbox.id)  # until the commit stage all see it in its place
        else:
            self._leave_books(mailbox.id)

    def replace(self, agent: Agent, new: Agent) -> None:
        """Put an agent in another's place: a citizen with its money, place, and status it lacks."""
        if isinstance(agent, CitizenAgent) != isinstance(new, CitizenAgent):
            raise DefinitionError(f"{new!r:.80} cannot replace {agent!r:.80}: one is no citizen")
        if isinstance(new, CitizenAgent):
            check_for_agent(new, has_rows=self.has_columns)
        self.make_agents([str(agent.id)])
        super().replace(agent, new)

    def note_agent(self, agent: Agent) -> None:
        """Hand an agent what the one has in whose place it comes."""
        super().note_agent(agent)
        mailbox = cast(SocietyMailbox, agent.space_mailbox)
        if mailbox.end_suspension is not None:  # it takes the place of another
            mailbox.inspect_agent()
            if mailbox.id in self.population.views:
                self.books.hand_over(mailbox.id, cast(CitizenAgent, agent))
            self._adapt_agent(agent)

    def _name_heir(self, id: str, heir: str | int | None) -> None:
        if heir is not None and (str(heir) == id or str(heir) not in self.books.balances):
            raise ConfigError(f"heir= must be the id of another citizen or service, got {heir!r}")
        self._heirs[id] = None if heir is None else str(heir)

    def _leave_books(self, id: str) -> None:
        heir = self._heirs.pop(id, None)
        if heir is not None and (reason := self.books.bequeath(id, heir)):
            self.books.faults.add(
                (), id, self.number, f"it leaves, and {heir!r} is no heir: {reason}"
            )
        if self.is_closed:
            return
        if (population := self.given_population) is None:
            self.books.remove_row(id)
        elif (row := population.find_row(id)) is not None and row in population.agents:
            population.release(row)

    def _update_membership(self) -> None:
        """Update the books for agents that came or left in this step."""
        leavers, self._leaving_ids = self._leaving_ids, []
        arriving, self._arriving = self._arriving, []
        for id in leavers:
            self._leave_books(id)
        for mailbox in arriving:
            try:
                if mailbox.open:
                    self.enter_books(mailbox)
            except ConfigError as error:
                self._fail(mailbox, str(error), "could not come")
                self.detach(mailbox)
                self._leaving_ids.clear()

    def forget_step(self) -> None:
        """Forget who came, left, was born or died in a step that was broken off."""
        leavers, self._leaving_ids = self._leaving_ids, []
        self._arriving, self.new_agent_rows = [], []
        for id in leavers:
            if id not in self.router.mailboxes:
                self._leave_books(id)
        self.population.changes = Changes()

    def enter_books(self, mailbox: SocietyMailbox) -> None:
        """Enter a citizen into the books, and route its calls of models through the society."""
        agent = mailbox.agent
        if isinstance(agent, CitizenAgent):
            check_for_agent(agent, has_rows=self.has_columns)
            self.books.enter(agent)
        self._adapt_agent(agent)

    @property
    def has_columns(self) -> bool:
        """Whether citizens have more columns than those that the town reads of agents."""
        population = self.books.register
        return population.is_given or bool(population.blocks)

    def _adapt_agent(self, agent: Any) -> None:
        """Let an agent have a single memory, and a citizen call its models through the society."""
        if getattr(agent, "shared", None) is False:
            agent.shared = agent.space_mailbox.shares_memory = True
        if not isinstance(agent, CitizenAgent):
            return
        if agent.llm is not None and isinstance(agent.memory, CitizenMemory):
            agent.memory.lead()
        for holder, name in (
            (agent.dispatcher_or_none, "llm"),
            *((b, "own_llm") for b in agent.blocks),
        ):
            model = getattr(holder, name, None)
            if model is not None:
                if type(model) is CitizenModel:  # of another society
                    model = model.own_model
                setattr(holder, name, self.citizen_model(agent, model))

    def citizen_model(self, agent: Agent, own_model: object) -> CitizenModel | None:
        """Return the agent's model, or the society's, with calls limited in time and recorded."""
        model = self.default_model if own_model is None else own_model
        return None if model is None else CitizenModel(self.model_calls, agent, model, own_model)

    def _name_of(self, id: str) -> str:
        """Return the name of an agent; empty for none."""
        mailbox = self.router.mailboxes.get(id)
        if mailbox is None:
            return str(self._row_name(id))
        return getattr(mailbox.agent, "name", None) or ""

    def new_books(self) -> RowBooks:
        """Return books with the services and without citizens."""
        books = RowBooks(self.city, self.services, self.population, self.seed)
        books.faults = getattr(self, "books", books).faults
        return books

    def history(self) -> dict[str, Any]:
        """Return the news, and what went wrong, as JSON data."""
        return {
            "news": list(self.news),
            "failures": list(self.failures),
            "unmade": list(self.unmade),
            "faults": self.books.faults.state_dict(),
        }

    def load_history(self, data: dict[str, Any]) -> None:
        """Restore what went wrong before the state's step, and drop all that came after it."""
        self.news = list(data["news"])
        self.failures = [(number, id, text) for number, id, text in data["failures"]]
        self.unmade = [(number, reason) for number, reason in data["unmade"]]
        self.metrics = [row for row in self.metrics if row["step"] < self.number]
        self.books.faults.load_state_dict(data["faults"])

    def add_row_agent(self, agent: Agent, row: int) -> None:
        """Add the agent that a row has become, with what the row was told."""
        mailbox: Any = agent.space_mailbox
        if mailbox is None:
            self._enter(agent, now=True)
        else:  # somebody has taken it
            mailbox.is_row = False
            self.enter_books(mailbox)
        life.take_mailbox(self, agent, row)

    def add_handle(self, agent: Agent) -> Mailbox:
        """Add an agent by which somebody has taken a row, which goes on as a row."""
        mailbox = cast(SocietyMailbox, super().attach(agent))
        mailbox.is_row, self._sorted_mailboxes = True, None
        self._adapt_agent(agent)
        return mailbox

    def remove_row_agent(self, agent: Agent, row: int) -> None:
        """Remove an agent that becomes a row again, which gets its messages."""
        super().detach(life.leave_mailbox(self, agent, row))
        self._sorted_mailboxes = None
