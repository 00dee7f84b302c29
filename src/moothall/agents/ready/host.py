"""The host agent: offers files and commands of the program's machine, with approval."""

from __future__ import annotations

import os
import sys

from moothall import ACCESS_REQUESTED, Agent, Approver, TerminalApprover, action
from moothall.agents.ready.folder import Folder
from moothall.agents.ready.sandbox import SandboxChoice
from moothall.agents.ready.shell import Shell, check_limits
from moothall.build import names_checked


@names_checked
class Host(Agent):
    """Offers files below one folder, and shell commands.

    Every action asks first: its approver, else its space's, else the person at the program's
    terminal. With none of them it refuses. Files are confined to `root`, even with symbolic links,
    `..` and races.

    Commands start in `root`, without input and without a terminal. Of the environment they see only
    `PATH`, `HOME`, language, time zone and the folder for temporary files. At the time limit, when
    the request is cancelled, when the shell ends, and when this process dies, the rest of the
    command is killed: in bubblewrap every process, elsewhere its process group.

    **In bubblewrap a command can write only below `root`** and in its own `/tmp`, and has no
    network, unless `network` is true. **Without it an approved command is not confined**: it can
    do what the program's user can.

    Args:
        id: the agent's id
        root: the folder of the files, and the working directory of commands
        approver: the approver; default: the space's approver, else the person at the terminal
        command_timeout: seconds that a command may take; None for no limit
        sandbox: `"bwrap"`, `"none"`, or `"auto"`: bubblewrap if it works on this machine, else
            none, with one warning in the log `moothall.agents`
        network: whether commands in bubblewrap have the machine's network
        max_file_bytes: the largest file that a command can write; None for no limit

    Raises:
        ConfigError: `command_timeout` is not above 0, `max_file_bytes` is below 0, or `sandbox` or
            `network` has another value (a ValueError)
        CommandError: the sandbox is `"bwrap"`, which is not installed or does not work here
        FileError: the root is not a folder
    """

    def __init__(
        self,
        id: str | int,
        root: str | os.PathLike[str] = ".",
        approver: Approver | None = None,
        *,
        command_timeout: float | None = 30.0,
        sandbox: SandboxChoice = "auto",
        network: bool = False,
        max_file_bytes: int | None = 2**30,
    ) -> None:
        super().__init__(id, approver=approver)
        check_limits(command_timeout, max_file_bytes)
        self.folder: Folder = Folder(root)
        self.command_timeout = command_timeout
        self.max_file_bytes = max_file_bytes
        self._shell = Shell(sandbox, network)
        self._terminal_approver = TerminalApprover()

    def find_approver(self) -> Approver | None:
        """Return who is asked to approve its calls."""
        approver = super().find_approver()
        if approver is None and all(each and each.isatty() for each in (sys.stdin, sys.stdout)):
            return self._terminal_approver
        return approver

    @action(access_policy=ACCESS_REQUESTED, guard=("command",))
    async def shell_command(self, command: str) -> str:
        """Execute a shell command.

        Args:
            command: The command to execute

        Returns:
            The output of the command, and its exit code if that is not 0
        """
        self.folder.require_root()
        return await self._shell.run(
            command, self.folder.root, self.command_timeout, max_file_bytes=self.max_file_bytes
        )

    @action(access_policy=ACCESS_REQUESTED, idempotent=True)
    def read_file(self, file_name: str) -> str:
        """Read the contents of a text file.

        Args:
            file_name: Name of the file to read

        Returns:
            The text of the file
        """
        return self.folder.read(file_name)

    @action(access_policy=ACCESS_REQUESTED, guard=("file_name",), addresses=())
    def write_to_file(self, file_name: str, content: str) -> str:
        """Write a text file, in place of one that is there.

        Args:
            file_name: Name of the file to write
            content: The whole new text of the file

        Returns:
            What was written
        """
        self.folder.write(file_name, content)
        return f"wrote {len(content.encode())} bytes"

    @action(access_policy=ACCESS_REQUESTED, guard=("file_name",))
    def delete_file(self, file_name: str) -> str:
        """Delete a file.

        Args:
            file_name: Name of the file to delete

        Returns:
            What was deleted
        """
        self.folder.delete(file_name)
        return f"deleted {file_name}"

    @action(access_policy=ACCESS_REQUESTED, idempotent=True)
    def list_files(self, folder_name: str = ".") -> list[str]:
        """List the files in a folder.

        Args:
            folder_name: Name of the folder to list

        Returns:
            The names of its files; the names of folders end in a slash
        """
        return self.folder.names(folder_name)
