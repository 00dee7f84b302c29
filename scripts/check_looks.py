"""Check looks: what the core looks for in a part of a program is documented, with its default.

    check_looks.py [-v]

A look is `getattr(x, "name", default)` or `hasattr(x, "name")` in a core house. A program's own
memory, model, agent, block, approver, space or source of actions has the attributes that its
protocol states, as `REQUIRED` says, and may have those that a table on the page of the part lists.
The table has a default for each, which every look repeats. What is no part of a program stands in
`OTHERS`: fields of answers and errors, objects of Python and libraries. With -v each look at a part
is printed with its place.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from check_names import ROOT

HOUSES = ("foundation", "actions", "budget", "models", "memory", "journal", "agents", "spaces")
PAGES = ("models", "memory", "conversations", "build", "blocks", "many-actions", "waiting")
"""Pages of docs/ with what a part may have, in a table with the column `by default`."""

REQUIRED = {
    "a model": "complete",
    "a memory": "add_memory get_memories",
    "an agent": "id reply observe",
    "a block": "forward after_forward",
    "an approver": "approve",
    "a desk of a person": "ask",
    "a registry of actions": "get_action get_actions",
    "a goal": "priority",
    "prices, a clock, a limit of requests": "cost now acquire",
    "a journal": "budgets",
}
"""What makes a value such a part: an error names it where it is missing."""

OTHERS = {
    "an answer or a call of a model, as `ModelReply` and `Call` describe them": (
        "text calls usage finish_reason meta reasoning thinking blocks id name args"
    ),
    "an error": "status of_content usage detail exceptions",
    "an error of Python or a library": (
        "certificate_error context errno exception problem problem_mark reply_code reply_text "
        "sqlite_errorcode status_code strerror verify_code"
    ),
    "an object of Python or a library": (
        "_callback _context aclose columns description documentation encoding is_space "
        "posix_fallocate pydantic_complete reset_index searches shape waitid"
    ),
    "a registry or an action": "access_policy action function origin searches terminal",
    "a record of ours": (
        "_cell agent base block_dispatch_prompt context_window error key loop reader_first reading "
        "replies run_offsets state texts_by_origin tiers"
    ),
    "an environment: `Environment` documents it": "aexecute_action",
}
"""Names of attributes of what no program writes as a part, by whose they are."""


class Look(NamedTuple):
    """A look: its file and line, the name, and the default as text; None for `hasattr`."""

    place: str
    name: str
    default: str | None


def looks_in(tree: ast.AST, file: str) -> Iterator[Look]:
    """Yield the looks of a module; a name between two underscores is Python's."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"),
                args=[_, ast.Constant(value=str(name)), *default],
            ) if not name.startswith("__"):
                shown = ast.unparse(default[0]) if default else None
                yield Look(f"{file}:{node.lineno}", name, shown)


def defaults_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the attributes in the tables of a page that have a default there."""
    is_listed = False
    for line in text.splitlines():
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)]
        if len(cells) < 5:
            is_listed = False
        elif cells[2] == "by default":
            is_listed = True
        elif is_listed and cells[2].startswith("`"):
            for name in re.findall(r"`(\w+)[(`]", cells[1]):
                yield name, cells[2].strip("`")


def faults_of(looks: list[Look], defaults: dict[str, set[str]]) -> list[str]:
    """Return the looks at what no page has, those with another default, and names of no look."""
    known = {each for names in (*REQUIRED.values(), *OTHERS.values()) for each in names.split()}
    faults = []
    for place, name, default in looks:
        stated = defaults.get(name, set())
        if name in known or (stated and default is None) or default in stated:
            continue
        must = f"must be {' or '.join(sorted(stated))}" if stated else "is on no page"
        faults.append(f"{place}: the default of {name!r} {must}, got {default}")
    return faults


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    source = ROOT / "src" / "moothall"
    looks = [
        look
        for house in HOUSES
        for path in sorted((source / house).rglob("*.py"))
        for look in looks_in(ast.parse(path.read_text()), path.relative_to(source).as_posix())
    ]
    defaults: dict[str, set[str]] = {}
    for page in PAGES:
        for name, default in defaults_in((ROOT / "docs" / f"{page}.md").read_text()):
            defaults.setdefault(name, set()).add(default)
    faults = faults_of(looks, defaults)
    if "-v" in sys.argv:
        shown = [each for each in looks if each.name in defaults]
        print(*(f"{each.place} {each.name}" for each in shown), sep="\n")
        print(f"{len(shown)} looks at {len(defaults)} attributes of parts, {len(looks)} in all")
    print("\n".join(sorted(faults)), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
