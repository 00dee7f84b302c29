"""JSON forms of the states of agents, memories and orchestrators, and of replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeVar, cast

from moothall.actions.provenance import origins_of
from moothall.actions.provenance.origin import told_keys
from moothall.agents.replies.reply import Reply, Step, Stop
from moothall.foundation.errors import StateError
from moothall.foundation.jsonvalue import NotJSON, as_json, deep_json, to_json
from moothall.journal.kinds.entry_kinds import adapter_of
from moothall.models.protocol import ModelReply, Usage


class Codec(NamedTuple):
    """Functions that write a result as JSON data and read it back."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def codec_of(kind: Any) -> Codec:
    """Return the codec of a type; without a type, values stay JSON data."""
    if isinstance(kind, Codec):
        return kind
    if kind is ModelReply:
        return ANSWER
    return Codec(
        _unchanged, _unchanged if kind is None or kind is Any else adapter_of(kind).validate_python
    )


def _unchanged(value: Any) -> Any:
    return value


def reply_json(reply: Reply) -> dict[str, Any]:
    """Return a reply as JSON data."""
    names = ("text", "value", "messages", "stop_reason", "detail", "run_id")
    return {
        **{name: as_json(getattr(reply, name)) for name in names},
        "steps": [dump_state(step) for step in reply.steps],
        "usage": reply.usage.to_json(),
        **({"outside": [*reply.outside]} if reply.outside else {}),
    }


def reply_of_json(data: dict[str, Any]) -> Reply:
    """Return a reply from its JSON data."""
    steps = [Step(**{**s, "origins": origins_of(s.get("origins"))}) for s in data["steps"]]
    outside = (*data.get("outside", ()),)
    return Reply(**{**data, "steps": steps, "usage": Usage(*data["usage"]), "outside": outside})


REPLY: Final = Codec(reply_json, reply_of_json)
"""The codec of a reply as the result of a step."""


ANSWER: Final = Codec(ModelReply.json_of, ModelReply.of_json)
"""The codec of a model's answer as the result of a step."""

S = TypeVar("S")


class RecordNotes:
    """What a record notes beside its steps: events, and what the run was told from outside."""

    heard_keys: Any = ()  # of what it was told, which the next state has heard

    def note(self, kind: str, data: Any) -> None:
        """Note an entry."""
        raise NotImplementedError

    def mark(self, key: str, result: Any = None, /, **details: Any) -> None:
        """Note a step without a call: an event, or a step that was cut off."""
        data = {"key": key, "about": details} if details else {"key": key}
        self.note("ended", {**data, "result": result})

    def hear(self, data: Any) -> None:
        """Note input from outside; it belongs to the next state."""
        keys = told_keys([data.get("content")]) if isinstance(data, dict) else []
        self.note("heard", {**data, "told_keys": keys} if keys else data)

    def take_told(self, texts: Iterable[Any]) -> None:
        """Note with the next state that texts were heard which somebody has told the run."""
        self.heard_keys = told_keys(texts)

    def drop(self: Any, state: Any, name: str) -> None:
        """Drop all items of a list but the last, to save memory: they are recorded."""
        items = getattr(state, name)
        del items[:-1]
        self._counts[name] = len(items)

    @property
    def paused_stop(self: Any) -> Stop:
        """The Stop of a run that somebody has paused."""
        self.run.work.has_paused = True
        return Stop("waiting", self.run.work.pause_cause)


VERSION: Final = 1

APPENDED: Final = {"moothall": "appended"}
"""The metadata of a state's field that is an append-only list: each item is recorded once, as in
`lines: list[str] = field(default_factory=list, metadata=APPENDED)`."""
UNSAVED: Final = {"moothall": "live"}
"""The metadata of a state's field that is not saved, such as a requested type."""


def dump_state(state: Any) -> dict[str, Any]:
    """Return a state, or any other dataclass, as JSON data; what has no JSON form becomes text."""
    parts = {
        each.name: getattr(state, each.name) for each in fields(state) if each.metadata != UNSAVED
    }
    try:
        data: dict[str, Any] = to_json(parts)
    except NotJSON:
        data = deep_json(parts)
    return data


def load_state(kind: type[S], data: Any, label: str) -> S:
    """Return the state in JSON data. Fields that an older program did not save have defaults."""
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError
    from pydantic_core import to_json as text_of

    names = {each.name for each in fields(cast(Any, kind)) if each.metadata != UNSAVED}
    try:
        if not isinstance(data, dict):
            raise TypeError(f"it must be an object, got {type(data).__name__}")
        recognized = {name: value for name, value in data.items() if name in names}
        try:
            text = text_of(recognized)
        except PydanticSerializationError:  # a lone surrogate, as in the name of a file
            text = text_of(deep_json(recognized))
        restored: S = adapter_of(cast(Any, kind)).validate_json(text, strict=True)
    except (ValidationError, TypeError, ValueError) as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            problem = f"{place}: {first['msg']}, got {first['input']!r:.80}"
        raise StateError(
            f"{label}: the state of a {kind.__name__} is damaged: {problem}"
        ) from error
    return restored
