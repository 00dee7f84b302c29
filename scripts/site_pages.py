"""The pages of the site that are not in docs/: the reference, and those of the root folder.

mkdocs.yml names this file among its hooks; mkdocs calls the functions `on_…`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from moothall.foundation.lazily import homes_of, is_ours

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
# The names of `moothall` are many: a page for each subject, by the module that a name comes from.
SUBJECTS = {
    "Errors": ("moothall.foundation.errors",),
    "Agents that think": (
        *("moothall.agents.replies", "moothall.agents.loop", "moothall.agents.dualact"),
        *("moothall.agents.conversation", "moothall.actions.goal", "moothall.actions.environment"),
    ),
    "Models": ("moothall.models",),
    "Memory": ("moothall.memory",),
    "Budgets and journal": ("moothall.budget", "moothall.journal"),
    "Research": ("moothall.research",),
    "Society": ("moothall.society",),
    "Agents, actions and spaces": ("moothall",),
}
PACKAGES = {
    "moothall.actions": "Actions and approval",
    "moothall.agents": "Ready agents and actions",
    "moothall.budget": "Budgets",
    "moothall.build": "What others build on",
    "moothall.cli.build": "What commands of others are built on",
    "moothall.studio.gradio": "A chat of Gradio",
    "moothall.journal": "The journal",
    "moothall.memory": "Memory",
    "moothall.models": "Models",
    "moothall.research": "Research",
    "moothall.serving": "Agents for other programs, and theirs for ours",
    "moothall.evals": "Evaluations",
    "moothall.society": "Societies",
    "moothall.spaces": "Spaces",
    "moothall.studio": "The studio",
    "moothall.studio.orders": "Orders of commands and pages",
    "moothall.serving.doors": "Doors of one's own",
    "moothall.testing": "Suites for memories, models and spaces",
    "moothall.serving.telemetry": "Spans and metrics",
}


def page_name(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-") + ".md"


def home(package: str, name: str) -> str | None:
    """The full name of a public name where it is defined; None for a plain value."""
    thing: Any = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing):
        return f"{defining_module(thing)}.{thing.__qualname__}"
    return f"{thing.__module__}.{thing.__qualname__}" if inspect.isroutine(thing) else None


def defining_module(kind: type) -> str:
    """The module that defines a public class: its `__module__` is the package that exports it."""
    statement = re.compile(rf"^class {kind.__name__}\b", re.MULTILINE)
    modules = {n: each for n, each in sys.modules.items() if n.startswith("moothall.")}
    having = {n: each for n, each in modules.items() if vars(each).get(kind.__name__) is kind}
    return next(n for n, each in having.items() if statement.search(inspect.getsource(each)))


def entry(package: str, name: str) -> str:
    full = home(package, name)
    thing = getattr(importlib.import_module(package), name)
    if inspect.ismodule(thing):
        options = {"heading": name, "toc_label": name}
        return f"::: {thing.__name__}\n    options: {json.dumps(options)}\n"
    if full is not None and name not in full.split("."):
        return f"## {name}\n\nAnother name of [`{thing.__name__}`][{full}].\n"
    if full is None:
        text = text_below(package, name)
        if text is None and is_ours(type(thing)):
            text = inspect.getdoc(thing)
        if text is None or isinstance(thing, str | int):
            text = f"{text or ''}\n\nThe value `{thing!r}`."
        return f"## {name}\n\n{text.strip()}\n"
    options = {"heading": name, "toc_label": name, "inherited_members": inherited(thing)}
    return f"::: {full}\n    options: {json.dumps(options)}\n"


def text_below(package: str, name: str) -> str | None:
    """What stands below a plain value where it is defined; None if nothing does."""
    module = importlib.import_module(homes_of(package)[name])
    for each, below in pairwise(ast.parse(inspect.getsource(module)).body):
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        if not any(isinstance(target, ast.Name) and target.id == name for target in targets):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            return inspect.cleandoc(str(below.value.value))
    return None


def inherited(thing: Any) -> list[str]:
    """The public members that a class has from bases that no page shows, up to one that has."""
    if not inspect.isclass(thing):
        return []
    bases = takewhile(lambda each: is_ours(each) and not is_public(each), thing.__mro__[1:])
    names = {name for each in bases for name in vars(each) if not name.startswith("_")}
    return sorted(names - {*vars(thing)})


def is_public(thing: type) -> bool:
    packages = ("moothall", *PACKAGES)
    return any(thing.__name__ in importlib.import_module(each).__all__ for each in packages)


def reference() -> dict[str, str]:
    """The pages of the reference, by their path: each public name stands on exactly one."""
    subjects: dict[str, list[str]] = {title: [] for title in SUBJECTS}
    known = set()
    for name in sorted(importlib.import_module("moothall").__all__, key=str.lower):
        if name != "__version__":
            full = home("moothall", name) or "moothall"
            known.add(full)
            title = next(t for t, starts in SUBJECTS.items() if full.startswith(starts))
            subjects[title].append(entry("moothall", name))
    pages = {
        page_name(title): f"# {title}\n\nFrom `moothall`: `from moothall import …`.\n\n"
        + "\n".join(entries)
        for title, entries in subjects.items()
    }
    lists = [f"- [{title}]({page_name(title)})" for title in subjects]
    lists.append("\nNames that a package has beside those of `moothall`:\n")
    for package, title in PACKAGES.items():
        names = [
            name
            for name in sorted(importlib.import_module(package).__all__, key=str.lower)
            if home(package, name) not in known
        ]
        if names:
            path = page_name(package)
            pages[path] = f"# {package}\n\n{title}: `from {package} import …`.\n\n" + "\n".join(
                entry(package, name) for name in names
            )
            lists.append(f"- [`{package}`]({path}): {title.lower()}")
    pages["index.md"] = (
        "# Reference\n\nEvery public name, from the docstrings of the code. "
        "Names of `moothall`:\n\n" + "\n".join(lists) + "\n"
    )
    return {f"reference/{path}": pages[path] for path in ("index.md", *pages)}


def on_config(config: Any) -> Any:
    """The reference's pages, in the table of contents."""
    pages = [{text.partition("\n")[0][2:]: path} for path, text in reference().items()]
    for each in config.nav:
        if "Reference" in each:
            each["Reference"] = [*pages, *each["Reference"][1:]]
    return config


def on_files(files: Files, config: Any) -> Files:
    for path, text in reference().items():
        files.append(File.generated(config, path, content=text))
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text()
        files.append(File.generated(config, name, content=text.replace("](docs/", "](")))
    files.append(File.generated(config, "llms.txt", content=llms(config.nav, config)))
    return files


def llms(nav: Any, config: Any) -> str:
    """The list of pages for language models, in the form of https://llmstxt.org."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]

    def add(entries: Any) -> None:
        for each in entries:
            ((title, below),) = each.items()
            if isinstance(below, str):
                lines.append(f"- [{title}]({below.removesuffix('.md')}.html)")
            else:
                lines.extend(("", f"### {title}", ""))
                add(below)

    for entry in nav:
        ((title, below),) = entry.items()
        lines += ["", f"## {title}", ""]
        add([entry] if isinstance(below, str) else below)
    return "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to the pages of the root folder, which stand beside docs/ on the disk."""
    return re.sub(
        rf"\]\((?:\.\./)+({'|'.join(ROOT_PAGES)})", lambda m: f"]({up(page)}{m[1]}", markdown
    )


def up(page: Any) -> str:
    return "../" * page.file.src_uri.count("/")
