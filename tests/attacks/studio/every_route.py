"""The routes that a studio's application has, what each takes, and good requests of each."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from attacks.studio.conftest import TOKEN
from attacks.studio.world import Given, World
from moothall.studio import Studio
from moothall.studio.page import Tab


@dataclass(frozen=True)
class Route:
    """One route: `names` has what it takes, as (place, name); place is path, query or body.

    `whole` is the name of the parameter that is the whole body, if one is.
    """

    method: str
    path: str
    names: tuple[tuple[str, str], ...] = ()
    whole: str = ""


@dataclass
class Asking:
    """A request of a route before it is spelt; a value may be a function that gives it."""

    route: Route
    given: dict[tuple[str, str], Any] = field(default_factory=dict)

    def but(self, place: str, name: str, value: Any) -> Asking:
        """Return it with another value in one place."""
        return Asking(self.route, {**self.given, (place, name): value})

    def without(self, place: str, name: str) -> Asking:
        """Return it without one value."""
        return Asking(
            self.route, {at: value for at, value in self.given.items() if at != (place, name)}
        )

    @property
    def address(self) -> str:
        """The path with its gaps filled, and the query."""
        said = {
            name: _spelt(value) for (place, name), value in self.given.items() if place == "path"
        }
        path = re.sub(r"{(\w+)(?::\w+)?}", lambda gap: said.get(gap[1], "x"), self.route.path)
        pairs = [
            f"{name}={_spelt(value)}"
            for (place, name), value in self.given.items()
            if place == "query"
        ]
        return f"{path}?{'&'.join(pairs)}" if pairs else path

    @property
    def body(self) -> bytes | None:
        """The body; None of a GET."""
        if self.route.method != "POST":
            return None
        made = {name: _now(value) for (at, name), value in self.given.items() if at == "body"}
        return json.dumps(made.get(self.route.whole) if self.route.whole else made).encode()


def _now(value: Any) -> Any:
    return value() if callable(value) else value


def _spelt(value: Any) -> str:
    value = _now(value)
    text = value if isinstance(value, str) else json.dumps(value)
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def routes_of(studio: Studio) -> list[Route]:
    """Return every route, in order; those that set up a town come last."""

    async def guarded() -> Any:
        from moothall.studio.page_guard import Front
        from moothall.studio.server import application  # it loads FastAPI

        return application(studio, TOKEN, "127.0.0.1", Front(), is_password=False)

    def walk(routes: Any) -> Iterator[Route]:
        for each in routes:
            inner = getattr(each, "original_router", None)
            if inner is not None:
                yield from walk(inner.routes)
            for method in getattr(each, "methods", None) or ():
                yield _route(method, each)

    # what ends the town comes last
    found = {*walk(asyncio.run(guarded()).app.routes), Route("GET", "/studio/static/studio.js")}
    return sorted(found, key=lambda each: ("forms/" in each.path, each.path, each.method))


def _route(method: str, of: Any) -> Route:
    """Return a route of the framework as ours; a form of a model's class takes its fields."""
    takes = of.dependant
    names = [("path", each.name) for each in takes.path_params]
    names += [("query", each.name) for each in takes.query_params]
    body, whole = takes.body_params, ""
    if len(body) == 1 and not of._embed_body_fields:
        fields = getattr(body[0].field_info.annotation, "model_fields", None)
        whole = "" if fields else body[0].name
        names += [("body", each) for each in fields or (whole,)]
    else:
        names += [("body", each.name) for each in body]
    return Route(method, of.path, tuple(names), whole)


def askings(studio: Studio, world: World) -> list[Asking]:
    """Return good requests of each route: of a form, one for each of its tab's forms."""
    tabs = {tab.name: tab for tab in studio.tabs}
    made = []
    for route in routes_of(studio):
        if route.path.startswith("/shared/"):
            continue  # a token of its own opens it: tests/studio/test_shares.py
        if route.path.endswith("/forms/{name}"):
            tab = tabs[route.path.split("/")[2]]
            forms = [each.to_json() for each in tab.forms()]
            made += [_of_form(route.method, tab, form, world) for form in forms]
            if not forms:
                made.append(Asking(route, {("path", "name"): "new", ("body", "values"): {}}))
            continue
        for said in world.good().get(route.path, [{}]):
            made.append(_of_route(route, said, world))
    return made


def _of_form(method: str, tab: Tab, form: dict[str, Any], world: World) -> Asking:
    fields = {each["name"]: each["value"] for each in form["fields"]}
    said = {**fields, **world.form(tab, form["name"])}
    given = {("body", name): said[name] for name in fields}
    path = f"/studio/{tab.name}/forms/{form['name']}"
    return Asking(Route(method, path, tuple(given)), given)


def _of_route(route: Route, said: Given, world: World) -> Asking:
    given: dict[tuple[str, str], Any] = {}
    for place, name in route.names:
        value = said[name] if name in said else world.named(route.path, name)
        if name == route.whole and isinstance(value, Mapping) and value:  # each is tried
            given |= {("body", inner): each for inner, each in value.items()}
            route = replace(route, whole="")
        else:
            given[place, name] = value
    return Asking(route, given)
