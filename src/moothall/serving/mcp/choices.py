"""What a person may choose in a field of a server's form: shown by titles, answered by either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from moothall.serving.mcp.listing import visible_text

YES_OR_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of a field, or of the items of a list; without any, each value is one.

    Attributes:
        kind: the JSON type of a value
        values: the values
        titles: what each is called
    """

    kind: Any
    values: list[Any]
    titles: list[str]

    @classmethod
    def from_schema(cls, schema: dict[str, Any]) -> Choices:
        """Return the choices of a schema: `oneOf` or `anyOf` of constants, or `enum`."""
        options = [*_list_in(schema, "oneOf"), *_list_in(schema, "anyOf")]
        options = [each for each in options if isinstance(each, dict) and "const" in each]
        values = [each["const"] for each in options] or _list_in(schema, "enum")
        # `enumNames` is of the revisions before 2025-11-25.
        titles = [each.get("title") for each in options] or _list_in(schema, "enumNames")
        titles = titles if len(titles) == len(values) else [None] * len(values)
        texts = [str(t or v) for t, v in zip(titles, values, strict=True)]
        return cls(schema.get("type"), values, texts)

    def __str__(self) -> str:
        return ", ".join(map(_label_of, self.values, self.titles))

    def in_words(self, value: Any) -> str:
        """Return a value, or several, by their titles."""
        pairs = [*zip(self.values, self.titles, strict=True)]
        values = value if isinstance(value, list) else [value]
        return ", ".join(next((t for v, t in pairs if v == each), str(each)) for each in values)

    def value_of(self, line: str) -> Any:
        """Return the value that a person's line means; as it is typed, if it is no choice."""
        choice = self._choice(line)
        return _typed(line.strip(), self.kind) if choice is None else choice[0]

    def values_of(self, line: str) -> list[Any]:
        """Return the values of a line, in which commas part them, but for those of a choice."""
        longest = 1 + max(
            (text.count(",") for text in map(_label_of, self.values, self.titles)), default=0
        )
        parts, values = line.split(","), list[Any]()
        while parts:
            runs = (",".join(parts[:count]) for count in range(min(longest, len(parts)), 0, -1))
            run = next((each for each in runs if self._choice(each) is not None), parts[0])
            if run.strip():
                values.append(self.value_of(run))
            del parts[: run.count(",") + 1]
        return values

    def _choice(self, line: str) -> tuple[Any] | None:
        """Return the one choice that a text means: its value, its title, or both as shown."""
        labels = [*map(_label_of, self.values, self.titles)]
        ways = [[*map(str, self.values)], self.titles, labels]
        same: tuple[Callable[[str], str], ...] = (_plain, lambda text: _plain(text).casefold())
        for form in same:
            for texts in ways:
                places = [n for n, text in enumerate(texts) if form(text) == form(line)]
                if len(places) == 1:
                    return (self.values[places[0]],)
        return None


def _label_of(value: Any, title: str) -> str:
    return title if title == str(value) else f"{title} ({value})"


def _plain(text: str) -> str:
    return ",".join(" ".join(part.split()) for part in visible_text(text).split(","))


def _list_in(schema: dict[str, Any], name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []


def _typed(line: str, kind: Any) -> Any:
    """Return a person's line as a value of a type; the line itself if it does not fit."""
    try:
        if kind == "integer":
            return int(line)
        if kind == "number":
            return float(line)
    except ValueError:
        return line
    return YES_OR_NO.get(line.lower(), line) if kind == "boolean" else line
