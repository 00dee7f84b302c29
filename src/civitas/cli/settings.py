"""The file `civitas.toml` of the current folder: what the commands take where nothing else says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.errors import DefinitionError, ModelError

if TYPE_CHECKING:
    from civitas.models.protocol import Model

__all__ = ["FILE", "chosen_model", "made_model", "settings"]

FILE: Final = "civitas.toml"

_KEYS = ("model", "root", "key")
_COMMANDS: Final[dict[str, tuple[str, ...]]] = {"act": _KEYS, "chat": (*_KEYS, "agents")}
_LISTS = ("agents",)


def settings(command: str) -> dict[str, Any]:
    """What the file says for a command: its own table goes before the top level.

    The whole file is looked at: a key that nobody reads would be a setting that does nothing.

    Args:
        command: the name of the command

    Returns:
        texts by their keys; `agents` is a list of them

    Raises:
        click.UsageError: the file cannot be read, or has a key or a value that it may not have
    """
    try:
        text = Path(FILE).read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{FILE} cannot be read: {error}") from error
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{FILE} is no TOML: {error}") from error
    tables = {name: found.pop(name) for name in _COMMANDS if name in found}
    said = _checked(found, "", (*_KEYS, *(f"[{name}]" for name in _COMMANDS)))
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise click.UsageError(f"{FILE}: {name!r} is a table, [{name}], not {table!r:.80}")
        own = _checked(table, f"{name}.", _COMMANDS[name])
        if name == command:
            said |= own
    return said


def _checked(table: dict[str, Any], where: str, known: tuple[str, ...]) -> dict[str, Any]:
    for key, value in table.items():
        if key not in known:
            there = ", ".join(known)
            raise click.UsageError(f"{FILE}: there is no key {where + key!r}; there are {there}")
        if key in _LISTS:
            if not isinstance(value, list) or not all(v and isinstance(v, str) for v in value):
                raise click.UsageError(
                    f"{FILE}: {where + key!r} is a list of texts, not {value!r:.80}"
                )
        elif not isinstance(value, str) or not value:
            shown = "" if key == "key" else f", not {value!r:.80}"
            raise click.UsageError(f"{FILE}: {where + key!r} is a text{shown}")
    return table


def chosen_model(
    said: Mapping[str, Any], model: str | None, key: str | None
) -> tuple[str, str | None]:
    """The name of the model to use, and the key that goes with it.

    A key of the file is for the model of the file, and one of the environment for any that the file
    did not choose: the file may be by somebody who wants the key.

    Args:
        said: what the file says
        model: what the command line or the environment says
        key: what the environment says
    """
    if model:
        return model, key
    if "model" in said:
        return said["model"], said.get("key")
    return "local", None


def made_model(name: str, key: str | None) -> Model:
    """The model of a name, with a key of its own for a server that takes one.

    Raises:
        ModelError: nothing is called so, there is no key for it, or the key is wrong
        WeightsError: the weights are missing
        MissingExtra: the extra that this kind of model needs is not installed
    """
    from civitas.models.names import model

    scheme, _, rest = name.partition(":")
    if not key or scheme not in ("openai", "http", "https"):
        return model(name)
    from civitas.models.remote.openai import OpenAIModel

    url, _, listed = name.partition("#")
    if scheme == "openai":
        url, listed = "", rest
    if not listed:
        return model(name)  # which says what is missing
    try:
        return OpenAIModel(listed, url or None, api_key=key)
    except DefinitionError as error:
        raise ModelError(f"there is no such model: {error}") from error
