"""An attribute of persons that all draws know: here, who has a boat.

A user cannot add to what is drawn, so this test adds to a copy of the package.
"""

from __future__ import annotations

import pytest
from tests.extending.conftest import Added

DRAWN = (
    (
        "ATTRIBUTES: Final = {",
        '"boat": Attribute((None, "a boat"), lambda params, seed, members: '
        '(draw_below(100, seed, members.ids, 0, "people.boat") < 60) * (members.age >= 18)), ',
    ),
)
KEPT = (
    (
        "PLAN_BLOCK_COLUMNS: Final[dict[str, Column]] = {\n",
        '    "boat": Column("uint8", words=(None, "a boat"), key=("profile", "boat")),\n',
    ),
)
USES = """
from moothall.society import City, Population, all_blocks, make_people

city = City.generate(seed=1, citizens=200)
people = [each["profile"] for each in make_people(city, 200, seed=4)]
boats = [profile.get("boat") for profile in people]
assert {boat for boat, each in zip(boats, people) if each["age"] < 18} == {None}
assert 20 < boats.count("a boat") < 180
population = Population(200, city, all_blocks(), 4)
assert [each == 1 for each in population.columns["boat"]] == [boat is not None for boat in boats]
"""


@pytest.mark.long
def test_attribute_of_persons_added_to_the_draws_is_drawn_alike_for_agents_and_in_columns(
    added: Added,
) -> None:
    added({"society/people/means.py": DRAWN, "society/blocks/columns.py": KEPT})("-c", USES)
