"""Agent Skills: folders of instructions, files and scripts that a model loads when it needs them.

The format is that of https://agentskills.io: a folder has a `SKILL.md`, which begins with its name
and description as YAML.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from moothall.action import ACCESS_REQUESTED, AccessPolicy, Action
from moothall.agents import shell
from moothall.agents.folder import Folder
from moothall.agents.sandbox import SandboxChoice, sandbox_for
from moothall.arguments import is_path, names_checked
from moothall.block import Block
from moothall.errors import (
    ConfigError,
    DefinitionError,
    FileError,
    MissingExtra,
    NoSuchFile,
    NotAFile,
    OutsideFolder,
)
from moothall.files import yaml_data
from moothall.text import nearest, shorten

logger: logging.Logger = logging.getLogger("moothall.skills")
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500
MAX_FILES: Final = 200
"""The most files of a skill that a model is told of."""

_FIELDS: Final = frozenset(
    ("name", "description", "license", "allowed-tools", "metadata", "compatibility")
)
_FILES: Final = ("SKILL.md", "skill.md")
_INTERPRETERS: Final = {
    ".py": sys.executable,
    ".sh": "sh",
    ".bash": "bash",
    ".js": "node",
    ".rb": "ruby",
    ".pl": "perl",
}
_MARK = "---"
_LINE: Final = re.compile(r"^([A-Za-z][A-Za-z-]*):[ \t]*(\S.*)$", re.MULTILINE)
_TEMPORARY: Final = os.path.realpath(tempfile.gettempdir())


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


@names_checked
class Skills(Block):
    """The skills of a folder, for `blocks=[…]` or `actions=[…]` of an agent with a model.

    The prompt lists each skill's name and description. `load_skill(name)` returns a skill's
    instructions and the names of its files, `read_skill_file(skill, file_name)` one of these.
    `run_skill_script(skill, script, args)` runs a script below the skill's `scripts/`, as `Host`
    runs commands: it asks first, and in bubblewrap, if that works, it sees the skill read-only,
    writes below its working folder only and has no network.

    Skills of other people often break a rule of the format. Such a skill is loaded, and the log
    says what is wrong; `check_skill` tells it, too. One without a description or YAML is left out.
    One with `disable-model-invocation: true` is in `skills`, but not for the model.

    An agent may have several: its prompt then has one list, and the same three actions are for the
    skills of all, each with the options that it was made with.

    Args:
        folder: a folder of skills, each a folder with a `SKILL.md`; or one skill; or a list of
            these, where an earlier one has precedence over a later one with a skill of the same
            name
        work: the scripts' working folder; without it, each run has an empty one of its own, which
            is deleted afterwards
        access_policy: who may run scripts
        timeout_s: seconds that a script may take; None for no limit
        sandbox: `auto`, `bwrap` or `none`, as with `Host`
        network: whether scripts in bubblewrap have the machine's network

    Raises:
        ConfigError: no skill of the folder can be used, or an argument is wrong
        FileError: the folder does not exist
        MissingExtra: the extra `skills` is not installed
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        work: str | os.PathLike[str] | None = None,
        access_policy: AccessPolicy = ACCESS_REQUESTED,
        timeout_s: float | None = 60.0,
        sandbox: SandboxChoice = "auto",
        network: bool = False,
    ) -> None:
        super().__init__()
        shell.check_limits(timeout_s, None, network, "timeout_s")
        self._timeout_s = timeout_s
        self._sandbox = sandbox_for(sandbox, network)
        self._work = None if work is None else Folder(work)
        self.skills: dict[str, Skill] = {}
        several = isinstance(folder, Sequence) and not isinstance(folder, str)
        given: Any = folder if several else (folder,)
        roots = [Folder(each).root for each in given]
        for path in (path for root in roots for path in _skill_folders(Path(root))):
            skill = _loaded(path)
            if skill is not None and self.skills.setdefault(skill.name, skill) is not skill:
                first = self.skills[skill.name].folder.root
                logger.warning("the skill in %s is left out: %s has its name", path, first)
        self._root = ", ".join(map(str, roots))
        if not self.skills:
            raise ConfigError(
                f"there is no skill in {self._root}: a skill is a folder with a SKILL.md that has "
                "a description"
            )
        self._policy: AccessPolicy = access_policy
        self._owners = dict.fromkeys(self.skills, self)
        self.offers: dict[str, Action] = self._offered()
        described = ((name, each.description) for name, each in self.offers.items())
        self.actions: dict[str, str] = dict(described)

    def _offered(self) -> dict[str, Action]:
        scripts: Any = {"access_policy": self._policy, "timeout": None}
        made = (
            Action("load_skill", self._load, idempotent=True),
            Action("read_skill_file", self._read_file, idempotent=True),
            Action("run_skill_script", self._run, **scripts),
        )
        return {each.name: each for each in made}

    def joined(self, other: Skills) -> Skills:
        """Return the skills of both, for one agent; each keeps its own options.

        Raises:
            DefinitionError: both have a skill of one name, or their scripts' policies differ
        """
        for name in self.skills.keys() & other.skills.keys():
            one, two = self.skills[name].folder.root, other.skills[name].folder.root
            raise DefinitionError(
                f"two skills are called {name!r}: {one} and {two}; an agent loads them by name, so "
                "leave one out, or rename its folder and the name in its SKILL.md"
            )
        if self._policy != other._policy:
            raise DefinitionError(
                "an agent runs the scripts of all its skills by one action, and access_policy= is "
                f"{self._policy!r} for {self._root} and {other._policy!r} for {other._root}: give "
                "both Skills the same"
            )
        made = copy(self)
        made.skills = {**self.skills, **other.skills}
        made._owners = {**self._owners, **other._owners}
        made.offers = made._offered()
        return made

    @property
    def guidance(self) -> str:  # type: ignore[override]
        """What the prompt says of the skills."""
        listed = "\n".join(
            f"- {each.name}: {' '.join(each.description.split())}"
            for each in self.skills.values()
            if each.for_models
        )
        return f"# Skills\nBefore a task that one of these is for, call load_skill:\n{listed}"

    def __repr__(self) -> str:
        return f"<Skills {', '.join(self.skills)}>"

    def _skill(self, name: str) -> Skill:
        known = {each.name: each for each in self.skills.values() if each.for_models}
        if name not in known:
            near = nearest(name, known)
            raise NoSuchFile(
                f"there is no skill {shorten(name, 80)!r}{near}; the skills are {', '.join(known)}"
            )
        return known[name]

    def _load(self, name: str) -> str:
        """Load the instructions of a skill, and the names of its files.

        Args:
            name: Name of the skill
        """
        skill = self._skill(name)
        files = [each for each in _files(skill) if each not in _FILES]
        listed = "".join(f"\n- {each}" for each in files[:MAX_FILES])
        if len(files) > MAX_FILES:
            listed += f"\nand {len(files) - MAX_FILES} more"
        return f"{skill.body}\n\nFiles of the skill:{listed}" if files else skill.body

    def _read_file(self, skill: str, file_name: str) -> str:
        """Read a text file of a skill.

        Args:
            skill: Name of the skill
            file_name: Name of the file, such as references/forms.md
        """
        return self._skill(skill).folder.read(file_name)

    async def _run(self, skill: str, script: str, args: list[str] | None = None) -> str:
        """Run a script of a skill, and return what it printed.

        Args:
            skill: Name of the skill
            script: Name of the script, such as scripts/extract.py
            args: Arguments of the script
        """
        found = self._skill(skill)
        owner = self._owners[skill]
        path = _script(found, script)
        interpreter = _INTERPRETERS.get(path.suffix)
        if interpreter is None and not os.access(path, os.X_OK):
            raise NotAFile(
                f"{script!r} cannot be run: it is not executable, and its name ends in none of "
                f"{', '.join(_INTERPRETERS)}"
            )
        words = [*([interpreter] if interpreter else []), str(path), *(args or ())]
        own = owner._work
        with nullcontext(own.root) if own else tempfile.TemporaryDirectory(dir=_TEMPORARY) as work:
            box = owner._sandbox
            return await shell.run(
                shlex.join(words),
                str(work),
                owner._timeout_s,
                sandbox=None if box is None else replace(box, readable=(found.folder.root,)),
                max_file_bytes=2**30,
            )


def check_skill(folder: str | os.PathLike[str]) -> list[str]:
    """Return what is wrong with a skill's folder, by the format's rules; empty if nothing is."""
    if not is_path(folder):
        raise ConfigError(f"folder= must be the path of a folder, got {folder!r:.80}")
    path = Path(folder)
    if not path.is_dir():
        return [f"{path} is not a folder" if path.exists() else f"{path} does not exist"]
    if not any((path / name).is_file() for name in _FILES):
        return ["it has no SKILL.md"]
    try:
        about, _ = _parts(path)
    except (ConfigError, FileError) as error:
        return [str(error)]
    faults = [
        f"its field {field!r} is not of the format, which has {', '.join(sorted(_FIELDS))}"
        for field in sorted(about.keys() - _FIELDS)
    ]
    faults += _name_faults(about.get("name"), path.resolve().name)
    faults += _text_faults(about.get("description"), "description", MAX_DESCRIPTION)
    if "compatibility" in about:
        value = about["compatibility"]
        if not isinstance(value, str):
            faults.append("compatibility must be text")
        elif len(value) > MAX_COMPATIBILITY:
            faults.append(f"compatibility must have at most {MAX_COMPATIBILITY} characters")
    return faults


def _name_faults(given: Any, folder: str) -> list[str]:
    faults = _text_faults(given, "name", MAX_NAME)
    if faults and not isinstance(given, str):
        return faults
    name = unicodedata.normalize("NFKC", given.strip())
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


def _text_faults(given: Any, field: str, most: int) -> list[str]:
    if not isinstance(given, str) or not given.strip():
        return [f"{field} must be text, got {'none' if given is None else repr(given)[:80]}"]
    stated = unicodedata.normalize("NFKC", given.strip()) if field == "name" else given
    if len(stated) > most:
        return [f"{field} must have at most {most} characters, got {len(stated)}"]
    return []


def _skill_folders(root: Path) -> list[Path]:
    if any((root / name).is_file() for name in _FILES):
        return [root]
    return sorted(
        each for each in root.iterdir() if any((each / name).is_file() for name in _FILES)
    )


def _loaded(path: Path) -> Skill | None:
    """Return a skill with what its author got wrong in the log; None for one without a use."""
    faults = check_skill(path)
    try:
        about, body = _parts(path, lenient=True)
    except (ConfigError, FileError) as error:
        logger.warning("the skill in %s is left out: %s", path, error)
        return None
    if not isinstance(about.get("description"), str) or not about["description"].strip():
        logger.warning("the skill in %s is left out: it has no description", path)
        return None
    if faults:
        logger.warning("the skill in %s is loaded, but: %s", path, "; ".join(faults))
    name, extra = about.get("name"), about.get("metadata")
    named = name.strip() if isinstance(name, str) else ""
    return Skill(
        " ".join(unicodedata.normalize("NFKC", named or path.resolve().name).split()),
        about["description"].strip(),
        body,
        Folder(path),
        str(about.get("license") or ""),
        str(about.get("compatibility") or ""),
        {str(key): str(value) for key, value in extra.items()} if isinstance(extra, dict) else None,
        str(about.get("disable-model-invocation", "")).strip().lower() != "true",
    )


def _parts(path: Path, *, lenient: bool = False) -> tuple[dict[str, Any], str]:
    """Return the fields and the body of a skill's file."""
    name = next(each for each in _FILES if (path / each).is_file())
    text = Folder(path).read(name).removeprefix("\ufeff")  # of an editor on Windows
    if not text.startswith(_MARK):
        raise ConfigError(f"{name} must begin with YAML between two lines of {_MARK}")
    parts = text.split(_MARK, 2)
    if len(parts) < 3:
        raise ConfigError(f"the YAML at the beginning of {name} must end with a line of {_MARK}")
    MissingExtra.unless("Skills", "skills", "yaml")
    try:
        about, _ = yaml_data(parts[1], name, texts=True)
    except ConfigError:
        if lenient and (fields := dict(_LINE.findall(parts[1]))):  # such as "Use when: …" unquoted
            return fields, parts[2].strip()
        raise
    if not isinstance(about, dict):
        raise ConfigError(f"the YAML of {name} must be fields and their values")
    return about, parts[2].strip()


def _files(skill: Skill) -> list[str]:
    """Return the names of a skill's files, in order."""
    found: list[str] = []
    folders: Iterable[str] = ["."]
    while folders:
        below: list[str] = []
        for folder in folders:
            for name in skill.folder.names(folder):
                whole = name if folder == "." else f"{folder.rstrip('/')}/{name}"
                (below if name.endswith("/") else found).append(whole)
        folders = below if len(found) <= MAX_FILES * 2 else ()
    return sorted(found)


def _script(skill: Skill, name: str) -> Path:
    """Return the path of a script, which is below the skill's `scripts/`."""
    below = Path(skill.folder.root, "scripts").resolve()
    path = Path(skill.folder.root, name).resolve()
    if not path.is_relative_to(below) or path == below:
        raise OutsideFolder(f"{shorten(name, 200)!r} is not below scripts/ of {skill.name!r}")
    if not path.is_file():
        raise NoSuchFile(f"the skill {skill.name!r} has no script {shorten(name, 200)!r}")
    return path
