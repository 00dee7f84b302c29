"""Wants: a citizen's requests to the world by `citizen.want(…)`, answered in the next step.

A citizen changes only itself; the commit stage combines all wants by the rules of
`society/kernel/commit.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from moothall.errors import InvalidArguments


@dataclass(frozen=True, slots=True)
class Want:
    """A citizen's request to the world. Its subclasses are the kinds."""


@dataclass(frozen=True, slots=True)
class Move(Want):
    """Go to a place, if it has room; the citizen arrives after the travel time.

    Attributes:
        to: the id of the place
        mode: the mode of travel, such as `walk`; None for the city's default
    """

    to: str
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class Pay(Want):
    """Give money to a citizen or a service.

    Attributes:
        to: the id of the receiver
        cents: the amount, 1 or more
        what: the purpose, such as `rent`
    """

    to: str
    cents: int
    what: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.to, int):  # an agent's own `id`, which is addressed by its text
            object.__setattr__(self, "to", str(self.to))


@dataclass(frozen=True, slots=True)
class Work(Want):
    """Work at a firm's place; the firm pays the wage and the government takes the tax.

    Attributes:
        place: the id of the place
        seconds: the seconds of work
    """

    place: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Buy(Want):
    """Buy at a place; the firm there is paid.

    Attributes:
        place: the id of the place
        kind: the good, such as `food`
        cents: the amount to spend at most, 1 or more
    """

    place: str
    kind: str
    cents: int


@dataclass(frozen=True, slots=True)
class Save(Want):
    """Deposit money at the bank, or withdraw it.

    Attributes:
        cents: the amount; below 0 is a withdrawal
    """

    cents: int


@dataclass(frozen=True, slots=True)
class Post(Want):
    """Publish a post in the feed.

    Attributes:
        text: the text
        topic: the topic
    """

    text: str
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Follow(Want):
    """Follow a citizen in the feed.

    Attributes:
        id: the citizen's id
    """

    id: str

    def __post_init__(self) -> None:
        if isinstance(self.id, int):
            object.__setattr__(self, "id", str(self.id))


@dataclass(frozen=True, slots=True)
class Like(Want):
    """Like a post.

    Attributes:
        post: the post's number
    """

    post: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a want; a citizen perceives it in the next step.

    Attributes:
        want: the want
        done: whether it was done
        reason: why it was not done, in words
        value: the result, as JSON data: for `Move` the step of arrival, for `Work` the net wage and
            for `Buy` the price in cents, for `Save` the balance of the account, for `Post` the
            post's number, for `Like` the number of likes
    """

    want: Want
    done: bool
    reason: str = ""
    value: Any = field(default=None)


KINDS: Final[dict[str, type[Want]]] = {
    kind.__name__: kind for kind in (Move, Pay, Work, Buy, Save, Post, Follow, Like)
}
"""moothall's wants by name."""
ORDER: Final[tuple[type[Want], ...]] = (Work, Pay, Save, Buy, Move, Follow, Post, Like)
"""The order in which the kinds of wants are settled: wages before purchases."""


def _kinds() -> dict[str, type[Want]]:
    """Return moothall's wants and a user's own by name."""
    kinds: list[type[Want]] = Want.__subclasses__()
    for kind in kinds:  # the list grows
        kinds += kind.__subclasses__()
    return {kind.__name__: kind for kind in kinds} | KINDS


def answer_json(answer: Answer) -> list[Any]:
    """Return an answer as JSON data."""
    want = answer.want
    values = [getattr(want, each.name) for each in fields(want)]
    return [type(want).__name__, values, answer.done, answer.reason, answer.value]


def answer_of_json(given: Any) -> Answer:
    """Return the answer of JSON data."""
    name, values, done, reason, value = given
    return Answer((KINDS.get(name) or _kinds()[name])(*values), done, reason, value)


def want_of(name: str, args: dict[str, Any]) -> Want:
    """Return the want of a message to a service, named in lower case. Raises InvalidArguments."""
    kind = {key.lower(): kind for key, kind in _kinds().items()}.get(name)
    if kind is None:
        known = ", ".join(KINDS).lower()
        raise InvalidArguments(f"action.name must be one of {known}, got {name!r:.80}")
    try:
        return kind(**args)
    except Exception:
        raise InvalidArguments(f"action.args do not fit {name}: {args!r:.200}") from None


def id_order(id: str) -> tuple[int, int, str]:
    """Return the sort key of an id: numbers by number, then texts."""
    try:
        return (0, int(id), id)
    except ValueError:
        return (1, 0, id)
