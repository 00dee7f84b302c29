"""The lock file: which definitions of a server's tools a person has accepted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError
from moothall.build import UnreadableText, json_line, read_json, shorten, written_whole
from moothall.serving.mcp.listing import Definition

_VERSION: Final = 1
_ABSENT: Final = object()


class DefinitionLock:
    """A file with the sha256 and the text of each accepted definition, for several servers.

    Args:
        path: the file; one that does not exist accepts nothing

    Raises:
        ConfigError: the file cannot be read, or is not a lock file
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._servers: dict[str, dict[str, dict[str, Any]]] = {}
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise self._config_error(f"it cannot be read: {error}") from error
        try:
            data = read_json(text)
            if data["version"] != _VERSION:
                raise self._config_error(
                    f"its version must be {_VERSION}, got {data['version']!r:.20}"
                )
            for server, tools in data["servers"].items():
                for name, each in tools.items():
                    if Definition.of(each["definition"]).sha256 != each["sha256"]:
                        raise self._config_error(
                            f"{server}.{name}: the sha256 is not the definition's"
                        )
                self._servers[server] = dict(tools)
        except (UnreadableText, TypeError, KeyError, AttributeError) as error:
            raise self._config_error(
                "it is no lock file: `moothall mcp lock` writes one"
            ) from error

    def _config_error(self, reason: str) -> ConfigError:
        return ConfigError(f"lock file {str(self.path)!r}: {reason}")

    def accepted_definition(self, server: str, name: str) -> dict[str, Any] | None:
        """Return the accepted definition of a server's tool, or None."""
        entry = self._servers.get(server, {}).get(name)
        return None if entry is None else entry["definition"]

    def difference(self, server: str, definition: Definition) -> str:
        """Return how a definition differs from the accepted one; empty if it is that one."""
        entry = self._servers.get(server, {}).get(definition.name)
        if entry is None:
            return (
                f"its definition is new, and nobody has accepted it: {_value_text(definition.data)}"
            )
        if entry["sha256"] == definition.sha256:
            return ""
        parts = [
            f"{key} was {_value_text(entry['definition'].get(key, _ABSENT))} and is now "
            f"{_value_text(definition.data.get(key, _ABSENT))}"
            for key in sorted({*entry["definition"], *definition.data})
            if entry["definition"].get(key, _ABSENT) != definition.data.get(key, _ABSENT)
        ]
        return f"its definition has changed since it was accepted: {'; '.join(parts)}"

    def removed_tools(self, server: str, definitions: Mapping[str, Definition]) -> list[str]:
        """Return the accepted tools that a server does not have any more."""
        return [name for name in self._servers.get(server, {}) if name not in definitions]

    def accept(self, server: str, definitions: Mapping[str, Definition]) -> None:
        """Write the file: all that a server has now is accepted, and nothing else of it.

        Raises:
            ConfigError: the file cannot be written
        """
        self._servers[server] = {
            name: {"sha256": each.sha256, "definition": each.data}
            for name, each in definitions.items()
        }
        content = {"version": _VERSION, "servers": self._servers}
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        try:
            with written_whole(self.path) as file:
                file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise self._config_error(f"it cannot be written: {error.strerror or error}") from error


def _value_text(value: Any) -> str:
    return "left out" if value is _ABSENT else shorten(json_line(value, escapes=True), 2000)
