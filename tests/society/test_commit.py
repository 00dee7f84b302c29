"""The commit stage: who gets the last place, who is paid first, and that money only moves."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from moothall.foundation.errors import StateError
from moothall.society import (
    Answer,
    Books,
    Buy,
    CitizenAgent,
    City,
    Follow,
    Grid,
    Like,
    Move,
    Network,
    Pay,
    Place,
    Population,
    Post,
    RowBlock,
    Rows,
    Save,
    Service,
    Society,
    Want,
    Work,
)
from society.life import Bank, Noting, Places, living, said, town


def wanting(*wants: Want, id: str | int = 1, **status: Any) -> CitizenAgent:
    """A citizen that wants this in step 0, and keeps the answers in its status."""

    def want(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            for each in wants:
                me.want(each)
        for answer in me.perceived.answers:
            told = me.status.setdefault("told", [])
            told.append(answer.reason if not answer.done else answer.value)

    return living(want, id=id, **status)


async def after(steps: int, *citizens: CitizenAgent, **options: Any) -> Society:
    society = Society(citizens, **options)
    await society.run(steps=steps)
    society.close()
    return society


async def test_commit_answer_comes_once_in_the_next_step() -> None:
    ann = wanting(Pay("2", 4), Pay("3", 1), money=9)
    await after(4, ann, wanting(id=2))
    assert ann.status["told"] == [None, "there is no 3 who could be paid"]


async def test_commit_full_place_keeps_the_reservation_of_a_traveller() -> None:
    def go(me: CitizenAgent) -> None:
        me.want(Move("b" if me.perceived.step < 2 else "c", "crawl"))
        me.memory.note(me.perceived.step, str([each.reason for each in me.perceived.answers]))

    ann, ben = living(go, home="a"), living(go, id=2, home="a")
    async with Society([ann, ben], Places(a=9, b=1, c=9)) as society:
        rows = await society.run(steps=2)
        assert [row["moving"] for row in rows] == [1, 1]
        assert ben.memory.stream[1] == (1, "['b is full']")
        await society.run(steps=1)
        assert ann.memory.stream[2] == (2, "['on the way to b']")
        society.remove(ann)
        society.add(wanting(Move("b"), id=3, home="c"))
        society.agents[-1].want(Move("b"))
        row = await society.step()
        assert (row["moving"], row["failures"]) == (2, 0)


async def test_places_next_to_each_other_are_a_step_apart() -> None:
    both = [Place(id, "work", 0, 0, 9, node="n") for id in ("a", "b")]
    ann = wanting(Move("b", "walk"), home="a", work="a")
    society = await after(2, ann, city=City(both, nodes={"n": (0, 0)}))
    assert ann.status["told"] == [1]
    # Who works at home is at home.
    assert [(row["home"], row["work"]) for row in society.metrics] == [(0, 0)] * 2
    (row,) = (await after(1, wanting(home="a", work="a"), city=town())).metrics
    assert (row["home"], row["work"]) == (1, 0)


async def test_commit_citizen_without_a_place_arrives_in_the_next_step() -> None:
    ann = wanting(Move("b"))
    async with Society([ann], town()) as society:
        await society.run(steps=1, step="1s")
    assert ann.status["place"] == "b"


async def test_commit_citizen_on_its_way_without_a_city_arrives() -> None:
    way = {"to": "b", "arrives": 2, "mode": None, "from": "a", "left": 0}
    ann, ben = wanting(moving=way), wanting(id=2, place="c", work="d")
    await after(3, ann, ben, services=[Bank()])
    assert (ann.status["place"], ben.status["place"]) == ("b", "c")


async def test_commit_of_services_at_one_place_lets_the_first_settle() -> None:
    class Stall(Service):
        takes = (Buy,)

        def settle(self, books: Books, sender: str, want: Want) -> Answer:
            return Answer(want, True, value=self.id)

    ann = wanting(Buy("b", "food", 5))
    await after(2, ann, services=[Stall(id, "b") for id in ("11", "x", "9")])
    assert ann.status["told"] == ["9"]


async def test_commit_gives_the_last_place_to_one_of_those_who_come_never_of_those_there() -> None:
    city = Places(a=None, b=2)
    there = wanting(id=30, home="b")
    ten, nine = (wanting(Move("b"), id=id, home="a") for id in (10, 9))
    await after(2, there, ten, nine, city=city)
    assert there.status["place"] == "b"
    assert sorted(each.status["place"] for each in (nine, ten)) == ["a", "b"]
    assert sorted(str(each.status["told"]) for each in (nine, ten)) == ["['b is full']", "[1]"]


async def test_commit_traveller_keeps_its_place_and_arrives_in_time() -> None:
    places: list[Any] = []

    def watch(me: CitizenAgent) -> None:
        if me.perceived.step == 0:
            me.want(Move("b", "crawl"))
        places.append((me.perceived.place, me.status["moving"]))

    late = living(lambda me: me.want(Move("b")), id=2, home="a")
    await after(6, living(watch, home="a"), late, city=Places(a=None, b=1))
    moving = {"to": "b", "arrives": 4, "mode": "crawl", "from": "a", "left": 0}
    on_the_way = (None, moving)
    assert places == [("a", None), *[on_the_way] * 3, ("b", None), ("b", None)]
    assert late.status["place"] == "a"


@pytest.mark.parametrize(
    ("want", "told"),
    (
        (Move("a"), 0),
        (Move("c", "swim"), "there is no way from a to c"),
        (Pay("2", 101), "1 has 100 cents, not 101"),
        (Pay("2", 0), "cents must be 1 or more, got 0"),
        (Pay(2, 101), "1 has 100 cents, not 101"),  # type: ignore[arg-type]
        (Pay("2", True), "cents must be 1 or more, got True"),
        (Pay("9", 1), "there is no 9 who could be paid"),
        (Save(7), 7),
        (Work("a", 900), "no service at a takes Work"),
        (Buy("a", "food", 5), "no service at a takes Buy"),
        (Post("hello"), "no service takes Post"),
        (Follow("2"), "no service takes Follow"),
        (Like(3), "no service takes Like"),
        # Whatever a model or a message has as arguments, it costs nobody else the step.
        (Pay(["2"], 1), "there is no ['2'] to pay"),  # type: ignore[arg-type]
        (Work([], 900), "no service at [] takes Work"),  # type: ignore[arg-type]
        (Move(["b"]), "there is no place ['b']"),  # type: ignore[arg-type]
    ),
)
async def test_commit_refused_want_says_why(want: Want, told: Any) -> None:
    citizen = wanting(want, home="a", money=100)
    await after(2, citizen, wanting(id=2), city=town(), services=[Bank()])
    assert citizen.status["told"] == [told]


@dataclass(frozen=True)
class Borrow(Want):
    """A want that moothall does not know."""

    book: str

    def __post_init__(self) -> None:
        if not self.book:
            raise ValueError("a book has a title")


class Renew(Borrow):
    """A kind of a kind of one's own."""


class Library(Service):
    """Lends a book."""

    takes = (Borrow, Renew)

    def settle(self, books: Books, sender: str, want: Any) -> Answer:
        """Lend it."""
        return Answer(want, True, value=f"{want.book} to {sender}")


class Saves(RowBlock):
    """Saves a cent in each step."""

    def step_rows(self, rows: Rows) -> None:
        """Save."""
        rows.want(Save, rows["money"] > 0, cents=1)


async def test_commit_settles_a_want_of_ones_own_and_continues_from_a_state() -> None:
    told: dict[Any, list[Any]] = {}

    def borrow(me: CitizenAgent) -> None:
        heard = [message["action"]["args"] for message in me.perceived.messages]
        told[me.id] = [*me.perceived.answers, *heard]
        if me.id == 1:
            me.want(Renew("Emma"))
        else:
            borrowed = {"name": "borrow", "args": {"book": "Emma"}}
            me.send({"to": "library", "action": borrowed})

    def made() -> Society:
        people = [living(borrow, id=id) for id in (1, 2)]
        return Society(people, services=[Library("library")])

    async with made() as society, made() as branch:
        await society.run(steps=2)
        branch.load_state_dict(society.state_dict())
        told.clear()
        await branch.run(steps=1)
    assert told[1] == [Answer(Renew("Emma"), True, "", "Emma to 1")]
    assert told[2][0]["data"]["value"] == "Emma to 2"


async def test_commit_message_with_wrong_arguments_is_answered_by_an_error() -> None:
    reader = Noting("reader")
    async with Society([reader], services=[Library("library")]) as society:
        for args in ({"book": ""}, {"title": "Emma"}):
            reader.send(said("library", "borrow", **args))
        reader.send(said("library", "steal", book="Emma"))
        await society.run(steps=2)
    assert [args["error"] for _, _, args in reader.heard] == [
        "action.args do not fit borrow: {'book': ''}",
        "action.args do not fit borrow: {'title': 'Emma'}",
        "action.name must be one of move, pay, work, buy, save, post, follow, unfollow, like, "
        "got 'steal'",
    ]


async def test_commit_wrong_want_fails_the_turn() -> None:
    society = await after(1, wanting(5), wanting(id=2))  # type: ignore[arg-type]
    assert society.failures[0][2].startswith("DefinitionError: want must be a Want such as Move")


async def test_commit_without_a_city_or_to_an_unknown_place_moves_nobody() -> None:
    citizen = wanting(Move("b"))
    await after(2, citizen)
    assert citizen.status["told"] == ["there is no city"]
    grid = Grid(3, 3)
    first, *_ = grid.ids()
    lost = wanting(Move("nowhere"), home=first)
    await after(2, lost, city=grid)
    assert "nowhere" in lost.status["told"][0]
    islands = SimpleNamespace(ids=lambda: ("a", "b"))
    stays = wanting(Move("b"), home="a")
    await after(2, stays, city=islands)
    assert stays.status["told"] == ["SimpleNamespace has no travel times: no `seconds`"]
    streets = City([Place("x", "home", 0, 0), Place("y", "home", 9, 0)], [("x", "y", 9)])
    for city, home, told in (
        (streets, "x", 'mode must be one of walk, cycle, drive, transit; got "fly"'),
        (grid, first, 'mode must be None: only a City has modes; got "fly"'),
    ):
        flies = wanting(Move("y" if city is streets else "1,1", "fly"), home=home)
        await after(2, flies, city=city)
        assert flies.status["told"] == [told]
    homeless = wanting(Move("nowhere"))
    await after(2, homeless, city=Network.from_edges([("x", "y")]))
    assert homeless.status["told"] == ["there is no place 'nowhere'"]


async def test_wages_come_before_payments_and_payments_go_by_id() -> None:
    class Firm(Service):
        takes = (Work, Buy)

        def settle(self, books: Books, sender: str, want: Want) -> Answer:
            if isinstance(want, Work):
                return Answer(want, not books.pay(self.id, sender, 100), value=100)
            assert isinstance(want, Buy)
            reason = books.pay(sender, self.id, want.cents)
            return Answer(want, not reason, reason)

    poor = wanting(Buy("a", "food", 60), Pay("2", 50), Work("a", 900), id=1)
    heir = wanting(Pay("1", 40), id=2)
    firm = Firm("firm-1", "a", 100)
    society = await after(2, poor, heir, city=town(), services=[firm])
    # The wage of 100, then 50 to the heir, then 40 back from it, then 60 for food.
    assert poor.status["told"] == [None, None, 100]
    assert poor.status["money"] == 30
    assert heir.status["money"] == 10
    assert society.books.balances["firm-1"] == 60
    assert [row["money"] for row in society.metrics] == [100, 100]


async def test_commit_service_that_makes_money_ends_the_run() -> None:
    class Mint(Bank):
        def after_step(self, books: Books) -> None:
            books.balances[self.id] += 1

    with pytest.raises(StateError, match="there were 100 cents and now there are 101"):
        await after(1, wanting(money=100), services=[Mint()])


@pytest.mark.parametrize(
    ("cents", "told"),
    (
        ({"1": -5, "2": 205}, "step 1: 1 has -5 cents"),
        ({"bank": -5, "2": 105}, "step 1: bank has -5 cents"),
    ),
)
async def test_books_that_do_not_agree_end_the_run(cents: dict[str, int], told: str) -> None:
    class Spoils(Bank):
        def after_step(self, books: Books) -> None:
            for id, each in cents.items() if books.step == 1 else ():
                books.balances[id] = each

    people = [living(lambda me: None, id=id, home="a", money=100) for id in (1, 2)]
    async with Society(people, Places(a=2, b=1), services=[Spoils()]) as society:
        with pytest.raises(StateError) as caught:
            await society.run(steps=3)
        assert str(caught.value).startswith(told)
        with pytest.raises(StateError, match="step 1 was broken off: resume from its journal"):
            await society.step()


@pytest.mark.parametrize(("id", "told"), (("1", "step 0: 1 has -5 cents"), ("bank", "bank has -8")))
async def test_commit_leaves_no_account_of_a_population_below_0(id: str, told: str) -> None:
    class Spoils(Bank):
        def after_step(self, books: Books) -> None:
            cents = 104 if id == "1" else 15
            books.balances[id] -= cents
            books.balances["2"] += cents

    async with Society(
        Population({"money": [100, 100]}, blocks=[Saves()]), services=[Spoils(money=5)]
    ) as society:
        with pytest.raises(StateError, match=told):
            await society.run(steps=1)


async def test_commit_service_that_fails_refuses_that_want_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Torn(Bank):
        def settle(self, books: Books, sender: str, want: Want) -> Answer:
            if sender == "1":
                raise ZeroDivisionError("oh")
            return super().settle(books, sender, want)

    torn, fine = wanting(Save(5), id=1, money=10), wanting(Save(5), id=2, money=10)
    society = await after(2, torn, fine, services=[Torn()])
    assert torn.status["told"] == ["bank failed: ZeroDivisionError: oh"]
    said = "ZeroDivisionError: oh (test_commit.py, line "
    assert society.failures[0][:2] == (0, "service 'bank'")
    assert society.failures[0][2].startswith(said)
    told = [each for each in caplog.messages if said in each]
    assert told[0].startswith("service 'bank' failed on Save(cents=5) in step 0: ")
    assert len(told) == 1
    assert fine.status["told"] == [5]


async def test_commit_service_that_gives_no_answer_or_cannot_end_a_step_is_named() -> None:
    class Silent(Bank):
        def settle(self, books: Books, sender: str, want: Want) -> Answer:
            return None  # type: ignore[return-value]

    class Curt(Bank):
        def settle(self, books: Books, sender: str, want: Want) -> Answer:
            return True  # type: ignore[return-value]

    for service, given in ((Silent, None), (Curt, True)):
        asked = wanting(Save(5), money=10)
        await after(2, asked, services=[service()])
        said = f"bank failed: DefinitionError: settle must return an Answer, got {given}"
        assert asked.status["told"] == [said]
    rows = Population({"money": [10, 10]}, blocks=[Saves()])
    async with Society(rows, services=[Silent()]) as society:
        await society.run(steps=2)
        assert society.books.balances["1"] == 10

    class Torn(Bank):
        def after_step(self, books: Books) -> None:
            raise ZeroDivisionError("oh")

    for citizens in ([wanting()], Population(2)):
        async with Society(citizens, services=[Torn()]) as society:
            with pytest.raises(StateError, match="'bank', after_step of step 0: ZeroDivisionEr"):
                await society.step()


async def test_capacity_money_and_places_hold_in_every_step() -> None:
    from society.life import busy

    async with Society(busy(24), Places(a=9, b=8, c=8), seed=8, services=[Bank()]) as society:
        for _ in range(20):
            row = await society.step()
            assert row["money"] == 2400
            assert row["failures"] == 0
            at = society.books.at
            assert all(
                len(at.get(place, ())) <= most for place, most in zip("abc", (9, 8, 8), strict=True)
            )
            there = [id for place in "abc" for id in at.get(place, ())]
            moving = [id for id, place in society.books.where.items() if place is None]
            assert sorted(there + moving, key=int) == [str(number) for number in range(24)]


async def test_metrics_owned_money_includes_deposits() -> None:
    society = await after(1, wanting(Save(30), money=50), services=[Bank(money=7)])
    (row,) = society.metrics
    assert (row["owned"], row["money"], society.books.balances["bank"]) == (50, 57, 37)


@pytest.mark.parametrize(("length", "steps"), (("5min", 6), ("1min", 30), ("20min", 2)))
async def test_commit_traveller_arrives_in_time_after_a_change_of_step(
    length: str, steps: int
) -> None:
    citizen = wanting(Move("b", "crawl"), home="a")
    async with Society([citizen], Places(a=9, b=8)) as society:
        await society.run(steps=2, step="10min")  # of the 50 minutes
        await society.run(steps=steps - 1, step=length)
        assert citizen.status["place"] is None
        assert citizen.status["moving"]["arrives"] == society.number + 1
        await society.run(steps=1, step=length)
        assert citizen.status["place"] == "b"
