"""The studio: one page to chat with agents, watch runs, decide, and see the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING

from moothall import MissingExtra
from moothall.studio.act import ActTab
from moothall.studio.doors import DoorsTab
from moothall.studio.jobs import Jobs
from moothall.studio.page import Tab
from moothall.studio.research import ResearchTab
from moothall.studio.runs import RunsTab
from moothall.studio.served import PORT, ServedHub
from moothall.studio.space import SpaceTab, StudioUser
from moothall.studio.towns.shown import ShownRun
from moothall.studio.towns.tab import SocietyTab

if TYPE_CHECKING:
    from moothall import Society
    from moothall.journal import Journal
    from moothall.serving.doors import Front
    from moothall.studio.guard import PageGuard


class Studio(ServedHub):
    """One application at one port, for the agents and runs of this process.

    `moothall.studio.demo` is one, and `gradio_user` is its person. Before `launch`, no port is open
    and FastAPI is not imported.

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
        self._journal_source: Journal | str | PathLike[str] | None = None
        self.person = user
        space = SpaceTab(self, user)
        self.user: StudioUser = space.user
        self.society: SocietyTab = SocietyTab(self)
        self.jobs: Jobs = Jobs(self, self.society)
        self.runs: RunsTab = RunsTab(self, self.jobs)
        act, research = ActTab(self, self.jobs), ResearchTab(self, self.jobs)
        self.tabs: list[Tab] = [space, act, research, self.society, self.runs, DoorsTab(self.user)]

    def show(
        self,
        society: Society,
        days: float | None = None,
        step: str | timedelta | int = "15min",
        *,
        steps: int | None = None,
        metrics: Mapping[str, Callable[[Society], float]] | None = None,
        by: str | None = None,
    ) -> None:
        """Show a society of any kind in the tab Society, with which pages then open.

        It lives a step and pauses; pages play it. Its map is a city, a grid, a plane, a network or,
        without any, a square. The studio has it from here on: closing one closes the other.

        Args:
            society: the society; give its journal to it if its run is to be recorded
            days: how many simulated days it lives; 1 if neither this nor `steps` is given
            step: the length of a step
            steps: how many steps it lives, instead of `days`
            metrics: functions of the society, by name: a chart each, beside those of a population
            by: the number of citizens' status, or the column, that their colours show at first; one
                of their own if left out

        Raises:
            ConfigError: an argument is wrong
        """
        self.society.show(ShownRun.of(society, days, step, steps, metrics, by))
        self.opens = self.society.name

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
        public_url: str | None = None,
        proxies: Sequence[str] = (),
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
            public_url: the address by which people reach the studio through a proxy, such as
                `https://agents.example/moothall/`; it needs a password
            proxies: the addresses or networks of proxies whose `X-Forwarded-For` is believed

        Returns:
            the address, with its token

        Raises:
            ConfigError: an argument is wrong, or the port is taken
            MissingExtra: the extra `studio` is not installed
            JournalError: the journal cannot be used
        """
        self._journal_source = journal
        return self._launch(
            port,
            host,
            password=password,
            token=token,
            prevent_thread_lock=prevent_thread_lock,
            quiet=quiet,
            public_url=public_url,
            proxies=proxies,
        )

    def _check_extra(self) -> None:
        MissingExtra.unless("the studio", "studio", "fastapi", "uvicorn", "websockets")

    def _begin(self) -> None:
        self._open_journal(self._journal_source)
        self.runs.watch()

    def _application(self, secret: str, host: str, is_password: bool, front: Front) -> PageGuard:
        from moothall.studio.server import application

        return application(self, secret, host, front, is_password=is_password)

    def close(self) -> None:
        """Stop the server and the studio's runs; recorded runs can be resumed later."""
        self.jobs.close()
        self.society.experiments.close()
        self.society.close()
        self.runs.close()
        super().close()
        self._close_journal()
