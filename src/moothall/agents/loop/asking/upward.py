"""A request that is a call of a reply: what its handler asks and waits for is that call's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

from moothall.actions.acting import CALL_SCOPE
from moothall.actions.approval import ApprovalRequest, CallToApprove, Later, Question
from moothall.actions.approval.approval import decider_title
from moothall.actions.approval.decision import DECISION_KINDS
from moothall.actions.provenance.reading import current_reading
from moothall.agents.agent import CURRENT
from moothall.agents.caller_context import CallerContext
from moothall.agents.loop.answer import ToolCall
from moothall.agents.loop.later_results import data_of_call
from moothall.agents.loop.permission import rewrite
from moothall.agents.replies.reply import Stop
from moothall.agents.replies.reply_context import current_request
from moothall.agents.replies.step import ask_unrecorded
from moothall.foundation.errors import JournalError
from moothall.foundation.jsonvalue import copy_json
from moothall.foundation.threads import context_value

if TYPE_CHECKING:
    from moothall.actions import Action
    from moothall.agents.agent import Agent
    from moothall.agents.replies.reply_request import ReplyRequest


class UpwardCall:
    """The call that a request is: its handler asks by it, and the run of the call waits.

    A request in the midst of an action has none: the action would begin anew after the wait.

    Attributes:
        agent: the agent that calls
        request: that of its reply
        call: the call
        waiting_runs: the runs that wait with its own, which is the last
        cause: why the call has no value yet: the handler's own `Later`, or the end of its run
    """

    __slots__ = ("_scope", "agent", "call", "cause", "request", "waiting_runs")

    def __init__(self, agent: Agent, request: ReplyRequest, call: ToolCall) -> None:
        self.agent: Agent = agent
        self.request: ReplyRequest = request
        self.call: ToolCall = call
        self.waiting_runs: tuple[str, ...] = CallerContext.runs_that_wait(
            CURRENT.get(), request.run_id
        )
        self.cause: BaseException | None = None
        self._scope = CALL_SCOPE.get()  # whose clocks stand still, and what the approver has read

    @staticmethod
    def begun_by(agent: Agent) -> UpwardCall | None:
        """Return the call of an agent's reply that is executed here; None if there is none."""
        call, request = current_reading(), current_request(agent)
        if request is None or not isinstance(call, ToolCall):
            return None
        return UpwardCall(agent, request, call)

    @property
    def run_id(self) -> str | None:
        """The id of the run that waits; None if nothing records it."""
        return None if self.call.step is None else str(self.call.step.run_id)

    def raise_cause(self) -> Never:
        """Raise why there is no value yet, where the call is executed."""
        cause = self.cause
        assert cause is not None
        if isinstance(cause, Stop):
            self.call.wait = cause
            cause = Later()
        raise cause from cause.__cause__  # which says if the program of a run has changed

    async def decision(
        self,
        agent: Agent,
        action: Action,
        message: dict[str, Any],
        ask: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Return whether the handler's agent may execute an action: as recorded, or by asking.

        `message` gets the arguments with which it is permitted. `Later` refuses it for now.
        """
        call, request, step = self.call, self.request, self.call.step
        texts = request.state.texts_by_origin
        args = copy_json(message["action"]["args"])

        def request_now() -> ApprovalRequest:
            fields = (request.run_id, message["from"])
            return replace(
                ApprovalRequest.of(message, *fields), agent=str(agent.id), facts=action.facts
            )

        def change(new_args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            old_args = rewrite(call, new_args, texts)
            message["action"]["args"] = copy_json(call.args)
            return request_now().fingerprint, old_args

        async def ask_now() -> Any:
            decided = DECISION_KINDS.decided_in_run(request_now(), keys)
            if decided is not None:
                return decided
            if request.wait_for_reader is not None:
                await request.wait_for_reader()
            if step is None:
                return await ask(message)
            await step.set_back()  # whoever dies while a person decides leaves nothing in doubt
            decision = await ask(message)
            if not isinstance(decision, Later):
                await step.begins(call.args)
            return decision

        keys: Any = request.allowed
        if request.recorded is not None:
            keys = request.recorded.run.standing_decisions
        check = action.check if call.action is None else call.action.check
        approved = CallToApprove(action.name, args, check=check, waits_in=self.run_id)
        try:
            with context_value(CALL_SCOPE, replace(self._scope, call_to_approve=approved)):
                exact = request_now()
                if step is None:
                    decision = await ask_unrecorded(ask_now, change)
                    request.allowed += DECISION_KINDS.keys_in_run(exact, decision)
                else:
                    name = f"{agent.id}.{action.name}"
                    wait_data = {**data_of_call(call), "action": name, "args": args, "text": ""}
                    wait_data |= {"facts": {**action.facts}} if action.facts else {}
                    wait_data["schema"] = action.parameters
                    by = decider_title(agent.find_approver())
                    terms = (exact.fingerprint, ask_now, change, wait_data, exact, by)
                    decision = await step.permitted(*terms)
        except (JournalError, Stop) as error:
            self.cause = error
            return Later()
        return DECISION_KINDS.of_call(decision)

    async def answer_of(self, question: Question, ask: Callable[[Question], Awaitable[str]]) -> str:
        """Return the answer to a question of the handler; raise Later if it comes later."""
        if self.call.step is None:
            return await ask(question)
        answer: str = await self.call.step.answer_of(self.call, question, ask)
        return answer
