"""Agents that discover each other, talk, act and are refused, on a model inside this process.

Run by `make demo`. Nothing here is scripted: what the model says and chooses is shown as it came.
The exit code tells whether the machinery worked (every message delivered, every choice carried
out), never whether the model chose well. The name of another local model may be given:

    python examples/demo.py local:qwen3-0.6b
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import queue
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moothall import (
    Action,
    Agent,
    Conclusion,
    DecisionAction,
    DualActAgent,
    DualActConfig,
    HumanDecision,
    MissingExtra,
    ModelError,
    MoothallError,
    NativeSpace,
    NotPermitted,
    ReActAgent,
    Reply,
    Rule,
    RuleApprover,
    action,
)
from moothall.agents import ChattyAI, Host, file_actions
from moothall.foundation.text import escaped
from moothall.models import LocalModel, Model, model
from moothall.research import Researcher, search_folder
from moothall.society import City, Feed, Society, make_economy

ROOT = Path(__file__).resolve().parent.parent
WIDTH = min(max(shutil.get_terminal_size((80, 24)).columns, 60), 100)
sys.stdout.reconfigure(errors="replace")
COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ
# One slot: each answer is then computed alone, as what else is in a batch changes the rounding.
WAVERING: dict[str, Any] = {"temperature": 0.7, "max_tokens": 64, "slots": 1}
LARGER = "qwen3-0.6b"
PATIENCE_S = 60.0
CONFINED = (
    "A command that is permitted runs in bubblewrap: it can write below the folder only, and has "
    "no network."
)
NOT_CONFINED = (
    "With bubblewrap (apt install bubblewrap) a permitted command could write below the folder "
    "only; here it could do what you can."
)
CITIZENS = 1000


class Broken(Exception):
    """The machinery did not do what it promises."""


# -- what a person sees ----------------------------------------------------------------------------


def styled(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if COLOURS else text


def heading(text: str) -> None:
    print(f"\n{styled(text, '1')}\n")


def say(text: str, indent: str = "") -> None:
    print(textwrap.fill(text, WIDTH - 1, initial_indent=indent, subsequent_indent=indent))


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def shown(value: Any) -> str:
    """A JSON value on one line, with nothing in it that a terminal obeys."""
    return escaped(json.dumps(value, ensure_ascii=False))


def outline(value: Any) -> str:
    """The same, with what lies deeper left out."""
    if isinstance(value, dict):
        inner = ((name, "{…}" if isinstance(v, dict) else shown(v)) for name, v in value.items())
        return f"{{{', '.join(f'{shown(name)}: {text}' for name, text in inner)}}}"
    return shown(value)


def call(name: str, args: dict[str, Any]) -> str:
    return f"{escaped(name)}({', '.join(f'{escaped(k)}={shown(v)}' for k, v in args.items())})"


class Wire:
    """Prints the messages of a space as they pass, and waits for those that must."""

    def __init__(self, space: NativeSpace) -> None:
        self.messages = 0
        self._passed: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        space.observe(self._passed.put)

    def until(self, sender: str, names: tuple[str, ...], times: int = 1) -> dict[str, Any]:
        """Print until so many messages of these names have come from the sender; give the last."""
        while True:
            try:
                message = self._passed.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise Broken(f"no {' or '.join(names)} came from {sender}") from None
            self._print(message)
            if message["from"] == sender and message["action"]["name"] in names:
                times -= 1
                if times == 0:
                    return message

    def _print(self, message: dict[str, Any]) -> None:
        self.messages += 1
        name, args = message["action"]["name"], message["action"]["args"]
        if name == "response":
            text = outline(args["data"])
        elif name == "error":
            text = escaped(args["error"])
        elif name == "say":
            text = shown(args["content"])
        else:
            text = " ".join(f"{escaped(k)}={shown(v)}" for k, v in args.items())
        way = f"{escaped(message['from'])} → {escaped(message['to'])}"
        line = cut(f"{name:<13} {text}", WIDTH - 24).rstrip()
        print(f"  {way:<19}  {styled(line[:13], '36')}{line[13:]}")


# -- the agents ------------------------------------------------------------------------------------


class Calculator(Agent):
    """Calculates."""

    @action
    async def add(self, a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: the first number
            b: the second number
        """
        return a + b

    @action
    async def multiply(self, a: int, b: int) -> int:
        """Multiply two numbers.

        Args:
            a: the first number
            b: the second number
        """
        return a * b


class Person(Agent):
    """Whoever sits at the screen: what comes for it has been printed on its way."""

    @action
    async def say(self, content: str) -> None:
        """Say something to the person."""


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first number
        b: the second number
    """
    return a + b


# -- the parts -------------------------------------------------------------------------------------


def talk(local: Model) -> None:
    heading("1  Agents discover each other, talk and call each other")
    say(
        "Each line is one message as it passes through the space: sender → receiver, the action, "
        "its arguments. A message to * goes to everyone."
    )
    print()
    with NativeSpace() as space:
        wire = Wire(space)
        space.add(Calculator("Calculator"))
        space.add(ChattyAI("Chatty", model=local))
        you = space.add(Person("You", receive_own_broadcasts=False))

        you.send({"to": "*", "action": {"name": "help"}})
        for agent in ("Calculator", "Chatty"):
            wire.until(agent, ("response",))

        content = "What is a city?"
        you.send({"to": "Chatty", "action": {"name": "say", "args": {"content": content}}})
        answer = wire.until("Chatty", ("say",))["action"]["args"]["content"]
        print()
        say(f"The whole of Chatty's answer, in the model's own words: {shown(answer)}", "  ")

        print()
        say(
            "Helper is an agent with the same model. It asks Calculator what that can do, and lets "
            f'the model choose one of its actions. It is told: "{SUM[0]}"'
        )
        print()
        helper = space.add(ReActAgent("Helper", local, discover=["Calculator"], max_iterations=1))
        reply = helper.reply_sync(SUM[0])
        wire.until("Calculator", ("response", "error"), 1 + len(reply.steps))
        print()
        verdict(reply, f"Calculator.{SUM[1]}", SUM[2])


def host() -> None:
    heading("2  A host action is approved, another is refused")
    say(
        "Host offers this machine: files below one folder, and shell commands. Each use of it must "
        "be approved. A rule does that here, and this is the rule: list_files is permitted, "
        f"everything else is refused. {CONFINED if shutil.which('bwrap') else NOT_CONFINED}"
    )
    print()
    rules = RuleApprover([Rule(agent="Host", action="list_files")])
    with NativeSpace(approver=rules) as space:
        wire = Wire(space)
        space.add(Host("Host", root=ROOT, sandbox="auto" if shutil.which("bwrap") else "none"))
        you = space.add(Person("You"))

        files = you.ask("Host", "list_files").result(timeout=PATIENCE_S)
        wire.until("Host", ("response",))
        if "README.md" not in files:
            raise Broken("Host listed files, and README.md is not among them")
        try:
            you.ask("Host", "shell_command", command="whoami").result(timeout=PATIENCE_S)
        except NotPermitted as error:
            refusal = f"{type(error).__name__}: {error}"
        else:
            raise Broken("Host.shell_command was not refused")
        wire.until("Host", ("error",))
        print()
        print(f"  The refused caller got {styled(refusal, '33')}")


Task = tuple[str, str, dict[str, Any]]
SUM: Task = ("Add 2 and 3", "add", {"a": 2, "b": 3})
TASKS: tuple[Task, ...] = (
    ("List the files", "list_files", {}),
    (
        'Search for "Python" in README.md',
        "search_in_file",
        {"file_name": "README.md", "search_term": "Python"},
    ),
    ("Read the file CHANGELOG.md", "read_file", {"file_name": "CHANGELOG.md"}),
    SUM,
)
OTHER_WORDS: tuple[Task, ...] = (
    ("Search README.md for Python", *TASKS[1][1:]),
    ("What does CHANGELOG.md say?", *TASKS[2][1:]),
)


def tools() -> list[Action]:
    files = file_actions(ROOT, terminal=True, only_listed=True)
    return [*files, Action("add", add, terminal=True)]


def files(local: Model) -> None:
    heading("3  A file agent at work on this folder")
    names = ", ".join(tool.name for tool in tools())
    say(
        f"For each instruction the model chooses one of {names}, and writes its arguments. A "
        "grammar holds it to the form, and to names of files that are there; which one is its own "
        "choice. It can change nothing, and read nothing outside of the folder. The instructions "
        "are worded to suit a model of this size."
    )
    for instruction, name, args in TASKS:
        agent = ReActAgent("Files", local, actions=tools(), max_iterations=1)
        reply = agent.reply_sync(instruction)
        print(f"\n  Instruction: {styled(instruction, '1')}")
        verdict(reply, name, args)


# A task in anybody's words, the action that it needs, and the plain words for it.
REVIEWED: tuple[tuple[str, str, str], ...] = (
    ("Search README.md for Python", "search_in_file", 'Search for "Python" in README.md'),
    ("What does CHANGELOG.md say?", "read_file", "Read the file CHANGELOG.md"),
    ("How much is 2 plus 3?", "add", "Add 2 and 3"),
)


def rule(needed: str, plain: str) -> Callable[[Conclusion | None, Any], HumanDecision]:
    """H, for one task."""

    def decide(conclusion: Conclusion | None, _: Any) -> HumanDecision:
        assert conclusion is not None  # R is first
        called = [item["action"] for item in conclusion.evidence if "result" in item]
        if needed in called:
            return HumanDecision(DecisionAction.TERMINATE, reasoning=f"{needed} was called")
        return HumanDecision(DecisionAction.REDIRECT, plain, f"{needed} was not called")

    return decide


def two_as_one(local: Model) -> None:
    heading("4  One works, one decides")
    say(
        "R is the file agent, H decides whether its work is done. A model of this size is no "
        "judge, so H is a rule here: it looks at what R really called, not at what R says. If the "
        "action that the task needs was not called, or failed, H redirects R, once, in plain "
        "words; else it accepts."
    )
    for task, needed, plain in REVIEWED:
        worker = ReActAgent("R", local, actions=tools(), max_iterations=1)
        config = DualActConfig(
            human=ReActAgent("H", local),
            reactive=worker,
            max_hr_loops=2,
            first="reactive",
            reactive_task_prompt="{instruction}",
        )
        dual = DualActAgent(config)
        dual.set_decision_func(rule(needed, plain))
        reply = dual.reply_sync(task)
        print(f"\n  Task: {styled(task, '1')}")
        for conclusion, decision in zip(reply.conclusions, reply.decisions, strict=True):
            for item in conclusion.evidence or [{"action": "nothing", "error": ""}]:
                came = "" if "result" in item else f" ({item['error']})"
                print(f"    R called   {cut(escaped(item['action'] + came), WIDTH - 16)}")
            told = f": {decision.new_instruction}" if decision.new_instruction else ""
            print(f"    H decides  {decision.action.value}{cut(told, WIDTH - 30)}")
        if len(reply.steps) > len(reply.conclusions) or reply.stop_reason not in (
            "terminated",
            "max_loops",
        ):
            raise Broken(f"the two ended as {reply.stop_reason}: {reply.detail}")
        good = reply.stop_reason == "terminated"
        word = styled("✓ accepted", "32") if good else styled("✗ not accepted", "33")
        print(f"    {word} after {reply.r_runs} of at most 2 runs")


def verdict(reply: Reply, name: str, args: dict[str, Any]) -> None:
    """Print what the model chose, what came of it, and whether it was asked for."""
    if reply.error is not None:
        raise Broken(f"the model failed: {reply.detail}")
    if not reply.steps:
        said = reply.text or reply.detail
        print(f"    the model called nothing; it said: {cut(shown(said), WIDTH - 40)}")
    for step in reply.steps:
        print(f"    chosen   {cut(call(step.action, step.args), WIDTH - 14)}")
        if step.error is not None:
            print(f"    error    {cut(escaped(step.error), WIDTH - 14)}")
        elif not step.result.get("tool_executed"):
            raise Broken(f"{step.action} was chosen and not executed")
        else:
            for number, line in enumerate(result_lines(step.value)):
                print(f"    {'' if number else 'result':<8} {cut(escaped(line), WIDTH - 14)}")
    chosen = [(step.action, step.args) for step in reply.steps]
    if chosen == [(name, args)]:
        print(f"    {styled('✓ as asked', '32')}")
    else:
        is_action = [action for action, _ in chosen] == [name]
        fault = "✗ the action asked for, but not" if is_action else "✗ not what was asked for:"
        print(f"    {styled(fault, '33')} {cut(call(name, args), WIDTH - 5 - len(fault))}")


def result_lines(result: Any) -> list[str]:
    """The first lines of a result."""
    if isinstance(result, list) and all(isinstance(item, str) for item in result):
        lines = textwrap.wrap("  ".join(result), WIDTH - 14)
        more = f"… {len(result)} names in all"
    elif isinstance(result, list):
        lines = [f"line {number}: {text}" for number, text in result] or ["no line has it"]
        more = f"… {len(result)} lines in all"
    else:
        text = result if isinstance(result, str) else shown(result)
        lines = [line for line in text.splitlines() if line.strip()] or ["(nothing)"]
        more = f"… {len(text)} characters in all"
    return lines if len(lines) <= 3 else [*lines[:2], more]


async def choices(local: Model) -> list[str]:
    """What the model chooses for each task of both lists. Nothing is executed."""

    async def chosen(instruction: str) -> str:
        message = {"role": "user", "content": instruction}
        reply = await local.complete([message], actions=tools())
        return " ".join(call(c.name, c.args) for c in reply.calls) or "nothing whole"

    return await asyncio.gather(*(chosen(task[0]) for task in [*TASKS, *OTHER_WORDS]))


QUESTIONS = (
    "When is an action in doubt?",
    "What may a budget limit?",
    "Who painted the Mona Lisa?",
)


def research() -> None:
    heading("5  A researcher reads this project's documentation")
    say(
        "No model is asked here: the researcher searches the folder docs, quotes the sentences "
        "that say most about each question, and cites the passage that each is from. To the last "
        "question there is no answer in it, and the researcher is to say so."
    )
    print()
    researcher = Researcher(
        "Reader", objectives=QUESTIONS, tools=[search_folder(ROOT / "docs")], iterations=2
    )
    report = researcher.report_sync()
    if report.stop_reason not in ("done", "max_iterations", "no_progress") or report.unsupported:
        raise Broken(f"the research ended as {report.stop_reason}: {report.detail}")
    print(f"    searched the folder {len(researcher.done)} times")
    answers = report.markdown.partition("\n---\n")[0]
    for question in QUESTIONS:
        print(f"\n  Question: {styled(question, '1')}")
        under = answers.partition(f"## {question}\n")[2].partition("\n## ")[0]
        found = [c for c in report.citations if c.sentence in under]
        for citation in found[:2]:
            say(f"{escaped(citation.sentence)} [{citation.number}]", "    ")
            where = citation.passage.url.rpartition("/docs/")[2]
            print(f"    [{citation.number}] {cut(escaped(f'docs/{where}'), WIDTH - 10)}")
        if not found:
            print("    nothing relevant was found")


def town() -> None:
    heading("6  A town of a thousand lives for a day")
    say(
        "By rules alone, from a seed: who lives where, works where and knows whom. Each quarter of "
        "an hour all citizens have a turn; then what they wanted is settled. Money only moves."
    )
    print()
    rows = asyncio.run(day())
    if any(row["failures"] for row in rows) or len({row["money"] for row in rows}) != 1:
        raise Broken("a citizen failed, or money came or went")
    for row in rows[24::8]:
        bar = "■" * (row["home"] // 50) + "□" * (row["work"] // 50)
        print(
            f"    {row['time'][11:16]}  {bar:<20}  {row['home']:4} at home, "
            f"{row['work']:3} at work, {row['working']:3} working"
        )
    messages = sum(row["messages"] for row in rows)
    say("The others are out. Some work at home, and some at work have lunch.", "    ")
    print(f"    {messages:,} messages in the day")


async def day() -> list[dict[str, Any]]:
    city = City.generate(seed=7, citizens=CITIZENS)
    services = [*make_economy(city, seed=7), Feed()]
    async with Society(CITIZENS, city, seed=7, services=services) as society:
        rows: list[dict[str, Any]] = await society.run(days=1, step="15min")
    return rows


def measure(local: LocalModel, seeds: int) -> None:
    heading("7  How often is it right?")
    say(
        f"The same instructions with {seeds} seeds each, at a temperature that lets the model "
        f"waver ({WAVERING['temperature']}). Right is the action asked for with exactly the "
        "arguments asked for. Here nothing is executed."
    )
    print()
    began = time.monotonic()
    rounds = []
    for seed in range(1, seeds + 1):
        if COLOURS:
            print(f"\r  seed {seed} of {seeds}", end="", flush=True)
        with LocalModel(local.path, seed=seed, **WAVERING) as wavering:
            rounds.append(asyncio.run(choices(wavering)))
    took = time.monotonic() - began
    if COLOURS:
        print("\r\x1b[K", end="")
    totals = []
    for place, (instruction, name, args) in enumerate([*TASKS, *OTHER_WORDS]):
        if place == len(TASKS):
            print("\n  and put in other words, such as nobody chose to suit it:\n")
        wanted = call(name, args)
        wrong = Counter(chosen[place] for chosen in rounds if chosen[place] != wanted)
        totals.append(seeds - wrong.total())
        bar = "■" * totals[-1] + "·" * wrong.total()
        print(f"  {bar}  {totals[-1]:>2} of {seeds}  {instruction}")
        for chosen, times in wrong.most_common(1):
            print(f"  {'':<{seeds}}  wrong, {times} ×: {cut(chosen, WIDTH - seeds - 20)}")
    suited, other = sum(totals[: len(TASKS)]), sum(totals[len(TASKS) :])
    print(
        f"\n  right: {suited} of {seeds * len(TASKS)}, and {other} of {seeds * len(OTHER_WORDS)}; "
        f"measured in {took:.0f} s\n"
    )
    say(
        "A model of some gigabytes does what is said in anybody's words, takes several steps, and "
        "reads what came of each. In a program of yours its name is all that changes: "
        f'"local:{LARGER}", "openai:gpt-4o-mini", or a server of your own.',
        "  ",
    )


def next_commands() -> None:
    heading("Where next")
    python = Path(sys.executable)
    if python.is_relative_to(ROOT):
        python = python.relative_to(ROOT)
    moothall = python.parent / "moothall"
    for command, about in (
        (f"{moothall} act 'List the files'", "on your files"),
        (f"{moothall} chat", "talk with agents"),
        (f"{moothall} research 'doubt' --folder docs", "on your documents"),
        (f"{moothall} simulate --citizens 1000 --days 1", "a town for a day"),
        (f"{moothall} models fetch {LARGER}", "a larger model: 0.6 GB"),
        (f"{python} examples/demo.py local:{LARGER}", "this demo on it"),
        (f"{python} examples/calculator.py", "twenty lines of your own"),
    ):
        print(f"  {styled(command, '36')}{' ' * max(51 - len(command), 1)} {about}")
    print("\n  To read: README.md, docs/spaces.md, docs/research.md, docs/society.md")


def introduce(local: LocalModel) -> None:
    size = local.path.stat().st_size / 1e6
    print(
        styled("moothall", "1") + ": agents that talk, act and are refused, live on this machine\n"
    )
    say(
        f"The model runs in this process: {local.name}, {size:.0f} MB, without a key and without a "
        "network. Models this small can pick the action for one plain instruction. What they say "
        "is often wrong; do not trust it. It is shown as it comes: no answer is prepared."
    )


def main() -> int:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", default="local", help="such as local:qwen3-0.6b")
    parser.add_argument("--seeds", type=int, default=10, help="how often each choice is measured")
    given = parser.parse_args()
    try:
        local = model(given.model)
        # Load it now: what is missing is then said in one line.
        asyncio.run(local.complete([{"role": "user", "content": "Hi"}], schema={"const": "Hi"}))
    except (ModelError, MissingExtra) as error:
        print(f"The demo cannot start: {error}")
        return 1
    introduce(local)
    broken = 0
    parts = (
        *((talk, (local,)), (host, ()), (files, (local,))),
        *((two_as_one, (local,)), (research, ()), (town, ())),
        (measure, (local, given.seeds)),
    )
    for part, args in parts:
        try:
            part(*args)
        except (Broken, MoothallError) as error:
            broken += 1
            print(f"  {styled('BROKEN', '31')} {type(error).__name__}: {escaped(str(error))}")
    next_commands()
    print()
    took = f"{time.monotonic() - began:.0f} s"
    if broken:
        print(
            f"{broken} of {len(parts)} parts did not work, in {took}; what is wrong stands after "
            "BROKEN."
        )
        return 1
    say(
        f"Every message was delivered and every chosen action executed, in {took}: that is what "
        "this program's exit code 0 says, not that the model chose well."
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
