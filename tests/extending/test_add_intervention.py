"""What an intervention changes stands in one file, and what a page offers of it in another.

A user cannot add to either, so this test adds to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

from moothall.society import Intervention

ADDED = (
    ("    tell: Sequence[str] = ()\n", "    rain: bool = False\n"),
    (
        "        changed.facts.update(copy_json(self.facts))\n",
        '        if self.rain:\n            changed.facts["weather"] = "rain"\n',
    ),
    (
        '        parts = [f"news: {each}" for each in self.news]\n',
        '        parts += ["it rains"] if self.rain else []\n',
    ),
)
OFFERED = (("    news: list[_Text] = []\n", "    rain: bool = False\n"),)
USES = """
from moothall import Society
from moothall.society import Intervention
from moothall.society.experiments.workflow import Item
from moothall.studio.towns.changes import Change

assert Item(intervene={"rain": True}).intervene == {"rain": True}
with Society([], seed=7) as town:
    change = Intervention(0, **Change(rain=True).arguments_for(town))
    assert Intervention(**change.as_json()) == change and change.in_words() == "it rains"
    town.intervene(change)
    town.run_sync(steps=1)
    assert town.changed.facts == {"weather": "rain"}
"""


def test_intervention_added_is_known_to_experiments_and_offered_by_the_page(added: Added) -> None:
    run = added({"society/kernel/intervention.py": ADDED, "studio/towns/changes.py": OFFERED})
    run("-c", USES)


def test_intervention_is_said_with_all_that_it_changes() -> None:
    change = Intervention(
        0, tell=["Hello."], status={"mood": "glad"}, citizens={"work": "office-1"}, close=["park-1"]
    )
    assert change.in_words() == (
        'closes park-1; everyone with work "office-1" has mood glad; '
        'everyone with work "office-1" hears: Hello.'
    )
    assert Intervention(0, tell=["Hello."]).in_words() == "everyone hears: Hello."
    assert Intervention(0, tell=["Hello."], citizens=[1, 2]).in_words() == (
        "citizen 1, 2 hears: Hello."
    )
