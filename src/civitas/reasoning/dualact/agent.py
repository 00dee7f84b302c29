"""The dual act: H decides, R executes, until H accepts."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from civitas.errors import (
    BudgetExceeded,
    ConfigError,
    DefinitionError,
    StateError,
)
from civitas.reasoning.conversational import ConversationalAgent
from civitas.reasoning.dualact import recording
from civitas.reasoning.dualact.briefing import Briefing
from civitas.reasoning.dualact.conclusions import Conclusion, HumanDecision
from civitas.reasoning.dualact.config import DualActConfig, as_config
from civitas.reasoning.dualact.progress import DualActReply, Progress
from civitas.reasoning.dualact.rounds import Rounds
from civitas.reasoning.group import in_thread, members_without_threads, share_budget
from civitas.reasoning.prompts import json_text
from civitas.reasoning.record import NULL_RECORD, Record, dumped, loaded
from civitas.reasoning.reply import Reply, Stop
from civitas.reasoning.reply_request import Asked, thread_id
from civitas.reasoning.resume import ended
from civitas.reasoning.state import opened, state
from civitas.reasoning.thread import Thread, Threads
from civitas.reasoning.threaded import Journaled

if TYPE_CHECKING:
    from civitas.approval import Approver
    from civitas.budget import Budget
    from civitas.journal import Journal, Part
    from civitas.reasoning.dualact.review import ReviewRule

KIND = "DualActAgent"

DecisionFunc: TypeAlias = Callable[
    [Conclusion | None, Any], HumanDecision | Awaitable[HumanDecision]
]
"""`fn(conclusion, original_input)`: decides in H's place. Before R ran there is no conclusion."""
ConclusionExtractor: TypeAlias = Callable[[Reply], Conclusion | Awaitable[Conclusion]]
"""`fn(reply)`: what R's reply comes to."""


class DualActAgent(Journaled, ConversationalAgent):
    """Two agents as one: H reviews what R concludes until it accepts.

    H is given the task, and decides: CONTINUE, with an instruction for R; REDIRECT, which changes
    R's approach; or TERMINATE, which accepts. R works on the instruction until it comes to a
    conclusion, which H is shown together with what R really called and what came of it. It goes
    wherever a `ReActAgent` goes, as H or R of another dual act too.

    Only H's own answer decides, and only if it is exactly one object with the parts of a decision:
    what a task, a file or R says, in whatever words, is marked in H's prompt as somebody else's.
    An answer that is no decision is asked for once more, and then ends the work as `unreadable`.

    An R that fails, by a budget of its own too, is H's to judge. An H that fails ends the work,
    with R's last conclusion.

    Args:
        config: the two, and how they work together
        id: its id
        human: H, where there is no config; so are `reactive`, `max_hr_loops` and all other parts
            of a `DualActConfig`
        budget: what the two may spend together
        journal: where its runs are recorded, with what H and R do in them, so that they go on after
            a crash: a `Journal`, or the path of one
        **options: what every `Agent` takes

    Attributes:
        config: the configuration

    Raises:
        ConfigError: H or R has a budget that is no part of this one's
    """

    _records = True

    def __init__(
        self,
        config: DualActConfig | None = None,
        id: str | int | None = None,
        *,
        human: Any = None,
        reactive: Any = None,
        max_hr_loops: int | None = None,
        human_decision_prompt: str | None = None,
        reactive_task_prompt: str | None = None,
        conclusion_format_prompt: str | None = None,
        shared_memory: bool | None = None,
        first: str | None = None,
        review: str | ReviewRule | None = None,
        budget: Budget | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        shared: bool = False,
        receive_own_broadcasts: bool = True,
        concurrency: int | None = None,
        approver: Approver | None = None,
        deps: Any = None,
        **options: Any,
    ) -> None:
        given = {
            "human": human,
            "reactive": reactive,
            "max_hr_loops": max_hr_loops,
            "human_decision_prompt": human_decision_prompt,
            "reactive_task_prompt": reactive_task_prompt,
            "conclusion_format_prompt": conclusion_format_prompt,
            "shared_memory": shared_memory,
            "first": first,
            "review": review,
        }
        self.config = config = as_config(config, given)
        super().__init__(
            "dualact" if id is None else id,
            shared=shared,
            receive_own_broadcasts=receive_own_broadcasts,
            concurrency=concurrency,
            approver=approver,
            deps=deps,
            **options,
        )
        self._briefing = Briefing(
            config.human_decision_prompt,
            config.reactive_task_prompt,
            config.conclusion_format_prompt,
        )
        self._decide_by: DecisionFunc | None = None
        self._extract_by: ConclusionExtractor | None = None
        self._own_budget: Budget | None = None
        if budget is not None:
            self.budget = budget
        self.journal = journal
        if config.shared_memory:
            self._share_memory()

    # -- its parts ---------------------------------------------------------------------------------

    @property
    def human_agent(self) -> Any:
        """H, which decides."""
        return self.config.human

    @property
    def reactive_agent(self) -> Any:
        """R, which executes; a list if there are several."""
        return self.config.reactive

    @property
    def budget(self) -> Budget | None:
        """What the two may spend together, or None."""
        return self._own_budget

    @budget.setter
    def budget(self, budget: Budget | None) -> None:
        share_budget(self, self._agents, budget)
        self._own_budget = budget

    def _share_memory(self) -> None:
        """Have H and every R remember in each thread what the first R does there."""
        first, *others = self.config.reactives
        for agent in (self.config.human, *others):
            both = hasattr(first, "_memory_in") and hasattr(agent, "_memory_in")
            agent.memory = first._memory_in if both else first.memory

    def set_decision_func(self, fn: DecisionFunc | None) -> None:
        """Have a function decide in H's place, sync or async; None for H.

        A plain one is called in a worker thread.

        Raises:
            ConfigError: it is no function
        """
        if fn is not None and not callable(fn):
            raise ConfigError(f"a decision function is a function, not {fn!r:.80}")
        self._decide_by = fn

    def set_conclusion_extractor(self, fn: ConclusionExtractor | None) -> None:
        """Have a function make the conclusion of R's reply, sync or async; None for our own way.

        A plain one is called in a worker thread.

        Raises:
            ConfigError: it is no function
        """
        if fn is not None and not callable(fn):
            raise ConfigError(f"a conclusion extractor is a function, not {fn!r:.80}")
        self._extract_by = fn

    @property
    def _agents(self) -> list[Any]:
        return [self.config.human, *self.config.reactives]

    @property
    def _member_agents(self) -> list[Any]:
        return self._agents

    # -- its state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """How far it has come and what H and R remember, as JSON.

        Valid after any turn of H or R, in their `post_` hooks too.

        Raises:
            StateError: something remembered is not JSON
        """
        config = self.config
        progress = _progress_json(self._kept.default)
        threads = {thread.id: _progress_json(thread) for thread in self._kept if thread.own}
        # With one memory, it is saved once.
        human = None if config.shared_memory else _state_of(config.human)
        reactive = [_state_of(agent) for agent in config.reactives]
        if config.shared_memory:
            reactive[1:] = [None] * (len(reactive) - 1)
        return state(KIND, progress=progress, threads=threads, human=human, reactive=reactive)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Be where the dual act was whose state this is; `resume` goes on.

        Raises:
            StateError: it is no such state
        """
        found = opened(saved, KIND)
        reactive = found.get("reactive")
        if not isinstance(reactive, list) or len(reactive) != len(self.config.reactives):
            raise StateError(f"dual act {self.id!r}: the state is of another number of R")
        given = found.get("progress")
        threads = found.get("threads", {})
        if not isinstance(threads, dict):
            raise StateError(f"dual act {self.id!r}: the state of its threads is no object")
        kept = Threads()
        kept.default.own = (
            None if given is None else loaded(Progress, given, f"dual act {self.id!r}")
        )
        for id, each in threads.items():
            kept.get(id).own = loaded(Progress, each, f"dual act {self.id!r}")
        for agent, of_agent in zip(self._agents, [found.get("human"), *reactive], strict=True):
            if of_agent is not None:
                agent.load_state_dict(of_agent)
        if self.config.shared_memory:
            self._share_memory()
        self._threads = kept

    async def resume(self, schema: Any = None, *, thread: str | int | None = None) -> DualActReply:
        """Go on where a state was loaded, or where a reply was cancelled or stopped at a limit.

        The turn that was under way begins anew; what ended before is not done again.

        Args:
            schema: what the answer is to be; as it was asked for if left out. A type is not saved:
                after a state was loaded, it is given again.
            thread: the id of the conversation that goes on; the dual act's own if left out

        Raises:
            StateError: there is nothing to go on with, or the answer was asked for by a type that
                is not given
        """
        progress: Progress | None = self._kept.get(thread_id(thread)).own
        if progress is None:
            where = "" if thread is None else f" in thread {str(thread)!r}"
            raise StateError(
                f"dual act {self.id!r} has nothing to go on with{where}: load a state first"
            )
        if schema is None:
            schema = progress.schema if progress.wanted is None else progress.wanted
        if schema is True:
            raise StateError(
                f"dual act {self.id!r} was asked for an answer of a type, which is not saved: "
                "resume(schema=…) with it"
            )
        progress.want(schema)
        asked = Asked(progress.task, schema, progress.thread, progress.run_id)
        asked.resumed = True
        return await self._carried(asked)  # type: ignore[return-value]

    # -- the work ----------------------------------------------------------------------------------

    async def _remember(self, message: dict[str, Any], thread: Thread) -> None:
        if thread.id is not None:
            self._check_threads()
        agents = self.config.reactives[:1] if self.config.shared_memory else self._agents
        for agent in agents:
            await agent.observe(message, **in_thread(agent.observe, thread.id))

    def _one_thread_only(self) -> str | None:
        return members_without_threads(self._agents)

    def _check_threads(self) -> None:
        why = self._one_thread_only()
        if why is not None:
            raise DefinitionError(
                f"dual act {self.id!r} cannot keep threads apart: {why}. Leave out thread=, or "
                "make the dual act with shared=True"
            )

    def _program(self) -> dict[str, Any]:
        return recording.program_of(self)

    async def _recall(self, part: Part, budget: Budget | None) -> None:
        await recording.recall(self, part, budget)

    async def _respond(self, asked: Asked) -> Reply:
        asked.wanted()  # that it is none is no failure of R's
        if asked.thread is not None:
            self._check_threads()
        record = asked.record
        if record is None:
            if self._journal is None:
                return await self._work(asked, NULL_RECORD)
            task = json_text(asked.content)
            record = await self._journal.begin(asked.run_id, KIND, str(self.id), task)
        try:
            return await self._work_recorded(asked, record)
        finally:
            if asked.record is None:
                record.close()

    async def _work_recorded(self, asked: Asked, part: Part) -> Reply:
        record = recording.begun(self, part, asked)
        progress = record.state
        if progress is not None and asked.emit is not None:
            recording.emit_past(self, progress, asked.emit)
        over = ended(record)
        try:
            await recording.recall(self, part, asked.budget)
        except BudgetExceeded as error:
            if not over:
                progress = progress or Progress(asked.content, asked.thread, asked.run_id)
                stop = Stop.at_limit(error)
                progress.over(stop.reason, stop.detail)
                return progress.reply([], None)
        if progress is not None:
            if over:
                return progress.reply([], None)
            asked.state.own = progress
            asked.resumed = True
        return await self._work(asked, record)

    async def _work(self, asked: Asked, record: Record[Progress]) -> Reply:
        progress: Progress | None = asked.state.own
        if progress is None or not asked.resumed:
            turn: Any = self.config.first
            progress = Progress(asked.content, asked.thread, asked.run_id, turn)
            if turn == "reactive":
                progress.instruction = [""] * len(self.config.reactives)
            progress.want(asked.schema)
            asked.state.own = progress
        elif progress.turn == "over" and progress.stop not in ("terminated", "max_loops"):
            # Stopped in the midst of a turn, which begins anew.
            progress.turn = "reactive" if progress.instruction else "human"
        work = Rounds(self, progress, asked, record)
        if asked.state.underway is None:
            asked.state.underway = work
        return await work.reply()


def _progress_json(thread: Thread) -> dict[str, Any] | None:
    progress: Progress | None = thread.own
    return None if progress is None else dumped(progress)


def _state_of(agent: Any) -> Any:
    own = getattr(agent, "state_dict", None)
    return own() if callable(own) else None
