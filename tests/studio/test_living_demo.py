"""`make studio`: something lives in each tab, without a key and without a network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "studio.py"


@pytest.mark.long
@pytest.mark.timeout(120)
def test_living_demo(browser: Browser, tmp_path: Path, weights: Path) -> None:
    """Agents have talked, a run and research have ended, and a town waits to be played."""
    environment = {**os.environ, "MOOTHALL_JOURNAL": str(tmp_path / "runs.db")}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE), "0"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(60_000)
    try:
        page.goto(process.stdout.readline().split()[2])
        log = page.get_by_role("log", name="Messages")
        expect(log).to_contain_text("42", timeout=60_000)
        expect(log.get_by_text("answered")).to_have_count(2, timeout=60_000)
        page.get_by_role("tab", name="Act and review").click()
        expect(page.get_by_text("search_in_file").first).to_be_visible(timeout=60_000)
        page.get_by_role("tab", name="Research").click()
        report = page.frame_locator("iframe")
        expect(report.get_by_text("eleven in the evening").first).to_be_visible(timeout=60_000)
        page.get_by_role("tab", name="Society").click()
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.get_by_text("step 2 of 672")).to_be_visible(timeout=60_000)
    finally:
        context.close()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
