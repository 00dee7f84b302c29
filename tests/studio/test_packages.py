"""The tabs of installed packages, on the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from moothall import ConfigError
from moothall.build import recorded
from moothall.studio import Field, PageForm, Studio, Tab
from packages import wheel
from studio.conftest import TOKEN, pages

COURIER = wheel(Path(__file__).parent.parent / "extending" / "courier")


class TornTab(Tab):
    """A tab whose script cannot be read."""

    name = "torn"
    title = "Torn"


class NoTab(Tab):
    """A tab whose routes cannot be made."""

    name = title = "none"

    def __init__(self, studio: Studio) -> None:
        pass

    def routes(self, router: Any) -> None:
        """Fail."""
        raise KeyError("no routes")


def test_tab_of_a_package_shows_what_it_begins_beside_tabs_that_fail(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "none-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: none\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[moothall.tabs]\nnone = {__name__}:NoTab\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(COURIER)
    with Studio() as studio:
        torn = TornTab()
        torn.script = tmp_path / "torn.js"
        torn.script.write_text("export function mount( {")
        studio.tabs.append(torn)
        journal = tmp_path / "runs.db"
        studio.launch(0, journal=journal, token=TOKEN, prevent_thread_lock=True, quiet=True)
        with pages(browser, studio) as opened:
            page = opened("Torn")
            expect(page.get_by_text("The tab Torn cannot be shown:")).to_be_visible()
            left_out = page.get_by_text("left out: the tab 'none' of none 1.0")
            expect(left_out).to_be_visible()
            below = page.get_by_role("tablist").bounding_box()
            box = left_out.bounding_box()
            assert below
            assert box
            assert below["y"] + below["height"] <= box["y"]
            page.get_by_role("tab", name="Courier").click()
            page.get_by_role("button", name="New round").click()
            page.get_by_label("Name").fill("r1")
            page.get_by_label("Places").fill("home nobody")
            page.get_by_role("button", name="Start").click()
            expect(page.get_by_text("r1: running")).to_be_visible()
            page.get_by_role("tab", name="Runs").click()
            runs = page.get_by_role("tabpanel", name="Runs")  # the inbox has the question, too
            runs.get_by_text("deliver").first.click()
            runs.get_by_role("button", name="Stop").click()
            runs.get_by_label("Result of ring").fill("nobody")
            runs.get_by_role("button", name="Done").click()
            runs.get_by_role("button", name="Resume").click()
            page.get_by_role("tab", name="Courier").click()
            expect(page.get_by_text("r1: done")).to_be_visible()


@dataclass
class Nothing:
    """The state of a run without one."""


class PlainTab(Tab):
    """A tab with a form and no script."""

    name = "plain"
    title = "Plain"

    def __init__(self, studio: Studio) -> None:
        self.studio = studio

    def forms(self) -> list[PageForm]:
        """Return the form that begins a run."""
        return [PageForm(name="new", title="New", fields=[Field("name", "Name")], start=self.start)]

    def start(self, name: str) -> str:
        """Begin a run that ends at once."""

        async def work() -> None:
            async with recorded(
                self.studio.journal, name, "Plain", "me", Nothing, task="Be"
            ) as record:
                await record.end("done", text="I was.")

        return self.studio.jobs.run(name, work)


def test_tab_without_a_script_leads_to_the_run_that_it_began(
    tmp_path: Path, browser: Browser
) -> None:
    with Studio() as studio:
        studio.tabs.append(PlainTab(studio))
        journal = tmp_path / "runs.db"
        studio.launch(0, journal=journal, token=TOKEN, prevent_thread_lock=True, quiet=True)
        with pages(browser, studio) as opened:
            page = opened("Plain")
            page.get_by_role("button", name="New").click()
            page.get_by_label("Name").fill("p1")
            page.get_by_role("button", name="Start").click()
            page.get_by_role("button", name="p1: its steps").click()
            expect(page.get_by_text("I was.").first).to_be_visible()


def test_job_whose_work_returns_no_coroutine_is_refused(tmp_path: Path) -> None:
    with Studio() as studio:
        journal = tmp_path / "runs.db"
        studio.launch(0, journal=journal, token=TOKEN, prevent_thread_lock=True, quiet=True)
        work: Any = lambda: PlainTab  # noqa: E731
        with pytest.raises(ConfigError, match=r"work must return a coroutine, .* got <class"):
            studio.jobs.run("p1", work)
        assert studio.journal.runs() == []
