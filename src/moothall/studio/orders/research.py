"""The order of `moothall research`, and the researcher that carries it out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moothall import ConfigError, FileError
from moothall.budget import RUN_LIMITS, RunLimits
from moothall.models import ModelName, budget_of, made_model
from moothall.research import CATALOGUES, SEARCH_ENGINES, SearchOptions, StyleOptions
from moothall.studio.orders.faults import about, check_none, fault

if TYPE_CHECKING:
    from moothall import Action, Report, Researcher
    from moothall.journal import Journal
    from moothall.research import Reviewer

STEPS: Final = ("plan", "narrate", "evaluate")
"""The steps that may have a model of their own."""
_WEB_SOURCES: Final = (
    "--search-web",
    *(f"--{name}{' URL' * bool(each.example)}" for name, each in SEARCH_ENGINES.items()),
)
_STEP_MODEL_FORM: Final = "write plan=MODEL, narrate=MODEL or evaluate=MODEL"


def step_models(specs: Iterable[str]) -> dict[str, str]:
    """Return models by step, as `plan=MODEL` on a command line."""
    models: dict[str, str] = {}
    for each in specs:
        step, equals, name = each.partition("=")
        if not (equals and name):
            raise fault("step_model", f": got {each!r:.80}; {_STEP_MODEL_FORM}")
        if models.setdefault(step, name) != name:
            raise fault("step_model", f": {step!r} is set twice: {models[step]!r}, {name!r}")
    return models


@dataclass(frozen=True)
class ResearchOrder(RunLimits, SearchOptions, StyleOptions):
    """The settings of `moothall research` from the command line."""

    command: ClassVar[str] = "research"
    part: ClassVar[str] = "moothall research"  # of a run: what records the order
    # What may be another when the run is resumed.
    may_change: ClassVar[tuple[str, ...]] = (
        *("objectives", "iterations", *RUN_LIMITS, "out", "html", "sources"),
    )
    paths: ClassVar[tuple[str, ...]] = ("folder", "out", "html", "sources")
    # Options that may have an address with a key in it.
    addresses: ClassVar[tuple[str, ...]] = (
        *("model", *(name for name, each in SEARCH_ENGINES.items() if each.example)),
    )

    objectives: list[str]
    folder: str | None = None  # the folder to search
    iterations: int = 3
    model: str | None = None  # None for the extractive form
    role: str = ""  # who the researcher is, in words for the model
    title: str = ""  # of the report
    link_base: str | None = None  # the address below which readers find the folder's files
    context_tokens: int | None = None  # of the model, with its answer
    step_models: dict[str, str] = field(default_factory=dict)  # other models, by step
    judge: str | None = None  # the model that judges whether sources support the sentences
    no_judge: bool = False  # whether only what is exact is compared
    review_plan: bool = False  # whether a person at the terminal sees the plan before it begins
    out: str | None = None  # the file of the report, in the form that its name says
    html: str | None = None  # the file of the page
    sources: str | None = None  # the file of the list of sources

    @property
    def task(self) -> str:
        """The objectives in one text."""
        return "\n".join(self.objectives)

    @property
    def place(self) -> str:
        """Where it searches, in words."""
        labels = [CATALOGUES[name].label for name in self.catalogues]
        return " and ".join(filter(None, [self.folder, self.web, *labels]))

    @property
    def in_words(self) -> str:
        """The settings, in a line."""
        sites = " or ".join([*([self.site] if self.site else []), *self.sites])
        text = f", {sites} alone" if sites else ""
        text += f", without {' and '.join(self.exclude)}" if self.exclude else ""
        text += f", since {self.since}" if self.since else ""
        return f"{self.model or 'no model, extractive'}; {self.place}{text}"


def check_research(order: ResearchOrder) -> None:
    """Check that an order can be carried out, before it is paid; ConfigError tells all faults."""
    check_none(_faults(order))
    if order.html or order.out:
        from moothall import Report

        for end in ("html" if order.html else "md", _suffix(order.out)):
            if end in Report.forms:
                Report.forms[end].check_installed()


def _faults(order: ResearchOrder) -> Iterator[ConfigError]:
    if not all(each.strip() for each in order.objectives):
        yield ConfigError("an OBJECTIVE is empty", argument="objectives")
    if order.link_base and not order.folder:
        yield fault("link_base", " is for the files of a folder: give --folder too")
    searches_online = order.web or order.catalogues
    if not order.folder and not searches_online:
        sources = _join_options("--folder DIR", *_WEB_SOURCES)
        yield ConfigError(f"there is nothing to search: give {sources}", argument="folder")
    if order.folder and not os.path.isdir(order.folder):
        problem = "is not a folder" if os.path.exists(order.folder) else "does not exist"
        yield fault("folder", f": the root folder {json.dumps(order.folder)} {problem}")
    web_options = {
        "site": order.site,
        "sites": order.sites,
        "exclude": order.exclude,
        "allow_host": order.allow_hosts,
    }
    if web_option := next(
        (name for name, value in web_options.items() if value and not order.web), None
    ):
        yield fault(web_option, f" is for the web: give {_join_options(*_WEB_SOURCES)} too")
    if order.since and not searches_online:
        sources = _join_options(*_WEB_SOURCES, *(f"--{name}" for name in CATALOGUES))
        yield fault("since", f" is for the web: give {sources} too")
    for check in (partial(order.check, "--"), partial(_check_model, order)):
        try:
            check()
        except ConfigError as error:
            yield error
    if order.model is None:
        model_options: dict[str, object] = {
            "role": order.role,
            **{
                name: getattr(order, name)
                for name, limit in RUN_LIMITS.items()
                if limit.stop_reason == "budget"
            },
            **order.style_options(),
            "context_tokens": order.context_tokens,
            "step_model": order.step_models,
            "judge": order.judge,
            "no_judge": order.no_judge,
        }
        if option := next((name for name, value in model_options.items() if value), None):
            yield fault(option, " is for a model: give --model too")
    if order.judge and order.no_judge:
        yield fault("judge", " and --no-judge exclude each other")
    files = (("out", order.out), ("html", order.html), ("sources", order.sources))
    for name, path in files:
        if path == "":
            yield fault(name, " must be a file, got an empty text")
        elif path and not _is_writable(Path(path).absolute().parent):
            yield fault(name, f": nothing can be written in {str(Path(path).parent)!r}")
    if order.sources:
        from moothall import Report

        suffixes = [f".{end}" for end, form in Report.forms.items() if form.holds == "sources"]
        if f".{_suffix(order.sources)}" not in suffixes:
            yield fault("sources", f" must end in {' or '.join(suffixes)}, got {order.sources!r}")
    options_by_path: dict[Path, tuple[str, str]] = {}
    for name, path in files:
        if path:
            other, first_path = options_by_path.setdefault(Path(path).resolve(), (name, path))
            if other != name:
                yield fault(other, f" and --{name} must be two files, got {first_path!r} for both")


def _join_options(*options: str) -> str:
    *most, last = options
    return f"{', '.join(most)} or {last}"


def _suffix(path: str | None) -> str:
    """Return the end of a file's name, which says what is written there."""
    return Path(path or "").suffix.lower().removeprefix(".")


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def _check_model(order: ResearchOrder) -> None:
    models = [("model", order.model), ("judge", order.judge)]
    for step, name in order.step_models.items():
        if step not in STEPS:
            raise fault("step_model", f": there is no step {step!r}; {_STEP_MODEL_FORM}")
        models.append(("step_model", name))
    for option, model in models:
        try:
            if model is not None:
                ModelName(model).check_spelling()
        except ConfigError as error:
            raise fault(option, f": {error}") from None


def make_researcher(
    order: ResearchOrder,
    journal: Journal | None = None,
    key: str | None = None,
    review_plan: Reviewer | None = None,
) -> Researcher:
    """Return the researcher that an order asks for; `key` is for its model."""
    from moothall import Researcher

    with about("model"):
        model = None if order.model is None else made_model(order.model, key)
    # The key is for the server of `--model`.
    models = {step: made_model(name, None) for step, name in order.step_models.items()}
    judge = None if order.judge in (None, order.model) else made_model(order.judge, None)
    budget = budget_of(order.command, model, *models.values(), judge, **order.limits())
    return Researcher(
        "researcher",
        model,
        order.objectives,
        _tools(order),
        order.iterations,
        order.role,
        journal=journal,
        budget=budget,
        models=models,
        judge=False if order.no_judge else judge or (True if order.judge else None),
        title=order.title,
        context_tokens=order.context_tokens,
        review_plan=review_plan,
        **order.style_options(),
    )


def write_report(
    report: Report, order: ResearchOrder, *, ended_at: float | None = None
) -> list[tuple[str, str]]:
    """Write a report to the files of the order; return what was written, and the paths.

    With `ended_at`, only those files that were not written, or not whole, since the run ended.
    """
    from moothall import Report

    files = []
    for path, end in (
        (order.html, "html"),
        (order.out, _suffix(order.out)),
        (order.sources, _suffix(order.sources)),
    ):
        if path:
            form = Report.forms.get(end, Report.forms["md"])
            files.append((form.holds, path, form.as_file(report)))
    if ended_at is not None:
        files = [each for each in files if not _is_written(*each[1:], ended_at)]
    for label, path, data in files:
        try:
            Path(path).write_bytes(data)
        except OSError as error:  # of a full disk, it does not name the file
            reason = error.strerror or error
            raise FileError(f"the {label} {path!r} cannot be written: {reason}") from error
    return [(label, path) for label, path, _ in files]


def _is_written(path: str, data: bytes, ended_at: float) -> bool:
    """Return whether a file has this, or what somebody has made of it since."""
    if not os.path.isfile(path):
        return os.path.exists(path)
    content = Path(path).read_bytes()
    cut_off = data.startswith(content) or os.path.getmtime(path) < ended_at
    return content == data or not cut_off


def _tools(order: ResearchOrder) -> list[Action]:
    from moothall import research
    from moothall.research import read_pdf, search_folder, search_web, visit_page

    tools: list[Action] = []
    if order.folder:
        outputs = [each for each in (order.out, order.html, order.sources) if each]
        results = 8 if order.model else 24  # a model is paid for what it reads
        tools.append(
            search_folder(order.folder, results=results, link_base=order.link_base, exclude=outputs)
        )
    if order.web:
        names = ("allow_hosts", "site", "sites", "exclude")
        web_scope: dict[str, Any] = {name: getattr(order, name) for name in names}
        tools += [
            search_web(since=order.since, **web_scope, **order.engines),
            visit_page(since=order.since, **web_scope),
            read_pdf(**web_scope),
        ]
    catalogue_searches = (getattr(research, f"search_{name}") for name in order.catalogues)
    return [*tools, *(search(since=order.since) for search in catalogue_searches)]
