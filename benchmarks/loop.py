"""What the loop makes of sixty one-instruction tasks on the default model, held to a form and not.

    python -m benchmarks.loop [--quick] [--seeds 3] [--temperature 0.7] [--each]
                              [--form FORM …]

Each task of `benchmarks.instructions` is one `ReActAgent.reply` of a new agent over a new folder,
with eight actions that end the reply when they succeed. The forms take turns, task by task:

* `grammar`: LocalModel as it is, which can write nothing but a call of one of the actions;
* `grammar, files listed`: the same, and the schemas name the files of the folder
  (`file_actions(only_listed=True)`), so that no other can be read or searched;
* `free text`: the same prompt, token for token, and no grammar. What the model writes is read by
  `read_choice` and nothing else: no fences, no text around it. An answer that is none of the forms
  is remembered as it stands, the model is told what is wrong with it and asked once more, and then
  the loop stops as `unreadable`. So the forms differ in the grammar alone until something fails;
* `grammar, one example` and `free text, one example`: the same two, and the agent remembers one
  instruction with the right call. The prompt's form was chosen under a grammar; this is what an
  example does for a model that must find the form by itself.

`right` counts a reply that ended with the right call, what it returns, and the folder as it is to
be; `action` one whose first call is of the right action. Intervals are Wilson's of 95 %. At a
temperature they are narrower than the truth: the seeds' replies to one task are not independent,
nor are one seed's to all tasks, since each begins with the same draw. `turns` are the model's
answers, `re_asks` the answers that could not be used and were asked for again; turns, tokens and
seconds are means of a reply.

One slot computes all replies, in the same order in every run of the same forms, so a run comes out
the same on one machine; what was computed before a reply may change its rounding. The prompt cache
is on, as it is in `LocalModel()`: what the actions are is computed once, for every form.

The same for ten questions that are answered by a value (`schema=`), with the grammar of the schema
and without. `--quick` leaves the temperature out; `--each` prints every reply too; `--form` takes
the forms named alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from benchmarks.instructions import QUESTIONS, TASKS, Question, Task, fill, offered
from benchmarks.measure import emit
from moothall import Action, Call, Memory, ModelReply, ReActAgent, Reply
from moothall.models import LocalModel
from moothall.models.calling.choice import INSTRUCTION_PREFIX, choice_text, read_choice

MAX_TOKENS = 80
"""The longest right answer has about half of it. What goes on is cut: free text that would not be
right either way, and texts in arguments that find no end under a grammar. These end the reply as
`done`, since a call that was cut is passed on as text."""

# -- free text -------------------------------------------------------------------------------------

UNREADABLE = "unreadable"
"""What an answer in none of the forms is passed to the loop as: a call that it will not know."""


class FreeText:
    """A model that is shown what LocalModel shows it, and held to nothing.

    Args:
        model: answers chat messages
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.name = f"{model.name}, free text"
        self.context_tokens = model.context_tokens

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """The model's answer; the loop itself reads one that is to follow a schema."""
        if not actions:
            reply: ModelReply = await self.model.complete(messages)
            return reply
        reply = await self.model.complete(told(messages, actions))
        try:
            chosen = read_choice(reply.text)
        except ValueError:
            chosen = [(UNREADABLE, {})]
        if isinstance(chosen, str):
            return dataclasses.replace(reply, text=chosen)
        call = Call(f"call_{len(messages)}", *chosen[0])
        # The loop remembers the text beside a call: here, what could not be read.
        text = reply.text if call.name == UNREADABLE else ""
        return ModelReply(text, (call,), reply.usage, "calls")


def told(messages: list[dict[str, Any]], actions: list[Action]) -> list[dict[str, Any]]:
    """The conversation in the words in which LocalModel gives it to the model under a grammar."""
    chat: list[dict[str, Any]] = []
    may_answer = False
    for message in messages:
        role = message["role"]
        if role == "user":
            may_answer = False
            chat.append({**message, "content": INSTRUCTION_PREFIX + message["content"]})
        elif role == "assistant" and [call["name"] for call in _calls(message)] == [UNREADABLE]:
            chat.append({"role": "assistant", "content": message["content"] or "(no answer)"})
            chat.append({"role": "user", "content": _fault(message["content"])})
        elif role != "tool":
            chat.append(message)
        elif message["name"] != UNREADABLE:
            may_answer = True
            chat.append(message)
    return [{"role": "system", "content": choice_text(actions, may_answer=may_answer)}, *chat]


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = message.get("tool_calls", [])
    return calls


def _fault(text: str) -> str:
    reason = "there is no such action"
    try:
        read_choice(text)
    except ValueError as error:
        reason = str(error)
    return f"Your answer cannot be read: {reason}. Answer with one of the JSON forms alone."


# -- one reply -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What came of one task or question."""

    kind: str
    text: str
    right: bool
    action: bool
    reply: Reply
    seconds: float

    @property
    def turns(self) -> int:
        return len(self.said)

    @property
    def said(self) -> list[str]:
        """The model's answers: the text, or the call that it is."""
        return [
            message["content"] or ", ".join(map(_spelled, _calls(message)))
            for message in self.reply.messages
            if message["role"] == "assistant"
        ]

    @property
    def re_asks(self) -> int:
        """Answers that could not be used; the last one was not asked for again."""
        acted = {step.iteration for step in self.reply.steps}
        return sum(turn not in acted for turn in range(1, self.turns))


def _spelled(call: dict[str, Any]) -> str:
    return (
        f"{call['name']}({', '.join(f'{name}={value!r}' for name, value in call['args'].items())})"
    )


def example() -> Memory:
    """One instruction and the call that it asks for, remembered."""
    memory = Memory()
    call = {"id": "call_0", "name": "read_file", "args": {"file_name": "hello.txt"}}
    memory.add_memory({"role": "user", "content": "Read the file hello.txt"})
    memory.add_memory({"role": "assistant", "content": "", "tool_calls": [call]})
    return memory


def attempt(
    task: Task, model: Any, *, only_listed: bool = False, memory: Memory | None = None
) -> Outcome:
    """One task, over a folder of its own."""
    with tempfile.TemporaryDirectory() as path:
        root = Path(path)
        fill(root)
        actions = offered(root, only_listed=only_listed)
        agent = ReActAgent("worker", model, actions=actions, memory=memory)
        begun = time.perf_counter()
        reply = agent.reply_sync(task.text)
        seconds = time.perf_counter() - begun
        action = bool(reply.steps) and reply.steps[0].action == task.action
        return Outcome(task.action, task.text, task.is_done(reply, root), action, reply, seconds)


def answer(question: Question, model: Any) -> Outcome:
    """One question for a value; its `action` is to give one that follows the schema."""
    agent = ReActAgent("reader", model)
    begun = time.perf_counter()
    reply = agent.reply_sync(question.text, schema=question.schema)
    seconds = time.perf_counter() - begun
    done = reply.stop_reason == "done"
    right = done and reply.value == question.value
    return Outcome("question", question.sentence, right, done, reply, seconds)


# -- all of them -----------------------------------------------------------------------------------

ON_TASKS: dict[str, Callable[[Task, LocalModel], Outcome]] = {
    "grammar": attempt,
    "grammar, files listed": lambda task, model: attempt(task, model, only_listed=True),
    "free text": lambda task, model: attempt(task, FreeText(model)),
    "grammar, one example": lambda task, model: attempt(task, model, memory=example()),
    "free text, one example": lambda task, model: attempt(task, FreeText(model), memory=example()),
}
ON_QUESTIONS: dict[str, Callable[[Question, LocalModel], Outcome]] = {
    "grammar": answer,
    "free text": lambda question, model: answer(question, FreeText(model)),
}
T = TypeVar("T")
Outcomes: TypeAlias = dict[str, list[Outcome]]
"""What came of a run, by form."""


def in_turns(
    given: Sequence[T], forms: dict[str, Callable[[T, LocalModel], Outcome]], model: LocalModel
) -> Iterator[tuple[str, Outcome]]:
    """Everything given in every form; whatever else the machine does meets all forms alike."""
    order = deque(forms)
    for one in given:
        for form in tuple(order):
            yield form, forms[form](one, model)
        order.rotate(-1)


def wilson(hits: int, of: int) -> list[float]:
    """The 95 % interval of a proportion."""
    z = 1.96
    share, spread = hits / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return [round(max(middle - half, 0.0), 3), round(min(middle + half, 1.0), 3)]


def figures(metric: str, setting: str, outcomes: Outcomes) -> None:
    """Print what came of each form."""
    for form, of in outcomes.items():
        right, action = sum(one.right for one in of), sum(one.action for one in of)
        emit(
            metric,
            f"{setting}, {form}",
            right,
            f"right of {len(of)}",
            right_interval=wilson(right, len(of)),
            action=action,
            action_interval=wilson(action, len(of)),
            stops=dict(Counter(one.reply.stop_reason for one in of).most_common()),
            turns=statistics.mean(one.turns for one in of),
            re_asks=sum(one.re_asks for one in of),
            input_tokens=statistics.mean(one.reply.usage.input_tokens for one in of),
            output_tokens=statistics.mean(one.reply.usage.output_tokens for one in of),
            seconds=statistics.mean(one.seconds for one in of),
        )
    for form, of in outcomes.items():
        free = outcomes.get(form.replace("grammar", "free text"), of)
        if free is of:
            continue
        pairs = Counter((a.right, b.right) for a, b in zip(of, free, strict=True))
        emit(
            metric,
            f"{setting}, {form}: right, and not in free text",
            pairs[True, False],
            f"of {len(of)}",
            the_reverse=pairs[False, True],
        )


def by_action(setting: str, outcomes: Outcomes) -> None:
    """Print which kinds of tasks fail."""
    for form, of in outcomes.items():
        for kind in dict.fromkeys(one.kind for one in of):
            ours = [one for one in of if one.kind == kind]
            emit(
                f"one instruction: {kind}",
                f"{setting}, {form}",
                sum(one.right for one in ours),
                f"right of {len(ours)}",
                action=sum(one.action for one in ours),
            )


def show(variant: str, one: Outcome) -> None:
    """Print one reply."""
    emit(
        "reply",
        f"{variant}: {one.text}",
        int(one.right),
        "right",
        action=one.action,
        stop=one.reply.stop_reason,
        said=one.said,
        seconds=one.seconds,
    )


def run(
    heat: float, seed: int, shown: str = "", forms: Container[str] = ON_TASKS
) -> tuple[Outcomes, Outcomes]:
    """Every task and every question, in these forms; each is printed if `shown` says as what."""
    on_tasks = {form: way for form, way in ON_TASKS.items() if form in forms}
    on_questions = {form: way for form, way in ON_QUESTIONS.items() if form in forms}
    tasks: Outcomes = {form: [] for form in on_tasks}
    questions: Outcomes = {form: [] for form in on_questions}
    with LocalModel(temperature=heat, seed=seed, max_tokens=MAX_TOKENS, slots=1) as model:
        ReActAgent("first", model).reply_sync("Hello")  # loads it
        for into, outcomes in (
            (tasks, in_turns(TASKS, on_tasks, model)),
            (questions, in_turns(QUESTIONS, on_questions, model)),
        ):
            for form, one in outcomes:
                into[form].append(one)
                if shown:
                    show(f"{shown}, {form}", one)
    return tasks, questions


def report(setting: str, runs: Sequence[tuple[Outcomes, Outcomes]]) -> None:
    """Print the figures of all runs in one setting together."""
    tasks, questions = (
        {form: [one for run in runs for one in run[part][form]] for form in runs[0][part]}
        for part in (0, 1)
    )
    by_action(setting, tasks)
    figures("one instruction", setting, tasks)
    figures("a value by schema", setting, questions)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="temperature 0 alone")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--each", action="store_true", help="print every reply")
    parser.add_argument("--form", action="append", choices=list(ON_TASKS), help="this one alone")
    args = parser.parse_args()
    settings: list[tuple[str, float, int]] = [("greedy", 0.0, 1)]
    if args.seeds and not args.quick:
        setting = f"temperature {args.temperature}, {args.seeds} seeds"
        settings.append((setting, args.temperature, args.seeds))
    for setting, heat, seeds in settings:
        shown = setting if args.each else ""
        report(setting, [run(heat, seed, shown, args.form or ON_TASKS) for seed in range(seeds)])


if __name__ == "__main__":
    main()
