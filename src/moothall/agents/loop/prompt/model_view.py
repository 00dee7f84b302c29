"""What a model is shown in a run: its actions, and the prompt; and what its answer shows."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

from moothall.actions import Action
from moothall.actions.goal import format_goals
from moothall.actions.provenance.marks import without_marks
from moothall.agents.block import Guidance
from moothall.agents.context import checked_prompt
from moothall.agents.dispatch import block_name
from moothall.agents.loop.answer import OfferedActions, as_action
from moothall.agents.loop.call_result import as_seen
from moothall.agents.loop.parts import Looping, messages_of
from moothall.agents.loop.provenance import note_messages
from moothall.agents.replies.reply import Stop
from moothall.foundation.errors import ConfigError, DefinitionError
from moothall.foundation.text import log_failure
from moothall.foundation.threads import awaited
from moothall.memory.refused import as_allowed
from moothall.models.protocol import ReasoningPiece, TextPiece

if TYPE_CHECKING:
    from moothall.agents.context import Context
    from moothall.agents.replies.reply_request import ReplyRequest
    from moothall.agents.replies.thread import Thread
    from moothall.memory.memory import Memory
    from moothall.models.protocol import Model

logger: logging.Logger = logging.getLogger("moothall.agents")

_SYSTEM_KEY = "system_prompt"
_NO_ACTIONS = OfferedActions([])


class ModelView:
    """What the model of a run is shown."""

    _unmarked: UnmarkedMessages | None = None
    _last_prompt: list[dict[str, Any]] | None = None  # the prompt as it was made last
    _chosen_actions: OfferedActions | None = None  # by a block, the last time that one chose
    _last_descriptions: Sequence[tuple[str, str]] | None = None  # those looked at last

    def __init__(self, agent: Looping, request: ReplyRequest, memory: Memory) -> None:
        self._agent = agent
        self._request = request
        self._memory = memory
        self.thread: Thread = request.state
        self.texts: dict[str, str] = {}  # what functions of the prompt returned, by key
        # Lines from outside, with their sources.
        self._outside_lines: tuple[tuple[str, str], ...] = ()
        # In this turn. As the class's default, Python 3.11 would read it several times slower.
        self.offered: OfferedActions = _NO_ACTIONS
        self.actions_of_run: tuple[Action, ...] = ()  # by a function of its context

    def prompt_functions(self) -> Iterator[tuple[str, str, Callable[..., Awaitable[str]]]]:
        """Yield the functions of the prompt to call for this run: what each is, its key."""
        agent, texts = self._agent, self.texts
        if callable(system_prompt := agent.system_prompt) and _SYSTEM_KEY not in texts:
            yield "system_prompt", _SYSTEM_KEY, partial(_run_function, system_prompt)
        for place, block in enumerate(agent.blocks):
            if callable(guidance := getattr(block, "guidance", "")):
                name = block_name(block)
                if (key := f"guidance.{place}.{name}") not in texts:
                    yield f"guidance of the block {name!r}", key, partial(_run_function, guidance)

    def set_guidance(self, key: str, guidance: Any) -> None:
        """Take what a function of the prompt has said, now or in the record."""
        text, lines = (guidance, ()) if isinstance(guidance, str) else guidance
        self.texts[key] = text
        self._outside_lines += tuple((source, line) for source, line in lines)

    # -- actions -----------------------------------------------------------------------------------

    def refresh_actions(self) -> None:
        """Show the actions that the agent has now."""
        agent = self._agent
        try:
            self.offered = agent.show_actions(
                self.thread, (*self._request.offered, *self.actions_of_run)
            )
        except DefinitionError as error:  # of an action that was registered since
            log_failure(logger, f"the actions of agent {agent.id!r} cannot be shown", error)
            raise Stop("error", str(error), error) from error

    def choose(self, actions: list[Action]) -> None:
        """Show these of the agent's actions in this turn, in this order."""
        if actions == self.offered.agent_actions:
            return
        if self._chosen_actions is None or self._chosen_actions.agent_actions != actions:
            for each in actions:
                if not isinstance(each, Action):
                    raise ConfigError(f"step.actions must be Actions, got {each!r:.80}")
                if self.action(each.name) is None:
                    raise ConfigError(f"agent {self._agent.id!r} has no action {each.name!r}")
            self._chosen_actions = self.offered.choose([*actions])
        self.offered = self._chosen_actions
        if (
            self._last_descriptions is not None
            and self.offered.descriptions != self._last_descriptions
        ):
            self.prompt()  # the model reads other descriptions

    def find(self, name: str) -> tuple[str, Action | None]:
        """Return the public name and the action for a name that the model used."""
        public = self.offered.public_names.get(name, name)
        return public, self.action(public)

    def action_named(self, name: str) -> Action | None:
        """Return the action of a name in a message."""
        return self.find(name)[1]

    def action(self, name: str) -> Action | None:
        """Return the action of a public name."""
        if self._request.offered or self.actions_of_run or self.offered.own_actions:
            offered_here = (*self._request.offered, *self.actions_of_run)
            for offered in (*offered_here, *self.offered.own_actions):
                if offered.name == name:
                    return offered
        own_action = self._agent.actions.get_action(name)
        return (
            (self.thread.discovered_actions or {}).get(name)
            if own_action is None
            else as_action(own_action)
        )

    def callable_names(self) -> list[str]:
        """Return the names that the model may call."""
        return [action.name for action in self.offered.actions]

    # -- the prompt --------------------------------------------------------------------------------

    def prompt(self) -> list[dict[str, Any]]:
        """Return the prompt, from the current memory and goals."""
        agent, thread, texts = self._agent, self.thread, self.texts
        self._last_prompt = None  # the memory uses its list again once nobody has it
        messages, new = messages_of(self._memory, agent.id, thread.last_checked)
        trusted = prompt = messages
        own_prompt = agent.system_prompt
        if own_prompt is not None and callable(own_prompt):
            own_prompt = texts.get(_SYSTEM_KEY)
        guidance = getattr(agent.actions, "guidance", ())
        descriptions = self._last_descriptions = self.offered.descriptions
        goals = agent.stated_goals
        if own_prompt or goals or guidance or texts:
            parts = [own_prompt, *guidance]
            if texts:
                parts += [text for key, text in texts.items() if key != _SYSTEM_KEY]
            if goals:
                parts.append(format_goals(goals))
            if system := "\n\n".join(filter(None, parts)):
                trusted = prompt = [{"role": "system", "content": system}, *messages]
            if self._outside_lines:  # which does not count as the program's
                lines = "\n".join(line for _, line in self._outside_lines)
                prompt = [{"role": "system", "content": f"{system}\n\n{lines}".strip()}, *messages]
                descriptions = (*descriptions, *self._outside_lines)
        self._last_prompt = prompt
        added = None if new is messages else new
        note_messages(thread, self._request, trusted, self.action_named, added, descriptions)
        if thread.is_marked:  # neither hooks nor models see marks
            if thread.has_refusals:
                self._last_prompt = prompt = as_allowed(prompt)
            self._unmarked = self._unmarked or UnmarkedMessages()
            self._last_prompt = prompt = self._unmarked.strip(prompt)
        return prompt

    def as_model_sees(self, model: Model, prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a prompt as the model gets it: without what it cannot see."""
        is_known = prompt is self._last_prompt and not self.thread.has_blocks
        return prompt if is_known else as_seen(model, prompt)


async def _run_function(function: Callable[..., Any], context: Context[Any]) -> Any:
    """Return what a function says for the prompt, as JSON data."""
    result = await awaited(function(context))
    if not isinstance(result, Guidance):
        return checked_prompt(result)
    return [checked_prompt(result.text), [[source, line] for source, line in result.outside]]


class PieceEmitter:
    """The pieces of one answer, as events; with a schema, each with the value so far."""

    __slots__ = ("_emit", "_event_fields", "_schema", "_texts")

    def __init__(
        self,
        schema: dict[str, Any] | None,
        agent: str,
        request: ReplyRequest,
        emit: Callable[[Any], Any],
    ) -> None:
        self._schema = schema
        self._event_fields = (agent, request.run_id, request.thread)
        self._emit = emit
        self._texts: list[str] = []

    def emit(self, piece: TextPiece | ReasoningPiece) -> None:
        """Emit the event of a piece, which reads its value once somebody looks at it."""
        text = piece.text
        if type(piece) is ReasoningPiece:
            self._emit(ReasoningPiece(text, *self._event_fields))
        elif self._schema is None:
            self._emit(TextPiece(text, *self._event_fields))
        else:
            self._texts.append(text)
            value = partial(self._value_so_far, len(self._texts))
            self._emit(TextPiece(text, *self._event_fields, _value=value))

    def _value_so_far(self, count: int) -> Any:
        from moothall.actions.signature.partial_value import value_so_far

        return value_so_far("".join(self._texts[:count]), self._schema or {})


class UnmarkedMessages:
    """The messages of a prompt as models get them, without marks; built again where they differ."""

    __slots__ = ("_messages", "_stripped")

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._stripped: list[dict[str, Any]] = []

    def strip(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return messages without marks."""
        first = int(bool(messages) and messages[0].get("role") == "system")
        rest, unchanged = messages[first:], len(self._messages)
        if len(rest) < unchanged or not all(map(is_, rest, self._messages)):
            unchanged = 0
        self._stripped = [*self._stripped[:unchanged], *map(without_marks, rest[unchanged:])]
        self._messages = rest
        return [*messages[:first], *self._stripped]
