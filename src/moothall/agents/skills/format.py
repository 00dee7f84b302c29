"""The format of skills (https://agentskills.io): folders whose `SKILL.md` begins with YAML."""

from __future__ import annotations

import json
import logging
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError, FileError
from moothall.agents import Folder
from moothall.build import check_path, read_yaml

logger: logging.Logger = logging.getLogger("moothall.agents")
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500
SKILL_FILE_NAMES: Final = ("SKILL.md", "skill.md")

_FIELDS: Final = frozenset(
    ("name", "description", "license", "allowed-tools", "metadata", "compatibility")
)
_TRUE_WORDS: Final = ("true", "yes", "on")
_HEAD_MARK = "---"
_HEAD: Final = re.compile(r"---[ \t]*\n(.*?\n)??---[ \t]*(?:\n(.*))?", re.DOTALL)
_FIELD: Final = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*(?:\n[ \t]+.*)*)$", re.MULTILINE)
_MAX_DEPTH: Final = 4
"""How many folders deep a skill may lie below a folder of skills."""


@dataclass(frozen=True)
class Skill:
    """One skill.

    Attributes:
        name: its name, which is also that of its folder
        description: what it does, and when to use it
        body: its instructions, as Markdown
        folder: its folder
        license: its licence, as it states it
        compatibility: what it needs, as it states it
        metadata: further entries of its author's own
        for_models: whether a model may load it
    """

    name: str
    description: str
    body: str
    folder: Folder
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] | None = None
    for_models: bool = True


def check_skill(folder: str | os.PathLike[str]) -> list[str]:
    """Return what is wrong with a skill's folder, by the format's rules; empty if nothing is."""
    check_path("folder=", folder, "folder")
    path = Path(folder)
    if not path.is_dir():
        return [f"{path} is not a folder" if path.exists() else f"{path} does not exist"]
    if not any((path / name).is_file() for name in SKILL_FILE_NAMES):
        return ["it has no SKILL.md"]
    try:
        head, _ = _fields_and_body(path)
    except (ConfigError, FileError) as error:
        return [str(error)]
    faults = [
        f"its field {field!r} is not of the format, which has {', '.join(sorted(_FIELDS))}"
        for field in sorted(head.keys() - _FIELDS)
    ]
    faults += _name_faults(head.get("name"), _name_of(path))
    faults += _text_faults(head.get("description"), "description", MAX_DESCRIPTION)
    if "compatibility" in head:
        value = head["compatibility"]
        if not isinstance(value, str):
            faults.append("compatibility must be text")
        elif len(value) > MAX_COMPATIBILITY:
            faults.append(f"compatibility must have at most {MAX_COMPATIBILITY} characters")
    return faults


def _name_of(path: Path) -> str:
    """Return the name of a folder, of which a link may have another than what it leads to."""
    return os.path.basename(os.path.abspath(path))


def _name_faults(value: Any, folder: str) -> list[str]:
    faults = _text_faults(value, "name", MAX_NAME)
    if faults and not isinstance(value, str):
        return faults
    name = unicodedata.normalize("NFKC", value.strip())
    if not name:
        return faults
    if name != name.lower():
        faults.append(f"name must be in lower case, got {name!r}")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        faults.append(f"name must have single hyphens between its words, got {name!r}")
    if not all(each.isalnum() or each == "-" for each in name):
        faults.append(f"name must have only letters, digits and hyphens, got {name!r}")
    if unicodedata.normalize("NFKC", folder) != name:
        faults.append(f"name must be that of its folder, {folder!r}, got {name!r}")
    return faults


def _text_faults(value: Any, field: str, max_chars: int) -> list[str]:
    if not isinstance(value, str) or not value.strip():
        return [f"{field} must be text, got {'none' if value is None else repr(value)[:80]}"]
    text = unicodedata.normalize("NFKC", value.strip()) if field == "name" else value
    if len(text) > max_chars:
        return [f"{field} must have at most {max_chars} characters, got {len(text)}"]
    return []


def skill_folders(root: Path, depth: int = _MAX_DEPTH) -> Iterator[Path]:
    """Yield the folders that have a skill; within one, no other is looked for."""
    if any((root / name).is_file() for name in SKILL_FILE_NAMES):
        yield root
    elif depth:
        try:
            subfolders = sorted(each for each in root.iterdir() if each.is_dir())
        except OSError as error:
            logger.warning("the folder %s cannot be read: %s", root, error)
            return
        for each in subfolders:
            leads_back = root.resolve().is_relative_to(each.resolve())  # a link that leads back
            if not (leads_back or each.name.startswith(".") or each.name == "node_modules"):
                yield from skill_folders(each, depth - 1)


def loaded_skill(path: Path) -> Skill | None:
    """Return a skill with what its author got wrong in the log; None for one without a use."""
    faults = check_skill(path)
    try:
        head, body = _fields_and_body(path, lenient=True)
    except (ConfigError, FileError) as error:
        logger.warning("the skill in %s is left out: %s", path, error)
        return None
    if not isinstance(head.get("description"), str) or not head["description"].strip():
        logger.warning("the skill in %s is left out: it has no description", path)
        return None
    if faults:
        logger.warning("the skill in %s is loaded, but: %s", path, "; ".join(faults))
    name, extra = head.get("name"), head.get("metadata")
    own_name = name.strip() if isinstance(name, str) else ""
    return Skill(
        " ".join(unicodedata.normalize("NFKC", own_name or _name_of(path)).split()),
        head["description"].strip(),
        body,
        Folder(path),
        str(head.get("license") or ""),
        str(head.get("compatibility") or ""),
        {str(key): str(value) for key, value in extra.items()} if isinstance(extra, dict) else None,
        str(head.get("disable-model-invocation", "")).strip().lower() not in _TRUE_WORDS,
    )


def _fields_and_body(path: Path, *, lenient: bool = False) -> tuple[dict[str, Any], str]:
    """Return the fields and the body of a skill's file."""
    name = next(each for each in SKILL_FILE_NAMES if (path / each).is_file())
    text = Folder(path).read(name).removeprefix("\ufeff")  # of an editor on Windows
    text = text.lstrip() if lenient else text
    parts = _HEAD.fullmatch(text.replace("\r\n", "\n"))
    if parts is None:
        raise ConfigError(f"{name} must begin with YAML between two lines of {_HEAD_MARK}")
    head, body = parts[1] or "", (parts[2] or "").strip()
    try:
        head_data = _read_yaml(head, name)
    except ConfigError:
        if not lenient:
            raise
        head_data = _read_yaml(_FIELD.sub(_with_quoted_value, head), name, flow=True)
    if not isinstance(head_data, dict):
        raise ConfigError(f"the YAML of {name} must be fields and their values")
    return head_data, body


def _read_yaml(text: str, name: str, *, flow: bool = False) -> Any:
    """Return YAML whose values are texts."""
    return read_yaml(Path(name), "Skills", "skills", text=text, texts=True, flow=flow)[0]


def _with_quoted_value(field: re.Match[str]) -> str:
    """Return a field that is no YAML, such as `description: Use when: …`, with its value quoted."""
    try:
        _read_yaml(field[0], "a field")
    except ConfigError:
        return f"{field[1]}: {json.dumps(' '.join(field[2].split()))}"
    return field[0]
