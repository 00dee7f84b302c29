"""The studio: one page to chat with agents, watch runs, decide, and see the results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Final, TypeVar

from moothall import ConfigError, MissingExtra
from moothall.build import Extension, log_failure
from moothall.studio.hub import ResumerThread
from moothall.studio.jobs import Jobs, TabHub
from moothall.studio.orders import SimulateOrder
from moothall.studio.page import Tab, checked_tab
from moothall.studio.page_server import PORT
from moothall.studio.runs import RunsTab
from moothall.studio.space import SpaceTab, StudioUser
from moothall.studio.towns.shown import ShownRun
from moothall.studio.towns.tab import SocietyTab

if TYPE_CHECKING:
    from moothall import Society
    from moothall.journal import Journal
    from moothall.serving.doors import Front
    from moothall.studio.page_guard import PageGuard


logger: logging.Logger = logging.getLogger("moothall.studio")
_T = TypeVar("_T", bound=Tab)
_TABS: Final = {
    "space": "moothall.studio.space:SpaceTab",
    "act": "moothall.studio.act_tab:ActTab",
    "research": "moothall.studio.research_tab:ResearchTab",
    "society": "moothall.studio.towns.tab:SocietyTab",
    "runs": "moothall.studio.runs:RunsTab",
    "doors": "moothall.studio.doors:DoorsTab",
}
"""Our own tabs, in their order, as other packages state theirs by entry points."""


class Studio(TabHub):
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
        tabs: the tabs, in order: ours, those of installed packages, and what you append to them
        faults: which tabs of installed packages are left out, and why, in a line each
        opens: the name of the tab that a page opens with
        url: the address, without the token; None before `launch`
    """

    def __init__(self, user: str = "User") -> None:
        super().__init__()
        self._journal_source: Journal | str | PathLike[str] | None = None
        self.person = user
        self.jobs: Jobs = Jobs(self, self._resume_town)
        self._resumer_thread: ResumerThread | None = None
        self._extensions: dict[int, Extension] = {}  # by the id of a tab
        extensions = Extension.all_of("moothall.tabs", _TABS).values()
        self._add_tabs(each for each in extensions if each.is_ours)
        self.user: StudioUser = self._tab(SpaceTab).user
        self.society: SocietyTab = self._tab(SocietyTab)
        self.runs: RunsTab = self._tab(RunsTab)
        self._add_tabs(each for each in extensions if not each.is_ours)

    def _add_tabs(self, extensions: Iterable[Extension]) -> None:
        """Add tabs of packages; one that cannot be made is left out."""
        for each in extensions:
            try:
                with each.naming():
                    tab = checked_tab(each.load()(self))
                    if tab.name in (other.name for other in self.tabs):
                        raise ConfigError(f"there is a tab {tab.name!r} already")
            except ConfigError as error:
                if each.is_ours:
                    raise
                self._leave_out(error)
            else:
                self._extensions[id(tab)] = each
                self.tabs.append(tab)

    def _leave_out(self, error: ConfigError) -> None:
        fault = f"left out: {error}"
        if fault not in self.faults:  # from the launch before
            self.faults.append(fault)
        log_failure(logger, "a tab is left out", error)

    def add_routes(self, tab: Tab, add: Callable[[Tab], object]) -> bool:
        """Add a tab's routes by `add`; leave a package's tab out whose routes fail."""
        extension = self._extensions.get(id(tab))
        if extension is None or extension.is_ours:
            return super().add_routes(tab, add)
        try:
            with extension.naming():
                add(tab)
        except ConfigError as error:
            self._leave_out(error)
            return False
        return True

    def _tab(self, kind: type[_T]) -> _T:
        return next(each for each in self.tabs if isinstance(each, kind))

    def _resume_town(self, order: SimulateOrder, run_id: str) -> None:
        self.society.set_up(order, run_id)

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
            ConfigError: an argument or a tab is wrong, or the port is taken
            MissingExtra: the extra `studio` is not installed
            JournalError: the journal cannot be used
        """
        self._journal_source = journal
        names = [checked_tab(each).name for each in self.tabs]
        if repeated := next((each for each in names if names.count(each) > 1), None):
            raise ConfigError(f"two tabs are called {repeated!r}")
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
        self._resumer_thread = ResumerThread(self.jobs)

    def _application(self, secret: str, host: str, is_password: bool, front: Front) -> PageGuard:
        from moothall.studio.server import application

        return application(self, secret, host, front, is_password=is_password)

    def close(self) -> None:
        """Stop the server and the studio's runs; recorded runs can be resumed later."""
        if self._resumer_thread is not None:
            self._resumer_thread.close()
            self._resumer_thread = None
        self.jobs.close()
        for each in (*self.tabs, self.society, self.runs):
            try:
                each.close()
            except Exception as error:  # of another's tab: the rest is closed all the same
                log_failure(logger, f"tab {each.name!r} cannot be closed", error)
        super().close()
        self._close_journal()
