"""The dual act: H decides, R executes, until H accepts."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from moothall.agents.decision import Conclusion, HumanDecision
from moothall.agents.dualact.config import (
    DUAL_ACT_PARTS,
    DualActConfig,
    DualActParts,
    as_config,
    review_rule,
)
from moothall.agents.dualact.dual_act_state import DualActState
from moothall.agents.dualact.rounds import Rounds
from moothall.agents.replies.checked_parts import is_recording
from moothall.agents.replies.events import ConclusionReached, DecisionMade
from moothall.agents.replies.group import Group, thread_option
from moothall.agents.replies.read_record import group_program
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply import Reply, Stop
from moothall.agents.replies.reply_request import ReplyRequest, thread_id
from moothall.agents.replies.resume import end_data
from moothall.agents.replies.thread import Thread
from moothall.agents.workflow import ReplyingOptions
from moothall.foundation.arguments import check_function
from moothall.foundation.errors import StateError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from moothall.budget import Budget
    from moothall.journal import Journal, RunPart

DecisionFunc: TypeAlias = Callable[
    [Conclusion | None, Any], HumanDecision | Awaitable[HumanDecision]
]
"""`fn(conclusion, original_input)`: decides in H's place. Before R ran there is no conclusion."""
ConclusionExtractor: TypeAlias = Callable[[Reply], Conclusion | Awaitable[Conclusion]]
"""`fn(reply)`: returns the conclusion in R's reply."""
F = TypeVar("F")


class DualActOptions(DualActParts, ReplyingOptions, total=False):
    """What a dual act takes by name; `DualActConfig` and `ReActAgent` document it."""


class DualActAgent(Group):
    """Two agents as one: a reviewer, H, reviews the conclusions of a worker, R, until it accepts.

    H gets the task and decides: CONTINUE, with an instruction for R; REDIRECT, which changes R's
    approach; or TERMINATE, which accepts. R works on the instruction until it reaches a
    conclusion. H sees it together with R's real calls and their results. A dual act can take the
    place of a `ReActAgent`, also as H or R of another dual act.

    Only H's own answer decides, and only if it is exactly one object with the parts of a decision:
    H's prompt marks all text of a task, a file or R as somebody else's. After an answer that is
    not a decision, H is asked once more; after a second one the work ends as `unreadable`.

    If R fails, even by a budget of its own, H judges the failure. If H fails, the work ends with
    R's last conclusion.

    Args:
        config: H and R, and how they work together
        id: its id
        human: H, if there is no config; likewise `reactive`, `max_hr_loops` and all other parts of
            a `DualActConfig`
        budget: what H and R may spend together
        journal: a `Journal`, or the path of one, that records its runs and what H and R do in them,
            so that they can be resumed after a crash
        **options: the options of `Agent`, and `shared=`

    Raises:
        ConfigError: H or R has a budget that is not part of this one's
    """

    run_kind: str = "DualActAgent"
    kind_label: str = "dual act"
    config: DualActConfig
    state_type: type[Any] = DualActState

    def __init__(
        self,
        config: DualActConfig | None = None,
        id: str | int | None = None,
        *,
        budget: Budget | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        **options: Unpack[DualActOptions],
    ) -> None:
        parts = {name: part for name, part in options.items() if name in DUAL_ACT_PARTS}
        other_options: Any = {name: option for name, option in options.items() if name not in parts}
        config = self.config = as_config(config, parts)
        super().__init__("dualact" if id is None else id, **other_options)
        self._decide_by: DecisionFunc | None = None
        self._extract_by: ConclusionExtractor | None = None
        if budget is not None:
            self.budget = budget
        self.journal = journal
        if config.shared_memory:
            self._share_memory()

    # -- its parts ---------------------------------------------------------------------------------

    @property
    def human_agent(self) -> Any:
        """Return H, which decides."""
        return self.config.human

    @property
    def reactive_agent(self) -> Any:
        """Return R, which executes; a list if there are several."""
        return self.config.reactive

    def _share_memory(self) -> None:
        """Let H and every R use the memory of the first R, in each thread."""
        first_worker, *other_workers = self.config.reactives
        for agent in (self.config.human, *other_workers):
            have_threads = hasattr(first_worker, "memory_in") and hasattr(agent, "memory_in")
            agent.memory = first_worker.memory_in if have_threads else first_worker.memory

    def set_decision_func(self, fn: DecisionFunc | None) -> None:
        """Set a function, sync or async, that decides in H's place; None restores H.

        A plain one is called in a worker thread.

        Raises:
            ConfigError: it is not a function
        """
        self._decide_by = _checked_function(
            "a decision function", fn, "conclusion", "original_input"
        )

    def set_conclusion_extractor(self, fn: ConclusionExtractor | None) -> None:
        """Set a function, sync or async, that makes the conclusion from R's reply; None resets it.

        A plain one is called in a worker thread.

        Raises:
            ConfigError: it is not a function
        """
        self._extract_by = _checked_function("a conclusion extractor", fn, "reply")

    @property
    def member_agents(self) -> list[Any]:
        """The members that reply on its behalf."""
        return [self.config.human, *self.config.reactives]

    # -- its state ---------------------------------------------------------------------------------

    @property
    def _saved_members(self) -> dict[str, Any]:
        first, *others_of_r = self.config.reactives
        if self.config.shared_memory:  # save it once
            return {f"R {first.id}": first}
        return {"H": self.config.human, **{f"R {each.id}": each for each in (first, *others_of_r)}}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Load a state, as for every group; restore the shared memory."""
        super().load_state_dict(saved)
        if self.config.shared_memory:
            self._share_memory()

    def _resume_request(self, schema: Any, thread: str | int | None) -> ReplyRequest:
        progress: DualActState | None = self.all_threads.get(thread_id(thread)).agent_state
        if progress is None:
            where = "" if thread is None else f" in thread {str(thread)!r}"
            raise StateError(
                f"dual act {self.id!r} has nothing to resume{where}: load a state first"
            )
        if schema is None:
            schema = progress.schema if progress.requested_type is None else progress.requested_type
        if schema is True:
            raise StateError(
                f"dual act {self.id!r} was asked for an answer of a type, which is not saved: "
                "resume(schema=…) with it"
            )
        request = ReplyRequest(progress.task, schema, progress.thread, progress.run_id)
        if request.answer is not None and progress.requested_type is None:  # it was loaded
            progress.parse_values(request.answer, len(self.config.reactives) > 1)
        progress.set_schema(schema)
        return request

    # -- the work ----------------------------------------------------------------------------------

    async def remember(self, message: dict[str, Any], thread: Thread) -> None:
        """Remember a chat message in a thread."""
        self._check_thread(thread.id)
        agents = self.config.reactives[:1] if self.config.shared_memory else self.member_agents
        for agent in agents:
            await agent.observe(message, **thread_option(agent.observe, thread.id))

    def describe_program(self) -> dict[str, Any]:
        """Return its program, independent of the request."""
        config = self.config
        rule = review_rule(config.review)
        return group_program(
            self.member_agents,
            agent=[self.run_kind, str(self.id)],
            human=str(config.human.id),
            reactive=[str(each.id) for each in config.reactives],
            human_decision_prompt=config.human_decision_prompt,
            reactive_task_prompt=config.reactive_task_prompt,
            conclusion_format_prompt=config.conclusion_format_prompt,
            first=config.first,
            review=[type(rule).__qualname__, str(rule.name)],
            shared_memory=config.shared_memory,
            **({} if config.judging is None else {"judging": config.judging}),
        )

    async def restore_part(self, part: RunPart, budget: Budget | None) -> None:
        """Restore what it did in a part that is over."""
        await self._restore_members(Record(part, DualActState), budget)

    async def _restore_members(self, record: Record[DualActState], budget: Budget | None) -> None:
        members = {str(each.id): each for each in self.member_agents}
        for name, entry in record.members.items():
            member = members.get(entry["agent"])
            if member is not None and is_recording(member):
                await member.restore_part(record.member(name, entry["agent"]), budget)

    async def recorded_reply(self, request: ReplyRequest, record: Record[DualActState]) -> Reply:
        """Answer, or resume from the record."""
        if request.recorded and (reply := await self._resume_run(record, request)):
            return reply
        progress: DualActState | None = request.state.agent_state
        if progress is None or not request.resumed:
            turn: Any = self.config.first
            progress = DualActState(request.content, request.thread, request.run_id, turn)
            if turn == "reactive":
                progress.instruction = [""] * len(self.config.reactives)
            progress.set_schema(request.schema)
            request.state.agent_state = progress
        elif progress.turn == "over" and progress.stop not in ("terminated", "max_loops"):
            # Stopped during a turn, which begins anew.
            progress.turn = "reactive" if progress.instruction else "human"
        functions = (self._decide_by, self._extract_by)
        rounds = Rounds(self, self.config, progress, request, record, *functions)
        if request.state.reply is None:
            request.state.reply = rounds
        at_end = partial(end_data, record, progress, "progress")
        return await record.run_to_end(rounds.run, at_end, rounds.reply_stopped)

    async def _resume_run(
        self, record: Record[DualActState], request: ReplyRequest
    ) -> Reply | None:
        """Restore a resumed run; return its reply if it ends here, else None."""
        progress, answer_schema = record.state, request.answer
        if progress is not None:
            progress.run_id = record.run_id  # a fork has the original's
            request.note_sources(progress.outside)
            progress.set_schema(request.schema)
            if answer_schema is not None:
                progress.parse_values(answer_schema, len(self.config.reactives) > 1)
            self._emit_past_events(progress, request)
        is_final = record.is_over
        try:
            await self._restore_members(record, request.budget)
        except Stop as stop:
            if not is_final:
                progress = progress or DualActState(request.content, request.thread, request.run_id)
                progress.finish(stop.reason, stop.detail)
                return progress.reply(stop.error)
        if progress is None:
            return None
        if is_final:
            return progress.reply()
        request.state.agent_state = progress
        request.resumed = True
        return None

    def _emit_past_events(self, progress: DualActState, request: ReplyRequest) -> None:
        for number, (decision, conclusion) in enumerate(
            zip_longest(progress.decisions, progress.conclusions), 1
        ):
            events = [(DecisionMade, decision), (ConclusionReached, conclusion)]
            for event, each in reversed(events) if self.config.first == "reactive" else events:
                if each is not None:
                    request.tell(event, str(self.id), number, each, past=True)


def _checked_function(label: str, fn: F, *takes: str) -> F:
    check_function(label, fn, *takes, optional=True)
    return fn
