"""The metrics of a company, as OpenMetrics text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, get_args

from moothall import JournalError, MissingExtra
from moothall.budget import LIMITS
from moothall.build import Delivery, Threaded
from moothall.serving.company.supervisor import State, Supervisor

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from moothall import Event
    from moothall.serving.company.company_space import CompanySpace
    from moothall.serving.company.probe import Probe

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
"""The upper ends of the histograms' buckets."""


class Metrics:
    """Counters of a company, and the text that `GET /metrics` answers with.

    Queues, budgets and states are read when somebody asks for the text.

    Args:
        supervisor: has the supervised agents
        space: the company's space, with its budgets, broker and journal
        probe: says whether loops and journal answer: what does not is not read
    """

    def __init__(self, supervisor: Supervisor, space: CompanySpace, probe: Probe) -> None:
        MissingExtra.unless("a company", "company", "prometheus_client")
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._supervisor = supervisor
        self._space = space
        self._probe = probe
        self._registry: CollectorRegistry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter(
            "moothall_requests",
            "Requests to an agent, by outcome.",
            ("agent", "outcome"),
            **options,
        )
        self._request_seconds = Histogram(
            "moothall_request_seconds",
            "From a request's arrival in the mailbox to its outcome.",
            ("agent",),
            buckets=_BUCKETS,
            **options,
        )
        self._replies = Counter(
            "moothall_replies", "Replies of an agent.", ("agent", "stop_reason"), **options
        )
        self._firings = Counter(
            "moothall_schedule_firings",
            "Firings of a schedule.",
            ("schedule", "outcome"),
            **options,
        )
        self._given_up = Counter("moothall_given_up", "Agents that were given up.", **options)
        self._registry.register(self)  # its `collect` yields what is looked up

    # -- what happens ------------------------------------------------------------------------------

    def count_request(self, delivery: Delivery) -> None:
        """Count a request that has its outcome; called on the space's loop."""
        mailbox = delivery.mailbox
        error = delivery.error
        self._requests.labels(mailbox.id, "ok" if error is None else type(error).__name__).inc()
        if delivery.since:
            self._request_seconds.labels(mailbox.id).observe(
                mailbox.router.loop.time() - delivery.since
            )

    def count_reply(self, agent: str, event: Event) -> None:
        """Count a reply that has ended."""
        if event.kind == "done":
            self._replies.labels(agent, str(event.reply.stop_reason)).inc()

    def count_firing(self, schedule: str, outcome: str) -> None:
        """Count a firing that has its outcome."""
        self._firings.labels(schedule, outcome).inc()

    def count_given_up(self) -> None:
        """Count an agent that is not started again."""
        self._given_up.inc()

    # -- what is said ------------------------------------------------------------------------------

    def text(self) -> str:
        """Return all of it as OpenMetrics text."""
        from prometheus_client.openmetrics import exposition

        exporter: Any = exposition
        text: bytes = exporter.generate_latest(self._registry)
        return text.decode()

    def describe(self) -> list[Metric]:
        """Return nothing: nothing is looked up where it is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what is looked up when somebody asks."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        states = GaugeMetricFamily(
            "moothall_agent_state", "What an agent is doing: 1.", labels=("agent", "state")
        )
        deaths = CounterMetricFamily("moothall_deaths", "Deaths of an agent.", labels=("agent",))
        restarts = CounterMetricFamily(
            "moothall_restarts", "How often an agent runs again after a death.", labels=("agent",)
        )
        parts = list(self._supervisor.parts.values())
        for part in parts:
            for state in get_args(State):
                states.add_metric((part.name, state), float(part.state == state))
            deaths.add_metric((part.name,), part.deaths)
            restarts.add_metric((part.name,), part.restarts)
        yield from (states, deaths, restarts)
        names = {part.name for part in parts}
        loops_answer, questions = self._probe.loops_answer, _questions_by_agent()
        # The space's loop counts them: one that is held would hold this thread.
        agents = self._space.space.statistics()["agents"] if loops_answer else {}
        for metric, description, key in (
            ("moothall_queue_depth", "Messages that wait for an agent here.", "waiting"),
            ("moothall_handling", "Messages that an agent handles.", "handling"),
            ("moothall_asking", "What waits for a person whom this process asks.", "asking"),
        ):
            gauge = GaugeMetricFamily(metric, description, labels=("agent",))
            for id, each in agents.items():
                if id in names:
                    value = each[key]
                    value = len(value) if isinstance(value, list) else value
                    gauge.add_metric((id,), value + (questions[id] if key == "asking" else 0))
            yield gauge
        with suppress(JournalError):  # it was lost since it was asked
            yield from self._budget_metrics()
            yield from self._run_metrics()
        for name, answer in (
            ("loops", self._probe.loops_answer),
            ("journal", self._probe.journal_answers),
        ):
            text = f"Whether the {name} answered within two seconds."
            yield GaugeMetricFamily(f"moothall_{name}_up", text, value=float(answer))
        connected = self._space.is_connected
        if connected is not None:
            yield GaugeMetricFamily(
                "moothall_broker_connected",
                "Whether the broker is connected.",
                value=float(connected),
            )

    def _run_metrics(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        journal = self._space.journal
        if journal is None or not self._probe.journal_answers:
            return
        waiting = GaugeMetricFamily(
            "moothall_waiting", "What runs wait for in the journal.", labels=("agent", "kind")
        )
        for (agent, kind), count in journal.waits.counts().items():
            waiting.add_metric((agent, kind), count)
        yield waiting
        stopped, in_doubt = journal.waits.count_cut_off()
        for name, text, count in (
            ("in_doubt", "Runs with a call whose outcome is unknown.", in_doubt),
            ("stopped", "Runs whose process ended, and that nobody has resumed.", stopped),
        ):
            yield GaugeMetricFamily(f"moothall_{name}", text, value=count)

    def _budget_metrics(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        label = ("budget", "unit")
        spent = GaugeMetricFamily("moothall_budget_spent", "Spent of a budget.", labels=label)
        remaining = GaugeMetricFamily("moothall_budget_left", "Left of a limit.", labels=label)
        share = GaugeMetricFamily("moothall_budget_share", "Spent of a limit, of 1.", labels=label)
        budgets = self._space.budgets if self._probe.journal_answers else {}
        for name, budget in budgets.items():
            used, unspent = budget.spent, budget.left
            for unit, fraction in budget.shares().items():
                share.add_metric((name, unit), fraction)
            for limit in (each for each in LIMITS if each.is_reserved):
                unit = limit.name
                spent.add_metric((name, unit), float(getattr(used, unit)))
                if (value := getattr(unspent, unit)) is not None:
                    remaining.add_metric((name, unit), float(value))
        yield from (spent, remaining, share)


def _questions_by_agent() -> Counter[str]:
    """Return for how many calls within replies a person is asked now, by the agent that replies.

    Its space counts the messages for which a person is asked.
    """
    ids: dict[int, str] = {}
    for context in Threaded.asking_now():
        handling, replies = context.handling, context.replies
        if replies and (handling is None or any(e.agent is handling.agent for e in replies)):
            # An approver may be asked within another: the call is one.
            ids[id(context.call or replies[-1])] = str(replies[0].agent.id)
    return Counter(ids.values())
