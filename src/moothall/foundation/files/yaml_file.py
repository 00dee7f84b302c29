"""YAML files as data: checked, with the line of each part, and nothing evaluated."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, Final, TypeAlias

from moothall.foundation.errors import ConfigError, MissingExtra
from moothall.foundation.text import escaped, excerpt, render_path

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path of a part: keys and places."""

_MAX_BYTES: Final = 1_000_000  # how many bytes a file has at most
_PARTS: Final = 100_000  # how many values a file has at most, including those that aliases repeat
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_PLAIN_TAGS: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class Lines(dict[KeyPath, int]):
    """The lines of a YAML file, from 1, by the paths of its parts."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    def at(self, place: KeyPath, problem: str) -> str:
        """Return what is wrong with a part, after the file, its line and its path."""
        inner = (place[:end] for end in range(len(place), -1, -1))
        line = next((f":{self[each]}" for each in inner if each in self), "")
        path_text = escaped(render_path(list(place)))
        return f"{self._file}{line}: {path_text}{': ' if path_text else ''}{problem}"


def read_yaml(
    path: Path,
    feature: str,
    extra: str,
    *,
    text: str | None = None,
    texts: bool = False,
    flow: bool = False,
) -> tuple[Any, Lines]:
    """Return a YAML file as JSON data, and the lines of its parts.

    Dates become texts. Duplicate keys, keys that are not texts, merge keys and tags of classes
    are refused, and so is a file that is too large, or that aliases make too large.

    Args:
        path: the file
        feature: what needs PyYAML, by its extra
        extra: the extra
        text: what to read in place of the file, which names it
        texts: whether each value is the text that stands there, on a line of its own but with
            `flow`
        flow: whether values may share a line then
    """
    MissingExtra.unless(feature, extra, "yaml")
    if text is not None:
        return _yaml_data(text, str(path), texts, flow)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path} has more than {_MAX_BYTES:,} bytes")
    return _yaml_data(data, str(path))


def _yaml_data(
    data: bytes | str, name: str, texts: bool = False, flow: bool = False
) -> tuple[Any, Lines]:
    import yaml

    lines = Lines(name)
    count = 0

    def fault(node: Any, problem: str) -> ConfigError:
        return ConfigError(f"{name}:{node.start_mark.line + 1}: {problem}")

    def join_surrogates(node: Any, text: str) -> str:
        """Join the halves of a character, which JSON writes as two escapes."""
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise fault(node, f"{excerpt(text)} has half a character") from None

    def read_node(node: Any, place: KeyPath) -> Any:
        nonlocal count
        count += 1
        lines.setdefault(place, node.start_mark.line + 1)
        if count > _PARTS:
            raise fault(node, f"the file has more than {_PARTS:,} values, aliases included")
        if isinstance(node, yaml.ScalarNode):
            if texts:
                return join_surrogates(node, node.value)
            try:
                value = loader.construct_object(node)
            except (ValueError, LookupError, AttributeError):  # such as the date 2026-02-30
                raise fault(node, f"{node.tag!r:.80} cannot be {excerpt(node.value)}") from None
            if isinstance(value, str):
                return join_surrogates(node, value)
            return value.isoformat() if isinstance(value, date) else value
        if node.tag not in _PLAIN_TAGS:
            raise fault(node, f"no objects of {node.tag!r:.80} are made")
        if texts and node.flow_style and not flow:
            raise fault(node, "each value must have a line of its own")
        if isinstance(node, yaml.SequenceNode):
            return [read_node(each, (*place, index)) for index, each in enumerate(node.value)]
        fields: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag != _TEXT_TAG and not (texts and isinstance(key, yaml.ScalarNode)):
                problem = f"a key must be a text, got {excerpt(key.value)}"
                needs_quotes = isinstance(key, yaml.ScalarNode) and key.value != "<<"
                raise fault(key, problem + ": write it in quotes" * needs_quotes)
            field = join_surrogates(key, key.value)
            if field in fields:
                raise fault(key, f"{field!r:.80} appears twice")
            lines[*place, field] = key.start_mark.line + 1
            fields[field] = read_node(value, (*place, field))
        return fields

    try:
        loader = yaml.SafeLoader(data)
        node = loader.get_single_node()
        return (None if node is None else read_node(node, ())), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(f"{name}{line}: this is not YAML: {problem}") from None
    except RecursionError:
        raise ConfigError(f"{name} is nested too deep") from None
