"""Keeping a tool of the web on one site: a host and those below it."""

from __future__ import annotations

import functools
from typing import Any
from urllib.parse import urlsplit

from civitas.action import Action
from civitas.errors import InvalidArguments
from civitas.research.findings import Resource
from civitas.research.pool import ResourcePool


def only_site(tool: Action, host: str) -> Action:
    """The same tool, which searches and reads one site alone.

    Its queries are marked with `site:HOST`, URLs of other hosts are refused, and what it gives of
    other hosts, such as where a page has led to, is left out.
    """
    host = host.lower().strip(".")

    @functools.wraps(tool.function)
    async def kept(**kwargs: Any) -> Any:
        url, query = kwargs.get("url"), kwargs.get("query")
        if isinstance(url, str) and not _is_on(url, host):
            raise InvalidArguments(
                f"{url!r:.200} is not on {host}, which the research is restricted to"
            )
        if isinstance(query, str):
            kwargs["query"] = f"{query} site:{host}"
        pools = {name: each for name, each in kwargs.items() if isinstance(each, ResourcePool)}
        inner = {name: ResourcePool(beyond=pool) for name, pool in pools.items()}
        given = tool.execute(**{**kwargs, **inner})
        found = await given if hasattr(given, "__await__") else given
        for name, pool in pools.items():
            for each in inner[name].changes():
                if _is_on(each.url, host):
                    pool.add(each)
        listed = list(found) if isinstance(found, list | tuple) else [found]
        left = [e for e in listed if not isinstance(e, Resource) or _is_on(e.url, host)]
        if listed and not left and url is not None:
            raise InvalidArguments(
                f"{url!r:.200} leads away from {host}, to {listed[0].url!r:.200}"
            )
        return left if isinstance(found, list | tuple) else found

    return Action._described(
        tool.name,
        kept,
        tool.description,
        tool.parameters,
        access_policy=tool.access_policy,
        idempotent=tool.idempotent,
        timeout=tool.timeout,
        help=tool.help,
    )


def _is_on(url: str, host: str) -> bool:
    try:
        found = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    return found == host or found.endswith(f".{host}")
