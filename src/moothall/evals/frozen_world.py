"""A recorded run, run again: its world is frozen, so no action is executed."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeAlias

from moothall import Action, ApprovalRequest, ConfigError, NobodyToAsk, Refused, Reply, StateError
from moothall.agents import ReplyParts, StandIns
from moothall.build import ToolCall, call_user, error_text
from moothall.evals.calls_to_take import (
    CallsToTake,
    LeftCall,
    RecordedPart,
    play,
    recorded_part,
)
from moothall.evals.people import ends_conversation
from moothall.evals.recorded_answers import RecordedAnswers, is_elsewhere, recorded_actions
from moothall.journal import Journal, RecordedCall, RunView
from moothall.models import Model, check_model
from moothall.models import model as model_named

Leaves: TypeAlias = "Literal['refuse'] | Callable[[str, dict[str, Any]], Any] | Model"
"""What becomes of a call that the record does not have."""

_THEIRS = ("TheirAgent", "PydanticAIAgent", "AgentsSDKAgent", "LangGraphAgent")
_KINDS = ("ReActAgent", "DualActAgent", "Conversation", *_THEIRS)
_REFUSED = "not permitted"


class FrozenWorld:
    """The world of a recorded run, in which an agent replies again.

    Each call of an action gets the recorded result of the same action with equal arguments, with
    its origins; the second of equal calls gets the second result, and so on. Approvals, answers of
    people, results that came later and the messages before the run come from the record, too. An
    agent that was asked by a call replies again, in the same way. No action is executed but those
    that `live` names. The agent's own journal, memory, budget and approver are not touched.

    Args:
        journal: the journal of the run, or its path
        run_id: the run's id; it is over. Without both nothing is recorded: each call leaves the
            record
        leaves: what becomes of a call that the record does not have: `refuse` tells the model that
            the action is not available; a function of the action's name and its arguments, plain
            or `async`, returns the result; a model makes one up from the recorded examples
        live: names of actions that are executed then; only ones that just read:
            `idempotent=True`, and no guarded parameter
        model: which model the run's own agent has: None for its own; `"recorded"` for the recorded
            answers, as long as what is asked is the same
        system_prompt: another system prompt for it; None for its own
        approvals: `live` to ask the agent's own approver

    Attributes:
        view: the run; None in a world without a record
        left_calls: the calls of the last reply that the record does not have
        differs: with `model="recorded"`: from which request on the last reply was not the recorded
            one, and how; empty if it was

    Raises:
        NoSuchRun: the journal has no such run
        StateError: the run is not over, or no agent of moothall has made it
        ConfigError: an argument is not valid
    """

    def __init__(
        self,
        journal: Journal | str | None = None,
        run_id: str | None = None,
        *,
        leaves: Leaves = "refuse",
        live: Iterable[str] = (),
        model: Model | str | None = None,
        system_prompt: Any = None,
        approvals: Literal["record", "live"] = "record",
    ) -> None:
        self.view: RunView | None = None
        if run_id is not None or journal is not None:
            self.view = _ended_run(journal, run_id)
        if leaves != "refuse" and not callable(leaves) and not hasattr(leaves, "complete"):
            raise ConfigError(
                f"leaves= must be 'refuse', a function or a model, got {leaves!r:.80}"
            )
        if approvals not in ("record", "live"):
            raise ConfigError(f"approvals= must be 'record' or 'live', got {approvals!r:.80}")
        if model is not None and model != "recorded":
            check_model("FrozenWorld", model)
        self._leaves = leaves
        self._live = frozenset(live)
        self._model = model
        self._system_prompt = system_prompt
        self._approvals = approvals
        self._at = 1  # the number of the first answer that is not the record's
        self._begin(None, {})

    async def reply(
        self,
        agent: Any,
        text: Any = None,
        *,
        journal: Journal | str | None = None,
        run_id: str | None = None,
        **options: Any,
    ) -> Reply[Any]:
        """Return what an agent replies to the run's request.

        Args:
            agent: the agent: the one that made the run, or a changed one
            text: another request; None for the run's
            journal: where the reply is recorded; by default in no file that stays
            run_id: its id there; a run of it that was cut off is resumed
            **options: what `reply` of the agent takes, such as `budget=`, `deps=`, `schema=`

        Raises:
            ConfigError: the agent is none that replies in a frozen world, or `live` names an action
                that does more than read
        """
        self.check(agent)
        with ExitStack() as stack:
            if journal is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="moothall-"))
                journal = stack.enter_context(Journal(Path(folder) / "frozen.db"))
            self._begin(Journal.from_argument(journal, "FrozenWorld.reply"), options)
            reply_options: dict[str, Any] = {}
            if self.view is not None and (request := self.view.request) is not None:
                text = request.text if text is None else text
                reply_options = {"schema": request.schema, "thread": request.thread}
                if kept_options := self.view.begun_with("options"):
                    reply_options["options"] = kept_options
            with StandIns(self._parts_of).standing_in():
                reply: Reply[Any] = await agent.reply(
                    text, run_id=run_id, **{**reply_options, **options}
                )
            return reply

    def _begin(self, journal: Journal | None, options: Mapping[str, Any]) -> None:
        self._records_in = journal
        self._has_deps = "deps" in options
        self._budget = options.get("budget")
        self.left_calls: list[LeftCall] = []
        self.differs: str = ""
        self._parts: dict[tuple[str, str], RecordedPart] = {}  # of calls that ask agents
        self._known_parts: set[str] = set()
        self._calls: dict[str, CallsToTake] = {}

    # -- what it refuses -------------------------------------------------------------------------

    def check(self, agent: Any) -> None:
        """Raise ConfigError for an agent that cannot reply here, or an action that may not run."""
        agents = [agent]
        for each in agents:
            if not getattr(each, "stand_in", None) or (
                each.is_recorded and each.run_kind not in _KINDS
            ):
                kind = type(each).__name__
                raise ConfigError(
                    f"agent {each.id!r} is a {kind}: in a frozen world reply {', '.join(_KINDS)}"
                )
            agents += [m for m in each.member_agents if all(m is not other for other in agents)]
        is_changed = self._system_prompt is not None or self._model not in (None, "recorded")
        if is_changed and getattr(agent, "run_kind", "") in _THEIRS:
            raise ConfigError(
                f"agent {agent.id!r} asks its own models: compare it by the condition `agent`, "
                "without model= and system_prompt="
            )
        if self._live:
            actions = {
                action.name: action
                for each in agents
                for action in getattr(getattr(each, "actions", None), "get_actions", list)()
            }
            for name in sorted(self._live):
                if (action := actions.get(name)) is None:
                    raise ConfigError(f"live=: agent {agent.id!r} has no action {name!r}")
                if not action.idempotent or action.guarded is None or action.guarded:
                    raise ConfigError(
                        f"live= names {name!r}, which does more than read: it must be "
                        "idempotent=True, without guarded parameters"
                    )

    # -- the parts of a reply --------------------------------------------------------------------

    def _parts_of(self, agent: Any, path: str) -> ReplyParts | None:
        if not agent.is_recorded:
            return None
        part = _ReplyInWorld(self, path, *recorded_part(path, self.view, self._parts))
        is_loop = agent.run_kind == "ReActAgent"
        outline = None if self.view is None else self.view.outline
        beginning = None if outline is None else (outline.began, outline.id)
        own_approver = agent.find_approver() if self._approvals == "live" else None
        return ReplyParts(
            execute=part.execute,
            approver=own_approver or part,
            journal=None if path else self._records_in,
            messages=() if part.view is None else part.view.messages_before(part.recorded),
            steps=self._steps_of(agent, part),
            model=self._model_of(agent, part) if is_loop or agent.run_kind in _THEIRS else None,
            system_prompt=None if path else self._system_prompt,
            actions=self._offered(agent, part) if is_loop else (),
            beginning=beginning,
        )

    def _steps_of(self, agent: Any, part: _ReplyInWorld) -> dict[str, Any]:
        """Return the recorded results of steps: of functions of the prompt, and of people."""
        results = {} if part.view is None else part.view.results(part.recorded)
        if agent.run_kind == "ReActAgent":
            if self._has_deps:
                return {}
            is_own = part.path or self._system_prompt is None
            names = ("system_prompt",) if is_own else ()
            return {k: v for k, v in results.items() if k in names or k.startswith("guidance.")}
        if agent.run_kind in _THEIRS:  # what people have answered to its program
            return {
                key: each for key, each in results.items() if not key[-1].isdigit() or "." in key
            }
        other_ids = [f"/{each.id}" for each in agent.member_agents if not each.is_recorded]
        chosen = "choose." if self._model == "recorded" else "/"
        return {
            key: each
            for key, each in results.items()
            if key.endswith((*other_ids, "/")) or key.startswith(chosen)
        }

    def _offered(self, agent: Any, part: _ReplyInWorld) -> list[Action]:
        """Return the actions of others that were found for the reply, as they were described."""
        if part.view is None or not (agent.discover or [*agent.action_sources()]):
            return []
        own_names = {each.name for each in agent.actions.get_actions()}
        return recorded_actions(part.view, part.recorded, own_names)

    def _model_of(self, agent: Any, part: _ReplyInWorld) -> Any:
        def tell(difference: str) -> None:
            self.differs = self.differs or difference

        def own_model() -> Any:
            return agent.model

        if self._model == "recorded" and self.view is None:
            raise ConfigError("model='recorded' needs a recorded run: name another model")
        if self._model == "recorded" and part.view is not None:
            return RecordedAnswers(part.view, part.recorded, own_model, tell)
        if part.path or agent.run_kind in _THEIRS:
            return None
        if self._at > 1 and self.view is not None:
            then = agent.model if self._model is None else self._model
            then = model_named(then) if isinstance(then, str) else then
            return RecordedAnswers(self.view, "", own_model, tell, then, self._at)
        return self._model

    # -- the calls ---------------------------------------------------------------------------------

    def begin_part(self, part: _ReplyInWorld, call: ToolCall) -> None:
        """Count the calls that a resumed reply has had before, once."""
        if part.path in self._known_parts:
            return
        self._known_parts.add(part.path)
        for past in [] if call.step is None else call.step.record.past():
            if past.state != "ended" or "action" not in past.about or past.key == call.key:
                continue
            data, action = past.result, past.about["action"]
            args, is_refused = data.get("was", data["args"]), _is_refused(data["result"])
            if not is_refused:
                part.calls.take(part.recorded, action, args)
            if is_refused or past.permission is not None:
                part.calls.decision(part.recorded, action, args)

    def is_before(self, part: _ReplyInWorld, call: ToolCall) -> bool:
        """Return whether a call is of an answer that is the record's."""
        return self._at > 1 and not part.path and int(call.key.partition(".")[0] or 0) < self._at

    def calls_of(self, view: RunView | None) -> CallsToTake:
        """Return the calls of a run that nobody has taken yet."""
        if view is None:
            return CallsToTake(())
        return self._calls.setdefault(view.outline.id, CallsToTake(view.calls))

    def goes_deeper(self, part: _ReplyInWorld, call: ToolCall, recorded: RecordedCall) -> bool:
        """Return whether an agent that a call asks replies again; note which part it has."""
        if part.view is None or self.is_before(part, call) or is_elsewhere(call.action):
            return False
        own_run = part.view.asked_run(recorded)
        if recorded.part or own_run is not None:
            asked_part = (part.view, recorded.part) if recorded.part else (own_run, "")
            self._parts[part.path, call.key] = asked_part
        return bool(recorded.part) or own_run is not None

    async def leave(
        self, part: _ReplyInWorld, call: ToolCall, execute: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Return what becomes of a call that the record does not have."""
        args = call.args if call.original_args is None else call.original_args

        def note(outcome: Any) -> None:
            self.left_calls.append(LeftCall(part.path, call.key, call.name, args, outcome))

        leaves: Any = self._leaves
        if call.name in self._live:
            note("live")
            return await execute()
        if leaves == "refuse":
            note("refused")
            text = f'"{call.name}" is not available: no recorded call of it has these arguments'
            return {"tool_executed": False, "error": text}
        note("played" if hasattr(leaves, "complete") else "computed")
        try:
            if hasattr(leaves, "complete"):
                value = await play(
                    call, args, self.view.calls if self.view else [], leaves, self._budget
                )
            else:
                value = await call_user(leaves, call.name, args)
        except Exception as error:
            return {"tool_executed": False, "error": error_text(error)}
        return {"tool_executed": True, "result": value}


def _ended_run(journal: Any, run_id: Any) -> RunView:
    """Return a run in whose world an agent may reply; StateError for any other."""
    view = RunView(Journal.from_argument(journal, "FrozenWorld"), run_id)
    outline = view.outline
    if view.end is None or outline.state in ("waiting", "in_doubt", "running"):
        raise StateError(f"run {run_id!r} is not over but {outline.state}: nothing is frozen")
    if view.request is None or outline.kind not in _KINDS:
        raise StateError(
            f"run {run_id!r} is of a {outline.kind}: a frozen world is for runs of "
            f"{', '.join(_KINDS)}"
        )
    return view


class _ReplyInWorld:
    """One reply in a frozen world: whose calls it answers, and what they are permitted."""

    def __init__(self, world: FrozenWorld, path: str, view: RunView | None, recorded: str) -> None:
        self._world = world
        self.path = path
        self.view = view  # the run whose part it has, at the path `recorded`
        self.recorded = recorded
        self.calls = world.calls_of(view)

    async def execute(
        self, call: ToolCall, execute: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Return the result of a call."""
        world, args = self._world, call.args if call.original_args is None else call.original_args
        if ends_conversation(call.action):
            return await execute()
        world.begin_part(self, call)
        recorded = self.calls.take(self.recorded, call.name, args)
        if recorded is None:
            return await world.leave(self, call, execute)
        if world.goes_deeper(self, call, recorded):
            return await execute()
        call.read_sources = (*dict.fromkeys((*call.read_sources, *recorded.sources)),)
        for text in recorded.statements:
            call.add_statement(text)
        call.raised = recorded.raised
        return dict(recorded.result or {})

    async def approve(self, request: ApprovalRequest) -> Any:
        """Return what was decided about an equal call."""
        recorded = self.calls.decision(self.recorded, request.action, request.args)
        if recorded is None:
            left_call = LeftCall(self.path, "", request.action, dict(request.args), "undecided")
            self._world.left_calls.append(left_call)
            return Refused("nobody has decided about this call in the record")
        if recorded.decision is not None:
            return recorded.decision
        if not _is_refused(result := recorded.result or {}):
            return True  # its thread had a permission already
        reason = str(result["error"]).partition(f"{_REFUSED}: ")[2]
        return Refused(reason) if reason else False

    async def answer(self, question: Any) -> str:
        """Refuse a question: calls that have asked one are not executed."""
        raise NobodyToAsk("in a frozen world nobody is asked")


def _is_refused(result: dict[str, Any]) -> bool:
    return _REFUSED in str(result.get("error", ""))
