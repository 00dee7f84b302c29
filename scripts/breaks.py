#!/usr/bin/env python
"""Break one line at a time, and tell which tests notice: `make breaks`.

Each `[[break]]` of a TOML file in tests/breaks/ has the sentence of the docs that it breaks
(`promise`), a `file` under src/moothall, the text `old` that stands in it once, and the text `new`
that takes its place. The tests are collected once. Each break runs in a forked child, in which the
functions that differ get the new code, and there only the tests that run one of these functions,
quick ones first, up to the first that fails. What a test starts as a program sees no break.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import inspect
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "moothall"
CORE = [
    f"tests/{each}"
    for each in (
        *("actions", "agents", "budget", "conformance", "extending"),
        *("foundation", "journal", "memory", "models", "spaces"),
    )
]
"""The tests of the core: the folders of `make test-core`."""

Codes = dict[str, types.CodeType]
"""Code by the qualified name of its function, or of the function around it."""


@dataclass(slots=True)
class Break:
    """One small change of one function."""

    file: str
    old: str
    new: str
    promise: str
    where: str  # the TOML file
    codes: Codes = field(default_factory=dict)  # of the functions that differ

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return f"{self.file}: {self.promise}"


def breaks_of(files: Iterable[Path]) -> list[Break]:
    """Read the breaks of TOML files.

    Raises:
        SystemExit: a text does not stand in its file once, or changes no function
    """
    breaks, wrong, unbroken = [], [], dict[str, Codes]()
    for path in files:
        for number, entry in enumerate(tomllib.loads(path.read_text())["break"], 1):
            each = Break(**entry, where=path.name)
            source = (SOURCE / each.file).read_text()
            if (found := source.count(each.old)) != 1:
                wrong.append(
                    f"{path.name}, break {number}: {each.file} has the old text {found} times"
                )
                continue
            changed = source.replace(each.old, each.new)
            try:
                if each.file not in unbroken:
                    unbroken[each.file] = codes_of(source, each.file)
                before, after = unbroken[each.file], codes_of(changed, each.file)
            except SyntaxError as error:
                wrong.append(f"{path.name}, break {number}: {each.file}: {error}")
                continue
            each.codes = {name: code for name, code in after.items() if before.get(name) != code}
            if not each.codes or any(
                name not in before or code.co_freevars != before[name].co_freevars
                for name, code in each.codes.items()
            ):
                wrong.append(f"{path.name}, break {number}: {each.file}: it must change a function")
                continue
            breaks.append(each)
    if wrong:
        raise SystemExit("\n".join(wrong))
    return breaks


def codes_of(source: str, file: str, first: dict[str, str] | None = None) -> Codes:
    """Return the code of each function and method of a module; one in a function is part of it.

    Args:
        first: statements that functions begin with, by the functions' qualified names
    """
    tree = ast.parse(source)

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{name}{child.name}."
                if (statement := (first or {}).get(inner[:-1])) is not None:
                    child.body[:0] = ast.parse(statement).body
            visit(child, inner)

    visit(tree, "")
    # Without positions a change moves no other function: each is compared by what it does.
    for node in ast.walk(tree):
        for attribute in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            if hasattr(node, attribute):
                setattr(node, attribute, 1)
    codes: Codes = {}

    def walk(code: types.CodeType) -> None:
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                if constant.co_flags & inspect.CO_NEWLOCALS:
                    codes[constant.co_qualname] = constant
                else:  # a class's body
                    walk(constant)

    walk(compile(tree, str(SOURCE / file), "exec", dont_inherit=True))
    return codes


Key = tuple[str, str]
"""A function: its file under src/moothall, and its qualified name."""


def functions_of(breaks: Sequence[Break]) -> dict[Key, list[types.FunctionType]]:
    """Return the functions of this process that breaks change."""
    found: dict[Key, list[types.FunctionType]] = {
        (each.file, name): [] for each in breaks for name in each.codes
    }
    for each in breaks:  # some modules are imported only when they are needed
        name = f"moothall/{each.file}".removesuffix(".py").removesuffix("/__init__")
        importlib.import_module(name.replace("/", "."))
    gc.unfreeze()  # the collector does not list what is frozen
    for function in (each for each in gc.get_objects() if isinstance(each, types.FunctionType)):
        file = function.__code__.co_filename.removeprefix(f"{SOURCE}/")
        if (key := (file, function.__code__.co_qualname)) in found:
            found[key].append(function)
    gc.freeze()
    return found


class Breaks:
    """The pytest plugin: what runs in the place of the loop over all tests."""

    def __init__(self, breaks: list[Break], jobs: int, runs_all: bool, log: str) -> None:
        self.breaks = breaks
        self.jobs = jobs
        self.runs_all = runs_all
        self.log = log
        self.failed: list[str] = []  # of the child: the tests that failed
        self.results: dict[str, list[str] | None] = {}  # None: no test runs the function

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find the tests of each function, then run them for each break."""
        if session.testsfailed:
            raise session.Interrupted("collection failed")
        gc.collect()
        functions = functions_of(self.breaks)
        ways = self.ways(session.items, functions)
        tasks = []
        for each in self.breaks:
            found = {index for name in each.codes for index in ways.get((each.file, name), ())}
            if not found:
                self.results[each.name] = None
                print(f"NO TEST RUNS  {each.name}", flush=True)
                continue
            quick_first = sorted(found, key=lambda index: self.seconds[index])
            items = [session.items[index] for index in quick_first]
            tasks.append((each, items, sum(self.seconds[index] for index in found)))
        tasks.sort(key=lambda task: task[2])

        def run(task: tuple[Break, list[pytest.Item], float]) -> Any:
            each, items, _ = task
            for name, code in each.codes.items():
                for function in functions[each.file, name]:
                    function.__code__ = code
            for item, following in zip(items, [*items[1:], None], strict=True):
                run_test(item, following)
                if self.failed and not self.runs_all:
                    break
            return self.failed

        limits = [60 + 10 * seconds for *_, seconds in tasks]
        for index, found, seconds in self.forked(tasks, run, limits):
            each, items, _ = tasks[index]
            failed = ["(a test does not end)"] if found is None else found
            self.results[each.name] = failed
            word = "found        " if failed else "NOT FOUND    "
            print(
                f"{word} {each.name}  [{len(failed)} of {len(items)}, {seconds:.0f} s]"
                f" {failed[0] if failed else ''}",
                flush=True,
            )
        return True

    def ways(
        self, items: list[pytest.Item], functions: dict[Key, list[types.FunctionType]]
    ) -> dict[Key, set[int]]:
        """Return the tests that run each function, by their indexes; those that fail are none."""
        keys = list(functions)
        parts = [range(start, len(items), self.jobs * 4) for start in range(self.jobs * 4)]

        def run(part: range) -> Any:
            hits: set[int] = set()
            for file in {file for file, _ in keys}:
                first = {
                    name: f"__hit__({number})"
                    for number, (of, name) in enumerate(keys)
                    if of == file
                }
                codes = codes_of((SOURCE / file).read_text(), file, first)
                for name in first:
                    for function in functions[file, name]:
                        function.__code__ = codes[name]
                        function.__globals__["__hit__"] = hits.add
            seen: list[tuple[int, float, list[int] | None]] = []
            for index, following in zip(part, [*part[1:], None], strict=True):
                hits.clear()
                began = time.perf_counter()
                run_test(items[index], None if following is None else items[following])
                took = time.perf_counter() - began
                seen.append((index, took, None if self.failed else sorted(hits)))
                self.failed.clear()
            return seen

        self.seconds: dict[int, float] = {}
        ways: dict[Key, set[int]] = {}
        for _, seen, _ in self.forked(parts, run, [600.0] * len(parts)):
            for index, took, hits in seen or ():
                self.seconds[index] = took
                if hits is None:
                    print(f"fails without a break: {items[index].nodeid}", flush=True)
                for number in hits or ():
                    ways.setdefault(keys[number], set()).add(index)
        print(f"{len(self.seconds)} tests, {sum(self.seconds.values()):.0f} s", flush=True)
        return ways

    def forked(
        self, tasks: Sequence[Any], run: Callable[[Any], Any], limits: list[float]
    ) -> Iterator[tuple[int, Any, float]]:
        """Run each task in a forked child, some at once; yield its index, its result and seconds.

        The result is JSON; it is None when the child takes longer than its limit or dies.
        """
        waiting = list(range(len(tasks)))
        running: dict[int, tuple[int, int, float, str, list[bytes]]] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                index = waiting.pop(0)
                reader, writer = os.pipe()
                folder = tempfile.mkdtemp(prefix="breaks-")
                sys.stdout.flush()
                if (child := os.fork()) == 0:
                    self._in_child(writer, folder, run, tasks[index])
                os.close(writer)
                running[reader] = index, child, time.monotonic(), folder, []
            ready, _, _ = select.select(list(running), [], [], 1)
            for reader, (index, child, began, folder, parts) in list(running.items()):
                took, ended = time.monotonic() - began, False
                if reader in ready:
                    if data := os.read(reader, 1 << 16):
                        parts.append(data)
                    else:
                        ended = True
                elif took > limits[index]:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child, signal.SIGKILL)
                    parts.clear()
                    ended = True
                if ended:
                    del running[reader]
                    os.close(reader)
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    shutil.rmtree(folder, ignore_errors=True)
                    yield index, json.loads(b"".join(parts)) if parts else None, took

    def _in_child(self, writer: int, folder: str, run: Callable[[Any], Any], task: Any) -> None:
        """Run a task in this child, and end it."""
        os.setpgid(0, 0)
        quiet = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        code = 1
        try:
            result = json.dumps(run(task)).encode()
            while result:
                result = result[os.write(writer, result) :]
            code = 0
        finally:
            os._exit(code)


def run_test(item: pytest.Item, following: pytest.Item | None) -> None:
    """Run one test; what the following one needs, too, stays."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def tests_of(files: Iterable[Path]) -> list[str]:
    """Return the tests of the houses that these files are named after: the core is one."""
    tests: set[str] = set()
    for house in (f"tests/{each.stem}" for each in files):
        tests.update([house] if house not in CORE and (ROOT / house).is_dir() else CORE)
    return sorted(tests)


def main() -> int:
    """Run the breaks of the files that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="else those of tests/breaks/")
    parser.add_argument("--tests", nargs="*", help="else those of the houses that the files name")
    parser.add_argument("--only", default="", help="the breaks whose file or text has this text")
    parser.add_argument("--all", action="store_true", help="run all their tests")
    parser.add_argument("--check", action="store_true", help="only see that each fits its file")
    parser.add_argument(
        "--services", action="store_true", help="also tests that need a server, such as RabbitMQ"
    )
    parser.add_argument("--log", default=os.devnull, help="a file for what the tests print")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    files = options.files or sorted((ROOT / "tests" / "breaks").glob("*.toml"))
    breaks = breaks_of(files)
    breaks = [each for each in breaks if options.only in each.name]
    if options.check:
        print(f"{len(breaks)} breaks fit their files")
        return 0
    os.chdir(ROOT)
    plugin = Breaks(breaks, options.jobs, options.all, options.log)
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist"]
    marks = "not long" if options.services else "not long and not services"
    arguments += ["-m", marks, *(options.tests or tests_of(files))]
    pytest.main(arguments, plugins=[plugin])
    missed = [name for name, failed in plugin.results.items() if not failed]
    print(f"{len(plugin.results) - len(missed)} of {len(breaks)} breaks are found")
    return int(bool(missed) or len(plugin.results) < len(breaks))


if __name__ == "__main__":
    sys.exit(main())
