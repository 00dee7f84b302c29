"""Check types: our own, and what type checkers tell users of the programs and of each public name.

mypy reads the source, as pyproject.toml says. The rest is at the same time: a machine of two cores
takes a fourth less. mypy --strict and pyright read each program of tests/typing beside the
installed package. A line that ends in `# error` must be refused by both, and no other line by
either. `pyright --verifytypes` says what part of the package's names has a type that all checkers
agree on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "typing"
COMPLETE = 0.99
"""The part of the names that must have a known type."""

Errors = dict[tuple[str, int], list[str]]
"""What a checker said, by file and line."""


def run(*command: str, cwd: Path = PROGRAMS) -> str:
    # pyright looks for `python` on the path; and asks PyPI for a newer version of itself.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    env = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, env=env, capture_output=True, text=True
    )
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def ours() -> list[str]:
    """Return what is wrong with the types of the source."""
    return run("mypy", "--no-error-summary", cwd=ROOT).splitlines()


def mypy() -> Errors:
    cache = str(ROOT / ".mypy_cache" / "programs")
    said: Errors = {}
    for line in run("mypy", "--output=json", f"--cache-dir={cache}", ".").splitlines():
        each = json.loads(line)
        if each["severity"] == "error":
            place = Path(each["file"]).as_posix(), each["line"]
            said.setdefault(place, []).append(each["message"])
    return said


def pyright() -> Errors:
    said: Errors = {}
    found = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable))
    for each in found["generalDiagnostics"]:
        if each["severity"] == "error":
            file = Path(each["file"]).relative_to(PROGRAMS).as_posix()
            place = file, each["range"]["start"]["line"] + 1
            said.setdefault(place, []).append(each["message"])
    return said


def verified() -> list[str]:
    """Return what is wrong with the types of the package's own names."""
    out = run("pyright", "--verifytypes", "moothall", "--ignoreexternal", "--outputjson")
    found: dict[str, Any] = json.loads(out)["typeCompleteness"]
    score: float = found["completenessScore"]
    if score >= COMPLETE:
        return []
    wrong = [f"pyright --verifytypes moothall: {score:.1%} of names have a known type"]
    for symbol in found["symbols"]:
        for each in symbol.get("diagnostics", ()) if symbol["isExported"] else ():
            text, _, more = each["message"].partition("\n")
            if "partially unknown" not in text:  # that follows from another's
                line = each.get("range", {}).get("start", {}).get("line", 0) + 1
                wrong.append(f"  {each['file']}:{line}: {symbol['name']}: {text} {more.strip()}")
    return wrong


def compared(checker: str, said: Errors) -> list[str]:
    """Return where a checker's errors differ from the marked lines."""
    marked = {
        (path.relative_to(PROGRAMS).as_posix(), number)
        for path in PROGRAMS.glob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(r"# error\b", line)
    }
    wrong = [f"{file}:{line}: {checker} finds no error" for file, line in marked - said.keys()]
    for file, line in said.keys() - marked:
        wrong += [f"{file}:{line}: {checker}: {text}" for text in said[file, line]]
    return wrong


def main() -> int:
    with ThreadPoolExecutor() as threads:
        first, names = threads.submit(ours), threads.submit(verified)
        found = {check.__name__: threads.submit(check) for check in (mypy, pyright)}
        wrong = [each for name, said in found.items() for each in compared(name, said.result())]
        wrong = first.result() + sorted(wrong) + names.result()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
