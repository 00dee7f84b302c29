"""The maps of the source name what there is: ARCHITECTURE, CONTRIBUTING, READMEs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "moothall"
READMES = tuple(sorted(SOURCE.glob("*/README.md")))
MAPS = (
    *(ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"),
    *READMES,
)
PATH = re.compile(r"`([\w./-]+(?:\.(?:py|pyi|md|js|json|txt|toml|yml)|/))`")
WRITTEN_BY_USERS = {"FILE.yaml", "moothall.toml"}
# A reader who does not know the project looks for these: the words of file and folder lead there.
STANDS = {
    "models/providers.py": "what a provider does in its own way",
    "agents/loop/chain.py": "what stands around a step, as a chain",
    "spaces/amqp/inbox.py": "the inbox of AMQP",
    "society/blocks/plan.py": "a day's plan",
    "research/citations/footnotes.py": "the check of a footnote",
    "studio/event_feed.py": "the feed of the page",
    "budget/reservation.py": "the reservation of a budget",
    "actions/approval/terminal.py": "approval at the terminal",
    "serving/company/schedule.py": "the times of a schedule",
    "serving/company/scheduler.py": "the firing of a schedule",
    "spaces/amqp/wire.py": "the fields of the wire",
    "memory/recall.py": "recall of a memory",
    "serving/doors/openai/door.py": "the door of OpenAI's interface",
}


def missing(text: str, folder: Path) -> list[str]:
    """The paths of a page that are no files: each is whole, or beside one named before it."""
    faults = []
    for passage in re.split(r"\n\n|\n(?=\||- |\d\. |\*\*)", text):
        near = [ROOT, SOURCE, ROOT / "docs", folder]
        for name in PATH.findall(passage):
            if re.search(r"[A-Z]{4}\.|NAME|FILE", name) and not name.endswith(".md"):
                name = name.rpartition("/")[0] or "."  # a file that the reader will write
            if name in WRITTEN_BY_USERS:
                continue
            found = next((each / name for each in near if (each / name).exists()), None)
            if found is None:
                faults.append(name)
            else:
                inside = found if found.is_dir() else found.parent
                near += [inside] if inside in (ROOT, SOURCE) else [inside, inside.parent]
    return faults


@pytest.mark.parametrize("page", MAPS, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_map_names_files_that_exist(page: Path) -> None:
    text = page.read_text()
    assert len(PATH.findall(text)) > 10
    assert missing(text, page.parent) == []


def test_map_with_a_bare_or_stale_path_is_caught() -> None:
    assert missing("See `doors/served_agents.py`, and `nowhere.py`.", ROOT) == [
        "doors/served_agents.py",
        "nowhere.py",
    ]
    assert missing("See `agents/loop/chain.py`; `run.py` calls it.\n\nSee `run.py`.", ROOT) == [
        "run.py"
    ]


def test_maps_are_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 160
    assert {page.parent.name: len(page.read_text().splitlines()) > 45 for page in READMES} == (
        dict.fromkeys([page.parent.name for page in READMES], False)
    )


@pytest.mark.parametrize("path", STANDS)
def test_file_stands_where_its_words_lead(path: str) -> None:
    assert (SOURCE / path).is_file(), STANDS[path]


def test_top_of_the_source_has_few_entries() -> None:
    entries = [each for each in SOURCE.iterdir() if not each.name.startswith(("_", "py.typed"))]
    assert len({each.stem for each in entries}) <= 16
    assert {each.name for each in entries if each.is_dir()} >= {
        page.parent.name for page in READMES
    }
