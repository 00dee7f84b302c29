"""The studio: one page to chat with agents, watch runs, decide, and see the results."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from os import PathLike, environ
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

from moothall.arguments import check_integer
from moothall.errors import ConfigError, MissingExtra
from moothall.studio.act import ActTab
from moothall.studio.hub import Hub, in_thread
from moothall.studio.jobs import Jobs
from moothall.studio.page import Tab
from moothall.studio.research import ResearchTab
from moothall.studio.runs import RunsTab
from moothall.studio.society import SocietyTab
from moothall.studio.space import SpaceTab, StudioUser

if TYPE_CHECKING:
    from moothall.journal import Journal

PORT: Final = 8080


class Studio(Hub):
    """One application at one port, for the agents and runs of this process.

    `moothall.studio.demo` is one, and `gradio_user` is its person. Before `launch`, no port is open
    and Gradio is not imported.

    Args:
        user: the id of the person at the page, in a space

    Attributes:
        user: the person at the page, to be added to a space
        journal: where runs are read and recorded, from `launch` on
        cards: the open cards; the Approver of what the studio runs
        feed: the events that pages get
        jobs: the background runs
        runs: the runs of the journal
        society: the town that pages watch; `studio.society.load(run_id)` resumes a run
        tabs: the tabs, in order; `launch` serves what is in the list, your own (`page.Tab`) too
        opens: the name of the tab that a page opens with
        url: the address, without the token; None before `launch`
    """

    def __init__(self, user: str = "User") -> None:
        super().__init__()
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self.url: str | None = None
        space = SpaceTab(self, user)
        self.user: StudioUser = space.user
        self.society: SocietyTab = SocietyTab(self)
        self.jobs: Jobs = Jobs(self, self.society)
        self.runs: RunsTab = RunsTab(self, self.jobs)
        act, research = ActTab(self, self.jobs), ResearchTab(self, self.jobs)
        self.tabs: list[Tab] = [space, act, research, self.society, self.runs]

    # -- serving -----------------------------------------------------------------------------------

    def launch(
        self,
        port: int = PORT,
        host: str = "127.0.0.1",
        *,
        journal: Journal | str | PathLike[str] | None = None,
        password: str | None = None,
        token: str | None = None,
        prevent_thread_lock: bool | None = None,
        quiet: bool = False,
    ) -> str:
        """Serve the page.

        In a script it serves until Ctrl-C; in a notebook, or with `prevent_thread_lock=True`, it
        returns at once.

        Args:
            port: the port; 0 for any that is free
            host: the address to listen at; one that is not loopback needs a password
            journal: where runs are recorded and read: a `Journal` or a path; the path in
                `MOOTHALL_JOURNAL`, else a file in the user's state folder, if left out
            password: what opens the page, instead of a token
            token: the token, of 16 characters or more; `MOOTHALL_STUDIO_TOKEN`, else a new one, if
                left out; not used with a password
            prevent_thread_lock: whether to return at once
            quiet: whether to print nothing

        Returns:
            the address, with its token

        Raises:
            ConfigError: an argument is wrong, or the port is taken
            MissingExtra: the extra `studio` is not installed
            JournalError: the journal cannot be used
        """
        if self._server is not None:
            raise ConfigError(f"the studio is served at {self.url} already: close() it first")
        check_integer("port", port, 0, 65535)
        if not isinstance(host, str) or not host.isprintable():
            raise ConfigError(f"host must be a name or an address, got {host!r:.80}")
        if password is None and host not in ("127.0.0.1", "localhost", "::1"):
            raise ConfigError(
                f"a studio at {host!r:.80}, which others reach, needs a password: set "
                "MOOTHALL_STUDIO_PASSWORD for the command, or pass password="
            )
        if token is None:
            token = environ.get("MOOTHALL_STUDIO_TOKEN") or secrets.token_urlsafe(24)
        is_password = password is not None
        secret = _secret("password", password, 8) if is_password else _secret("token", token, 16)

        try:
            from moothall.studio.server import application, serving
        except ImportError as error:
            raise MissingExtra("the studio", "studio") from error
        sockets = _listening(host, port)
        try:
            self._open_journal(journal)
            self.runs.watch()
            self._serve(
                lambda: serving(application(self, secret, host, is_password=is_password)), sockets
            )
        except BaseException:
            for each in sockets:
                each.close()
            self.close()
            raise
        # Not the name `localhost`: it may lead to ::1, where another program may have the port.
        named, bound = sockets[0].getsockname()[:2]
        self.url = f"http://{f'[{named}]' if ':' in named else named}:{bound}/"
        address = self.url if is_password else f"{self.url}?token={quote(secret)}"
        returns = "ipykernel" in sys.modules if prevent_thread_lock is None else prevent_thread_lock
        line = f"moothall studio: {address}"
        if not returns:
            self._wait("" if quiet else f"{line}  (Ctrl-C ends it)")
        elif not quiet:
            print(line, flush=True)
        return address

    def wait(self) -> None:
        """Serve until Ctrl-C, then close."""
        self._wait("")

    def _wait(self, line: str) -> None:
        try:
            if line:  # printed in here: a reader may press Ctrl-C at once
                print(line, flush=True)
            if self._thread is not None:
                self._thread.join()
        except KeyboardInterrupt:
            with suppress(OSError):  # the output is closed
                print("moothall studio: ends", flush=True)
        finally:
            self.close()

    def close(self) -> None:
        """Stop the server and the studio's runs; recorded runs can be resumed later."""
        self.jobs.close()
        self.society.close()
        self.runs.close()
        server, thread = self._server, self._thread
        self._server = self._thread = self.url = None
        if server is not None and thread is not None:
            server.should_exit = True
            thread.join(10)
        self._close_journal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _serve(self, made: Callable[[], Any], sockets: list[socket.socket]) -> None:
        async def serve(began: Future[Any]) -> None:
            # Built in here: without a running loop, Gradio makes a new loop at every turn.
            server = made()
            startup = server.startup

            async def started(*args: Any, **options: Any) -> None:
                await startup(*args, **options)
                began.set_result(server)

            server.startup = started
            await server.serve(sockets)

        self._thread, self._server = in_thread(
            "moothall-studio", lambda began: asyncio.run(serve(began))
        )


def _secret(name: str, given: object, least: int) -> str:
    """Return a token or password; ConfigError if it is too short or not printable."""
    if not isinstance(given, str) or len(given) < least:
        raise ConfigError(f"the {name} must be text of {least} characters or more")
    if not given.isprintable():
        raise ConfigError(f"the {name} must have characters that can be printed")
    return given


def _listening(host: str, port: int) -> list[socket.socket]:
    """Listen at an address; at 127.0.0.1 also at ::1, so that every browser finds `localhost`."""
    first = "127.0.0.1" if host == "localhost" else host
    try:
        family = socket.AF_INET6 if ":" in first else socket.AF_INET
        made = [socket.create_server((first, port), family=family, backlog=128)]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the studio cannot listen at {host!r:.80}, port {port}: "
            f"{getattr(error, 'strerror', None) or error}; give another port= or host="
        ) from error
    if first == "127.0.0.1":
        try:
            other = ("::1", made[0].getsockname()[1])
            made.append(socket.create_server(other, family=socket.AF_INET6, backlog=128))
        except OSError:
            pass  # there is no IPv6 here, or another program has the port there
    return made
