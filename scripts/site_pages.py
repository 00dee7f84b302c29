"""The pages of the site that are not in docs/: the reference, and those of the root folder.

mkdocs.yml names this file among its hooks; mkdocs calls the functions `on_…`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
# The names of `civitas` are many: a page for each subject, by the module that a name comes from.
SUBJECTS = {
    "Errors": ("civitas.errors",),
    "Agents that think": ("civitas.reasoning", "civitas.goal", "civitas.environment"),
    "Models": ("civitas.models",),
    "Memory": ("civitas.memory",),
    "Budgets and journal": ("civitas.budget", "civitas.journal"),
    "Research": ("civitas.research",),
    "Society": ("civitas.society",),
    "Agents, actions and spaces": ("civitas",),
}
PACKAGES = {
    "civitas.agents": "Ready agents and actions",
    "civitas.budget": "Budgets",
    "civitas.journal": "The journal",
    "civitas.memory": "Memory",
    "civitas.models": "Models",
    "civitas.research": "Research",
    "civitas.society": "Societies",
    "civitas.studio": "The studio",
}


def page_name(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-") + ".md"


def home(package: str, name: str) -> str | None:
    """The full name of a public name where it is defined; None for a plain value."""
    thing: Any = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    return None


def entry(package: str, name: str) -> str:
    full = home(package, name)
    if full is None:
        thing = getattr(importlib.import_module(package), name)
        ours = type(thing).__module__.startswith("civitas.")
        return f"## {name}\n\n{inspect.getdoc(thing) if ours else f'The value `{thing!r}`.'}\n"
    return f"::: {full}\n    options:\n      heading: {name}\n      toc_label: {name}\n"


def reference() -> dict[str, str]:
    """The pages of the reference, by their path: each public name stands on exactly one."""
    subjects: dict[str, list[str]] = {title: [] for title in SUBJECTS}
    known = set()
    for name in sorted(importlib.import_module("civitas").__all__, key=str.lower):
        if name != "__version__":
            full = home("civitas", name) or "civitas"
            known.add(full)
            title = next(t for t, starts in SUBJECTS.items() if full.startswith(starts))
            subjects[title].append(entry("civitas", name))
    pages = {
        page_name(title): f"# {title}\n\nFrom `civitas`: `from civitas import …`.\n\n"
        + "\n".join(entries)
        for title, entries in subjects.items()
    }
    lists = [f"- [{title}]({page_name(title)})" for title in subjects]
    lists.append("\nNames that a package has beside those of `civitas`:\n")
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
        "Names of `civitas`:\n\n" + "\n".join(lists) + "\n"
    )
    return {f"reference/{path}": pages[path] for path in ("index.md", *pages)}


def on_config(config: Any) -> Any:
    """The reference's pages, in the table of contents."""
    pages = [{text.partition("\n")[0][2:]: path} for path, text in reference().items()]
    config.nav = [{"Reference": pages} if "Reference" in each else each for each in config.nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    for path, text in reference().items():
        files.append(File.generated(config, path, content=text))
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text()
        files.append(File.generated(config, name, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to the pages of the root folder, which stand beside docs/ on the disk."""
    return re.sub(
        rf"\]\((?:\.\./)+({'|'.join(ROOT_PAGES)})", lambda m: f"]({up(page)}{m[1]}", markdown
    )


def up(page: Any) -> str:
    return "../" * page.file.src_uri.count("/")
