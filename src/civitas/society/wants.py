"""Wants: what a citizen asks of the world by `citizen.want(…)`, and the answer in the next step.

A citizen changes only itself; the commit stage combines all wants by the rules of
`society/commit.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from civitas.errors import InvalidArguments, StateError


@dataclass(frozen=True, slots=True)
class Want:
    """What a citizen asks of the world. Its subclasses are the kinds."""


@dataclass(frozen=True, slots=True)
class Move(Want):
    """Go to a place. It arrives after the time that the way takes, if the place has room then.

    Attributes:
        to: the id of the place
        mode: how it travels, such as `walk`; None for the city's default
    """

    to: str
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class Pay(Want):
    """Give money to a citizen or a service.

    Attributes:
        to: the id of who gets it
        cents: how much, 1 or more
        what: what for, such as `rent`
    """

    to: str
    cents: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class Work(Want):
    """Work at a firm's place; the firm pays the wage and the government takes the tax.

    Attributes:
        place: the id of the place
        seconds: how long
    """

    place: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Buy(Want):
    """Buy at a place; the firm there is paid.

    Attributes:
        place: the id of the place
        kind: what, such as `food`
        cents: for how much, 1 or more
    """

    place: str
    kind: str
    cents: int


@dataclass(frozen=True, slots=True)
class Save(Want):
    """Bring money to the bank, or take it back.

    Attributes:
        cents: how much; below 0 takes it from the account
    """

    cents: int


@dataclass(frozen=True, slots=True)
class Post(Want):
    """Publish a post in the feed.

    Attributes:
        text: what it says
        topic: what it is about
    """

    text: str
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Follow(Want):
    """Follow a citizen in the feed.

    Attributes:
        id: whom
    """

    id: str


@dataclass(frozen=True, slots=True)
class Like(Want):
    """Like a post.

    Attributes:
        post: the post's number
    """

    post: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a want; a citizen perceives it in the next step.

    Attributes:
        want: what was wanted
        done: whether it was done
        reason: why it was not, in words
        value: what came of it, as JSON data: of `Move` the step in which it arrives, of `Work` the
            net wage in cents, of `Save` the balance of the account, of `Post` the post's number
    """

    want: Want
    done: bool
    reason: str = ""
    value: Any = field(default=None)


KINDS: Final[dict[str, type[Want]]] = {
    kind.__name__: kind for kind in (Move, Pay, Work, Buy, Save, Post, Follow, Like)
}
"""civitas's wants by name."""
_BY_NAME: Final = {name.lower(): kind for name, kind in KINDS.items()}


def _own() -> dict[str, type[Want]]:
    """The kinds of a user's own by name."""
    return {kind.__name__: kind for kind in Want.__subclasses__()}


def answer_json(answer: Answer) -> list[Any]:
    """An answer as JSON data."""
    want = answer.want
    values = [getattr(want, each.name) for each in fields(want)]
    return [type(want).__name__, values, answer.done, answer.reason, answer.value]


def answer_of_json(given: Any) -> Answer:
    """The answer that JSON data is. Raises StateError."""
    try:
        name, values, done, reason, value = given
        kind = KINDS.get(name) or _own()[name]
        return Answer(kind(*values), done, reason, value)
    except (TypeError, ValueError, KeyError) as error:
        raise StateError(f"an answer to a want is damaged: {given!r:.200}") from error


def want_of(name: str, args: dict[str, Any]) -> Want:
    """The want that a message to a service is: its action is a want's name in lower case.

    Raises:
        InvalidArguments: it is none
    """
    kind = _BY_NAME.get(name) or {key.lower(): kind for key, kind in _own().items()}.get(name)
    if kind is None:
        known = ", ".join(_BY_NAME)
        raise InvalidArguments(f"action.name must be one of {known}, got {name!r:.80}")
    try:
        return kind(**args)
    except TypeError:
        raise InvalidArguments(f"action.args are not those of {name}: {args!r:.200}") from None


def id_order(id: str) -> tuple[int, int, str]:
    """The key by which ids are sorted: numbers by number, then texts."""
    try:
        return (0, int(id), id)
    except ValueError:
        return (1, 0, id)
