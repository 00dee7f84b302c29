#!/usr/bin/env python
"""Draw small breaks of a house, and tell which ones no test notices: `make breaks`.

A break is one small change of the source: a comparison's boundary, a condition left out, a number
± 1, two arguments swapped, a call or a keyword left out, `min` for `max`, first for last, another
default. The same seed draws the same breaks of the same source. The tests of the house run once, to
see which come to the place of each break. Then each break stands in a copy of the package, which
only these tests and the programs that they start import, quick ones first, up to the first that
fails. A break that none finds is tried on what uses, attacks or extends the house. What changes
nothing that a user can see stands in tests/equivalent_breaks.toml.

mutmut and cosmic-ray make all changes of a package; neither draws, sees a program that a test
starts, or leaves out keywords and awaited calls.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from draws import ROOT, SOURCE, Break, changed, draw, marked, readers_of

EQUIVALENT = ROOT / "tests" / "equivalent_breaks.toml"
FOLDERS = {"agents": "agent"}
"""The folder of tests of a house, where a package on the index has the name of the house."""
ELSEWHERE = {
    "agents": ("serving/theirs",),
    "cli": ("serving/doors/test_serve_command.py", "serving/company/test_serve_company.py"),
    "foundation": ("research", "serving/telemetry", "test_notebook.py"),
    "journal": ("cli/test_maintenance.py", "evals"),
    "memory": ("serving/doors/test_refused.py",),
    "studio": ("cli/test_research.py", "cli/test_resume.py", "cli/test_simulate.py"),
}
"""Tests of a house that stand beside what they need of another."""
IN_A_BROWSER = ("studio",)
"""Houses half of whose tests look at a page in a browser, which others leave out as a service."""
CORE = ("actions", "agents", "budget", "foundation", "journal", "memory", "models", "spaces")
"""Houses whose promises the tests of the others of them hold, too."""

SECONDS = 90.0
"""How long the tests of one break take at most when none fails: those that take less time first."""

TEST_S = 30
"""How long one test takes at most with a break; a test that does not end has found it."""


def equivalent_names() -> list[str]:
    """Return the names of the breaks that no user can see."""
    entries = tomllib.loads(EQUIVALENT.read_text()).get("break", [])
    return [f"{each['function']}: {each['change']}" for each in entries]


def tests_of(house: str) -> list[list[str]]:
    """Return the tests of a house: its folder, then what uses, attacks or extends it."""
    house = house.partition("/")[0]
    elsewhere = f"attacks/{house}", "attacks/test_constructor_arguments.py"
    paths = [ROOT / "tests" / each for each in (*elsewhere, *ELSEWHERE.get(house, ()))]
    paths += (ROOT / "tests" / "attacks").glob(f"test_{house}_*.py")
    for folder in ("attacks", "extending"):
        for path in (ROOT / "tests" / folder).glob("test_*.py"):
            if re.search(rf"\bmoothall\.{house}\b", path.read_text()):
                paths.append(path)
    if house in CORE:
        paths += (
            ROOT / "tests" / FOLDERS.get(other, other)
            for other in (*CORE, "conformance")
            if other != house
        )
    more = sorted({str(each.relative_to(ROOT)) for each in paths if each.exists()})
    return [[f"tests/{FOLDERS.get(house, house)}"], more]


class Copy:
    """A folder with a copy of the package in which some files are others, for PYTHONPATH."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="breaks-"))
        package = self.folder / "moothall"
        shutil.copytree(SOURCE, package, copy_function=os.link)
        shutil.copy(Path(__file__).with_name("break_hits.py"), self.folder)
        for file, text in texts.items():
            path = package / file
            path.unlink()  # a link: the source itself must stay
            path.write_text(text)

    def pytest(self, *arguments: str, seconds: float, log: Path) -> int:
        """Run tests on this copy; return pytest's exit code, 124 if they do not end."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "break_hits",
            "-p",
            "no:cacheprovider",
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        with log.open("w") as output:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return 124
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def remove(self) -> None:
        """Take the folder away."""
        shutil.rmtree(self.folder, ignore_errors=True)


Ways = dict[int, list[tuple[float, str]]]
"""The seconds and names of the tests that come to each break."""


def ways_of(breaks: list[Break], tests: list[str], jobs: int, marks: str) -> Ways:
    """Run the tests once, without a break, and see which come to the place of each."""
    numbered = list(enumerate(breaks))
    readers = readers_of(numbered)
    texts: dict[str, str] = {}
    for path in SOURCE.rglob("*.py"):
        file = path.relative_to(SOURCE).as_posix()
        of_file = [each for each in numbered if each[1].file == file]
        text = path.read_text()
        reads = {name: them for name, them in readers.items() if re.search(rf"\b{name}\b", text)}
        if (of_file or reads) and (text := marked(file, of_file, reads)):
            texts[file] = text
    copy = Copy(texts)
    trace = copy.folder / "trace"
    trace.touch()
    log = copy.folder / "log"
    copy.pytest("-n", str(jobs), "--dist", "loadgroup", "-m", marks, *tests, seconds=3600, log=log)
    ways: Ways = {number: [] for each, _ in numbered for number in (each, -1 - each)}
    total = failing = 0
    for name, seconds, failed, numbers in map(json.loads, trace.read_text().splitlines()):
        total += 1
        failing += failed
        for number in () if failed else numbers:
            ways[number].append((seconds, name))
    print(f"{total} tests, {failing} of them skipped or failed without a break", flush=True)
    if not total:
        raise SystemExit(log.read_text()[-4000:])
    copy.remove()
    return {number: ways[number] or ways[-1 - number] for number, _ in numbered}


def first_failure(each: Break, ways: list[tuple[float, str]]) -> tuple[str, int]:
    """Run the tests that come to a break; return the first that fails, or "", and their number."""
    copy = Copy({each.file: changed(each)})
    chosen: list[str] = []
    total = 0.0
    for seconds, name in sorted(ways):
        if total + seconds > SECONDS and chosen:
            break
        chosen.append(name)
        total += seconds
    order, log = copy.folder / "order", copy.folder / "log"
    order.write_text("\n".join(chosen))
    code = copy.pytest(
        *("-x", "-n", "0", "-m", "", "--timeout", str(TEST_S), f"@{order}"),
        seconds=SECONDS * 2 + TEST_S,
        log=log,
    )
    text = log.read_text()
    found = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", text, re.MULTILINE)
    copy.remove()
    if unknown := re.search(r"^ERROR: .*not found: .*$", text, re.MULTILINE):
        raise SystemExit(unknown[0])  # else each break would count as found
    if code == 0 or (code == 124 and not found and total > TEST_S):  # a busy machine found nothing
        return "", len(chosen)
    return found[1] if found else f"(the tests end with {code})", len(chosen)


def not_found(breaks: list[Break], ways: Ways, jobs: int) -> list[Break]:
    """Try each break, print whether it is found, and return those that are not."""

    def try_one(number: int) -> bool:
        each, began = breaks[number], time.monotonic()
        if not ways[number]:
            print(f"NO TEST COMES  {each.line:4} {each.name}", flush=True)
            return False
        failure, ran = first_failure(each, ways[number])
        word = "found        " if failure else "NOT FOUND    "
        share = f"{ran} of {len(ways[number])}" if ran < len(ways[number]) else f"{ran}"
        took = time.monotonic() - began
        print(
            f"{word}  {each.line:4} {each.name}\n    [{share}, {took:.0f} s] {failure}", flush=True
        )
        return bool(failure)

    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(try_one, range(len(breaks))))
    return [each for each, is_found in zip(breaks, found, strict=True) if not is_found]


def main(arguments: Iterable[str] | None = None) -> int:
    """Draw and try breaks of the houses that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("houses", nargs="+", metavar="HOUSE", help="a folder of src/moothall")
    parser.add_argument("--draw", type=int, default=20, metavar="N", help="how many of each house")
    parser.add_argument("--seed", default="1", metavar="S")
    parser.add_argument("--tests", nargs="*", help="else those of the house")
    parser.add_argument("--only", default="", help="the drawn breaks whose name has this text")
    parser.add_argument("--list", action="store_true", help="only print them")
    parser.add_argument(
        "--services", action="store_true", help="also tests that need a server, such as RabbitMQ"
    )
    parser.add_argument(
        "--long", action="store_true", help="also long tests, such as those of Ray's workers"
    )
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options = parser.parse_args(arguments if arguments is None else list(arguments))
    missed = 0
    for house in options.houses:
        breaks = draw(house, options.draw, options.seed, equivalent_names())
        breaks = [each for each in breaks if options.only in each.name]
        if options.list:
            print("\n".join(each.name for each in breaks))
            continue
        needs_services = options.services or house.partition("/")[0] in IN_A_BROWSER
        kinds = {"long": options.long, "services": needs_services}
        marks = " and ".join(f"not {kind}" for kind, is_run in kinds.items() if not is_run)
        left = breaks
        for tests in [options.tests] if options.tests else tests_of(house):
            if left and tests:
                left = not_found(left, ways_of(left, tests, options.jobs, marks), options.jobs)
        print(f"{house}: {len(breaks) - len(left)} of {len(breaks)} breaks are found", flush=True)
        for each in left:
            print(f"not found: {each.line:4} {each.name}", flush=True)
        missed += len(left)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
