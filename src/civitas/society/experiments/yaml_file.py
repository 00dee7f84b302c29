"""YAML as plain data with the line of each part; never an object of a class that a file names."""

from __future__ import annotations

import importlib
from datetime import date
from pathlib import Path
from typing import Any, Final

from civitas.errors import ConfigError, MissingExtra
from civitas.text import excerpt

_LARGEST: Final = 1_000_000
"""So many bytes a file has at most."""
_PARTS: Final = 100_000
"""So many values it has at most, those counted that aliases repeat."""
_PLAIN: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

Lines = dict[tuple[str | int, ...], int]
"""The line, from 1, in which each part begins, by the keys and indexes that lead to it."""


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """Return what a YAML file says, as JSON data, and where it says it.

    Dates become texts. Duplicate keys, keys that are no texts, merge keys and tags of classes are
    refused, and so is a file that is too large or whose aliases make it so.

    Raises:
        ConfigError: the file cannot be read, or is no such YAML; the text names the line
        MissingExtra: PyYAML is not installed
    """
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise MissingExtra("YAML", "society") from error
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _LARGEST:
        raise ConfigError(f"{path} has more than {_LARGEST:,} bytes")
    try:
        loader = yaml.SafeLoader(data)
        try:
            node = loader.get_single_node()
            reader = _Reader(path, loader, yaml.nodes)
            found = None if node is None else reader.read(node, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        said = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(f"{path}{line}: this is no YAML: {said}") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deep") from None
    return found, reader.lines if node is not None else {}


class _Reader:
    """Walks the nodes of a document."""

    def __init__(self, path: Path, loader: Any, nodes: Any) -> None:
        self._path, self._loader, self._nodes = path, loader, nodes
        self._parts = 0
        self.lines: Lines = {}

    def read(self, node: Any, where: tuple[str | int, ...]) -> Any:
        """The value of a node."""
        self.lines.setdefault(where, node.start_mark.line + 1)
        self._parts += 1
        if self._parts > _PARTS:
            raise self._wrong(node, f"the file has more than {_PARTS:,} values, aliases included")
        if not isinstance(node, self._nodes.ScalarNode) and node.tag not in _PLAIN:
            raise self._wrong(node, f"no objects of {node.tag!r:.80} are made")
        if isinstance(node, self._nodes.SequenceNode):
            return [self.read(each, (*where, index)) for index, each in enumerate(node.value)]
        if isinstance(node, self._nodes.MappingNode):
            made: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = key_node.value
                if key_node.tag != "tag:yaml.org,2002:str":
                    raise self._wrong(key_node, f"a key must be a text, got {excerpt(key)}")
                if key in made:
                    raise self._wrong(key_node, f"{key!r:.80} is there twice")
                self.lines[*where, key] = key_node.start_mark.line + 1
                made[key] = self.read(value_node, (*where, key))
            return made
        value = self._loader.construct_object(node)
        return value.isoformat() if isinstance(value, date) else value

    def _wrong(self, node: Any, what: str) -> ConfigError:
        return ConfigError(f"{self._path}:{node.start_mark.line + 1}: {what}")
