"""A city from a source of a user's own: a table of places and streets."""

from __future__ import annotations

import csv
import io

from moothall import City
from moothall.society import Place, Road

PLACES = "id,kind,x,y\nhome-1,home,0,0\nshop-1,shop,300,0\npark-1,park,300,400\n"
STREETS = "a,b,metres\nhome-1,shop-1,300\nshop-1,park-1,400\n"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_city_of_a_users_own_source_has_its_routes() -> None:
    places = [
        Place(each["id"], each["kind"], int(each["x"]), int(each["y"])) for each in table(PLACES)
    ]
    city = City(
        places, [Road(each["a"], each["b"], int(each["metres"])) for each in table(STREETS)]
    )
    assert city.metres("home-1", "park-1") == 700
    assert [each.id for each in city.near("home-1", "park")] == ["park-1"]
    assert City.from_json(city.to_json()).sha256 == city.sha256
