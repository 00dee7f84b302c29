"""Tables as offices publish them: their names, codes and numbers have a meaning, or are refused."""

from __future__ import annotations

import gzip
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moothall import City, Society
from moothall.foundation.errors import ConfigError
from moothall.society import Population, all_blocks, completed, make_people, read_people


@pytest.fixture(scope="module")
def city() -> City:
    return City.generate(seed=1, citizens=60)


def profiles(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    file = tmp_path / "p.csv"
    file.write_text(text, encoding="utf-8")
    return [each.get("profile", {}) for each in read_people(file)]


PUMS = (
    "SERIALNO,SPORDER,PUMA,PWGTP,AGEP,SEX,SCHL,PINCP,WAGP,OCCP,HINCP\n"
    "2023HU01,01,00301,38,41,2,22,82000,80000,1021,131000\n"
    "2023HU01,02,00301,41,12,1,09,,,,131000\n"
    "2023HU02,01,00302,7,70,1,16,-500,0,9920,19500\n"
)
IPUMS = (
    "SERIAL,PERNUM,PERWT,AGE,SEX,EDUC,EDUCD,INCTOT,OCC,HHINCOME\n"
    "17,1,38,41,2,11,114,82000,1021,131000\n"
    "17,2,41,12,1,2,26,9999999,0,131000\n"
    "18,1,7,70,1,6,63,-500,9920,9999999\n"
)


@pytest.mark.parametrize("table", (PUMS, IPUMS), ids=("PUMS", "IPUMS"))
def test_names_and_codes_of_an_office_have_their_meaning(tmp_path: Path, table: str) -> None:
    found = profiles(tmp_path, table)
    names = ("age", "gender", "education", "income", "occupation", "household_income", "weight")
    shop, house = "management or a profession", 131000
    first, second, third = ([each.get(name) for name in names] for each in found)
    assert first == [41, "female", "master", 82000, shop, house, 38]
    assert second == [12, "male", "none", None, None, house, 41]
    assert third[:4] == [70, "male", "secondary", -500]
    assert found[0]["household_id"] == found[1]["household_id"] != found[2]["household_id"]
    made = completed(read_people(tmp_path / "p.csv"), seed=1)
    assert [each["id"] for each in made] == [1, 2, 3]
    assert made[0]["income"] > made[2]["income"] > made[1]["income"] == 0  # the third: a pension
    assert made[0]["relations"]["2"] >= 800


def test_income_of_a_table_is_what_its_person_works_for(tmp_path: Path) -> None:
    town = City.generate(seed=1, citizens=1000)
    rng = random.Random(1)
    incomes = [rng.choice((0, 12_000, 31_200, 90_000, 361_000)) for _ in range(300)]
    ages = [rng.randrange(18, 67) for _ in incomes]
    lines = (f"{n},{age},{pay}" for n, (age, pay) in enumerate(zip(ages, incomes, strict=True), 1))
    (tmp_path / "p.csv").write_text("id,age,income\n" + "\n".join(lines))
    table = {"age": np.array(ages), "income": np.array(incomes)}
    with Society(Population(table, town, all_blocks(), seed=1)) as society:
        columns = society.population.columns
        people = completed(read_people(tmp_path / "p.csv"), town, seed=1)
        for row, person in enumerate(people):
            pay, skill = incomes[row], person["profile"]["skill"]
            assert (person["work"] is not None) == (pay > 0) == (columns["work"][row] >= 0)
            assert columns["skill"][row] == skill
            assert pay == 0 or abs(skill * 52 - pay) <= 26  # of full work
    table["income"] = np.where(np.arange(300) < 150, np.nan, 30_000)
    with Society(Population(table, town, all_blocks(), seed=1)) as society:
        columns = society.population.columns
        works, pay = columns["work"] >= 0, columns["pay"]
        assert 90 < works[:150].sum() < 135  # of whom the table says nothing, a share
        assert works[150:].all()
        assert ((pay[:150] > 0) == works[:150]).all()
        assert (pay[150:] == 30_000).all()
    bare = Population({"income": np.array([np.nan, 500.0])}, blocks=all_blocks(), seed=1)
    assert bare.columns["pay"].tolist() == [0, 500]


def test_names_and_codes_of_the_current_population_survey_have_its_meaning(tmp_path: Path) -> None:
    table = (
        "YEAR,SERIAL,MONTH,CPSID,PERNUM,ASECWT,WTFINL,AGE,SEX,EDUC,INCTOT,INCWAGE\n"
        "1962,80,3,0,1,1475.59,1,41,2,123,4883,4883\n"
        "1962,80,3,0,2,1578.75,1,12,1,10,99999998,99999999\n"
        "1963,80,3,0,1,1470.72,1,70,1,73,999999999,99999999\n"
    )
    names = ("age", "gender", "education", "weight", "income", "household_id")
    assert [[each.get(name) for name in names] for each in profiles(tmp_path, table)] == [
        [41, "female", "master", 1475.59, 4883, "1962 80"],
        [12, "male", "none", 1578.75, None, "1962 80"],
        [70, "male", "secondary", 1470.72, None, "1963 80"],  # numbers begin anew in each year
    ]


def test_names_and_codes_of_the_travel_survey_have_its_meaning(tmp_path: Path) -> None:
    table = (
        "HOUSEID,PERSONID,R_AGE,R_SEX,EDUC,DRIVER,WTPERFIN,HHVEHCNT\n"
        "30000007,01,41,02,05,01,38.5,2\n"
        "30000007,02,12,01,-1,-1,41.25,2\n"
        "30000008,01,-7,-8,03,02,7,0\n"
    )
    names = ("age", "gender", "education", "licence", "weight", "cars", "household_id")
    assert [[each.get(name) for name in names] for each in profiles(tmp_path, table)] == [
        [41, "female", "master", True, 38.5, 2, 30000007],
        [12, "male", None, None, 41.25, 2, 30000007],
        [None, None, "secondary", False, 7, 0, 30000008],
    ]
    made = completed(read_people(tmp_path / "p.csv"), seed=1)
    assert [each.get("kin") for each in made] == [{"2": "child"}, {"1": "parent"}, None]
    assert profiles(tmp_path, "id,age,driver\n1,41,of a bus\n")[0]["driver"] == "of a bus"


@pytest.mark.parametrize(
    ("between", "cells", "values"),
    (
        (",", ('"52,000"', "61000"), [52000, 61000]),
        (",", ('"$52,000.50"', '"1,000,000"'), [52000.5, 1000000]),
        (",", ('"52.000,50"', '"61,5"'), [52000.5, 61.5]),
        (";", ("52.000,50", "61.000"), [52000.5, 61000]),
        (";", ("52,5", "61,125"), [52.5, 61.125]),
        (";", ("52.000", "61.000"), [52000, 61000]),
        (";", ("52000.5", "61000"), [52000.5, 61000]),
        (",", ("52 000", "61\u202f000"), [52000, 61000]),
        (",", ("52'000", "€ 61’000"), [52000, 61000]),
        (",", ("52 000 €", "€ 61.000"), [52000, 61000]),  # cents have two digits
        (",", ("52.50 €", "61.00 €"), [52.5, 61]),
    ),
)
@pytest.mark.parametrize("name", ("income", "weight", "litres"))
def test_numbers_are_read_as_offices_write_them(
    tmp_path: Path, between: str, cells: tuple[str, ...], values: list[float], name: str
) -> None:
    rows = [between.join(each) for each in (("id", name), ("1", cells[0]), ("2", cells[1]))]
    assert [each[name] for each in profiles(tmp_path, "\n".join(rows))] == values


def test_cars_of_a_household_are_read_by_the_names_of_offices(tmp_path: Path) -> None:
    assert [each["cars"] for each in profiles(tmp_path, "id,VEH\n1,2\n2,0\n")] == [2, 0]
    cars = [each.get("cars") for each in profiles(tmp_path, "id,VEHICLES\n1,2\n2,9\n3,0\n")]
    assert cars == [2, 0, None]
    made = completed(read_people(tmp_path / "p.csv"), seed=1)
    assert [each["profile"]["cars"] for each in made[:2]] == [2, 0]
    assert 0 <= made[2]["profile"]["cars"] <= 3
    found = profiles(tmp_path, "id,licence,rents\n1,yes,0\n2,0,True\n3,,\n")
    flags = [(each.get("licence"), each.get("rents")) for each in found]
    assert flags == [(True, False), (False, True), (None, None)]


def test_texts_that_are_no_numbers_together_stay_texts(tmp_path: Path) -> None:
    found = profiles(tmp_path, 'id,zip,ip,codes\n1,00501,10.0.0.1,"1,2"\n2,12345,10.0.0.2,b\n')
    assert [each["ip"] for each in found] == ["10.0.0.1", "10.0.0.2"]
    assert [each["codes"] for each in found] == ["1,2", "b"]
    assert found[0]["zip"] == "00501"


@pytest.mark.parametrize(
    ("head", "cell", "fault"),
    (
        ("income", "52k", "row 1, column 'income' must be a number, got '52k'"),
        ("weight", "x", "row 1, column 'weight' must be a number"),
        ("gender", "2", "row 1, column 'gender' must be one of female, male, got \"2\""),
        ("sex", "3", "row 1, column 'sex' must be a code of SEX: 1 male, 2 female, got \"3\""),
        ("education", "21", "row 1, column 'education' must be one of none, secondary"),
        ("SCHL", "25", "row 1, column 'SCHL' must be a code of SCHL of the ACS, got \"25\""),
        ("licence", "perhaps", "row 1, column 'licence' must be yes or no, got \"perhaps\""),
        ("cars", "many", "row 1, column 'cars' must be a number, got 'many'"),
        ("VEHICLES", "8", "row 1, column 'VEHICLES' must be a code of VEHICLES of IPUMS"),
        ("occupation", "2310", "row 1, column 'occupation' must be a text, got 2310"),
        ("household", "A1", "row 1, column 'household' must be a whole number or one of alone, "),
        ("HOUSEID,PERSONID,EDUC", "7,1,6", "column 'EDUC' must be a code of EDUC of the NHTS"),
        ("HOUSEID,PERSONID,R_SEX", "7,1,x", "column 'R_SEX' must be a code of R_SEX of the NHTS"),
        ("OCCP", "nurse", "row 1, column 'OCCP' must be a code of the 2018 Census Occupation"),
    ),
)
def test_office_table_cell_without_a_meaning_is_refused_with_row_and_column(
    tmp_path: Path, head: str, cell: str, fault: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        profiles(tmp_path, f"id,{head}\n1,{cell}\n")
    assert fault in str(raised.value)
    assert "p.csv" in str(raised.value)


def test_words_for_gender_and_education_are_those_of_everyday(tmp_path: Path) -> None:
    found = profiles(tmp_path, "id,gender,education\n1,f,PhD\n2,Male,High school\n3,W,associate\n")
    assert [(each["gender"], each["education"]) for each in found] == [
        ("female", "master"),
        ("male", "secondary"),
        ("female", "vocational"),
    ]


def test_persons_have_what_a_table_says_of_their_households(tmp_path: Path, city: City) -> None:
    persons, homes = tmp_path / "p.csv", tmp_path / "h.csv"
    persons.write_text("SERIALNO,SPORDER,AGEP,cars\nA1,1,41,\nA1,2,12,9\nA2,1,70,\n")
    homes.write_text("SERIALNO,HINCP,cars,home\nA1,131000,2,home-3\nA2,19500,0,\nA3,,1,\n")
    found = read_people(persons, city, households=homes)
    assert [each["profile"].get("household_income") for each in found] == [131000, 131000, 19500]
    assert [each["profile"]["cars"] for each in found] == [2, 9, 0]
    assert [each.get("home") for each in found] == ["home-3", "home-3", None]
    for text, why in (
        ("SERIALNO,cars\nA1,2\n", "no row of household 'A2' of citizen 3"),
        ("SERIALNO,cars\nA1,2\nA1,1\n", "row 2: household 'A1' appears twice"),
        ("SERIALNO,AGEP\nA1,2\n", "column 'age' is of persons, not of households"),
        ("cars\n2\n", "has no column 'household_id'"),
        ("SERIALNO,home\nA1,moon\n", 'row 1: the city has no place "moon"'),
        ("SERIALNO,cars,cars\nA1,2,3\n", "column 'cars' appears twice"),
        ("SERIALNO,cars\nA1,many\n", "row 1, column 'cars' must be a number"),
    ):
        homes.write_text(text)
        with pytest.raises(ConfigError, match=why):
            read_people(persons, city, households=homes)


def test_income_of_a_household_is_not_that_of_each_of_its_persons(tmp_path: Path) -> None:
    persons, homes = tmp_path / "p.csv", tmp_path / "h.csv"
    persons.write_text("PERID,household_id,age\n7,1,41\n8,1,2\n9,2,30\n")
    # As ActivitySim has them: several may be of one household of the census.
    homes.write_text("HHID,TAZ,SERIALNO,income\n1,3,9,361000\n2,4,9,59220\n")
    found = read_people(persons, households=homes)
    assert [each["id"] for each in found] == [7, 8, 9]
    assert [each["profile"].get("income") for each in found] == [None, None, None]
    incomes = [each["profile"]["household_income"] for each in found]
    assert incomes == [361000, 361000, 59220]


def test_frame_of_pandas_is_refused_with_what_to_do(city: City) -> None:
    frame = pandas.DataFrame({"id": [1, 2], "age": [30, 40]})
    takers: list[Any] = [read_people, lambda table: Society(table, city), Population]
    for take in takers:
        with pytest.raises(ConfigError, match=r"got a DataFrame: write it by to_csv\(path, index"):
            take(frame)


def test_household_is_found_by_its_number_however_a_table_writes_it(tmp_path: Path) -> None:
    persons, homes = tmp_path / "p.csv", tmp_path / "h.parquet"
    persons.write_text("id,household_id\n1,0.0\n2,7.0\n3,\n")  # as pandas writes empty cells
    pq.write_table(pa.table({"household_id": [0, 7], "cars": [2, 1]}), homes)
    found = read_people(persons, households=homes)
    assert [each.get("profile", {}).get("cars") for each in found] == [2, 1, None]
    persons.write_text("id,household\n1,7.0\n2,\n3,7.0\n")
    assert [sorted(each.get("kin", ())) for each in completed(read_people(persons))] == [
        ["3"],
        [],
        ["1"],
    ]


def test_cell_of_parquet_that_is_no_number_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "p.parquet"
    pq.write_table(
        pa.table({"id": [1, 2], "AGEP": [41.0, math.nan], "tall": [1.8, math.nan]}), file
    )
    first, second = read_people(file)
    assert first["profile"] == {"age": 41, "tall": 1.8}
    assert "profile" not in second


def test_further_columns_of_one_meaning_are_attributes(tmp_path: Path) -> None:
    text = "id,age,AGEP,education,SCHL\n1,30,31,master,16\n"
    assert profiles(tmp_path, text) == [{"age": 30, "AGEP": 31, "education": "master", "SCHL": 16}]
    assert profiles(tmp_path, "id,age,Age\n1,30,31\n") == [{"age": 30, "Age": 31}]


@pytest.mark.parametrize("name", ("HHID", "hh_id", "serialno"))
def test_household_of_a_table_has_the_names_of_surveys(tmp_path: Path, name: str) -> None:
    text = f"id,age,{name}\n1,30,7\n2,31,7\n3,32,8\n"
    assert [each["household_id"] for each in profiles(tmp_path, text)] == [7, 7, 8]


def test_table_without_age_and_gender_says_that_they_are_drawn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert profiles(tmp_path, "id,idade,sexo\n1,30,2\n") == [{"idade": 30, "sexo": 2}]
    (record,) = caplog.records
    assert "neither 'age' nor 'gender', which are drawn" in record.getMessage()
    assert record.getMessage().endswith("idade, sexo")


def test_office_sample_gives_a_town_whole_households_by_their_weights(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(
        "id,age,household_id,weight,relations\n1,41,a,3,2:900;3:5\n2,12,a,3,1:900\n3,70,b,1,\n"
    )
    town = City.generate(seed=1, citizens=1400)
    made = completed(read_people(tmp_path / "p.csv"), town, count=1000, seed=1)
    assert [each["id"] for each in made] == [*range(1, len(made) + 1)]
    assert len(made) in (999, 1000)
    ages = [each["profile"]["age"] for each in made]
    assert ages.count(41) == ages.count(12)
    assert 2.4 < ages.count(41) / ages.count(70) < 3.6
    first = next(each for each in made if each["profile"]["age"] == 41)
    assert first["relations"] == {str(first["id"] + 1): 900}
    child = made[first["id"]]
    assert child["home"] == first["home"]
    assert completed(read_people(tmp_path / "p.csv"), town, count=1000, seed=1) == made
    for weight, why in (("-1", "weight must be a number, 0 or more"), ("0", "all weights are 0")):
        (tmp_path / "p.csv").write_text(f"id,weight\n1,{weight}\n")
        with pytest.raises(ConfigError, match=why):
            completed(read_people(tmp_path / "p.csv"), count=3)


def test_margins_have_counts_with_separators(tmp_path: Path, city: City) -> None:
    file = tmp_path / "m.csv"
    file.write_text('attribute,value,count\ngender,female,"2,000"\ngender,male,"1,000"\n')
    people = make_people(city, 60, seed=1, margins=file)
    assert sum(each["profile"]["gender"] == "female" for each in people) == 40


def test_sample_of_an_office_is_drawn_by_households_that_meet_margins(tmp_path: Path) -> None:
    lines = ["SERIALNO,SPORDER,PUMA,AGEP,SEX,SCHL,PWGTP"]
    for number in range(300):
        ages = [(26, 24, 3), (70,), (41, 40, 16, 9), (33, 30)][number % 4]
        for at, age in enumerate(ages):
            puma = "00801" if number % 3 else "10100"
            schooling = "" if age < 5 else "22" if number % 5 == 0 else "16"
            cells = (
                f"2023HU{number:03}",
                at + 1,
                puma,
                age,
                1 + (at + number // 4) % 2,
                schooling,
                20,
            )
            lines.append(",".join(map(str, cells)))
    (tmp_path / "p.csv").write_text("\n".join(lines))
    rows = read_people(tmp_path / "p.csv")
    assert {row["profile"]["PUMA"] for row in rows} == {"00801", "10100"}  # codes are texts
    margins: dict[str, dict[Any, float]] = {
        "age": {"0-17": 15, "18-64": 55, "65+": 30},
        "gender": {"female": 53, "male": 47},
        "PUMA": {"00801": 40, "10100": 60},
        "owns": {"dog": 1, "none": 3},  # the rows do not say
    }
    made = completed(rows, count=1000, seed=1, margins=margins)
    assert len(made) == 1000
    for name, values in margins.items():
        low = {"0-17": range(18), "18-64": range(18, 65), "65+": range(65, 120)}
        for value, share in values.items():
            goal = 1000 * share / sum(values.values())
            has = [each["profile"][name] for each in made]
            many = sum(each == value or each in low.get(value, ()) for each in has)
            assert abs(many - goal) <= 10, (name, value, many)
    homes = {each["profile"]["household_id"] for each in made}
    assert len(homes) < 700  # they are whole
    assert completed(rows, count=1000, seed=1, margins=margins) == made
    with pytest.raises(ConfigError, match="no people of these margins: age 100-999"):
        completed(rows, count=1000, margins={"age": {"0-99": 1, "100+": 1}})


# -- numbers with zeros, codes for what is not known, packed files ---------------------------------

ZEROS = (
    "serialno,sporder,puma,wagp,agep,sex,pwgtp,veh,hincp\n"
    "1000481,01,00106,0000000,070,1,00100,00,-0004500\n"
    "1002740,02,10106,0028000,025,2,00122,04,00117600\n"
)


def test_known_numbers_have_leading_zeros_and_codes_of_areas_keep_them(tmp_path: Path) -> None:
    names = ("puma", "income", "age", "weight", "cars", "household_income")
    assert [[each[name] for name in names] for each in profiles(tmp_path, ZEROS)] == [
        ["00106", 0, 70, 100, 0, -4500],
        ["10106", 28000, 25, 122, 4, 117600],
    ]
    own = "id,age,income,weight,tract\n1,041,+052000.50,0038,004300\n2,12,,41,4301\n"
    first, second = profiles(tmp_path, own)
    assert [first[name] for name in ("age", "income", "weight")] == [41, 52000.5, 38]
    assert [each["tract"] for each in (first, second)] == ["004300", "4301"]


def test_known_numbers_of_a_table_of_columns_have_leading_zeros_too() -> None:
    table = {
        "agep": np.array([25, 70]),
        "wagp": np.array(["0028000", "-1"]),
        "puma": np.array(["00106", "00107"]),
    }
    population = Population(table, blocks=all_blocks(), seed=1)
    assert population.columns["pay"].tolist() == [28000, 0]
    assert population.to_arrow()["puma"].to_pylist() == ["00106", "00107"]


@pytest.mark.parametrize("empty", ("", "NA", "N", "-9", "-1", "bb"))
def test_codes_for_what_is_not_known_leave_it_to_be_drawn(tmp_path: Path, empty: str) -> None:
    names = ("SEX", "SCHL", "OCCP", "SOCP", "WAGP", "VEH", "HINCP", "AGEP")
    known = "2,22,1021,111021,28000,2,90000,41"
    cells = ",".join([empty] * len(names))
    text = f"SERIALNO,SPORDER,{','.join(names)}\n1,1,{known}\n2,1,{cells}\n"
    first, second = profiles(tmp_path, text)
    ours = ("gender", "education", "occupation", "income", "cars", "household_income", "age")
    assert [first[name] for name in ours] == [
        *("female", "master", "management or a profession", 28000, 2, 90000, 41),
    ]
    assert [second.get(name) for name in ours] == [None] * len(ours)
    assert all(
        each["profile"]["age"] for each in completed(read_people(tmp_path / "p.csv"), seed=1)
    )


def test_amounts_that_stand_for_none_in_the_census_bureaus_interface_are_left_out(
    tmp_path: Path,
) -> None:
    text = "SERIALNO,SPORDER,AGEP,{name},HINCP\n1,1,9,{code},-60000\n2,1,40,-4500,-4500\n"
    for name, code in (("PINCP", -19999), ("PERNP", -10001), ("WAGP", -1)):
        child, other = profiles(tmp_path, text.format(name=name, code=code))
        assert "income" not in child
        assert "household_income" not in child
        assert (other["income"], other["household_income"]) == (-4500, -4500)


@pytest.mark.parametrize("code", ("25", "x", "-10", "1.5"))
def test_code_that_no_list_has_is_refused_yet(tmp_path: Path, code: str) -> None:
    with pytest.raises(ConfigError, match="row 1, column 'SCHL' must be a code of SCHL of the ACS"):
        profiles(tmp_path, f"SERIALNO,SPORDER,SCHL\n1,1,{code}\n")


def test_table_with_the_index_of_pandas_is_read_without_it(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"id": [*"abc"], "age": [41, 12, 9]})
    office = pandas.DataFrame({"serialno": [7, 7, 7], "agep": [41, 12, 9]})
    for table in (frame, office):
        table.to_csv(tmp_path / "p.csv")
        pandas.read_csv(tmp_path / "p.csv").to_csv(tmp_path / "again.csv", index=False)
        table.set_index(pandas.Index([5, 3, 8])).to_parquet(tmp_path / "p.parquet")
        found = [read_people(tmp_path / name) for name in ("p.csv", "again.csv", "p.parquet")]
        assert [[each["profile"]["age"] for each in people] for people in found] == [
            [41, 12, 9]
        ] * 3
        ids = [[each["id"] for each in people] for people in found]
        assert ids == ([[*"abc"]] * 3 if table is frame else [[0, 1, 2], [0, 1, 2], [5, 3, 8]])
    for wrong in (",age\n1,41\n1,12\n", ",age\nx,41\ny,12\n"):
        with pytest.raises(ConfigError, match="pandas writes its index so"):
            profiles(tmp_path, wrong)
    with pytest.raises(ConfigError, match="no column 'id'"):  # no persons
        profiles(tmp_path, ",TRACTCE,num_people\n0,430101,2217\n1,430102,863\n")


def test_persons_of_an_offices_households_need_no_number(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("serialno,agep\n7,41\n7,12\n8,70\n")
    people = completed(read_people(tmp_path / "p.csv"), seed=1)
    assert [each["id"] for each in people] == [1, 2, 3]
    assert people[0]["kin"] == {"2": "child"}
    with pytest.raises(ConfigError, match="no column 'id'"):
        profiles(tmp_path, "serialno,np\n7,2\n8,1\n")


def test_packed_table_is_read_as_it_is(tmp_path: Path) -> None:
    for name, text in (("p.csv.gz", ZEROS), ("p.tsv.gz", ZEROS.replace(",", "\t"))):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert [each["profile"]["age"] for each in read_people(tmp_path / name)] == [70, 25]
    population = Population(tmp_path / "p.csv.gz", blocks=all_blocks(), seed=1)
    assert population.columns["age"].tolist() == [70, 25]
    with Society(tmp_path / "p.csv.gz", seed=1) as town:
        assert len(town.agents) == 2
    (tmp_path / "broken.csv.gz").write_bytes(b"no archive")
    for wrong, said in (("broken.csv.gz", "cannot be read"), ("p.json.gz", "a table must be .csv")):
        (tmp_path / wrong).touch()
        with pytest.raises(ConfigError, match=said):
            read_people(tmp_path / wrong)


def test_remarks_between_the_rows_of_a_table_are_left_out(tmp_path: Path) -> None:
    text = "id,age\n1,41\n# of the second zone\n2,12\n"
    assert [each["age"] for each in profiles(tmp_path, text)] == [41, 12]


def test_codes_of_education_in_a_planners_sample_are_its_own(tmp_path: Path) -> None:
    text = "hh_id,perid,pnum,age,sex,educ\n603391,1625131,1,59,2,9\n603391,1625132,2,65,1,13\n"
    found = profiles(tmp_path, text)
    assert [(each["gender"], each["educ"]) for each in found] == [("female", 9), ("male", 13)]
    assert all("education" not in each for each in found)
