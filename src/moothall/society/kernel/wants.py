"""Wants: a citizen's requests to the world by `citizen.want(…)`, answered in the next step.

A citizen changes only itself; the commit stage combines all wants by the rules of
`society/kernel/commit.py`.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Final, get_type_hints

from moothall import Action, ConfigError, InvalidArguments, action
from moothall.build import is_ours
from moothall.society.kernel.draw import number_or_text, turn_key

AGENT_ID: Final = "who"  # a citizen's row; −1, −2, … a service, by id; from `FIRST_STRANGER` others
PLACE: Final = "place"  # the number of a place, −1 for none
TEXT: Final = "word"  # the number of a text of the population's `words`, −1 for None
INT: Final = "int"
_HELP_PARTS: Final = ("description", "args")  # not what the class returns


@dataclass(frozen=True, slots=True)
class Want:
    """A citizen's request to the world. Its subclasses are the kinds, frozen dataclasses.

    Rows can want a kind whose fields are numbers there: an `int`; a text, `str` or `str | None`,
    which a block has in its `words`; `Annotated[str, "who"]`, the id of a citizen or service;
    `Annotated[str, "place"]` or the field `place`, the id of a place.

    Attributes:
        turn: kinds are settled by rising turn in a step, those of one turn by name
    """

    turn: ClassVar[int] = 100


@dataclass(frozen=True, slots=True)
class Move(Want):
    """Go to a place, if it has room; the citizen arrives after the travel time.

    Attributes:
        to: the id of the place
        mode: the mode of travel, such as `walk`; None for the city's default
    """

    turn: ClassVar[int] = 50
    to: Annotated[str, PLACE]
    mode: str | None = None


class _CitizenWant:
    """A want that names a citizen or service, also by an agent's own `id`, a number."""

    __slots__ = ()
    id_field: ClassVar[str]

    def __post_init__(self) -> None:
        id = getattr(self, self.id_field)
        if isinstance(id, int):
            object.__setattr__(self, self.id_field, str(id))


@dataclass(frozen=True, slots=True)
class Pay(_CitizenWant, Want):
    """Give money to a citizen or a service.

    Attributes:
        to: the id of the receiver
        cents: the amount, 1 or more
        what: the purpose, such as `rent`
    """

    turn: ClassVar[int] = 20
    id_field: ClassVar[str] = "to"
    to: Annotated[str, AGENT_ID]
    cents: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class Work(Want):
    """Work at a firm's place; the firm pays the wage and the government takes the tax.

    Attributes:
        place: the id of the place
        seconds: the seconds of work
    """

    turn: ClassVar[int] = 10  # wages come before purchases
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

    turn: ClassVar[int] = 40
    place: str
    kind: str
    cents: int


@dataclass(frozen=True, slots=True)
class Save(Want):
    """Deposit money at the bank, or withdraw it.

    Attributes:
        cents: the amount; below 0 is a withdrawal
    """

    turn: ClassVar[int] = 30
    cents: int


@dataclass(frozen=True, slots=True)
class Post(Want):
    """Publish a post in the feed.

    Attributes:
        text: what it says, at most 280 characters
        topic: what it is about
    """

    turn: ClassVar[int] = 70
    text: str
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Follow(_CitizenWant, Want):
    """Follow a citizen in the feed.

    Attributes:
        id: the citizen's id
    """

    turn: ClassVar[int] = 60
    id_field: ClassVar[str] = "id"
    id: Annotated[str, AGENT_ID]


@dataclass(frozen=True, slots=True)
class Unfollow(_CitizenWant, Want):
    """Follow a citizen in the feed no longer.

    Attributes:
        id: the citizen's id
    """

    turn: ClassVar[int] = 65
    id_field: ClassVar[str] = "id"
    id: Annotated[str, AGENT_ID]


@dataclass(frozen=True, slots=True)
class Like(Want):
    """Like a post.

    Attributes:
        post: the post's number
    """

    turn: ClassVar[int] = 80
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


def _want_classes() -> dict[str, type[Want]]:
    """Return all kinds of wants by name; of one name moothall's, else the last defined."""
    kinds: list[type[Want]] = Want.__subclasses__()
    for kind in kinds:  # the list grows
        kinds += kind.__subclasses__()
    kinds.sort(key=is_ours)
    return {kind.__name__: kind for kind in kinds}


WANTS: Final = _want_classes()
"""moothall's wants by name."""


def kind_named(name: str) -> type[Want]:
    """Return the kind of a name, a user's own too. Raises KeyError for an unknown name."""
    return WANTS.get(name) or _want_classes()[name]


def wants_by_kind(
    submitted: Iterable[Any], seed: int, step: int
) -> defaultdict[type[Want], list[Any]]:
    """Return submitted wants by kind, in the order in which their senders are heard."""
    by_kind = defaultdict[type[Want], list[Any]](list)
    for each in sorted(submitted, key=lambda each: turn_key(seed, each.sender, step)):
        by_kind[type(each.want)].append(each)
    return by_kind


def sort_by_turn(kinds: Iterable[type[Want]]) -> list[type[Want]]:
    """Return kinds in the order in which they are settled."""
    return sorted(set(kinds), key=lambda kind: (kind.turn, kind.__name__))


_FIELD_KINDS: Final[dict[type[Want], Mapping[str, str]]] = {}


def field_kinds(kind: type[Want]) -> Mapping[str, str]:
    """Return what a number in each field of a kind is. ConfigError: a number stands for none."""
    if kind in _FIELD_KINDS:
        return _FIELD_KINDS[kind]
    by_type = {int: INT, str: TEXT, str | None: TEXT}
    kinds_by_field = {}
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise ConfigError(f"rows cannot want {kind.__name__}: {error}") from None
    for each in fields(kind):
        hint = hints[each.name]
        field_kind = PLACE if each.name == "place" else by_type.get(hint)
        field_kind = next(
            (tag for tag in getattr(hint, "__metadata__", ()) if tag in (AGENT_ID, PLACE)),
            field_kind,
        )
        if field_kind is None:
            raise ConfigError(
                f"rows cannot want {kind.__name__}: its field {each.name!r} must be int or str, "
                f"got {hint!r:.80}"
            )
        kinds_by_field[each.name] = field_kind
    _FIELD_KINDS[kind] = kinds_by_field
    return kinds_by_field


def answer_json(answer: Answer) -> list[object]:
    """Return an answer as JSON data."""
    want = answer.want
    values = [getattr(want, each.name) for each in fields(want)]
    return [type(want).__name__, values, answer.done, answer.reason, answer.value]


def answer_from_json(data: Any) -> Answer:
    """Return the answer of JSON data."""
    name, values, done, reason, value = data
    return Answer(kind_named(name)(*values), done, reason, value)


def want_of(name: str, args: Mapping[str, object]) -> Want:
    """Return the want of a message to a service, named in lower case. Raises InvalidArguments."""
    kind = {key.lower(): kind for key, kind in _want_classes().items()}.get(name)
    if kind is None:
        names = ", ".join(WANTS).lower()
        raise InvalidArguments(f"action.name must be one of {names}, got {name!r:.80}")
    try:
        return kind(**args)
    except Exception:
        raise InvalidArguments(f"action.args do not fit {name}: {args!r:.200}") from None


def help_of(kinds: Iterable[type[Want]], args: Mapping[str, object]) -> dict[str, Any]:
    """Return what a service says to `help`: its actions, or the one of `action_name`."""
    actions = {kind.__name__.lower(): kind for kind in kinds}
    name = args.get("action_name")
    if args.keys() - {"action_name"} or not (name is None or name in [*actions]):
        names = ", ".join(actions)
        raise InvalidArguments(f"help takes an action_name of {names}, got {args!r:.200}")
    chosen = actions if name is None else [name]
    helps = {each: Action(each, actions[each]).help for each in chosen}
    return {each: {part: entry[part] for part in _HELP_PARTS} for each, entry in helps.items()}


def action_of(kind: type[Want]) -> Any:
    """Return a block's action for a kind, which the kind's fields and docstring describe."""

    async def send(self: Any, *args: object, **values: object) -> None:
        self.want(kind(*args, **values))

    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method: Any = send
    method.__signature__ = inspect.Signature(
        [self_parameter, *inspect.signature(kind).parameters.values()]
    )
    method.__annotations__ = {**get_type_hints(kind), "return": None}  # without "who" and "place"
    method.__name__, method.__doc__ = kind.__name__.lower(), inspect.getdoc(kind)
    return action(method)


def id_order(id: str) -> tuple[int, int, str]:
    """Return the sort key of an id: numbers by number, then texts, such as "007"."""
    number = number_or_text(id)
    return (1, 0, id) if isinstance(number, str) else (0, number, id)
