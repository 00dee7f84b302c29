"""What a reviewer is worth: dual act beside asking the worker again, at equal tokens.

    python -m benchmarks.dualact [--quick] [--seeds 20] [--part cells|local] > figures.jsonl
    python -m benchmarks.dualact --table figures.jsonl

The sixty tasks of `benchmarks.filetasks`, over real folders, by `ReActAgent` and `DualActAgent`. No
model thinks here: the *worker* is a model that does a task the right way or, with the stated
probability (0.1, 0.3, 0.5), the wrong one; the *reviewer* is a model which is told by the harness
whether the end is right, decides accordingly with its accuracy (0.6, 0.8, 0.95), and otherwise the
reverse. So the figures say what follows from error rates and accuracies; what these are for a real
model and task has to be measured there.

Three kinds of errors, since real models err again where they erred, whoever asks them:

* `independent`: each attempt errs at the stated rate;
* `correlated`: after an error at a task the next attempt there errs at 0.8, and after a right one
  so much more rarely that each attempt, taken alone, errs at the stated rate;
* `persistent`: after any error at a task all later attempts there err at 0.8, before at the stated
  rate. So each further attempt is another chance to get stuck, whether it was needed or not.

What an attempt draws depends on seed, task and number of the attempt alone, so all forms meet the
same first attempts. A reviewer's draws are independent of each other.

* `alone`: one reply.
* `asked twice`: one agent, asked again in the same thread ("Are you sure? …"); what it says and has
  written then counts. Two answers have no majority.
* `repeated`: fresh agents over fresh folders, as many as the tokens of `every` pay for in the same
  cell; a fraction is drawn by lot. What most of them came to counts, the first of a tie; of two
  there is no majority, and the first counts. A task has one wrong end, so all errors agree, which
  is the hardest case for a majority.
* `repeated, errors differ`: the same attempts, counted as if no two wrong ends were alike: the
  easiest case. A real task lies between the two.
* `every`: dual act, H reviews each conclusion, up to five runs of R, `first="reactive"`.
* `on_error`: dual act, H reviews where an action failed: 15 of the wrong ways, 5 of the right.
* `below_confidence`: dual act, R states its confidence, which is below the rule's 0.7 in 60 % of
  the wrong ends and 20 % of the right ones.

Tokens are the characters of what the model was shown and of what it said, divided by 4: prompts
that grow by what was said before are counted as they are. An answer is short here; where R's work
is long and H's look at it short, H is cheaper than here. `r_runs` are attempts, `h_decisions`
H's answers; tokens, runs and decisions are means of a task. Intervals are Wilson's of 95 %;
the forms share their draws, so differences are surer than the intervals say.

Beside it is the local model as R on the lookup tasks, each as one plain instruction (`Search X for
"Y"`), alone and under a rule in H's place that sees no truth: the call is the one that the
instruction's verb asks for, the file is named in it, and nothing failed. R may give three answers a
run and run twice; right is the right call with the right arguments at the end; what the rule did
not accept ends as `max_loops`.

`--quick` is one seed, and no local model. Files are written through to the disk, so
TMPDIR=/dev/shm makes it faster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.filetasks import TASKS, FileTask, found, instruction, offered
from benchmarks.loop import wilson
from benchmarks.measure import emit
from moothall import (
    Action,
    Call,
    Conclusion,
    DecisionAction,
    DualActAgent,
    DualActConfig,
    HumanDecision,
    ModelReply,
    ReActAgent,
    ReviewRule,
    Usage,
    below_confidence,
    on_error,
)
from moothall.agents import file_actions

ERROR_RATES = (0.1, 0.3, 0.5)
ACCURACIES = (0.6, 0.8, 0.95)
AGAIN = 0.8
"""How probable an error is after an error, where errors are not independent."""
KINDS = ("independent", "correlated", "persistent")
REVIEWS: dict[str, str | ReviewRule] = {
    "every": "every",
    "on_error": on_error,
    "below_confidence": below_confidence(0.7),
}
UNSURE = {True: 0.2, False: 0.6}
"""How probable a low stated confidence is, of a right end and of a wrong one."""

# -- the models ------------------------------------------------------------------------------------


def chance(*of: object) -> float:
    """A number from 0 to 1 that depends on these alone."""
    return random.Random("/".join(map(str, of))).random()


class Fate:
    """Which attempts at a task err.

    Args:
        task: the task
        errors: of what kind they are
        rate: how probable an error is
        seed: of the draws
    """

    def __init__(self, task: FileTask, errors: str, rate: float, seed: int) -> None:
        self.task = task
        self.errors = errors
        self.rate = rate
        self.seed = seed
        self.ends: list[bool] = []

    def next(self) -> bool:
        """Whether the next attempt goes right."""
        drawn = chance("worker", self.seed, self.task.text, len(self.ends))
        self.ends.append(drawn >= self._rate())
        return self.ends[-1]

    def _rate(self) -> float:
        if self.errors == "independent" or not self.ends:
            return self.rate
        if self.errors == "persistent":
            return self.rate if all(self.ends) else AGAIN
        return self.rate * (1 - AGAIN) / (1 - self.rate) if self.ends[-1] else AGAIN


class Worker:
    """A model that goes a task's right way or its wrong one, anew each time it is asked."""

    name = "worker"
    context_tokens: int | None = None

    def __init__(self, fate: Fate, *, states_confidence: bool = False) -> None:
        self.fate = fate
        self.states_confidence = states_confidence
        self._right = True
        self._called = 0

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """The next call of the way, or its answer."""
        if messages[-1]["role"] == "user":
            self._right, self._called = self.fate.next(), 0
        task = self.fate.task
        way = task.right if self._right else task.wrong
        if self._called < len(way.calls):
            name, args = way.calls[self._called]
            self._called += 1
            call = Call(f"call_{len(messages)}", name, args)
            usage = tokens(messages, json.dumps([name, args]), actions)
            return ModelReply("", (call,), usage, "calls")
        text = way.answer
        if self.states_confidence:
            drawn = chance("confidence", self.fate.seed, task.text, len(self.fate.ends))
            unsure = drawn < UNSURE[self._right]
            text = json.dumps({"summary": text, "confidence": 0.5 if unsure else 0.9})
        return ModelReply(text, usage=tokens(messages, text, actions))


class Reviewer:
    """A model as H, which is told the truth and says the reverse now and then.

    Attributes:
        is_right: whether R's last conclusion is right; set by the harness
        decisions: how often it was asked
    """

    name = "reviewer"
    context_tokens: int | None = None

    def __init__(self, task: FileTask, accuracy: float, seed: int) -> None:
        self.task = task
        self.accuracy = accuracy
        self.seed = seed
        self.is_right = False
        self.decisions = 0

    async def complete(
        self,
        messages: list[dict[str, Any]],
        actions: list[Action] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """Accept what is right, and redirect what is wrong; or the reverse."""
        self.decisions += 1
        errs = chance("reviewer", self.seed, self.task.text, self.decisions) >= self.accuracy
        decision = HumanDecision(DecisionAction.TERMINATE, "", "The evidence supports it.")
        if self.is_right is errs:
            again = "Look elsewhere, and check what you find."
            decision = HumanDecision(DecisionAction.REDIRECT, again, "The evidence is too thin.")
        text = json.dumps(decision.to_json())
        return ModelReply(text, usage=tokens(messages, text, actions))


def tokens(messages: list[dict[str, Any]], said: str, actions: list[Action] | None) -> Usage:
    """What an answer takes, at four characters a token."""
    shown = sum(len(message["content"]) for message in messages)
    for message in messages:
        for call in message.get("tool_calls", ()):
            shown += len(call["name"]) + len(json.dumps(call["args"]))
    for action in actions or ():
        shown += _described(action.name, action.description, json.dumps(action.parameters))
    return Usage(shown // 4, len(said) // 4)


def _described(*parts: str) -> int:
    return sum(map(len, parts))


# -- one task --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What came of one task in one form.

    Its `end` is the answer with the folder; `accepted` says whether R's last conclusion was.
    """

    right: bool
    usage: Usage
    r_runs: int
    h_decisions: int = 0
    end: Any = None
    accepted: bool = False

    @property
    def tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens


@dataclass
class Place:
    """A task's folder, and what a worker may call in it."""

    task: FileTask
    root: Path
    actions: list[Action] = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir()
        self.task.fill(self.root)
        self.actions = offered(self.root)

    def agent(self, model: Worker) -> ReActAgent:
        """A new worker over the folder, which is as at first."""
        if self.task.test is not None:  # nothing else is written
            self.task.fill(self.root)
        return ReActAgent("R", model, actions=self.actions)


async def alone(place: Place, fate: Fate) -> Outcome:
    """One reply."""
    reply = await place.agent(Worker(fate)).reply(place.task.text)
    right = place.task.is_done(place.root, reply.text)
    return Outcome(right, reply.usage, 1, end=(reply.text, found(place.root)))


async def twice(place: Place, fate: Fate) -> Outcome:
    """One agent asked twice; the second end counts."""
    agent = place.agent(Worker(fate))
    first = await agent.reply(place.task.text)
    second = await agent.reply("Are you sure? Do it once more, and check what you find.")
    right = place.task.is_done(place.root, second.text)
    return Outcome(right, first.usage + second.usage, 2)


async def dual(place: Place, fate: Fate, accuracy: float, form: str) -> Outcome:
    """The worker under the reviewer."""
    task = place.task
    reviewer = Reviewer(task, accuracy, fate.seed)
    worker = Worker(fate, states_confidence=form == "below_confidence")
    config = DualActConfig(
        human=ReActAgent("H", reviewer),
        reactive=place.agent(worker),
        first="reactive",
        review=REVIEWS[form],
    )
    agent = DualActAgent(config)

    def tell_truth(agent: Any, about: dict[str, Any]) -> None:
        reviewer.is_right = task.is_done(place.root, about["conclusion"].summary)

    agent.register_hook("post_acting", "tell_truth", tell_truth)
    reply = await agent.reply(task.text)
    right = task.is_done(place.root, reply.text)
    return Outcome(right, reply.usage, reply.r_runs, reviewer.decisions)


def majority(attempts: list[Outcome], *, errors_differ: bool = False) -> Outcome:
    """What most attempts came to; of a tie, what came first."""
    ends = [
        number if errors_differ and not one.right else one.end
        for number, one in enumerate(attempts)
    ]
    most = Counter(ends).most_common(1)[0][0]
    usage = sum((one.usage for one in attempts), Usage())
    return Outcome(attempts[ends.index(most)].right, usage, len(attempts))


# -- every cell ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """What came of all tasks and seeds in one form."""

    form: str
    errors: str
    rate: float
    accuracy: float | None
    outcomes: list[Outcome]

    @property
    def right(self) -> int:
        return sum(one.right for one in self.outcomes)

    def mean(self, of: Callable[[Outcome], int]) -> float:
        return statistics.mean(map(of, self.outcomes))

    @property
    def tokens(self) -> float:
        return self.mean(lambda one: one.tokens)

    def emit(self) -> None:
        """Print it."""
        reviewed = "" if self.accuracy is None else f", reviewer {self.accuracy}"
        emit(
            "dual act",
            f"{self.form}: {self.errors} errors {self.rate}{reviewed}",
            self.right / len(self.outcomes),
            f"right, of {len(self.outcomes)}",
            form=self.form,
            errors=self.errors,
            rate=self.rate,
            reviewer=self.accuracy,
            interval=wilson(self.right, len(self.outcomes)),
            tokens=self.tokens,
            r_runs=self.mean(lambda one: one.r_runs),
            h_decisions=self.mean(lambda one: one.h_decisions),
        )


async def of_workers(
    errors: str, rate: float, seeds: int, places: list[Place]
) -> AsyncIterator[Figure]:
    """Every form with workers that err in this way, under every reviewer."""

    def fates() -> list[tuple[Place, Fate]]:
        return [
            (place, Fate(place.task, errors, rate, seed))
            for seed in range(seeds)
            for place in places
        ]

    # What `repeated` counts, the first attempt to the last; each is made once.
    fresh = [(place, fate, [await alone(place, fate)]) for place, fate in fates()]
    once = Figure("alone", errors, rate, None, [attempts[0] for _, _, attempts in fresh])
    yield once
    outcomes = [await twice(place, fate) for place, fate in fates()]
    yield Figure("asked twice", errors, rate, None, outcomes)
    for accuracy in ACCURACIES:
        afford = 1.0
        for form in REVIEWS:
            outcomes = [await dual(place, fate, accuracy, form) for place, fate in fates()]
            figure = Figure(form, errors, rate, accuracy, outcomes)
            if form == "every":
                afford = figure.tokens / once.tokens
            yield figure
        counted = []
        for place, fate, attempts in fresh:
            count = int(afford + chance("lot", fate.seed, place.task.text))
            while len(attempts) < count:
                attempts.append(await alone(place, fate))
            counted.append(attempts[:count])
        for form, differ in (("repeated", False), ("repeated, errors differ", True)):
            outcomes = [majority(of, errors_differ=differ) for of in counted]
            yield Figure(form, errors, rate, accuracy, outcomes)


async def cells(seeds: int, root: Path) -> None:
    """Print every form in every cell."""
    places = [Place(task, root / str(number)) for number, task in enumerate(TASKS)]
    for errors, rate in product(KINDS, ERROR_RATES):
        async for figure in of_workers(errors, rate, seeds, places):
            figure.emit()


# -- the local model -------------------------------------------------------------------------------

VERBS = {"Read": "read_file", "Search": "search_in_file"}


def by_rule(conclusion: Conclusion | None, instruction: str) -> HumanDecision:
    """Accept a call that is what the instruction's verb asks for, of a file named in it."""
    if conclusion is None:
        return HumanDecision(DecisionAction.CONTINUE, instruction)
    wanted = VERBS[instruction.partition(" ")[0]]
    fault = f"{wanted} was not called"
    if conclusion.evidence:
        last = conclusion.evidence[-1]
        if "error" in last:
            fault = "the call failed"
        elif last["action"] == wanted:
            if json.loads(last["args"])["file_name"] in instruction.split():
                return HumanDecision(DecisionAction.TERMINATE, "", "it is what was asked for")
            fault = "that is another file"
    return HumanDecision(DecisionAction.REDIRECT, instruction, fault)


def on_local_model(seeds: int) -> None:
    """Print what the local model does, alone and under the rule."""
    from moothall.models import LocalModel

    tasks = [task for task in TASKS if task.kind == "lookup"]
    outcomes: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for heat, seed in ((0.0, 0), *((0.7, seed) for seed in range(seeds))):
        setting = f"temperature {heat:g}"
        with LocalModel(temperature=heat, seed=seed, max_tokens=80, slots=1) as model:
            for task in tasks:
                for form in ("alone", "under a rule"):
                    outcomes[form, setting].append(_locally(model, task, form == "under a rule"))
    for (form, setting), of in outcomes.items():
        right = sum(one.right for one in of)
        emit(
            "dual act, local model",
            f"{form}, {setting}",
            right / len(of),
            f"right, of {len(of)}",
            interval=wilson(right, len(of)),
            accepted=sum(one.accepted for one in of),
            accepted_wrong=sum(one.accepted and not one.right for one in of),
            tokens=statistics.mean(one.tokens for one in of),
            r_runs=statistics.mean(one.r_runs for one in of),
            h_decisions=statistics.mean(one.h_decisions for one in of),
        )


def _locally(model: Any, task: FileTask, ruled: bool) -> Outcome:
    call = task.right.calls[0]
    text = instruction(call)
    with tempfile.TemporaryDirectory() as path:
        task.fill(Path(path))
        worker = ReActAgent("R", model, actions=file_actions(path, terminal=True), max_iterations=3)
        agent: Any = worker
        if ruled:
            config = DualActConfig(
                human=ReActAgent("H", model),
                reactive=worker,
                first="reactive",
                max_hr_loops=2,
                # The form of a conclusion is more than a model of this size can follow beside.
                conclusion_format_prompt="",
            )
            agent = DualActAgent(config)
            agent.set_decision_func(by_rule)
        reply = agent.reply_sync(text)
    last = reply.steps[-1] if reply.steps else None
    right = last is not None and last.error is None and (last.action, last.args) == call
    runs, decisions = (reply.r_runs, len(reply.decisions)) if ruled else (1, 0)
    accepted = not ruled or reply.stop_reason == "terminated"
    return Outcome(right, reply.usage, runs, decisions, accepted=accepted)


# -- as a table ------------------------------------------------------------------------------------


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The cells as Markdown: per cent right, half the interval, tokens; of `every`, the turns.

    What does not depend on the reviewer stands in the first line of three.
    """
    of = {(row["errors"], row["rate"], row["reviewer"], row["form"]): row for row in rows}
    forms = list(dict.fromkeys(form for *_, form in of))
    yield f"| errors | worker errs | reviewer right | {' | '.join(forms)} | R, H of `every` |"
    yield f"| --- |{' --- |' * (3 + len(forms))}"
    for errors, rate, accuracy in product(KINDS, ERROR_RATES, ACCURACIES):
        cells = [errors, f"{rate:g}", f"{accuracy:g}"]
        for form in forms:
            row = of.get((errors, rate, accuracy, form))
            if accuracy == ACCURACIES[0] and row is None:
                row = of[errors, rate, None, form]
            cells.append("" if row is None else _cell(row))
        row = of[errors, rate, accuracy, "every"]
        cells.append(f"{row['r_runs']:.2f}, {row['h_decisions']:.2f}")
        yield f"| {' | '.join(cells)} |"


def _cell(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{100 * row['value']:.1f} ±{50 * (high - low):.1f}, {row['tokens']:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed, and no local model")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--part", choices=("cells", "local"), help="this one alone")
    parser.add_argument("--table", type=Path, help="print these figures as Markdown, and end")
    args = parser.parse_args()
    if args.table:
        rows = map(json.loads, args.table.read_text().splitlines())
        print("\n".join(table([row for row in rows if row["metric"] == "dual act"])))
        return
    if args.part != "local":
        with tempfile.TemporaryDirectory() as root:
            asyncio.run(cells(1 if args.quick else args.seeds, Path(root)))
    if args.part != "cells" and not args.quick:
        on_local_model(seeds=1)


if __name__ == "__main__":
    main()
