"""An attribute of persons that all draws know: here, who has a car.

A user cannot add to what is drawn, so this test adds to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

DRAWN = (
    (
        "ATTRIBUTES: Final = {",
        '"car": Attribute((None, "a car"), lambda params, seed, ids, age, education: '
        '(belows(100, seed, ids, 0, "people.car") < 60) * (age >= 18)), ',
    ),
)
KEPT = (
    (
        "PLANNED: Final[dict[str, Column]] = {\n",
        '    "car": Column("uint8", words=(None, "a car"), key=("profile", "car")),\n',
    ),
)
USES = """
from moothall.society import City, Population, all_blocks, make_people

city = City.generate(seed=1, citizens=200)
people = [each["profile"] for each in make_people(city, 200, seed=4)]
cars = [profile.get("car") for profile in people]
assert {car for car, each in zip(cars, people) if each["age"] < 18} == {None}
assert 20 < cars.count("a car") < 180
population = Population(200, city, all_blocks(), 4)
assert [each == 1 for each in population.columns["car"]] == [car is not None for car in cars]
"""


def test_attribute_of_persons_added_to_the_draws_is_drawn_alike_for_agents_and_in_columns(
    added: Added,
) -> None:
    added({"society/people/means.py": DRAWN, "society/blocks/columns.py": KEPT})("-c", USES)
