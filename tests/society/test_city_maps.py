"""Cities of maps, and networks of tables of edges."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from moothall.foundation.errors import ConfigError
from moothall.society import (
    City,
    Experiment,
    Network,
    Place,
    Society,
    make_people,
    read_network,
)

LAT = 48.0  # a degree of longitude has 74,403 m there, one of latitude 111,195


def point(lon: float, lat: float, **tags: Any) -> dict[str, Any]:
    at = {"type": "Point", "coordinates": [lon, LAT + lat]}
    return {"type": "Feature", "geometry": at, "properties": tags}


def line(*spots: tuple[float, float], **tags: Any) -> dict[str, Any]:
    at = {"type": "LineString", "coordinates": [[x, LAT + y] for x, y in spots]}
    return {"type": "Feature", "geometry": at, "properties": {"highway": "residential", **tags}}


def area(lon: float, lat: float, **tags: Any) -> dict[str, Any]:
    corners = [[lon + x, LAT + lat + y] for x, y in ((0, 0), (2e-4, 0), (2e-4, 2e-4), (0, 2e-4))]
    at = {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
    return {"type": "Feature", "geometry": at, "properties": tags}


TOWN: dict[str, Any] = {
    "type": "FeatureCollection",
    "features": [
        line((0, 0), (0.005, 0), (0.01, 0)),
        line((0.005, 0), (0.005, 0.005), oneway="yes", name="Hill Street"),
        line((0.005, 0), (0.005, -0.002), highway="steps"),
        line((0.05, 0.05), (0.051, 0.05)),  # an island
        line((0, 0), (0, 0.01), highway="construction"),
        area(-1e-4, -1e-4, building="apartments", **{"building:levels": "4"}),
        point(
            0.0098, 0.0001, kind="work", capacity=12, opening_hours="Mo-Fr 08:30-17:00", name="Mill"
        ),
        point(0.005, 0.0051, shop="bakery"),
        area(0.0049, -0.0021, leisure="park"),
        point(0.001, 0, natural="tree"),
    ],
}


def test_geojson_is_a_city_in_metres_with_places_by_tags_and_roads_between_crossings() -> None:
    city = City.from_geojson(TOWN)
    assert city.kinds() == ("home", "park", "shop", "work")
    home, mill = city["home-1"], city["work-1"]
    assert (home.capacity, mill.capacity, mill.name) == (32, 12, "Mill")
    assert (mill.opens, mill.closes) == (8 * 3600 + 1800, 17 * 3600)
    assert mill.x - home.x == pytest.approx(729, abs=3)
    assert len(city.nodes) == 5  # corners between crossings, and the island, are none
    assert city.metres("home-1", "work-1") == pytest.approx(744 + 29, abs=20)
    assert city.seconds("shop-1", "home-1", "walk") is not None
    assert City.from_geojson(TOWN).sha256 == city.sha256
    assert City.from_json(city.to_json()).sha256 == city.sha256


def test_geojson_of_another_program_has_lists_of_tags_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = json.dumps(TOWN).replace(
        '"highway": "residential"', '"highway": ["residential", "path"]'
    )
    file = tmp_path / "town.geojson"
    file.write_text(text, encoding="utf-8-sig")
    assert City.from_geojson(file).sha256 == City.from_geojson(TOWN).sha256


def test_geojson_of_a_table_has_lists_as_texts(tmp_path: Path) -> None:
    for text in ("['residential', 'path']", '["residential", "path"]', "['residential']"):
        town = json.loads(json.dumps(TOWN).replace('"residential"', json.dumps(text)))
        assert City.from_geojson(town).sha256 == City.from_geojson(TOWN).sha256
    modes = "['walk', 'cycle']"
    city = City.from_geojson(
        collection(line((0, 0), (1e-3, 0), modes=modes), point(0, 0, kind="home"))
    )
    assert [each.modes for each in city.roads] == [("cycle", "walk")]


@pytest.mark.parametrize("mark", ("", "\x1e"))
def test_geojson_of_a_feature_a_line_is_the_same_city(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "town.geojsonl"
    file.write_text("".join(f"{mark}{json.dumps(each)}\n" for each in TOWN["features"]))
    assert City.from_geojson(file).sha256 == City.from_geojson(TOWN).sha256
    file.write_text(file.read_text() + "{")
    with pytest.raises(ConfigError, match="is not JSON"):
        City.from_geojson(file)


def across_the_date_line(at: Any) -> Any:
    """Coordinates of the town, some of them on the other side of the date line."""
    if isinstance(at[0], list):
        return [across_the_date_line(each) for each in at]
    lon = round(at[0] + 179.9951, 7)
    return [lon if lon <= 180 else round(lon - 360, 7), at[1]]


def test_geojson_across_the_date_line_is_the_same_city() -> None:
    features = [
        {
            **each,
            "geometry": {
                **each["geometry"],
                "coordinates": across_the_date_line(each["geometry"]["coordinates"]),
            },
        }
        for each in TOWN["features"]
    ]
    here, there = City.from_geojson(TOWN), City.from_geojson(collection(*features))
    assert [each.metres for each in there.roads] == [each.metres for each in here.roads]
    assert [(each.x, each.y) for each in there.places] == [(each.x, each.y) for each in here.places]


def test_map_place_that_a_mode_does_not_reach_is_reached_from_its_nearest_road_on_foot() -> None:
    city = City.from_geojson(TOWN)
    hill, mill = city["shop-1"], city["work-1"]
    # A car gets up the one way to the shop, and not back: it stops at the crossing.
    on_foot = abs(hill.x - city.nodes["n2"][0]) + abs(hill.y - city.nodes["n2"][1])
    by_road = (city.metres("shop-1", "work-1", "drive") or 0) - on_foot
    assert on_foot == pytest.approx(567, abs=1)
    assert by_road == pytest.approx(city.position("n3")[0] - city.position("n2")[0] + 26, abs=9)
    seconds = 120 + -(-by_road // 7) + -(-on_foot * 5 // 7)
    assert city.seconds("shop-1", "work-1", "drive") == seconds
    assert mill.id in [each.id for each in city.near("shop-1", "work", mode="drive")]
    route = city.route("shop-1", "work-1", "drive")
    assert route is not None
    assert (route.nodes[1], route.seconds) == ("n2", seconds)
    # Nobody cycles on steps.
    walk, cycle = (city.metres("home-1", "park-1", mode) or 0 for mode in ("walk", "cycle"))
    assert walk == pytest.approx(cycle, abs=2)
    assert City.from_json(city.to_json()).seconds("shop-1", "work-1", "drive") == seconds


def test_map_whose_lines_cross_without_a_shared_point_says_how_much_of_the_roads_it_leaves_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    home = point(0, 0, building="house")
    north, east = line((0.005, -0.01), (0.005, 0.01)), line((0, 0), (0.02, 0))
    City.from_geojson({"features": [north, east, home]})
    assert "1,488 m of 3,712 m of roads are left out: they are not connected" in caplog.text
    assert "let lines share the points where they cross" in caplog.text
    caplog.clear()
    north, east = line((0.005, -0.01), (0.005, 0), (0.005, 0.01)), line((0, 0), (0.005, 0))
    City.from_geojson({"features": [north, east, home]})
    assert caplog.text == ""


def test_map_place_far_from_every_road_is_named(caplog: pytest.LogCaptureFixture) -> None:
    island = point(0.08, 0.0, building="house")
    City.from_geojson(collection(line((0, 0), (0.01, 0)), point(0, 0, kind="work"), island))
    assert "home-1 (5,208 m): farther than 1,600 m" in caplog.text


TAGGED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"building": "warehouse", "capacity": "many"}, "work 20 7 19"),
    ({"amenity": "school"}, "school 300 7 17"),
    ({"amenity": "clinic"}, "hospital 200 0 24"),
    ({"amenity": "doctors", "beds": "40"}, "hospital 40 0 24"),
    ({"amenity": "pub"}, "restaurant 50 11 22"),
    ({"amenity": "bar", "opening_hours": "18:00-02:15"}, "restaurant 50 18 2.25"),
    ({"amenity": "bank", "capacity": "0"}, "work 1 7 19"),
    ({"leisure": "garden"}, "park 300 5 23"),
    ({"shop": "bakery"}, "shop 40 8 20"),
    ({"shop": "no", "office": "it"}, "work 20 7 19"),
    ({"shop": "kiosk", "opening_hours": "24/7"}, "shop 40 0 24"),
    ({"shop": "kiosk", "opening_hours": "Mo-Fr 9:30-24:00"}, "shop 40 9.5 24"),
    ({"shop": "kiosk", "opening_hours": "Mo-Fr 08:00-08:00"}, "shop 40 8 20"),
    ({"kind": "tower"}, "tower 20 0 24"),
)


def test_map_tags_give_a_place_its_kind_capacity_and_hours() -> None:
    places = [point(0.0001 * n, 0, **tags) for n, (tags, _) in enumerate(TAGGED)]
    home = point(0.01, 0, kind="home")
    city = City.from_geojson(collection(line((0, 0), (0.01, 0)), *places, home), citizens=1)
    said = [
        f"{each.kind} {each.capacity} {each.opens / 3600:g} {each.closes / 3600:g}"
        for each in sorted(city.places, key=lambda each: each.x)
    ]
    assert said[:-1] == [text for _, text in TAGGED]


@pytest.mark.parametrize(
    ("tags", "closed"),
    (
        ({}, ""),
        ({"access": "no"}, "walk cycle drive transit"),
        ({"access": "private", "foot": "yes"}, "cycle drive transit"),
        ({"access": "destination"}, ""),
        ({"motor_vehicle": "no"}, "drive transit"),
        ({"motor_vehicle": "no", "bus": "yes"}, "drive"),
        ({"motorcar": "private"}, "drive"),
        ({"vehicle": "no", "bicycle": "yes"}, "drive transit"),
        ({"bicycle": "no"}, "cycle"),
        ({"highway": "footway", "access": "yes"}, "drive transit"),
        ({"highway": "track", "construction": "yes"}, "walk cycle drive transit"),
        ({"highway": "motorway", "foot": "yes", "oneway": "no"}, "cycle"),
        ({"highway": "trunk"}, "walk cycle"),
        ({"highway": None, "route": "ferry", "motor_vehicle": "no"}, "drive transit"),
        ({"highway": None, "waterway": "river"}, "walk cycle drive transit"),
    ),
)
def test_map_tags_close_a_road_to_modes(tags: dict[str, Any], closed: str) -> None:
    given = {key: value for key, value in ({"highway": "primary"} | tags).items() if value}
    road = line((0, 0), (0.01, 0))
    road["properties"] = given
    ends = point(0, 0, kind="home"), point(0.01, 0, kind="work")
    city = City.from_geojson(collection(road, line((0, 0), (0.005, 0.02), (0.01, 0)), *ends))
    modes = ("walk", "cycle", "drive", "transit")
    straight = {mode: city.metres("home-1", "work-1", mode) == 744 for mode in modes}
    assert [mode for mode in modes if not straight[mode]] == closed.split()


@pytest.mark.parametrize(
    ("tags", "there", "back"),
    (
        ({"junction": "roundabout"}, "walk cycle drive", "walk"),
        ({"oneway": "-1", "oneway:bicycle": "no"}, "walk cycle", "walk cycle drive"),
        ({"oneway": "yes", "cycleway": "opposite_lane"}, "walk cycle drive", "walk cycle"),
        ({"junction": "circular", "oneway": "no"}, "walk cycle drive", "walk cycle drive"),
        ({"oneway": "true"}, "walk cycle drive", "walk"),
        ({"oneway": "1"}, "walk cycle drive", "walk"),
        ({"oneway": "reverse"}, "walk", "walk cycle drive"),
    ),
)
def test_map_tags_give_a_road_its_directions(tags: dict[str, Any], there: str, back: str) -> None:
    road, around = line((0, 0), (0.01, 0), **tags), line((0, 0), (0.005, 0.02), (0.01, 0))
    ends = point(0, 0, kind="home"), point(0.01, 0, kind="work")
    city = City.from_geojson(collection(road, around, *ends))
    for one, other, modes in (("home-1", "work-1", there), ("work-1", "home-1", back)):
        uses = [m for m in ("walk", "cycle", "drive") if city.metres(one, other, m) == 744]
        assert uses == modes.split()


@pytest.mark.parametrize("name", ("town.geojson", "town.geojsonl"))
async def test_citizens_live_in_a_city_of_geojson_and_an_experiment_names_its_file(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    lines = [TOWN] if name == "town.geojson" else TOWN["features"]
    file.write_text("\n".join(map(json.dumps, lines)))
    city = City.from_geojson(file, citizens=50)
    assert city["home-1"].capacity == 50
    async with Society(50, city, seed=1) as society:
        rows = await society.run(days=0.5, step="1h")
        assert rows[-1]["work"] > 0
    made = Experiment(
        name="e",
        society={"citizens": 40, "city": name, "step": "1h", "economy": False},
        metrics=["home"],
        workflow=[{"run": "2h"}],
        folder=tmp_path,
    )
    assert (await made.run(jobs=0)).values("home") == {0: 40.0}


def osm(file: Path, place: Callable[[Any], Any] = list) -> Path:
    """Write the town as an extract of OpenStreetMap, each of its coordinates put elsewhere."""
    numbers: dict[tuple[float, float], int] = {}
    nodes, ways = [], []

    def tags(given: dict[str, Any]) -> str:
        return "".join(f'<tag k="{key}" v="{value}"/>' for key, value in given.items())

    def node(at: list[float], more: str = "") -> int:
        key = lon, lat = tuple(place([at[0], at[1]]))
        if more or key not in numbers:
            numbers.setdefault(key, len(nodes) + 1)
            nodes.append(f'<node id="{len(nodes) + 1}" lon="{lon}" lat="{lat}">{more}</node>')
        return numbers[key]

    for feature in TOWN["features"]:
        kind, at = feature["geometry"]["type"], feature["geometry"]["coordinates"]  # type: ignore[index]
        given = dict(feature["properties"])  # type: ignore[index]
        if given.pop("kind", None):
            given["office"] = "company"
        if kind == "Point":
            node(at, tags(given))
        else:
            refs = [node(each) for each in (at[0] if kind == "Polygon" else at)]
            nds = "".join(f'<nd ref="{each}"/>' for each in refs)
            ways.append(f'<way id="{len(ways) + 1}">{nds}{tags(given)}</way>')
    house = area(0.003, 1e-4)["geometry"]["coordinates"][0]  # a relation, as of a house with a yard
    nds = "".join(f'<nd ref="{node(each)}"/>' for each in house)
    ways.append(f'<way id="99">{nds}</way>')
    yard = tags({"type": "multipolygon", "building": "yes", "building:levels": "2.5"})
    member = '<member type="way" ref="99" role="outer"/>'
    ways.append(f'<relation id="1">{member}{yard}</relation>')
    file.write_text(f'<osm version="0.6">{"".join(nodes)}{"".join(ways)}</osm>')
    return file


def test_roads_of_a_map_have_the_names_of_their_streets_and_else_their_numbers() -> None:
    lines = [line((0, 0), (0.005, 0), (0.01, 0), ref="B 5"), TOWN["features"][1]]
    city = City.from_geojson(collection(*lines, area(0, 0, building="yes")))
    assert {each.name for each in city.roads} == {"B 5", "Hill Street"}
    changed = city.with_roads({(each, "drive") for each in city.road_index.ids_of(["B 5"])})
    assert changed.closed_roads == {("n1-n2", "drive"), ("n2-n3", "drive")}


def test_map_of_openstreetmap_is_the_same_city(tmp_path: Path) -> None:
    file = osm(tmp_path / "town.osm")
    assert City.from_osm(file)["home-2"].capacity == 3
    town = collection(*TOWN["features"], area(0.003, 1e-4, building="yes"))
    city, other = City.from_osm(file, citizens=50), City.from_geojson(town, citizens=50)
    assert {each.metres for each in city.roads} == {each.metres for each in other.roads}
    for each in (city, other):
        assert {road.name for road in each.roads} == {"", "Hill Street"}
    for id in other.ids():
        mine, theirs = city[id], other[id]
        assert (mine.x, mine.y, mine.capacity) == (theirs.x, theirs.y, theirs.capacity)
        assert isinstance(mine, Place)
    there = City.from_osm(osm(tmp_path / "there.osm", across_the_date_line), citizens=50)
    assert [each.metres for each in there.roads] == [each.metres for each in city.roads]
    assert [(each.x, each.y) for each in there.places] == [(each.x, each.y) for each in city.places]
    nowhere = '<osm version="0.6"><node id="1" lon="east" lat="1"/></osm>'
    for wrong in ("<osm><node", nowhere):
        (tmp_path / "broken.osm").write_text(wrong)
        with pytest.raises(ConfigError, match="is not an extract of OpenStreetMap"):
            City.from_osm(tmp_path / "broken.osm")


def collection(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


def test_map_for_many_citizens_has_their_work_and_schools_but_what_it_states() -> None:
    features = [
        line((0, 0), (0.01, 0)),
        point(0, 0, building="apartments"),
        *(point(x, 1e-4, office="company") for x in (0.002, 0.004)),
        point(0.006, 0, office="company", capacity="70"),
        point(0.007, 0, shop="bakery"),
        point(0.008, 0, amenity="school"),
    ]
    city = City.from_geojson(collection(*features), citizens=2000)
    assert [city.capacity(each) for each in city.by_kind("work")] == [415, 415, 70]  # 45 of 100
    assert (city.capacity("school-1"), city.capacity("shop-1")) == (360, 240)
    small = City.from_geojson(collection(*features), citizens=20)
    assert [small.capacity(each) for each in small.by_kind("work")] == [20, 20, 70]
    with Society(1900, city, seed=1) as society:
        works = society.population.columns["work"] >= 0
        assert 800 < works.sum() <= 970  # 75 of 100 adults want to


@pytest.mark.parametrize(("room", "count"), ((900, 900), (1500, 1500), (4000, 2000), (6000, 6000)))
def test_map_of_houses_alone_has_people_of_all_ages_however_many_live_there(
    room: int, count: int
) -> None:
    houses = [point(x * 1e-4, y * 1e-4, building="yes") for x in range(25) for y in range(20)]
    city = City.from_geojson(collection(line((0, 0), (0.003, 0)), *houses), citizens=room)
    assert sum(city.capacity(each) for each in city.by_kind("home")) >= room
    people = make_people(city, count, seed=1)
    ages = [each["profile"]["age"] for each in people]
    assert 0.15 < sum(age < 15 for age in ages) / count < 0.23  # in the United States 0.18
    assert 0.12 < sum(age >= 65 for age in ages) / count < 0.21  # 0.17
    alone = sum(each["profile"]["household"] == "alone" for each in people)
    assert 0.08 < alone / count < 0.2


WRONG: list[tuple[Any, str]] = [
    ({}, "must be a FeatureCollection"),
    ([1], r"must be a file's path or its data, got"),
    (b"{}", r"must be a file's path or its data, got"),
    (collection(point(0, 0, kind="home")), "has no roads"),
    (collection(line((0, 0), (1e-3, 0))), "has no places"),
    (collection(line((0, 0), (1e-3, 0)), point(0, 0, kind="shop")), "has no homes for 5 citizens"),
    (
        {**TOWN, "crs": {"properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}},
        r"is in EPSG:32633, and must be in longitude and latitude",
    ),
    (collection(line((20, 0), (95, 7)), point(30, 1, kind="home")), "corners more than 10 degrees"),
    (collection(point(200, 0)), r"features\[0\] cannot be used: .* is no longitude"),
    (collection({"geometry": {"type": "Circle", "coordinates": []}}), "features.0. .*'Circle'"),
    (collection(None), r"features\[0\] cannot be used"),
    (
        collection(line((0, 0), (1e-3, 0), modes=["walck"]), point(0, 0, kind="home")),
        "did you mean",
    ),
]


@pytest.mark.parametrize(("data", "said"), WRONG)
def test_map_that_is_wrong_is_refused_with_its_feature(data: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        City.from_geojson(data, citizens=5)


def test_map_feature_of_geojson_without_a_place_is_left_out() -> None:
    nowhere = {"type": "Feature", "geometry": None, "properties": {"building": "house"}}
    empty = [
        nowhere | {"geometry": {"type": f"{many}{kind}", "coordinates": at}}
        for many in ("", "Multi")
        for kind in ("Point", "LineString", "Polygon")
        for at in ([], [[]], [[[]]])[: 1 + bool(many) + (kind == "Polygon")]
    ]
    home = point(0, 0, building="house")
    street = line((0, 0), (1e-3, 0))
    street["geometry"] = {"type": "GeometryCollection", "geometries": [street["geometry"]]}
    city = City.from_geojson(collection(street, nowhere, *empty, home))
    assert city.ids() == ("home-1",)


def test_network_is_read_from_a_table_of_edges(tmp_path: Path) -> None:
    file = tmp_path / "edges.csv"
    file.write_text("weight,source,target\n3,1,2\n1,2,10\n1,7,7\n1,2,1\n")
    network = read_network(file)
    assert isinstance(network, Network)
    assert network.ids() == ("1", "10", "2", "7")
    assert [each.id for each in network.near("2", limit=5)] == ["1", "10"]
    table = pyarrow.table({"a": [1, 2], "b": [2, 10]})
    pyarrow.parquet.write_table(table, tmp_path / "edges.parquet")
    assert read_network(tmp_path / "edges.parquet").near("10", limit=1)[0].id == "2"
    for text, said in (
        ("a\n1\n", "two columns"),
        ("a,b\n1,\n", r"row 1 must have two ids, got \['1', ''\]"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_network(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_network(tmp_path / "none.csv")
