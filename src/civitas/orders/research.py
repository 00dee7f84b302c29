"""The researcher that an order asks for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from civitas.errors import ConfigError
from civitas.orders.models import budget_of, made_model

if TYPE_CHECKING:
    from civitas.action import Action
    from civitas.journal import Journal
    from civitas.orders.order import ResearchOrder
    from civitas.research.researcher import Researcher


def check(order: ResearchOrder) -> None:
    """See that an order can be carried out, before anything is paid.

    Raises:
        ConfigError: what it says does not go together
        MissingExtra: what makes the page is not installed
    """
    if not all(each.strip() for each in order.objectives):
        raise ConfigError("an OBJECTIVE is empty")
    on_web = order.search_web or order.searxng
    if not order.folder and not on_web:
        raise ConfigError(
            "there is nothing to search: give --folder DIR, --search-web or --searxng URL"
        )
    if not on_web and (order.site or order.allow_hosts):
        which = "--site" if order.site else "--allow-host"
        raise ConfigError(f"{which} is for the web: give --search-web or --searxng URL too")
    if order.site and ("/" in order.site or ":" in order.site):
        raise ConfigError(f"--site must be a host such as docs.python.org, got {order.site!r}")
    if order.model is None and (order.role or order.max_usd or order.max_tokens):
        which = "--role" if order.role else "--max-usd" if order.max_usd else "--max-tokens"
        raise ConfigError(f"{which} is for a model: give --model too")
    for name, path in (("--out", order.out), ("--html", order.html)):
        if path and not os.access(Path(path).absolute().parent, os.W_OK):
            raise ConfigError(f"{name}: nothing can be written in {os.path.dirname(path)!r}")
    if order.html:
        from civitas.research.page import page
        from civitas.research.report import Report

        page(Report("", [], "done"))  # what is missing is said before anything is paid


def researcher(
    order: ResearchOrder, journal: Journal | None = None, key: str | None = None
) -> Researcher:
    """The researcher that an order asks for.

    Args:
        journal: where it records its run, or None
        key: the key of its model, if it takes one

    Raises:
        ConfigError: there is no model of such a name
        FileError: the folder is not there, or cannot be searched
        ModelError: the model is missing or cannot be used
    """
    from civitas.research.researcher import Researcher

    budget = budget_of(
        order.command, seconds=order.max_seconds, tokens=order.max_tokens, usd=order.max_usd
    )
    return Researcher(
        "researcher",
        None if order.model is None else made_model(order.model, key),
        order.objectives,
        _tools(order),
        order.iterations,
        order.role,
        journal=journal,
        budget=budget,
    )


def _tools(order: ResearchOrder) -> list[Action]:
    from civitas.research import read_pdf, search_folder, search_web, visit_page
    from civitas.research.calling import without

    tools: list[Action] = []
    if order.folder:
        # What this order has written there before is no source.
        own = [Path(os.path.realpath(each)).as_uri() for each in (order.out, order.html) if each]
        tools.append(without(search_folder(order.folder), own))
    if order.search_web or order.searxng:
        hosts, site = order.allow_hosts, order.site
        tools += [
            search_web(searxng=order.searxng, allow_hosts=hosts, site=site),
            visit_page(allow_hosts=hosts, site=site),
            read_pdf(allow_hosts=hosts, site=site),
        ]
    return tools
