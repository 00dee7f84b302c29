"""What is asked by the method of the receiver's class comes back as the type that it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any, NamedTuple

import pytest
from pydantic import Base64Bytes, BaseModel, Field

from conformance.conftest import WAIT_S
from moothall import ActionError, Agent, InvalidArguments, InvalidMessage, action
from moothall.foundation.errors import DefinitionError


class Gait(Enum):
    WALK = "walk"


@dataclass
class Point:
    x: float
    seen: date | None = None
    gait: Gait = Gait.WALK
    image: bytes = b""


@dataclass
class Named(Point):
    name: str = "home"


class Order(BaseModel):
    number: int = Field(alias="orderNumber")
    points: list[Point] = []


class Pair(NamedTuple):
    first: int
    second: str


@dataclass
class Tree:
    leaf: bytes = b""
    below: list[Tree] = field(default_factory=list)


class Robot(Agent):
    @action
    async def move(self, to: Point) -> Point:
        return to

    @action
    def subclass(self) -> Point:
        return Named(1.5)

    @action(name="buy")
    async def order(self, what: Order) -> dict[str, Order] | None:
        return {"it": what}

    @action
    async def pair(self) -> tuple[Pair, ...]:
        return (Pair(1, "a"), Pair(2, "b"))

    @action
    async def nothing(self) -> Point | None:
        return None

    @action
    async def unsaid(self):  # type: ignore[no-untyped-def]
        return {"x": 1}

    @action
    async def wrong(self) -> Point:
        return {"y": 1}  # type: ignore[return-value]

    @action
    async def grow(self, tree: Tree) -> Tree:
        return Tree(b"\xff" + tree.leaf, [tree])

    @action
    async def reversed(self, data: bytes, more: list[bytes] | None = None) -> bytes:
        return b"".join(more or ())[::-1] + data[::-1]

    @action
    async def length(self, data: Base64Bytes) -> int:
        return len(data)


POINT = Point(1.0, date(2026, 1, 2), Gait.WALK, b"\x00\xff")
TREE = Tree(b"\xfe", [Tree()])


@pytest.mark.parametrize(
    ("method", "args", "value"),
    (
        (Robot.move, {"to": POINT}, POINT),
        (Robot.move, {"to": {"x": 1}}, Point(1.0)),
        (Robot.subclass, {}, Point(1.5)),
        (
            Robot.order,
            {"what": Order(orderNumber=7, points=[Point(1.0)])},
            {"it": Order(orderNumber=7, points=[Point(1.0)])},
        ),
        (Robot.pair, {}, (Pair(1, "a"), Pair(2, "b"))),
        (Robot.nothing, {}, None),
        (Robot.unsaid, {}, {"x": 1}),
        (Robot.grow, {"tree": TREE}, Tree(b"\xff\xfe", [TREE])),
        (Robot.reversed, {"data": b"\x00\xff", "more": [b"ab"]}, b"ba\xff\x00"),
    ),
)
def test_ask_by_a_method_returns_the_annotated_type(
    space: Any, method: Any, args: dict[str, Any], value: Any
) -> None:
    space.add(Robot("Robot"))
    me = space.add(Agent("me"))
    assert me.ask("Robot", method, **args).result(WAIT_S) == value
    assert type(me.ask("Robot", method, timeout=WAIT_S, **args).result()) is type(value)


def test_ask_by_a_method_is_awaited_and_cancelled_as_any_request(space: Any) -> None:
    space.add(Robot("Robot"))

    class Asker(Agent):
        @action
        async def go(self) -> float:
            return (await self.ask("Robot", Robot.subclass)).x

    me = space.add(Asker("me"))
    assert me.ask("me", Asker.go).result(WAIT_S) == 1.5
    asked = me.ask("away", Robot.subclass)
    asked.cancel()
    with pytest.raises(Exception, match=r"cancelled|no agent"):
        asked.result(WAIT_S)
    assert asked.done()


def test_ask_by_a_method_says_what_does_not_fit(space: Any) -> None:
    space.add(Robot("Robot"))
    me = space.add(Agent("me"))
    with pytest.raises(ActionError, match=r'"Robot.wrong" returned what is not Point: value.x'):
        me.ask("Robot", Robot.wrong).result(WAIT_S)
    with pytest.raises(InvalidMessage, match=r"action.args.to: object is not JSON"):
        me.ask("Robot", Robot.move, to=object())  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="returns object_of_its_own, which has no JSON form"):
        me.ask("Robot", opaque)


class object_of_its_own:
    pass


def opaque() -> object_of_its_own:
    return object_of_its_own()


def test_bytes_travel_as_base64_text(space: Any) -> None:
    space.add(Robot("Robot"))
    me = space.add(Agent("me"))
    described = me.ask("Robot", "help", action_name="reversed").result(WAIT_S)["reversed"]
    base64 = {"type": "string", "contentEncoding": "base64"}
    assert described["args"]["data"] == described["returns"] == base64
    assert me.ask("Robot", "reversed", data=b"\x00\xff").result(WAIT_S) == "/wA="
    assert me.ask("Robot", "reversed", data="AP8=").result(WAIT_S) == "/wA="
    assert me.ask("Robot", "length", data="AP8=").result(WAIT_S) == 2
    for wrong in ("A", "ä", 5):
        with pytest.raises(InvalidArguments, match=r'argument "data" must be base64 text, not'):
            me.ask("Robot", "reversed", data=wrong).result(WAIT_S)
