"""Citizens from distributions and from tables."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from moothall import ConfigError, ScriptedModel, Society
from moothall.society.blocks import all_blocks
from moothall.society.city.city import City
from moothall.society.city.map import Place
from moothall.society.city.network import Network
from moothall.society.people.generator import EDUCATION, citizens, completed, make_people
from moothall.society.people.means import money_of
from moothall.society.people.table import checked_people, read_people
from moothall.society.population.population import Population
from moothall.society.services.firm import STAFF


@pytest.fixture(scope="module")
def city() -> City:
    return City.generate(seed=5, citizens=400)


@pytest.fixture(scope="module")
def people(city: City) -> list[dict[str, Any]]:
    return make_people(city, 400, seed=5)


def test_people_of_the_same_seed_have_the_same_bytes(
    city: City, people: list[dict[str, Any]]
) -> None:
    assert json.dumps(make_people(city, 400, seed=5)) == json.dumps(people)
    assert make_people(city, 400, seed=6) != people


def test_people_of_a_seed_are_those_of_every_platform(people: list[dict[str, Any]]) -> None:
    """Who changes a draw changes these bytes, and tells users that results differ."""
    whole = [{**person, "money": person["money"] > 0} for person in people]
    made = hashlib.sha256(json.dumps(whole).encode()).hexdigest()
    assert made == "b0060d35e97efa2038c1794cee6e229e7300b1e9de08e9807085498879504121"
    assert all(person["money"] > 0 or person["profile"]["age"] < 18 for person in people)
    # The median, one and two deviations of 2.03 above it, one below, and the most.
    u = [1 - math.exp(-z * z / 2) for z in (0, 1, 2, 1, 4)]
    cents = [money_of(each, v) for each, v in zip(u, (0, 0, 0, 0.5, 0), strict=True)]
    assert cents == [
        530_000,
        *(pytest.approx(530_000 * math.exp(2.03 * z), abs=2) for z in (1, 2, -1)),
        10**8,
    ]


def test_people_are_distributed_as_documented(people: list[dict[str, Any]]) -> None:
    profiles = [person["profile"] for person in people]
    children = sum(profile["age"] < 18 for profile in profiles)
    assert 0.1 < children / 400 < 0.35
    old = sum(profile["age"] >= 65 for profile in profiles)
    assert 0.08 < old / 400 < 0.25
    women = sum(profile["gender"] == "female" for profile in profiles)
    assert 0.4 < women / 400 < 0.6
    adults = [person for person in people if person["profile"]["age"] >= 18]
    degrees = Counter(person["profile"]["education"] for person in adults)
    assert set(degrees) == set(EDUCATION)
    assert 0.25 < (degrees["bachelor"] + degrees["master"]) / len(adults) < 0.5
    aged = [person for person in people if 18 <= person["profile"]["age"] < 67]
    assert 0.6 < sum(person["work"] is not None for person in aged) / len(aged) < 0.85
    money = sorted(person["money"] for person in adults)
    assert 200_000 < money[len(money) // 2] < 1_200_000
    assert sum(money) / len(money) > 2 * money[len(money) // 2]


def test_citizens_of_the_same_rows_live_the_same_day_again_and_in_any_order(city: City) -> None:
    rows = make_people(city, 12, seed=5)
    kept = json.dumps(rows)
    ends = []
    for given in (rows, rows, rows[::-1]):
        with Society(citizens(given), city, seed=5) as town:
            town.run_sync(days=0.5)
            ends.append(sorted(json.dumps([one.id, one.status]) for one in town.agents))
    assert json.dumps(rows) == kept
    assert ends[0] == ends[1] == ends[2]


def test_homes_and_work_hold_no_more_than_they_can(
    city: City, people: list[dict[str, Any]]
) -> None:
    for home, count in Counter(person["home"] for person in people).items():
        assert city.kind(home) == "home"
        assert count <= city.capacity(home)
    for work, count in Counter(person["work"] for person in people if person["work"]).items():
        assert count <= max(1, city.capacity(work) * STAFF[city.kind(work)] // 1000)
    pupils = [person for person in people if 5 <= person["profile"]["age"] < 18]
    seated = [person["school"] for person in pupils if person["school"]]
    assert len(seated) > 0.9 * len(pupils)
    for school, count in Counter(seated).items():
        assert count <= city.capacity(school) - city.capacity(school) // 10
    assert not any(person["work"] for person in pupils)


def test_relations_are_mutual_and_households_are_close(people: list[dict[str, Any]]) -> None:
    by_id = {str(person["id"]): person for person in people}
    for id, person in by_id.items():
        for friend, strength in person["relations"].items():
            assert by_id[friend]["relations"][id] == strength
            if by_id[friend]["home"] == person["home"]:
                assert strength == 800
    assert 12 < sum(len(person["relations"]) for person in people) / 400 < 15
    close = sum(each >= 700 for person in people for each in person["relations"].values())
    assert 4 < close / 400 < 6
    homeless = completed([{"id": id} for id in range(9)], seed=1)
    assert not any("kin" in each for each in homeless)  # all live alone


def test_people_given_fields_are_kept_and_the_rest_is_drawn() -> None:
    given = {"id": "ada", "name": "Ada", "money": 7, "profile": {"age": 30}, "needs": {"energy": 1}}
    (ada,) = completed([given], seed=1)
    assert (ada["name"], ada["money"], ada["profile"]["age"]) == ("Ada", 7, 30)
    assert ada["needs"]["energy"] == 1
    assert ada["needs"]["hunger"] >= 600
    assert ada["profile"]["gender"]
    assert given["needs"] == {"energy": 1}  # what was given is not changed
    (agent,) = citizens([ada])
    assert (agent.id, agent.name, agent.status["money"]) == ("ada", "Ada", 7)
    assert [type(block).__name__ for block in agent.blocks][:2] == ["NeedsBlock", "PlanBlock"]


def test_people_misplaced_field_is_refused() -> None:
    with pytest.raises(ConfigError, match="'age' must be in a citizen's `profile`"):
        completed([{"id": 1, "age": 30}])
    with pytest.raises(ConfigError, match="a citizen must have an 'id', in a dict, got"):
        completed([{"id": 1}, {"name": "Ada"}])
    for rows in ([{"name": "Ada"}], ["Ada"], 5):
        with pytest.raises(ConfigError, match="a citizen must have an 'id', in a dict, got"):
            citizens(rows)  # type: ignore[arg-type]


def test_people_with_blocks_instead_of_a_function_are_refused() -> None:
    for blocks in (5, all_blocks()):
        with pytest.raises(ConfigError, match=r"blocks= must be a function .* all_blocks, got"):
            citizens([{"id": 1}], blocks)  # type: ignore[arg-type]


def test_people_too_many_for_the_homes_are_refused(city: City) -> None:
    with pytest.raises(ConfigError, match="homes are full"):
        make_people(city, 500)
    with pytest.raises(ConfigError, match="kind 'home'"):
        make_people(Network(["a", "b"]), 1)
    with pytest.raises(ConfigError, match="count must be"):
        make_people(city, 0)
    assert make_people(None, 3) == make_people(None, 3, seed=0) != make_people(None, 3, seed=1)
    assert [each["id"] for each in make_people(None, 3)] == [1, 2, 3]
    home = city.by_kind("home")[0]
    most = city.capacity(home)
    one_more = [{"id": number, "home": home} for number in range(most + 1)]
    small = f"'{home}' holds {most}, and is the home of {most + 1} citizens: make it larger, or"
    with pytest.raises(ConfigError, match=small):
        completed(one_more, city)
    assert [each["home"] for each in completed(one_more[:-1], city)] == [home] * most


def test_homes_without_a_limit_fill_in_turn_and_work_without_one_has_ten_jobs() -> None:
    kinds = {"h1": "home", "h2": "home", "w": "work", "s": "school"}
    city = Network(kinds, [(home, place) for home in ("h1", "h2") for place in ("w", "s")])
    made = completed([{"id": 1, "work": "w"}, *({"id": id} for id in range(2, 201))], city, seed=1)
    assert [each["home"] for each in made] == ["h1", "h2"] * 100
    work = Counter(each["work"] for each in made)
    assert (work["w"], work["s"]) == (10, 10)
    for each in made:
        assert each.get("school", "s") == "s"
        assert each["work"] is None or 18 <= each["profile"]["age"] < 67
    places = [Place("h", "home", 0, 0, 40), Place("s", "school", 50, 0, 20)]
    pupils = completed(
        [{"id": id, "profile": {"age": 9}} for id in range(40)],
        City(places, [("h", "s", 50)]),
        seed=1,
    )
    assert sum(each["school"] == "s" for each in pupils) == 18  # two places are the teachers'


# -- tables ----------------------------------------------------------------------------------------

TABLE = """\
id,name,age,home,work,money,hunger,interests,opinions,relations
1,Ada,35,home-1,,125000,800,music:900; sport:100,music:-200,2:700
2,Ben,,home-1,work-1,,,,,
x,,,,,0,,,,
"""


def test_people_table_of_csv_is_read(tmp_path: Path, city: City) -> None:
    file = tmp_path / "people.csv"
    file.write_text("\ufeff" + TABLE, encoding="utf-8")
    ada, ben, x = read_people(file, city)
    assert ada == {
        "id": 1,
        "name": "Ada",
        "home": "home-1",
        "money": 125_000,
        "profile": {"age": 35, "interests": {"music": 900, "sport": 100}},
        "needs": {"hunger": 800},
        "opinions": {"music": -200},
        "relations": {"2": 700},
    }
    assert ben == {"id": 2, "name": "Ben", "home": "home-1", "work": "work-1"}
    assert x == {"id": "x", "money": 0}
    assert completed([ben, x], seed=1)[0]["work"] == "work-1"
    file.write_text("id , name\n 1 , Ada \n x, Max\n", encoding="utf-8")
    assert read_people(file) == [{"id": 1, "name": "Ada"}, {"id": "x", "name": "Max"}]
    numbers = ["1" * 19, "2" * 40, "3" * 255, "007"]
    file.write_text("\n".join(["id", *numbers]))
    read = read_people(file)
    assert [each["id"] for each in read] == [int(numbers[0]), *numbers[1:]]
    assert all(each["needs"]["hunger"] >= 600 for each in completed(read, city))


def test_further_columns_are_attributes_of_ones_own(tmp_path: Path, city: City) -> None:
    file = tmp_path / "people.csv"
    file.write_text(
        "id,age,occupation,income,house,values,zip\n"
        '1,35,baker,31200.5,h-1,"family, and a quiet life",00501\n'
        "2,,,-3,h-1,,\n",
        encoding="utf-8",
    )
    ada, ben = read_people(file, city)
    assert ada["profile"] == {
        "age": 35,
        "occupation": "baker",
        "income": 31200.5,
        "house": "h-1",
        "values": "family, and a quiet life",
        "zip": "00501",
    }
    assert ben == {"id": 2, "profile": {"income": -3, "house": "h-1"}}
    assert completed([ada], seed=1)[0]["profile"]["occupation"] == "baker"
    for wrong in ("x" * 2001, "a\nb", float("nan"), [1]):
        with pytest.raises(ConfigError, match='row 1, column "motto" must be a number, or'):
            checked_people([{"id": 1, "motto": wrong}], ["id", "motto"])


async def test_attributes_are_shown_to_the_model_and_written_again(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id,occupation,cats\n1,baker,2\n2,nurse,two\n", encoding="utf-8")
    model = ScriptedModel(["nonsense"] * 100)
    async with Society(file, seed=1, model=model) as society:
        await society.run(steps=1, out=tmp_path / "out")
    asked = [json.loads(each[1]["content"].rpartition("\n")[2]) for each in model.received]
    assert {each["you"]["profile"]["occupation"] for each in asked} == {"baker", "nurse"}
    (again,) = (tmp_path / "out").glob("citizens.*")
    profiles = [each["profile"] for each in read_people(again)]
    assert [(each["occupation"], each["cats"]) for each in profiles] == [
        ("baker", 2),
        ("nurse", "two"),
    ]


def test_people_table_of_parquet_is_read(tmp_path: Path, city: City) -> None:
    file = tmp_path / "people.parquet"
    columns = {"id": [1, 2], "money": [5, None], "home": ["home-1", None]}
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    assert read_people(file, city) == [{"id": 1, "home": "home-1", "money": 5}, {"id": 2}]


def test_numbers_are_read_as_pandas_writes_a_column_with_empty_cells(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,age\n1,33.0\n2,\n")
    ages = pyarrow.table({"id": [1, 2], "age": [33.0, None]})
    pyarrow.parquet.write_table(ages, tmp_path / "people.parquet")
    for name in ("people.csv", "people.parquet"):
        assert read_people(tmp_path / name) == [{"id": 1, "profile": {"age": 33}}, {"id": 2}]


@pytest.mark.parametrize(
    ("table", "fault"),
    (
        ("", "no column 'id'"),
        ("name\nAda\n", "no column 'id'"),
        ("id\n", "has no rows"),
        ("id,gander\n1,5\n", "unknown column \"gander\": did you mean 'gender'?"),
        ("id,Work\n1,5\n", "unknown column \"Work\": did you mean 'work'?"),
        ("id,\n1,5\n", "the name of a column must be a text of 1 to 100 characters"),
        ("id,id\n1,1\n", "column 'id' appears twice"),
        ("id,money\n1,5\n2,-1\n", "row 2, column 'money' must be a whole number from 0"),
        ("id,money\n1,5.5\n", "row 1, column 'money'"),
        (
            "id,age\n1,old\n",
            "row 1, column 'age' must be a whole number from 0 to 120, got \"old\"",
        ),
        ("id,hunger\n1,1001\n", "column 'hunger' must be a whole number from 0 to 1000"),
        ("id\n1\n2\n1\n", "row 3, column 'id': 1 is the id of row 1 too"),
        ("id,name\n,Ada\n", "row 1, column 'id' is empty"),
        ("id\n*\n", "row 1, column 'id'"),
        ("id,home\n1,the moon\n", "row 1, column 'home': the city has no place \"the moon\""),
        ("id,interests\n1,music\n", "column 'interests' must be name:number"),
        ("id,interests\n1,music:2000\n", "column 'interests', 'music' must be a whole number"),
        ("id,relations\n1,2:9\n2,1:9;2:5\n", "row 2, column 'relations' names the citizen itself"),
        ("id\n" + "9" * 5000, "row 1, column 'id': an id has 1 to 255"),
        ("id,money\n1\n", "row 1 (line 2) must have 2 cells, got 1"),
        ('id\n"1\n', "cannot be read"),
    ),
)
def test_people_table_faults_are_named(tmp_path: Path, city: City, table: str, fault: str) -> None:
    file = tmp_path / "people.csv"
    file.write_text(table)
    with pytest.raises(ConfigError) as raised:
        read_people(file, city)
    assert fault in str(raised.value)
    assert "people.csv" in str(raised.value)


def test_relations_to_citizens_that_a_table_does_not_have_are_told(
    tmp_path: Path, city: City, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id,relations\n1,2:500;77:500\n2,1:500\n")
    Society(file, city).close()
    told = (
        "people.csv: 1 relation of citizens to others that it does not have, such as of 1 to '77'"
    )
    assert [told in each.message for each in caplog.records] == [True]


@pytest.mark.parametrize("column", ("work", "school"))
def test_people_of_a_table_with_a_place_too_small_for_them_are_told_once(
    tmp_path: Path, city: City, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    place = city.by_kind(column)[1 if column == "work" else 0]
    most = city.capacity(place)
    file = tmp_path / "people.csv"
    for count in (most, most + 1, most + 1):
        rows = [f"{id},{place}" for id in range(1, count + 1)]
        file.write_text("\n".join([f"id,{column}", *rows]))
        Society(file, city).close()
    told = [each.message for each in caplog.records if place in each.message]
    assert told == [
        f"'{place}' holds {most}, and is the work or school of {most + 1} citizens; who comes when "
        "it is full is turned away: make it larger, or give some of them another place"
    ]


def test_population_of_a_table_with_a_place_too_small_for_them_is_told_once(
    city: City, caplog: pytest.LogCaptureFixture
) -> None:
    firm = city.by_kind("work")[0]
    count = city.capacity(firm) + 1
    Population({"work": [firm] * count}, city)
    told = [each.message for each in caplog.records]
    assert [f"'{firm}' holds {count - 1}, and is the work or" in each for each in told] == [True]


def test_people_who_are_drawn_are_not_told_of_small_places(
    city: City, caplog: pytest.LogCaptureFixture
) -> None:
    completed([{"id": number} for number in range(1, 101)], city)
    Population(100, city)
    assert caplog.records == []


def test_tables_of_other_forms_and_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be \.csv, \.csv\.gz, \.tsv or \.parquet"):
        read_people(tmp_path / "people.txt")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_people(tmp_path / "none.csv")
    (tmp_path / "people.parquet").write_text("no parquet")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_people(tmp_path / "people.parquet")
    (tmp_path / "latin.csv").write_bytes(b"id\n\xff\n")
    with pytest.raises(ConfigError, match="is not in UTF-8: save it so"):
        read_people(tmp_path / "latin.csv")
    for column, *wrong in (
        ("money", True, -1, 10**15 + 1),
        ("age", -1, 121, "12.5"),
        ("skill", -1, 100_001),
        ("hunger", -1, 1001),
        ("name", 5, "x" * 256, "a\nb"),
        ("relations", 3, "2:-1", "2:1001", ":5"),
        ("interests", "art:-1", "art:1001"),
        ("opinions", "art:-1001", "art:1001"),
    ):
        for value in wrong:
            with pytest.raises(ConfigError, match=f"row 1, column '{column}'"):
                checked_people([{"id": 1, column: value}])
    most = {"age": 120, "skill": 100_000, "money": 10**15, "name": "x" * 255, "safety": 1000}
    least = dict.fromkeys(("age", "skill", "money", "social"), 0)
    ends = {"opinions": "a:-1000;b:1000", "relations": "2:0;3:1000", "interests": "a:0; b b:1000;"}
    high, low = checked_people([{"id": 1, **most, **ends}, {"id": 2, **least}])
    assert (high["profile"]["age"], low["profile"]["skill"], low["needs"]) == (
        120,
        0,
        {"social": 0},
    )
    assert high["opinions"] == {"a": -1000, "b": 1000}
    assert high["profile"]["interests"] == {"a": 0, "b b": 1000}


@pytest.mark.parametrize(
    ("encoding", "between"),
    (("utf-8-sig", ";"), ("utf-16", "\t"), ("utf-8", ","), ("utf-16-le", "")),
)
@pytest.mark.parametrize("stated", (True, False))
def test_people_table_is_read_as_a_spreadsheet_of_any_country_saves_it(
    tmp_path: Path, encoding: str, between: str, stated: bool
) -> None:
    file = tmp_path / "people.csv"
    rows = ("id", "name", "interests"), ("1", "Jürgen", '"music:800;sport:5"'), ("2", "Bo", "")
    text = "\r\n".join((between or ";").join(row) for row in rows)
    text = f"sep={between or ';'}\r\n" * stated + text
    file.write_text("\ufeff" * (not between) + text, encoding=encoding)
    first, second = read_people(file)
    assert (first["name"], second["name"]) == ("Jürgen", "Bo")
    assert first["profile"]["interests"] == {"music": 800, "sport": 5}


def test_people_table_in_another_encoding_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n1,Jürgen\n", encoding="cp1252")
    with pytest.raises(ConfigError, match=r"people.csv is not in UTF-8: .* 'CSV UTF-8'"):
        read_people(tmp_path / "people.csv")
