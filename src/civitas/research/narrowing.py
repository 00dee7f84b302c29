"""Narrowing a tool: to one site of the web, or to what is not to be left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from civitas.action import Action
from civitas.errors import InvalidArguments
from civitas.research.calling import changed, like
from civitas.research.findings import Resource
from civitas.research.pool import ResourcePool


def only_site(tool: Action, host: str) -> Action:
    """The same tool of the web, which keeps to one site: a host and those below it.

    Its queries are marked with `site:HOST`, URLs of other hosts are refused, and what it gives of
    other hosts, such as where a page has led to, is left out.
    """
    host = host.lower().strip(".")

    async def kept(**kwargs: Any) -> Any:
        url, query = kwargs.get("url"), kwargs.get("query")
        if isinstance(url, str) and not _is_on(url, host):
            raise InvalidArguments(f"{url!r:.200} is not on {host}, which is all that is read")
        if isinstance(query, str):
            kwargs["query"] = f"{query} site:{host}"
        pools = {name: each for name, each in kwargs.items() if isinstance(each, ResourcePool)}
        inner = {name: ResourcePool(beyond=pool) for name, pool in pools.items()}
        found = await tool.execute(**{**kwargs, **inner})
        for name, pool in pools.items():
            for each in inner[name].changes():
                if _is_on(each.url, host):
                    pool.add(each)
        if isinstance(found, Resource) and not _is_on(found.url, host):
            raise InvalidArguments(f"{url!r:.200} leads away from {host}, to {found.url!r:.200}")
        return _left(found, lambda url: _is_on(url, host))

    return like(tool, kept)


def without(tool: Action, urls: Collection[str]) -> Action:
    """The same tool, which leaves out some resources of those that it finds."""
    return changed(tool, lambda found: _left(found, lambda url: url not in urls))


def _left(found: Any, keeps: Callable[[str], bool]) -> Any:
    if not isinstance(found, list | tuple):
        return found
    return [each for each in found if not isinstance(each, Resource) or keeps(each.url)]


def _is_on(url: str, host: str) -> bool:
    try:
        found = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    return found == host or found.endswith(f".{host}")
