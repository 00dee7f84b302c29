"""File actions for an agent's own model: to read one folder, and to change it."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from moothall import ACCESS_PERMITTED, ACCESS_REQUESTED, AccessPolicy, Action, FileError
from moothall.agents.ready.folder import MAX_BYTES, Folder
from moothall.agents.ready.sandbox import SandboxChoice
from moothall.agents.ready.shell import Shell, check_limits
from moothall.agents.ready.text_file import replace_once
from moothall.build import guard

MAX_LISTED: Final = 200
"""The most files that a schema names."""


def file_actions(
    root: str | os.PathLike[str],
    terminal: bool = False,
    *,
    only_listed: bool = False,
    subfolders: bool = False,
    access_policy: AccessPolicy = ACCESS_PERMITTED,
    max_bytes: int = MAX_BYTES,
    outside: bool = False,
) -> list[Action]:
    """Return actions that read the files of a folder and change nothing.

    `list_files()` returns names, `read_file(file_name)` text, and `search_in_file(file_name,
    search_term)` the number and text of each line that has the term. A name is relative to the
    folder; a name that leads out of it is refused.

    Args:
        root: the folder
        terminal: whether a successful call ends a model's run with its result as the reply
        only_listed: for small models: the actions' schemas name the files that `list_files`
            returns at that moment, up to 200, so that a model held to the schema names no other
        subfolders: whether `list_files` takes the name of a folder to list
        access_policy: who may call them
        max_bytes: the largest file that `read_file` reads; searching has no such limit
        outside: whether others write what is there, as in a folder of downloads: then a value that
            is read there does not count as the user's (docs/provenance.md)

    Raises:
        FileError: the root does not exist, or is not a folder
    """
    folder = Folder(root, max_bytes=max_bytes)

    def list_files() -> list[str]:
        """List all files in the current directory."""
        return folder.names()

    def list_folder(folder_name: str = ".") -> list[str]:
        """List the files in a folder; the names of folders end in a slash.

        Args:
            folder_name: Name of the folder to list
        """
        return folder.names(folder_name)

    def read_file(file_name: str) -> str:
        """Read the contents of a specific file.

        Args:
            file_name: Name of the file to read
        """
        return folder.read(file_name)

    def search_in_file(file_name: str, search_term: str) -> list[tuple[int, str]]:
        """Search for a term in a specific file.

        Args:
            file_name: Name of the file to search in
            search_term: Term to search for
        """
        return folder.search(file_name, search_term)

    action_class = _listed_action_class(folder) if only_listed else Action
    options: dict[str, Any] = {
        "terminal": terminal,
        "access_policy": access_policy,
        "idempotent": True,
        "outside": outside,
    }
    return [
        Action("list_files", list_folder if subfolders else list_files, **options),
        action_class("read_file", read_file, **options),
        action_class("search_in_file", search_in_file, **options),
    ]


def changing_actions(
    root: str | os.PathLike[str],
    terminal: bool = False,
    *,
    command_timeout: float | None = 30.0,
    max_bytes: int = MAX_BYTES,
    sandbox: SandboxChoice = "auto",
    network: bool = False,
    max_file_bytes: int | None = 2**30,
) -> list[Action]:
    """Return actions that change the files of a folder, or run commands in it. Each asks first.

    `write_file(file_name, content)` writes a whole file, `edit_file(file_name, old, new)` replaces
    a text that is in the file exactly once, and both are confined to the folder.
    `run_command(command)` runs a command as `Host.shell_command` does. In bubblewrap, if that
    works, it can write below the folder only and has no network, unless `network` is true;
    **without bubblewrap it is not confined** and can do what the program's user can.

    Args:
        root: the folder
        terminal: whether a successful call ends a model's run with its result as the reply
        command_timeout: seconds that a command may take; None for no limit
        max_bytes: the largest file that is written or edited
        sandbox: the sandbox of commands, as in `Host`
        network: whether commands in bubblewrap have the machine's network
        max_file_bytes: the largest file that a command can write; None for no limit

    Raises:
        ConfigError: `command_timeout`, `max_file_bytes` or `sandbox` is wrong, as in `Host`
        CommandError: the sandbox is `"bwrap"`, which is not installed or does not work here
        FileError: the root does not exist, or is not a folder
    """
    folder = Folder(root, max_bytes=max_bytes)
    check_limits(command_timeout, max_file_bytes)
    shell = Shell(sandbox, network)
    # An edit reads and then writes: of two concurrent ones, one would be lost.
    edit_lock = guard(threading.Lock())

    def write_file(file_name: str, content: str) -> str:
        """Write a text file, in place of one that is there.

        Args:
            file_name: Name of the file to write
            content: The whole new text of the file
        """
        with edit_lock:
            folder.write(file_name, content)
        return f"wrote {len(content.encode())} bytes"

    def edit_file(file_name: str, old: str, new: str) -> str:
        """Replace a text in a file, where it is there exactly once.

        Args:
            file_name: Name of the file to edit
            old: The text to replace, exactly as it is in the file
            new: The text to put in its place
        """
        with edit_lock:
            text = folder.read(file_name)
            text, line = replace_once(file_name, text, old, new)
            folder.write(file_name, text)
        return f"edited line {line}" if "\n" not in old else f"edited from line {line}"

    async def run_command(command: str) -> str:
        """Run a shell command in the folder.

        Args:
            command: The command to run

        Returns:
            The output of the command, and its exit code if that is not 0
        """
        folder.require_root()
        return await shell.run(command, folder.root, command_timeout, max_file_bytes=max_file_bytes)

    options: dict[str, Any] = {"terminal": terminal, "access_policy": ACCESS_REQUESTED}
    return [
        Action("write_file", write_file, idempotent=True, guard=("file_name",), **options),
        Action("edit_file", edit_file, guard=("file_name",), addresses=(), **options),
        # With a network, a command may bring anything into its output.
        Action("run_command", run_command, guard=("command",), outside=network, **options),
    ]


def _listed_action_class(folder: Folder) -> type[Action]:
    """Return an Action class whose schemas, not its checks, name the files that are there now."""

    def parameters(self: Action) -> dict[str, Any]:
        schema = self.signature.parameters
        try:
            names = [name for name in folder.names() if not name.endswith("/")]
        except FileError:
            return schema  # the call will report the error
        if not 0 < len(names) <= MAX_LISTED:
            return schema
        properties = dict(schema["properties"])
        # Not `enum`: prompts repeat an enumeration, and a small model then takes its first name.
        choice = {**properties["file_name"], "anyOf": [{"const": name} for name in names]}
        return {**schema, "properties": {**properties, "file_name": choice}}

    return type("OfListed", (Action,), {"parameters": property(parameters)})
