"""The tree is the architecture: what the files import, how they are named, what they may not hold.

The rules are functions over a directory, so that each is shown a tree that breaks it.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "moothall"

# Imports point up this list, never back.
ORDER = (
    "foundation",
    "actions",
    "budget",
    "models",
    "memory",
    "journal",
    "agents",
    "spaces",
    "build",
    "testing",
    "serving",
    "research",
    "evals",
    "society",
    "studio",
    "cli",
    "__main__",
)

# What others could write: it takes public names, and each counts as an import of where it stands.
PRODUCTS = (
    *("agents.notes", "agents.ready", "agents.skills"),
    *("testing", "serving", "research", "evals", "society", "studio", "cli"),
)
FOR_OTHERS = ("moothall", "moothall.build")

# What a house does not import although it stands above: neighbours that know nothing of each other.
APART = {
    "budget": {"actions"},
    "research": {"spaces", "serving"},
    "evals": {"spaces", "serving"},
    "society": {"serving", "research", "evals"},
}

# The same inside a package: its folders and files, from the ground up.
FLOORS = {
    "foundation": (
        "errors",
        "intervals",
        "format_version",
        "tracing",
        "text",
        "lazily",
        "extensions",
        "arguments",
        "jsonvalue",
        "files",
        "processes",
        "threads",
        "database",
        "sqlite",
        "postgres",
        "http",
    ),
    "foundation.database": ("protocol",),
    "foundation.postgres": (
        "address",
        "fulltext",
        "connections",
        "schema",
        "transaction",
        "pool",
    ),
    "foundation.text": (
        "copies",
        "arrays",
        "words",
        "scripts",
        "vocabulary",
        "ranking",
        "display",
        "pages",
        "values",
    ),
    "actions": (
        "message",
        "slash",
        "acting",
        "facts",
        "provenance",
        "signature",
        "retry",
        "marking",
        "capability",
        "registry",
        "repairing",
        "search",
        "goal",
        "approval",
        "environment",
    ),
    "budget": (
        "period",
        "limits",
        "amounts",
        "account",
        "bill",
        "reservation",
        "shared",
        "stored_budget",
        "waiting_reservations",
        "budget",
    ),
    "models": (
        "blocks",
        "finish_reason",
        "protocol",
        "providers",
        "settings",
        "base",
        "ask",
        "answer_parts",
        "refusal",
        "echo",
        "chat_answer",
        "answer_reader",
        "chat_stream",
        "calling",
        "plain_chat",
        "remote",
        "local",
        "names",
        "wrappers",
        "named_models",
    ),
    "memory": (
        "memory_config",
        "long_results",
        "memory",
        "refused",
        "reply_memory",
        "embedder",
        "memory_tables",
        "memory_file",
        "postgres_tables",
        "recall",
        "returned_copies",
        "bounded",
        "summarizing",
        "stored_memory",
        "sqlite",
        "postgres",
        "by_path",
    ),
    "journal": (
        "stop_reason",
        "attributes",
        "tally",
        "wait_kinds",
        "kinds",
        "describe",
        "entry",
        "doubt",
        "store",
        "commits",
        "find",
        "opening",
        "forking",
        "holders",
        "deleting",
        "moving",
        "shared_budgets",
        "run_waits",
        "journal",
        "run_view",
    ),
    "journal.kinds": ("entry_kinds", "feedback", "run_kinds", "shares"),
    "journal.store": (
        "shapes",
        "leases",
        "tables",
        "entry_values",
        "operator_waits",
        "run_deaths",
        "run_requests",
        "wait_rows",
        "store",
        "run_work",
        "operated_runs",
        "wait_answers",
        "holding",
        "due_runs",
        "journal_file",
        "backup",
        "journal_server",
        "by_path",
    ),
    "agents": (
        "recorded_kinds",
        "context",
        "decision",
        "dispatch",
        "params",
        "block",
        "workflow",
        "messaging",
        "agent",
        "named_agents",
        "caller_context",
        "replies",
        "loop",
        "theirs",
        "dualact",
        "conversation",
        "durable",
        "run_events",
        "ready",
        "skills",
        "notes",
    ),
    "agents.durable": ("branch", "values", "run", "step", "function", "waits"),
    "agents.theirs": (
        "their_turns",
        "their_calls",
        "their_request",
        "parking",
        "their_run",
        "their_agent",
    ),
    "agents.ready": (
        "terminal",
        "show_reply",
        "text_file",
        "sandbox",
        "shell",
        "folder",
        "folder_actions",
        "chatty",
        "function_agent",
        "remote_agent",
        "person",
        "host",
    ),
    "agents.replies": (
        "checked_parts",
        "reply",
        "thread",
        "reply_request",
        "state",
        "read_record",
        "step",
        "charging",
        "record",
        "resume",
        "reply_context",
        "hooks",
        "events",
        "stream",
        "threaded",
        "sub_agents",
        "conversational",
        "recorded_agent",
        "group",
    ),
    "spaces": (
        "loop",
        "delivery",
        "request",
        "task_pool",
        "handler",
        "mailbox",
        "lanes",
        "deadlock",
        "outcomes",
        "router",
        "watchdog",
        "complete",
        "draining",
        "replacing",
        "space",
        "native",
        "amqp",
        "you",
        "user",
    ),
    "spaces.amqp": (
        "amqp_options",
        "wire",
        "link",
        "queues",
        "delays",
        "observers",
        "dead_letters",
        "inbox",
        "starts",
        "recorder",
        "receiver",
        "agent_queues",
        "requests",
        "deadlock_watch",
        "presence",
        "amqp_router",
        "amqp_space",
    ),
    "spaces.amqp.link": (
        "connection",
        "dialling",
        "consumer",
        "publisher",
        "broker",
    ),
    "serving": (
        "telemetry",
        "mcp",
        "a2a",
        "theirs",
        "doors",
        "company",
    ),
    "serving.company": (
        "agent_kinds",
        "supervisor",
        "schedule",
        "durations",
        "settings",
        "company_file",
        "program",
        "probe",
        "metrics",
        "health_routes",
        "company_space",
        "scheduled_call",
        "firings",
        "scheduler",
        "controls",
        "company_runs",
        "company",
    ),
    "serving.doors": (
        "checks",
        "protocols",
        "front",
        "callers",
        "door_guard",
        "asks",
        "served_agents",
        "served",
        "mcp_call",
        "mcp",
        "a2a",
        "openai",
        "ag_ui_run",
        "ag_ui_wire",
        "ag_ui",
        "application",
        "server",
    ),
    "serving.theirs": (
        "pydantic_ai",
        "pydantic_ai_agent",
        "openai_agents",
        "agents_sdk_agent",
        "langgraph",
        "langgraph_agent",
    ),
    "serving.mcp": (
        "target",
        "listing",
        "lock",
        "choices",
        "elicitation",
        "tool_results",
        "server_request",
        "process",
        "web",
        "filtered_stream",
        "live_connection",
        "connection",
        "tools",
        "mcp_agent",
    ),
    "serving.telemetry": (
        "names",
        "ids",
        "span_content",
        "span_scope",
        "span_starter",
        "message_spans",
        "spans",
    ),
    "research": (
        "recorded_kinds",
        "findings",
        "scope",
        "sentences",
        "resource_pool",
        "reading",
        "citations",
        "tool_calls",
        "folder",
        "web",
        "writing",
        "extractive",
        "page",
        "exports",
        "researcher_protocol",
        "workbench",
        "judging",
        "report",
        "recording",
        "iteration",
        "prompts",
        "extractive_steps",
        "narrating",
        "iteration_steps",
        "researcher",
        "ask_report",
    ),
    "evals": (
        "equality",
        "people",
        "calls_to_take",
        "recorded_answers",
        "frozen_world",
        "replay",
        "case_files",
        "cases",
        "graders",
        "results",
        "grading",
        "judging",
        "other_programs",
        "evaluation",
        "__main__",
    ),
    "society": (
        "recorded_kinds",
        "clock",
        "arrays",
        "math",
        "metrics",
        "kernel",
        "city",
        "columns",
        "services",
        "blocks",
        "people",
        "population",
        "arguments",
        "society_step",
        "column_state",
        "checkpoint",
        "map_positions",
        "survey",
        "decision_log",
        "live_access",
        "trajectories",
        "tables",
        "columns_first",
        "society",
        "experiments",
    ),
    "studio": (
        "orders",
        "prose",
        "page",
        "event_feed",
        "partial_answers",
        "page_guard",
        "run_view",
        "comparison",
        "cards",
        "talk",
        "hub",
        "server",
        "page_server",
        "jobs",
        "towns",
        "space",
        "act_tab",
        "runs",
        "research_tab",
        "doors",
        "studio",
        "ready",
        "gradio",
    ),
    "studio.orders": (
        "extensions",
        "faults",
        "act",
        "research",
        "examples",
        "simulate",
        "order",
        "resumable",
    ),
    "cli": (
        "interrupts",
        "exit_codes",
        "option_types",
        "screen",
        "progress",
        "help_text",
        "shared_options",
        "models",
        "doctor",
        "completing",
        "recorded_runs",
        "run",
        "own_agents",
        "operate",
        "runs",
        "serving",
        "replay",
        "resume",
        "chat",
        "studio",
        "main",
        "build",
    ),
}
FOLDERS_OF_OURS = (".ci", "benchmarks", "docs", "examples", "scripts", "src", "tests")
NAMES_THAT_SAY_NOTHING = {"core", "common", "util", "utils", "helper", "helpers", "misc"}
CODE_FROM_DATA = {"eval", "exec", "compile", "__import__"}
IMPORTED_AS = {
    "markdown_it_py": "markdown_it",
    "openai_agents": "agents",
    "opentelemetry_api": "opentelemetry",
    "pydantic_ai_slim": "pydantic_ai",
    "python_docx": "docx",
    "pyyaml": "yaml",
}
MODULES_OF_CODE_FROM_DATA = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name below the package, such as `spaces.native`."""

    path: Path
    name: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.path.read_text(), str(self.path))

    @property
    def component(self) -> str:
        """The entry of ORDER that it belongs to; empty for the package's own file."""
        return self.name.partition(".")[0]

    @property
    def package(self) -> list[str]:
        """The parts of the package that its relative imports start from."""
        parts = ["moothall", *self.name.split(".")] if self.name else ["moothall"]
        return parts if self.path.name == "__init__.py" else parts[:-1]


def modules(source: Path) -> list[Module]:
    """Every Python file below a package's directory."""
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found.append(Module(path, ".".join(parts)))
    return found


@functools.cache
def parsed(text: str, path: str) -> ast.Module:
    """A file's syntax, which every rule reads."""
    return ast.parse(text, path)


@functools.cache
def nodes(tree: ast.AST, *, into_functions: bool = True) -> list[ast.AST]:
    """Every node that runs: what stands under TYPE_CHECKING does not."""
    found: list[ast.AST] = []
    left = parts(tree)[::-1]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":
            left += node.orelse[::-1]
        elif into_functions or not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        ):
            found.append(node)
            left += parts(node)[::-1]
    return found


def parts(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, but for those that have nothing in them, such as `Load`."""
    values = [getattr(node, name, None) for name in node._fields]
    flat = [each for value in values for each in (value if type(value) is list else (value,))]
    return [each for each in flat if isinstance(each, ast.AST) and each._fields]


def name_of(node: ast.AST) -> str:
    """The last part of a name such as `typing.TYPE_CHECKING`."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


@functools.cache
def importing(
    tree: ast.Module, *, into_functions: bool = True, types: bool = False
) -> list[ast.AST]:
    """The nodes that import something; with `types`, for type checkers alone, too."""
    kinds = (ast.Import, ast.ImportFrom)
    return [
        node
        for node in (everything(tree) if types else nodes(tree, into_functions=into_functions))
        if isinstance(node, kinds)
        or (isinstance(node, ast.Call) and name_of(node.func) == "import_module")
    ]


@functools.cache
def everything(tree: ast.Module) -> list[ast.AST]:
    """Every node, also what stands under TYPE_CHECKING."""
    found: list[ast.AST] = [tree]
    for node in found:  # which grows
        found += parts(node)
    return found


def imports(
    module: Module, *, into_functions: bool = True, types: bool = False
) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of everything that a module imports.

    `from a import b` gives `a.b`, because `b` may be a module; a reader of the name looks at as
    much of it as it needs.
    """
    for node in importing(module.tree, into_functions=into_functions, types=types):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                package = module.package
                base = package[: len(package) - node.level + 1] + base
            for alias in node.names:
                yield node.lineno, ".".join([*base, alias.name])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            yield node.lineno, str(node.args[0].value)


@functools.cache
def public_names(source: Path) -> dict[str, str]:
    """Where each public name is defined, by the path that a `.pyi` states."""
    homes: dict[str, str] = {}
    for path in sorted(source.rglob("*.pyi")):
        parts = ("moothall", *path.relative_to(source).with_suffix("").parts)
        package = ".".join(parts).removesuffix(".__init__")
        for node in parsed(path.read_text(), str(path)).body:
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    homes[f"{package}.{each.name}"] = f"{node.module}.{each.name}"
    for star in [name for name in homes if name.endswith(".*")]:
        home = homes.pop(star).removesuffix(".*")
        file = source.joinpath(*home.split(".")[1:]).with_suffix(".py")
        names = {each.removeprefix(f"{home}.") for each in homes if each.startswith(f"{home}.")}
        if file.exists():
            body = parsed(file.read_text(), str(file)).body
            names = {each.name for each in body if isinstance(each, ast.ClassDef)}
        homes.update((star[:-1] + each, f"{home}.{each}") for each in names)
    return homes


def is_in(name: str, *packages: str) -> bool:
    return f"{name}.".startswith(tuple(f"{each}." for each in packages))


def broken_order(source: Path) -> list[str]:
    """Imports that point back, those of types, too: of a public name, to where it is defined."""
    rank = {name: place for place, name in enumerate(ORDER)}
    found, homes = modules(source), public_names(source)
    components = {module.component for module in found} - {""}
    faults = []
    for module in found:
        if not module.name:
            continue  # the package's own file loads each name when it is first used
        if module.component not in rank:
            faults.append(f"{module.name}: {module.component!r} has no place in ORDER")
            continue
        product = next((each for each in PRODUCTS if is_in(module.name, each)), "")
        for line, path in imports(module, types=True):
            name = homes.get(path, path)
            parts = name.split(".")
            if parts[0] != "moothall":
                continue
            for_others = name != path and path.rpartition(".")[0] in FOR_OTHERS
            own = for_others and (not product or is_in(name, f"moothall.{product}"))
            if own or len(parts) == 1 or parts[1] not in components | set(rank):
                faults.append(
                    f"{module.name}:{line}: {path}: import it from the module that has it"
                )
            elif rank.get(parts[1], 0) > rank[module.component]:
                faults.append(f"{module.name}:{line}: {name} comes after {module.component}")
            elif parts[1] in APART.get(module.component, ()):
                faults.append(f"{module.name}:{line}: {module.component} knows no {parts[1]}")
    return faults


def broken_floors(source: Path) -> list[str]:
    """Imports that point up inside a package of FLOORS, and large packages that are not there."""
    faults = []
    below: dict[str, set[str]] = {}
    for module in modules(source):
        package, _, inner = module.name.partition(".")
        if inner:
            below.setdefault(package, set()).add(inner)
        for package in FLOORS:
            if module.name.startswith(f"{package}."):  # the package's own file loads lazily
                faults += upward(module, package, public_names(source))
    for package, inside in below.items():
        if package not in FLOORS and (len(inside) > 10 or any("." in each for each in inside)):
            faults.append(f"{package} has no floors in FLOORS")
    return faults


def upward(module: Module, package: str, homes: dict[str, str]) -> list[str]:
    """The imports of a module that point up inside a package."""
    rank = {name: floor for floor, name in enumerate(FLOORS[package])}
    own = module.name.removeprefix(f"{package}.").partition(".")[0]
    if own not in rank:
        return [f"{module.name}: {own!r} has no place in FLOORS[{package!r}]"]
    faults = []
    for line, path in imports(module):
        name = homes.get(path, path)
        inside = name.removeprefix(f"moothall.{package}.")
        if inside != name and rank.get(inside.partition(".")[0], 0) > rank[own]:
            faults.append(f"{module.name}:{line}: {name} is above {package}.{own}")
    return faults


def too_large(source: Path) -> list[str]:
    """Files of more than 400 lines, or 600 of one class; folders of more than 18 files."""
    folders = Counter(each.path.parent for each in modules(source) if each.path.stem != "__init__")
    return [
        *(f"{path.name} has {many} files" for path, many in folders.items() if many > 18),
        *(m.name for m in modules(source) if m.path.read_text().count("\n") > most_lines(m)),
    ]


def most_lines(module: Module) -> int:
    """How many lines a file may have: more if it is one class, and no function stands beside it."""
    defined = [each for each in module.tree.body if hasattr(each, "decorator_list")]
    return 600 if len(defined) == 1 and isinstance(defined[0], ast.ClassDef) else 400


def circles(source: Path) -> list[str]:
    """Files that import each other, and rooms of a house that do, for types too."""
    names, homes = {each.name for each in modules(source)}, public_names(source)
    graph: dict[str, set[str]] = {}
    for module in modules(source):
        graph[module.name] = set()
        for node in everything(module.tree):
            if isinstance(node, ast.ImportFrom) and is_in(node.module or "", "moothall"):
                for each in node.names:
                    path = f"{node.module}.{each.name}"
                    inner = homes.get(path, path).removeprefix("moothall.")
                    of = inner if inner in names else inner.rpartition(".")[0]
                    graph[module.name] |= {of} & names
    rooms: dict[str, set[str]] = {}
    for name, others in graph.items():
        house, _, inside = name.partition(".")
        own = f"{house}.{inside.partition('.')[0]}"
        for other in others:
            of, _, inside = other.partition(".")
            room = f"{of}.{inside.partition('.')[0]}"
            if of == house and inside and own not in (f"{house}.", room):
                rooms.setdefault(own, set()).add(room)
    for each in (graph, rooms):
        try:
            TopologicalSorter(each).prepare()
        except CycleError as error:
            return [" -> ".join(error.args[1])]
    return []


def empty_names(source: Path) -> list[str]:
    """Modules and packages whose name says nothing about what is inside."""
    return [
        module.name
        for module in modules(source)
        if NAMES_THAT_SAY_NOTHING & {part.strip("_") for part in module.name.split(".")}
    ]


def without_docstring(source: Path) -> list[str]:
    """Modules that do not say what they are."""
    return [
        str(module.path.relative_to(source))
        for module in modules(source)
        if not (ast.get_docstring(module.tree) or "").strip()
    ]


def code_from_data(source: Path) -> list[str]:
    """Places that could run what was received."""
    faults = []
    for module in modules(source):
        for line, name in imports(module):
            if name.partition(".")[0] in MODULES_OF_CODE_FROM_DATA:
                faults.append(f"{module.name}:{line}: {name}")
        for node in everything(module.tree):
            if isinstance(node, ast.Name) and node.id in CODE_FROM_DATA:
                faults.append(f"{module.name}:{node.lineno}: {node.id}")
            elif (
                isinstance(node, ast.Attribute)
                and node.attr in CODE_FROM_DATA
                and ast.unparse(node.value) in {"builtins", "__builtins__"}
            ):
                faults.append(f"{module.name}:{node.lineno}: {node.attr}")
    return faults


def declared() -> tuple[set[str], set[str]]:
    """The import names of the base dependencies, and of all the extras together.

    Each package we depend on but one is imported by the name it is installed by.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements: list[str]) -> set[str]:
        found = set()
        for requirement in requirements:
            name = requirement
            for mark in "<>=!~;[ ":
                name = name.partition(mark)[0]
            found.add(name.replace("-", "_"))
        return {IMPORTED_AS.get(name, name) for name in found} - {"moothall"}

    extras = project["optional-dependencies"]
    return names(project["dependencies"]), set().union(*(names(extras[e]) for e in extras))


def wrong_dependencies(source: Path) -> list[str]:
    """Packages imported that are not declared, or that load although nobody has used them yet."""
    base, extras = declared()
    known = base | set(sys.stdlib_module_names) | {"moothall"}
    faults = []
    # What nobody loads before it is used may itself load what it is made of.
    loaded = [
        name
        for module in modules(source)
        if f"moothall.{module.name}" not in EXTRA_MODULES
        for _, name in imports(module, into_functions=False)
    ]
    for module in modules(source):
        for line, name in imports(module):
            if name.partition(".")[0] not in known | extras:
                faults.append(f"{module.name}:{line}: {name} is in no list of pyproject.toml")
        own = f"moothall.{module.name}"
        if own not in EXTRA_MODULES or any(f"{each}.".startswith(f"{own}.") for each in loaded):
            faults += eager(module, extras - known)
    return faults


def eager(module: Module, extras: set[str]) -> list[str]:
    """The packages of extras that a module loads with itself."""
    faults = []
    for line, name in imports(module, into_functions=False):
        if name.partition(".")[0] in extras:
            faults.append(f"{module.name}:{line}: {name} is of an extra: import it when used")
    return faults


# What a command or the page reads before anybody has asked for a society.
WITHOUT_NUMPY = ("society", "society.blocks", "society.metrics")
# Modules that are nothing but a part of an extra, imported by others only inside functions.
EXTRA_MODULES = frozenset(
    (
        *(
            f"moothall.{module.name}"
            for module in modules(SOURCE)
            if module.component == "society" and module.name not in WITHOUT_NUMPY
        ),
        *(f"moothall.{module.name}" for module in modules(SOURCE) if module.component == "testing"),
        *(
            f"moothall.serving.telemetry.{name}"
            for name in ("message_spans", "span_scope", "span_starter", "spans")
        ),
        *(
            f"moothall.foundation.postgres.{name}"
            for name in ("connections", "pool", "schema", "transaction")
        ),
        "moothall.journal.store.journal_server",
        "moothall.memory.postgres_tables",
        "moothall.serving.theirs.langgraph",
        "moothall.serving.theirs.openai_agents",
        "moothall.serving.theirs.pydantic_ai",
        "moothall.studio.page_guard",
        "moothall.studio.server",
        *(
            f"moothall.spaces.amqp.{name}"
            for name in (
                "agent_queues",
                "dead_letters",
                "delays",
                "link.broker",
                "link.connection",
                "link.consumer",
                "link.dialling",
                "link.publisher",
                "observers",
                "presence",
                "queues",
                "receiver",
                "recorder",
                "requests",
                "amqp_router",
                "wire",
                "starts",
            )
        ),
    )
)

LOCKS = {"Lock", "RLock", "Condition", "Semaphore"}


def plain_locks(source: Path) -> list[str]:
    """Locks that a forked child would find held for ever: a lock is `guard()` or `guard(…)`."""
    faults = []
    for module in modules(source):
        made = [node for node in nodes(module.tree) if isinstance(node, ast.Call)]
        guarded = {
            id(call.args[0])
            for call in made
            if isinstance(call.func, ast.Name) and call.func.id == "guard" and call.args
        }
        faults += [
            f"{module.name}:{call.lineno}: {ast.unparse(call)}: see foundation/threads/locks.py"
            for call in made
            if isinstance(call.func, ast.Attribute)
            and call.func.attr in LOCKS
            and ast.unparse(call.func.value) == "threading"
            and id(call) not in guarded
        ]
    return faults


TEXT_CALLS = {"read_text": 0, "write_text": 1, "open": 1, "fdopen": 1}
"""Calls that read or write texts, and the place of the first argument that tells how."""


def texts_without_encoding(source: Path) -> list[str]:
    """Texts that are read or written as the machine's settings say, so not as UTF-8 everywhere."""
    return [
        f"{module.name}:{call.lineno}: {ast.unparse(call)[:80]}"
        for module in modules(source)
        for call in everything(module.tree)
        if isinstance(call, ast.Call)
        and (name := ast.unparse(call.func).rpartition(".")[2]) in TEXT_CALLS
        and "encoding" not in {each.arg for each in call.keywords}
        and (
            len(call.args) <= TEXT_CALLS[name]
            if name.endswith("text")
            else ast.unparse(call.func) in ("open", "os.fdopen")
            and not any("b" in ast.unparse(each) for each in call.args[1:2])
        )
    ]


# Words that hide which feature a test is about.
RIDDLES = re.compile(
    r"^test_(it|its|what|one_that|one_who|one_of)_|"
    r"_(who|whoever|whose|whom|nobody|somebody|meanwhile|is_told|is_had|at_all)(_|$)"
)


def riddles(tests: Path) -> list[str]:
    """Tests whose name does not say which feature broke when they fail."""
    return [
        f"{path.name}:{node.lineno}: {node.name}"
        for path in sorted(tests.rglob("*.py") if tests.is_dir() else [tests])
        for node in ast.walk(parsed(path.read_text(), str(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and RIDDLES.search(node.name)
    ]


RULES = (
    broken_order,
    broken_floors,
    too_large,
    circles,
    empty_names,
    without_docstring,
    code_from_data,
    wrong_dependencies,
    plain_locks,
    texts_without_encoding,
)


@pytest.mark.parametrize("rule", RULES)
def test_source_keeps_the_rules_of_the_tree(rule: Callable[[Path], list[str]]) -> None:
    assert modules(SOURCE), "there is no source"
    assert rule(SOURCE) == []


@pytest.mark.parametrize(
    ("rule", "path", "text", "fault"),
    (
        (
            broken_order,
            "actions/message.py",
            "from moothall.agents.agent import Agent",
            "comes after actions",
        ),
        (
            broken_order,
            "actions/message.py",
            "from moothall.agents import agent",
            "comes after actions",
        ),
        (broken_order, "actions/message.py", "import moothall.agents.agent", "comes after actions"),
        (
            broken_order,
            "actions/message.py",
            "from ..agents.agent import Agent",
            "comes after actions",
        ),
        (
            broken_order,
            "models/local/local_model.py",
            "from ...agents.agent import Agent",
            "comes after models",
        ),
        (broken_order, "models/__init__.py", "from ..agents import A", "comes after models"),
        (
            broken_order,
            "agents/agent.py",
            "def f():\n    from moothall.spaces.native import NativeSpace",
            "comes after agents",
        ),
        (
            broken_order,
            "agents/agent.py",
            "import importlib\nx = importlib.import_module('moothall.cli.main')",
            "comes after agents",
        ),
        (
            broken_order,
            "agents/agent.py",
            "from moothall import Agent",
            "from the module that has it",
        ),
        (broken_order, "agents/agent.py", "import moothall", "from the module that has it"),
        (
            broken_order,
            "agents/agent.py",
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from moothall.spaces.native import NativeSpace",
            "comes after agents",
        ),
        (
            broken_order,
            "research/resource_pool.py",
            "from moothall.serving.doors.server import serve",
            "research knows no serving",
        ),
        (broken_order, "tools.py", "", "no place in ORDER"),
        (
            broken_floors,
            "society/city/map.py",
            "from moothall.society.services.feed import Feed",
            "moothall.society.services.feed.Feed is above society.city",
        ),
        (
            broken_floors,
            "society/society_step.py",
            "def f():\n    from moothall.society import society",
            "is above society.society_step",
        ),
        (broken_floors, "society/tools.py", "", "no place in FLOORS['society']"),
        (
            broken_floors,
            "spaces/amqp/wire.py",
            "from moothall.spaces.amqp.amqp_router import AMQPRouter",
            "moothall.spaces.amqp.amqp_router.AMQPRouter is above spaces.amqp.wire",
        ),
        (broken_floors, "slash/a/b.py", "", "slash has no floors in FLOORS"),
        (too_large, "goal.py", "\n" * 401, "goal"),
        (
            circles,
            "actions/goal.py",
            "def f():\n    from moothall.actions.goal import Goal",
            "actions.goal -> actions.goal",
        ),
        (empty_names, "models/utils.py", "", "models.utils"),
        (empty_names, "_common/x.py", "", "_common.x"),
        (without_docstring, "goal.py", "x = 1", "goal.py"),
        (code_from_data, "goal.py", "eval('1')", "eval"),
        (code_from_data, "goal.py", "run = exec", "exec"),
        (code_from_data, "goal.py", "import builtins\nbuiltins.exec('1')", "exec"),
        (code_from_data, "goal.py", "__import__('os')", "__import__"),
        (code_from_data, "goal.py", "def f():\n    from pickle import loads", "pickle"),
        (
            plain_locks,
            "goal.py",
            "import threading\nx = threading.Lock()",
            "see foundation/threads/locks.py",
        ),
        (texts_without_encoding, "goal.py", "Path('a').write_text('ä')", "write_text('ä')"),
        (texts_without_encoding, "goal.py", "open('a')", "open('a')"),
        (wrong_dependencies, "goal.py", "import requests", "in no list"),
        (
            wrong_dependencies,
            "models/local/local_model.py",
            "import xllamacpp",
            "import it when used",
        ),
        (
            wrong_dependencies,
            "models/local/local_model.py",
            "try:\n    import xllamacpp\nexcept ImportError:\n    pass",
            "import it when used",
        ),
    ),
)
def test_tree_rule_catches_a_tree_that_breaks_it(
    tmp_path: Path, rule: Callable[[Path], list[str]], path: str, text: str, fault: str
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    faults = rule(tmp_path)
    assert len(faults) == 1
    assert fault in faults[0]


@pytest.mark.parametrize(
    ("path", "text", "fault"),
    (
        (
            "research/resource_pool.py",
            "from moothall import Studio",
            "moothall.studio.page.Studio comes after",
        ),
        ("agents/ready/host.py", "from moothall import Notes", "is above agents.ready"),
        ("agents/agent.py", "from moothall.build import Shelf", "from the module that has it"),
        ("studio/page_server.py", "from moothall import Studio", "from the module that has it"),
        ("studio/page_server.py", "from moothall.build import Shelf", ""),
        ("studio/page_server.py", "from moothall import Notes, StudioError", ""),
    ),
)
def test_public_name_counts_as_an_import_of_the_module_that_has_it(
    tmp_path: Path, path: str, text: str, fault: str
) -> None:
    for name, content in (
        (
            "__init__.pyi",
            "from moothall.agents.notes import Notes as Notes\n"
            "from moothall.studio.page import Studio as Studio\n"
            "from moothall.foundation.errors import *\n",
        ),
        ("build.pyi", "from moothall.foundation.files import Shelf as Shelf\n"),
        ("foundation/errors.py", "class StudioError(Exception): ..."),
        (path, text),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    faults = [*broken_order(tmp_path), *broken_floors(tmp_path)]
    assert [each for each in faults if "floors" not in each and fault in each] == faults
    assert bool(faults) == bool(fault)


def test_rooms_that_import_each_other_by_way_of_different_files_are_caught(tmp_path: Path) -> None:
    (tmp_path / "research" / "citations").mkdir(parents=True)
    for name, text in (
        ("citations/exact_checks.py", ""),
        ("citations/judging.py", "from moothall.research.workbench import Workbench"),
        ("workbench.py", "from moothall.research.citations.exact_checks import fault"),
    ):
        (tmp_path / "research" / name).write_text(text)
    (found,) = circles(tmp_path)
    assert "research.citations -> research.workbench" in found


@pytest.mark.parametrize(
    ("path", "text"),
    (
        ("agents/agent.py", "from moothall.actions.message import Message"),
        ("agents/agent.py", "from moothall.actions import message"),
        ("spaces/native.py", "from .rules import Rules\nfrom ..agents.agent import Agent"),
        ("models/local/local_model.py", "def f():\n    import xllamacpp"),
        ("society/services/feed.py", "from moothall.society.city.map import Place"),
        (
            "agents/agent.py",
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from moothall.agents.workflow import step",
        ),
        ("models/local/local_model.py", "import re\nmodel.eval()\nre.compile('a')"),
        (
            "actions/goal.py",
            "import threading\nfrom moothall.foundation.threads import guard\n"
            "x = guard(threading.Lock())",
        ),
    ),
)
def test_tree_rules_let_a_tree_that_keeps_them_through(
    tmp_path: Path, path: str, text: str
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'"""A module."""\n{text}')
    assert [fault for rule in RULES for fault in rule(tmp_path)] == []


@pytest.mark.parametrize("tests", ("budget", "memory", "spaces"))
def test_names_of_tests_say_which_feature_broke(tests: str) -> None:
    assert riddles(ROOT / "tests" / tests) == []


def test_name_of_a_test_that_is_a_pronoun_is_caught(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_it_waits(): ...\ndef test_a_wait_ends(): ...")
    assert riddles(tmp_path) == ["test_a.py:1: test_it_waits"]


def test_importing_moothall_loads_nothing_else() -> None:
    program = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        "import moothall\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stdout)
    assert "moothall" in loaded
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - {"moothall"} <= set(sys.stdlib_module_names)
    assert "asyncio" not in packages
    assert done.stderr == ""


def test_old_name_is_left_nowhere() -> None:
    """Another project on PyPI has it: whoever typed it would install that."""
    old = "civi" + "tas"
    files = [file for file in ROOT.glob("*") if file.is_file()]
    files += [
        file for name in FOLDERS_OF_OURS for file in (ROOT / name).rglob("*") if file.is_file()
    ]
    found = {
        str(file.relative_to(ROOT))
        for file in files
        if old in str(file.relative_to(ROOT)).lower() or old.encode() in file.read_bytes().lower()
        if "__pycache__" not in file.parts
    }
    assert found == set()
