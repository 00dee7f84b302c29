"""What a thread is shown of a run whose turns another program takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moothall.agents.loop.provenance import marks_after_reading, marks_of_result
from moothall.agents.loop.recording import LoopState, LoopTurn
from moothall.agents.replies.state import APPENDED
from moothall.models.protocol import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moothall.agents.loop.answer import ToolCall
    from moothall.agents.loop.turn_end import TurnEnd
    from moothall.agents.replies.reply import Step
    from moothall.models.protocol import ModelReply

_END = "end"


@dataclass(slots=True)
class TheirState(LoopState):
    """The state of such a run: what the loop keeps, and what of the program is in it already."""

    # The keys of the requests and calls that are counted, and "<KEY" of each turn that is kept.
    saved: list[str] = field(default_factory=list, metadata=APPENDED)
    history: str = ""  # the name of the list of messages before the run


class TheirTurns:
    """The turns of a run, made of the prompts by which its program continues its conversation."""

    def __init__(self, turn_end: TurnEnd, state: TheirState) -> None:
        self._turn_end = turn_end
        self._state = state
        self._saved = {*state.saved}
        self._prompt: list[dict[str, Any]] = []  # the conversation as the last prompt had it
        self._usage: dict[str, Usage] = {}  # of requests that are not counted yet
        self._steps: dict[str, Step] = {}  # of calls that are not counted yet
        self._calls: dict[str, ToolCall] = {}  # of the last answer, by their ids
        self._last_answer: ModelReply | None = None

    def begin(self, messages: Sequence[dict[str, Any]]) -> None:
        """Take the messages with which the program begins."""
        self._prompt = [*messages]

    def note_answer(self, key: str, answer: ModelReply, is_main: bool) -> None:
        """Take what a model answered."""
        if key not in self._saved:
            self._usage[key] = Usage.in_answer(answer)
        if is_main:
            self._state.text = answer.text or self._state.text
            self._last_answer = answer
            self._calls = {}

    def note_call(self, key: str, call: ToolCall, step: Step) -> None:
        """Take the result of a call."""
        self._calls[call.id] = call
        if key not in self._saved:
            self._steps[key] = step

    def note_prompt(self, key: str, prompt: list[dict[str, Any]]) -> None:
        """Keep what a prompt adds to the conversation, if it continues it."""
        first = int(bool(prompt) and prompt[0]["role"] == "system")
        count = len(self._prompt)
        past = prompt[first : first + count]
        if past != self._prompt and [*map(_contents, past)] != [*map(_contents, self._prompt)]:
            return  # a prompt of its own, such as that of a node that sums something up
        self._prompt = prompt[first:]
        self._keep(f"<{key}", self._prompt[count:])

    def finish(self, text: str) -> None:
        """Keep the last answer, and the results that no model was shown."""
        answer, new = self._last_answer, list[dict[str, Any]]()
        if answer is not None and (ended_calls := [c for c in answer.calls if c.id in self._calls]):
            calls = [self._calls[each.id] for each in ended_calls]
            listed = [{"id": c.id, "name": c.safe_name, "args": c.args} for c in calls]
            new.append({"role": "assistant", "content": answer.text, "tool_calls": listed})
            for call in calls:
                content = "" if call.result is None else call.result.text
                result = {"role": "tool", "tool_call_id": call.id, "name": call.safe_name}
                new.append({**result, "content": content})
        new.append({"role": "assistant", "content": text or "(no text)"})
        self._state.text = text
        self._keep(f"<{_END}", new)

    def _keep(self, key: str, messages: list[dict[str, Any]]) -> None:
        if key in self._saved or not messages:
            return
        state, run = self._state, self._turn_end
        turn = LoopTurn(state.iteration + 1)
        for message in messages:
            call = self._calls.get(message.get("tool_call_id", ""))
            if message["role"] == "tool" and call is not None and call.result is not None:
                turn.add(message, marks_of_result(call, run.thread, run.request))
            else:  # also of what the program tells its model: it may repeat what that wrote
                turn.add(message, marks_after_reading(run.thread))
        new = [*self._usage, *self._steps, key]
        turn.usage = sum(self._usage.values(), turn.usage)
        turn.steps = [*self._steps.values()]
        self._saved.update(new)
        state.saved += new
        self._usage, self._steps = {}, {}
        run.run_memory.save(state, turn)


def _contents(message: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a message says: a framework may leave out a name, or write that there is none."""
    calls = [(each["id"], each["name"], each["args"]) for each in message.get("tool_calls", ())]
    return message["role"], message.get("content") or "", message.get("tool_call_id", ""), calls
