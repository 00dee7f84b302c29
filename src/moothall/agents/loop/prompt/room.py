"""What fits into a model's context: how much of a memory, and of long results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from moothall.actions.provenance import sources_of
from moothall.agents.loop.answer import ToolCall
from moothall.agents.replies.events import ResultsCleared
from moothall.agents.replies.record import Record
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.foundation.errors import MissingExtra, ModelError
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.text import counted, cut
from moothall.foundation.text.pages import excerpt, page_chars
from moothall.memory.bounded import ASSUMED_CONTEXT, TokenBoundedMemory
from moothall.memory.long_results import LEAST_CHARS, READ_RESULT, RESULT_KEY, ThreadResults

if TYPE_CHECKING:
    from moothall.agents.loop.call_result import CallResult
    from moothall.agents.loop.parts import Looping
    from moothall.agents.loop.recording import LoopTurn
    from moothall.models.protocol import Model

logger: logging.Logger = logging.getLogger("moothall.agents")

_ASK_TIMEOUT_S = 5.0
_MIN_RESULT_CHARS = 200
"""How many characters of each result are shown even in a small context."""
_ARGS_CHARS = 200
"""How many characters of a call's arguments are kept with its result, to find it by them."""
_ASSUMED_NOTE = f"{ASSUMED_CONTEXT:,} tokens are assumed: state context_tokens="
_ASKED_MODELS: WeakSet[Any] = WeakSet()
"""The models whose servers have been asked how much they read."""


def bounds_of(model: Any) -> tuple[int, int]:
    """Return the tokens of a memory: in all, and before a reply loses its own results."""
    context = getattr(model, "context_tokens", None)
    tokens = context if isinstance(context, int) else ASSUMED_CONTEXT
    if tokens < 2:
        return 1, 1
    # The rest is for the system part, the actions' descriptions and the answer.
    return tokens // 2, tokens * 3 // 4


def fit(model: Any, memory: Any, agent: str) -> Awaitable[None] | None:
    """Fit a memory whose bound was not chosen to the model.

    If its server is to be asked, which is done once, return what is to be awaited.
    """
    is_default = isinstance(memory, TokenBoundedMemory) and memory.reply_tokens is not None
    fit_reply = None if is_default else getattr(memory, "fit_reply", None)
    if fit_reply is None and not is_default:
        return None
    if hasattr(model, "find_context") and model not in _ASKED_MODELS:
        return _ask_and_fit(model, memory, agent)
    if fit_reply is not None:
        fit_reply(bounds_of(model)[1])
    else:
        memory.max_tokens, memory.reply_tokens = bounds_of(model)
    return None


async def _ask_and_fit(model: Any, memory: Any, agent: str) -> None:
    with suppress(ModelError, MissingExtra, TimeoutError):  # an answer will say so
        async with asyncio.timeout(_ASK_TIMEOUT_S):
            await model.find_context()
    _ASKED_MODELS.add(model)
    if model.context_tokens is None:
        warning_form = "agent %r: nobody says how much model %s reads at once; %s"
        logger.info(warning_form, agent, model.name, _ASSUMED_NOTE)
    fit(model, memory, agent)


def make_room(memory: Any) -> bool:
    """Have a memory show less, if it can; return whether it does."""
    method = getattr(memory, "make_room", None)
    return method is not None and bool(method())


def left_out(detail: str, count: int, agent: str, model: Any) -> str:
    """Return a reply's detail, with how many messages of it the model no longer read."""
    text = f"{counted(count, 'earlier message')} of this reply did not fit the model's memory"
    is_stated = getattr(model, "context_tokens", None) is not None
    logger.warning("agent %r: %s", agent, text if is_stated else f"{text}; {_ASSUMED_NOTE}")
    return f"{detail}; {text}" if detail else text


def result_chars(model: Any, max_chars: int, results: int) -> int:
    """Return how many characters of each result are shown: an eighth of the context.

    The results of one answer together take at most about half of it, at two characters a token.
    """
    context = getattr(model, "context_tokens", None)
    if not isinstance(context, int):
        return max_chars
    return min(max_chars, max(context // max(results, 4), _MIN_RESULT_CHARS))


def _args_text(args: Any) -> str:
    return cut(json_line(args), _ARGS_CHARS) if args else ""


class LongResults:
    """What the model of a run is shown of long results, each with a number to read it again by."""

    def __init__(
        self,
        agent: Looping,
        model: Model,
        request: ReplyRequest,
        record: Record[Any] | None,
    ) -> None:
        self._agent = agent
        self._request = request
        self._record = record
        self._thread = request.state
        self.model_or_name = model

    def remember(self, messages: Iterable[dict[str, Any]], turn: LoopTurn) -> None:
        """Take the results in messages that are remembered from an earlier process."""
        args_by_call: dict[str, Any] = {}
        for each in messages:
            calls = each.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, dict):
                    args_by_call[str(call.get("id"))] = call.get("args")
            if RESULT_KEY in each:
                call_args = args_by_call.get(str(each.get("tool_call_id")))
                self._results.restore(each, sources_of(each), _args_text(call_args))
                self._offer(turn)

    def content_shown(
        self,
        call: ToolCall,
        result: CallResult,
        limit: int,
        turn: LoopTurn,
    ) -> tuple[str, list[Any] | None]:
        """Return the text of a result as its model is shown it, and the mark of its message.

        One that is short, and of arguments that nobody has changed, is shown as it is.
        """
        mark: list[Any] | None = None
        content = result.text
        if len(content) >= LEAST_CHARS and self._is_name_free:
            own_action = self._results.action
            if call.action is own_action:
                mark = self._results.mark(call.args.get("number"))
            elif call.action is not None:
                keep = None if self._record is None else self._record.keep
                is_whole = len(content) <= limit
                result_parts = (content, result.sources, is_whole, keep, _args_text(call.args))
                mark = self._results.add(call.name, *result_parts)
                if not is_whole:
                    content = excerpt(content, limit, f"result {mark[0]}, see {own_action.name}")
                    self._offer(turn)
        if mark is None:
            content = cut(content, limit)
        if call.original_args is not None:
            args = {
                name: each
                for name, each in call.args.items()
                if call.original_args.get(name) != each
            }
            note = f"[A person changed the arguments of this call: {json_line(args)}]"
            content = f"{content}\n{cut(note, limit)}"
        return content, mark

    def tell_cleared(self, numbers: list[int], turn: LoopTurn) -> None:
        """Tell which results the memory has cleared, and let the model read them again."""
        self._offer(turn)
        self._request.tell(ResultsCleared, str(self._agent.id), numbers)

    @property
    def _results(self) -> ThreadResults:
        results = self._thread.results
        if results is None:
            results = self._thread.results = ThreadResults()
        results.page_chars = page_chars(
            result_chars(self.model_or_name, self._agent.max_result_chars, 1)
        )
        results.read_value = None if self._record is None else self._record.stored_value
        return results

    @property
    def _is_name_free(self) -> bool:
        """Whether no action of the agent has the name by which results are read."""
        return self._agent.actions.get_action(READ_RESULT) is None

    def _offer(self, turn: LoopTurn) -> None:
        if READ_RESULT not in self._thread.found_actions and self._is_name_free:
            turn.found_actions = [*turn.found_actions, READ_RESULT]
            self._thread.found_actions += (READ_RESULT,)
