"""Folders of instructions, files and scripts that a model loads when it needs them."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from copy import copy
from pathlib import Path
from typing import Any, Final

from moothall import (
    ACCESS_REQUESTED,
    AccessPolicy,
    Action,
    Block,
    ConfigError,
    DefinitionError,
    NoSuchFile,
    NotAFile,
    OutsideFolder,
)
from moothall.agents import Folder, SandboxChoice, Shell
from moothall.agents.skills.format import SKILL_FILE_NAMES, Skill, loaded_skill, skill_folders
from moothall.build import check_seconds, names_checked, nearest, shorten

logger: logging.Logger = logging.getLogger("moothall.agents")
MAX_FILES: Final = 200
"""The most files of a skill that a model is told of."""

_INTERPRETERS: Final = {
    ".py": sys.executable,
    ".sh": "sh",
    ".bash": "bash",
    ".js": "node",
    ".rb": "ruby",
    ".pl": "perl",
}


def _temporary_folder() -> str:
    return os.path.realpath(tempfile.gettempdir())


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
        check_seconds("timeout_s=", timeout_s, optional=True)
        self._timeout_s = timeout_s
        self._shell = Shell(sandbox, network)
        self._work = None if work is None else Folder(work)
        self.skills: dict[str, Skill] = {}
        has_several = isinstance(folder, Sequence) and not isinstance(folder, str)
        folders: Any = folder if has_several else (folder,)
        roots = [Folder(each).root for each in folders]
        for path in (path for root in roots for path in skill_folders(Path(root))):
            skill = loaded_skill(path)
            if skill is not None and self.skills.setdefault(skill.name, skill) is not skill:
                first = self.skills[skill.name].folder.root
                logger.warning("the skill in %s is left out: %s has its name", path, first)
        self._roots_text = ", ".join(map(str, roots))
        if not self.skills:
            raise ConfigError(
                f"there is no skill in {self._roots_text}: a skill is a folder with a SKILL.md "
                "that has a description"
            )
        self._policy: AccessPolicy = access_policy
        self._owners = dict.fromkeys(self.skills, self)
        self.offers: dict[str, Action] = self._skill_actions()
        descriptions = ((name, each.description) for name, each in self.offers.items())
        self.actions: dict[str, str] = dict(descriptions)

    def _skill_actions(self) -> dict[str, Action]:
        script_options: Any = {"access_policy": self._policy, "timeout": None}
        actions = (
            Action("load_skill", self._load, idempotent=True),
            Action("read_skill_file", self._read_file, idempotent=True),
            Action("run_skill_script", self._run_script, **script_options),
        )
        return {each.name: each for each in actions}

    def merged_with(self, other: Skills) -> Skills:
        """Return the skills of both, for one agent; each keeps its own options.

        Raises:
            DefinitionError: both have a skill of one name, or their scripts' policies differ
        """
        for name in self.skills.keys() & other.skills.keys():
            first, second = self.skills[name].folder.root, other.skills[name].folder.root
            raise DefinitionError(
                f"two skills are called {name!r}: {first} and {second}; an agent loads them by "
                "name, so leave one out, or rename its folder and the name in its SKILL.md"
            )
        if self._policy != other._policy:
            raise DefinitionError(
                "an agent runs the scripts of all its skills by one action, and access_policy= is "
                f"{self._policy!r} for {self._roots_text} and {other._policy!r} for "
                f"{other._roots_text}: give both Skills the same"
            )
        merged = copy(self)
        merged.skills = {**self.skills, **other.skills}
        merged._owners = {**self._owners, **other._owners}
        merged.offers = merged._skill_actions()
        return merged

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
        available = {each.name: each for each in self.skills.values() if each.for_models}
        if name not in available:
            near = nearest(name, available)
            raise NoSuchFile(
                f"there is no skill {shorten(name, 80)!r}{near}; the skills are "
                f"{', '.join(available)}"
            )
        return available[name]

    def _load(self, name: str) -> str:
        """Load the instructions of a skill, and the names of its files.

        Args:
            name: Name of the skill
        """
        skill = self._skill(name)
        files = [each for each in _files(skill) if each not in SKILL_FILE_NAMES]
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

    async def _run_script(self, skill: str, script: str, args: list[str] | None = None) -> str:
        """Run a script of a skill, and return what it printed.

        Args:
            skill: Name of the skill
            script: Name of the script, such as scripts/extract.py
            args: Arguments of the script
        """
        chosen_skill = self._skill(skill)
        owner = self._owners[skill]
        path = _script(chosen_skill, script)
        interpreter = _INTERPRETERS.get(path.suffix)
        if interpreter is None and not os.access(path, os.X_OK):
            raise NotAFile(
                f"{script!r} cannot be run: it is not executable, and its name ends in none of "
                f"{', '.join(_INTERPRETERS)}"
            )
        words = [*([interpreter] if interpreter else []), str(path), *(args or ())]
        work_folder = owner._work
        with (
            nullcontext(work_folder.root)
            if work_folder
            else tempfile.TemporaryDirectory(dir=_temporary_folder()) as work
        ):
            return await owner._shell.run(
                shlex.join(words),
                str(work),
                owner._timeout_s,
                max_file_bytes=2**30,
                readable=[chosen_skill.folder.root],
            )


def _files(skill: Skill) -> list[str]:
    """Return the names of a skill's files, in order."""
    files: list[str] = []
    folders: Iterable[str] = ["."]
    while folders:
        subfolders: list[str] = []
        for folder in folders:
            for name in skill.folder.names(folder):
                path = name if folder == "." else f"{folder.rstrip('/')}/{name}"
                (subfolders if name.endswith("/") else files).append(path)
        folders = subfolders if len(files) <= MAX_FILES * 2 else ()
    return sorted(files)


def _script(skill: Skill, name: str) -> Path:
    """Return the path of a script, which is below the skill's `scripts/`."""
    scripts_folder = Path(skill.folder.root, "scripts").resolve()
    path = Path(skill.folder.root, name).resolve()
    if not path.is_relative_to(scripts_folder) or path == scripts_folder:
        raise OutsideFolder(f"{shorten(name, 200)!r} is not below scripts/ of {skill.name!r}")
    if not path.is_file():
        raise NoSuchFile(f"the skill {skill.name!r} has no script {shorten(name, 200)!r}")
    return path
