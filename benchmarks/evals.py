"""Recorded runs, run again in frozen worlds: how fast, what is found, and what a kill loses.

    python -m benchmarks.evals [--quick]

1,000 runs of a shop's desk, of two or three answers each, are recorded, and run again by the
recorded answers: no model is asked and no action executed, both of which are counted. So are the
tasks of tau2, by the calls that tau2 states of them, if they are unpacked. Then changes
of the desk are evaluated against it in the frozen worlds of 40 of the runs, with a model that keeps
to rules: 20 that make it worse, of its prompt, its schemas, its actions and its model, and 20 that
change nothing that it does. A change is found if the 95 % interval of the difference, case by case,
is below 0. Last, an evaluation is killed by kill -9 at each of its requests in turn, and goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.corpora import package
from benchmarks.measure import emit
from benchmarks.tau2 import DOMAINS, Domain, Task
from moothall import Action, Journal, ReActAgent, ScriptedModel
from moothall.evals import Dataset, Evaluation, FrozenWorld, same_calls_as_record

RULES = (
    "Find the order first.",
    "Refund broken goods.",
    "Refund late goods.",
    "Send thanks for praise.",
    "Note each complaint.",
)
PROMPT = " ".join(("You work at the desk.", *RULES))
REQUESTS = (
    ("The mug of order A{0} is broken", ("Refund broken goods.",), "refund"),
    ("Order A{0} is late", ("Refund late goods.",), "refund"),
    ("Order A{0} is lovely", ("Send thanks for praise.",), "thank"),
    ("Order A{0} is the wrong colour", ("Note each complaint.",), "note"),
)
EFFECTS: list[str] = []
ASKED: list[int] = []


def rule_model(weak_at: str = "", name: str = "rules") -> ScriptedModel:
    """A model that keeps to the rules in its prompt; a weak one overlooks one of them."""

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        ASKED.append(1)
        path = os.environ.get("ASKED")
        if path:
            with Path(path).open("a") as file:
                file.write("1\n")
            if len(Path(path).read_text().splitlines()) == int(os.environ.get("KILL_AT", -1)):
                os.kill(os.getpid(), signal.SIGKILL)
        prompt = messages[0]["content"].replace(weak_at, "") if weak_at else messages[0]["content"]
        asked = next(each["content"] for each in messages if each["role"] == "user")
        order = asked.partition("order A")[2] or asked.partition("Order A")[2]
        number = "A" + order.split()[0]
        done = [each["name"] for each in messages if each["role"] == "tool"]
        schemas = {each.name: each.parameters["properties"] for each in actions or ()}
        wanted = ["find"] * (RULES[0] in prompt)
        for text, rules, action in REQUESTS:
            if text.partition("{0}")[2] in asked and rules[0] in prompt:
                wanted.append(action)
        for action in wanted:
            if action not in done and action in schemas:
                given = {"order": number, "cents": 500, "text": asked}
                args = {name: given[name] for name in schemas[action] if name in given}
                return {"name": action, "args": args}
        return f"Done: {', '.join(done) or 'nothing'}."

    return ScriptedModel(answer, name=name, context_tokens=32_000)


def actions(changes: dict[str, Any] | None = None) -> list[Action]:
    """The desk's actions; a change is another name, other parameters or None for it."""
    made = []
    for name, parameters in (
        ("find", ("order",)),
        ("refund", ("order", "cents")),
        ("thank", ("order", "text")),
        ("note", ("order", "text")),
    ):
        change = (changes or {}).get(name, {})
        if change is None:
            continue

        async def execute(_name: str = name, **args: Any) -> str:
            EFFECTS.append(_name)
            return f"{_name}: {', '.join(map(str, args.values()))}"

        kinds = {"cents": "integer"}
        names = change.get("parameters", parameters)
        properties = {each: {"type": kinds.get(each, "string")} for each in names}
        required = [each for each in names if each not in change.get("optional", ())]
        schema = {"type": "object", "properties": properties, "required": required}
        schema["additionalProperties"] = False
        description = change.get("description", f"{name.capitalize()} it.")
        made.append(Action(change.get("name", name), execute, description, schema))
    return made


def desk(
    prompt: str = PROMPT, model: ScriptedModel | None = None, changes: dict[str, Any] | None = None
) -> ReActAgent:
    return ReActAgent("desk", model or rule_model(), actions=actions(changes), system_prompt=prompt)


def record(path: Path, count: int) -> Journal:
    """Record so many runs of the desk."""
    journal, agent = Journal(path), desk()
    agent.journal = journal

    async def run() -> None:
        for number in range(count):
            text = REQUESTS[number % len(REQUESTS)][0].format(number)
            await agent.reply(text, thread=f"t{number}", run_id=f"r{number}")

    asyncio.run(run())
    return journal


# -- again -----------------------------------------------------------------------------------------


def again(folder: Path, count: int) -> None:
    """Run the recorded runs again by their recorded answers."""
    journal = record(folder / "runs.db", count)
    EFFECTS.clear()
    ASKED.clear()
    data, equal = Dataset.from_runs(journal), 0
    agent = desk()

    async def run() -> None:
        nonlocal equal
        with Journal(folder / "again.db") as results:
            for case in data:
                world = FrozenWorld(journal, case.run, model="recorded")
                reply = await world.reply(agent, journal=results, run_id=case.run)
                recorded = world.view.reply if world.view is not None else None
                equal += (reply.text, [(s.action, s.args, s.result) for s in reply.steps]) == (
                    recorded.text,
                    [(s.action, s.args, s.result) for s in recorded.steps],
                )

    begin = time.process_time()
    asyncio.run(run())
    seconds = time.process_time() - begin
    metric = f"{count:,} recorded runs again"
    emit(metric, "processor time", seconds, "s", target="<= 60")
    emit(metric, "equal", equal, "runs", target=f">= {count}")
    emit(metric, "models asked", len(ASKED), "calls", target="<= 0")
    emit(metric, "actions executed", len(EFFECTS), "calls", target="<= 0")


def tasks_of_tau2(folder: Path) -> None:
    """Record the calls that tau2 states of each of its tasks, and run them again in frozen worlds.

    The recorded run calls tau2's own tools; in the frozen world none may be called.
    """
    executed: list[str] = []
    equal = count = 0

    def clerk(domain: Domain, task: Task) -> ReActAgent:
        def action_of(name: str) -> Action:
            async def execute(**args: Any) -> Any:
                executed.append(name)
                return domain.call(name, args)

            fields = {key: {} for each, args in task.calls if each == name for key in args}
            return Action(name, execute, f"{name}.", {"type": "object", "properties": fields})

        calls = [{"name": name, "args": args} for name, args in task.calls]
        names = dict.fromkeys(name for name, _ in task.calls)
        model = ScriptedModel([*calls, "Done."], context_tokens=1_000_000)
        most = len(calls) + 1
        return ReActAgent("clerk", model, actions=[*map(action_of, names)], max_iterations=most)

    async def run(domain: Domain, task: Task, journal: Journal) -> bool:
        agent, id = clerk(domain, task), f"{domain.name}-{task.id}"
        agent.journal = journal
        live = await agent.reply("Do the task.", run_id=id)
        executed.clear()
        frozen = await FrozenWorld(journal, id).reply(clerk(domain, task))
        pairs = zip(live.steps, frozen.steps, strict=True)
        return not executed and all(old.result == new.result for old, new in pairs)

    with Journal(folder / "tau2.db") as journal:
        for name in DOMAINS:
            domain = Domain.load(name)
            for task in domain.tasks():
                count += 1
                equal += asyncio.run(run(domain, task, journal))
    metric = f"{count} tasks of tau2 in frozen worlds"
    emit(metric, "results equal to live ones", equal, "tasks", target=f">= {count}")


# -- changes ---------------------------------------------------------------------------------------


def regressions() -> dict[str, Callable[[], ReActAgent]]:
    made: dict[str, Callable[[], ReActAgent]] = {}
    for number, rule in enumerate(RULES):
        shorter = PROMPT.replace(rule, "Be brief.")
        made[f"prompt {number}"] = lambda text=shorter: desk(text)  # type: ignore[misc]
        weak = rule_model(rule, "weaker")
        made[f"model {number}"] = lambda model=weak: desk(model=model)  # type: ignore[misc]
    for name in ("find", "refund", "thank", "note"):
        made[f"action {name} renamed"] = lambda n=name: desk(changes={n: {"name": f"{n}_it"}})  # type: ignore[misc]
    made["action refund gone"] = lambda: desk(changes={"refund": None})
    made["schema refund: amount"] = lambda: desk(
        changes={"refund": {"parameters": ("order", "amount")}}
    )
    made["schema refund: no cents"] = lambda: desk(changes={"refund": {"parameters": ("order",)}})
    made["schema find: number"] = lambda: desk(changes={"find": {"parameters": ("number",)}})
    made["schema thank: no text"] = lambda: desk(changes={"thank": {"parameters": ("order",)}})
    made["schema note: no text"] = lambda: desk(changes={"note": {"parameters": ("order",)}})
    return made


def shams() -> dict[str, Callable[[], ReActAgent]]:
    made: dict[str, Callable[[], ReActAgent]] = {}
    for number, text in enumerate(("Be kind.", "Be brief.", "Write English.", "Smile.", "Thanks.")):
        made[f"prompt {number}"] = lambda text=text: desk(f"{PROMPT} {text}")  # type: ignore[misc]
        other = rule_model(name=f"rules-{number}")
        made[f"model {number}"] = lambda model=other: desk(model=model)  # type: ignore[misc]
    for name in ("find", "refund", "thank", "note"):
        change: dict[str, Any] = {name: {"description": f"Use this to {name}."}}
        made[f"description {name}"] = lambda c=change: desk(changes=c)  # type: ignore[misc]
        parameters = {"find": ("order",), "refund": ("order", "cents")}.get(name, ("order", "text"))
        more = {name: {"parameters": (*parameters, "hint"), "optional": ("hint",)}}
        made[f"schema {name}: a hint"] = lambda c=more: desk(changes=c)  # type: ignore[misc]
    made["rules in another order"] = lambda: desk(
        " ".join(reversed(PROMPT.split(". "))) + ". " + PROMPT
    )
    made["nothing"] = desk
    return made


def is_found(journal: Journal, make: Callable[[], ReActAgent], folder: Path) -> bool:
    """Whether an evaluation shows that a change makes less of the recorded calls."""
    data = Dataset.from_runs(journal, limit=40)
    values = []
    for name, program in (("before", desk), ("after", make)):
        path = folder / f"{time.monotonic_ns()}-{name}.db"
        results = Evaluation(program, data, [same_calls_as_record], journal=path).run_sync()
        values.append(results)
    before, after = (
        {each.case.name: float(each.grades["same_calls_as_record"]) for each in results.cells}
        for results in values
    )
    from moothall import Interval

    return Interval.of_values([after[case] - before[case] for case in before]).high < 0


def changes(folder: Path) -> None:
    journal = record(folder / "few.db", 40)
    for name, made, target in (
        ("planted regressions", regressions(), ">= 20"),
        ("sham changes", shams(), "<= 0"),
    ):
        found = [each for each, make in made.items() if is_found(journal, make, folder)]
        emit(
            "changes found at 95 %", f"{name}, of {len(made)}", len(found), "changes", target=target
        )


# -- kills -----------------------------------------------------------------------------------------


def kills(folder: Path, count: int) -> None:
    """Kill an evaluation at each request in turn; it goes on."""
    record(folder / "killed.db", 20).close()
    asked = folder / "asked"
    results = folder / "killed-evals.db"
    command = [sys.executable, "-m", "benchmarks.evals", "--one", str(folder / "killed.db")]
    command.append(str(results))
    env, killed, requests = {**os.environ, "ASKED": str(asked)}, 0, 0
    output = ""
    while killed < count:
        for path in (results, asked):
            path.unlink(missing_ok=True)
        for _ in range(min(8, count - killed)):
            before = len(asked.read_text().splitlines()) if asked.exists() else 0
            how = {**env, "KILL_AT": str(before + 5)}
            code = subprocess.run(command, env=how, capture_output=True, check=False).returncode
            killed += code == -signal.SIGKILL
        output = subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout
        requests = max(requests, len(asked.read_text().splitlines()))
        cells, right = map(int, output.split())
        if (cells, right) != (20, 20):
            break
    cells, right = map(int, output.split())
    metric = f"an evaluation of 20 cells, killed {killed} times"
    emit(metric, "cells lost", 20 - right, "cells", target="<= 0")
    emit(metric, "requests asked twice for a kill", (requests - 60) / 8, "requests", target="<= 1")


def one(runs: str, results: str) -> None:
    """Evaluate the runs, one cell after the other; print the cells, and those that are right."""
    data = Dataset.from_runs(runs)
    evaluated = Evaluation(
        desk, data, [same_calls_as_record], journal=results, concurrency=1
    ).run_sync()
    right = sum(bool(each.grades.get("same_calls_as_record")) for each in evaluated.cells)
    print(len({each.run for each in evaluated.cells}), right)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evals")
    parser.add_argument("--quick", action="store_true", help="fewer runs and kills")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        again(folder, 100 if options.quick else 1000)
        if package("inspect_evals") is not None:  # which scripts/corpora unpacks
            tasks_of_tau2(folder)
        changes(folder)
        kills(folder, 8 if options.quick else 100)


if __name__ == "__main__":
    main()
