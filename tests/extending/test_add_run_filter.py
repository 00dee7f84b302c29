"""A filter of runs is a row with its name: journals, `moothall runs` and the studio's page have it.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

import pytest
from tests.extending.conftest import Added

ROW = (
    ("    decided_by: str | None\n", "    min_tokens: float | None\n"),
    (
        "FILTERS: Final[dict[str, RunFilter]] = {\n",
        '    "min_tokens": RunFilter(\n'
        '        "only runs that took so many tokens or more",\n'
        '        partial(_one_term, "tokens >= ?", lambda name, value: float(value)),\n'
        '        ("--min-tokens", "N", "Only runs that took so many or more."),\n'
        '        "number",\n'
        '        LeastChoice("Size", "tokens", (("", "any size"), ("9", "9 and more"))),\n'
        "    ),\n",
    ),
)
USES = """
import inspect
import json
from html import unescape
from urllib.request import Request, urlopen

from moothall import Journal, ModelReply, ReActAgent, ScriptedModel, Usage
from moothall.studio import Studio

for run_id, tokens in (("small", 1), ("large", 20)):
    model = ScriptedModel([ModelReply("Yes.", usage=Usage(tokens, 1))])
    ReActAgent("a", model, journal="runs.db").reply_sync("go", run_id=run_id)
journal = Journal("runs.db")
assert [run.id for run in journal.runs(min_tokens=9)] == ["large"]
assert journal.sums(min_tokens=9, agent="a").runs == 1
assert "* `min_tokens`: only runs that took" in inspect.getdoc(Journal.runs)
with Studio() as studio:
    known = {"Authorization": f"Bearer {'t' * 20}"}
    url = studio.launch(0, journal="runs.db", token="t" * 20, prevent_thread_lock=True, quiet=True)
    with urlopen(Request(url.partition("?")[0] + "runs", headers=known)) as page:
        told = unescape(page.read().decode().partition('data-told="')[2].partition('"')[0])
bounds = {each["label"]: each["choices"] for each in json.loads(told)["bounds"]}
assert bounds["Size"] == [["", "any size"], ["9", "9 and more"]], bounds
"""


@pytest.mark.long
def test_run_filter_added_in_one_file_is_of_journals_command_and_page(added: Added) -> None:
    run = added({"journal/find.py": ROW})
    run("-c", USES)
    found = run("-m", "moothall", "runs", "--journal", "runs.db", "--min-tokens", "9")
    assert found.splitlines()[-1].startswith("1 run: ")
    assert "--min-tokens N" in run("-m", "moothall", "runs", "--help")
