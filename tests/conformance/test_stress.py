"""Many agents and threads at once: nothing is lost, doubled, hung or out of order."""

import asyncio
import random
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.conftest import message
from moothall import Agent, action
from moothall.foundation.errors import (
    ActionError,
    AgentNotFound,
    AgentStopped,
    DuplicateAgent,
    NotInSpace,
    RequestCancelled,
    RequestError,
    RequestTimeout,
)

LONG_S = 300

SIZES = [
    pytest.param((1000, 6), id="quick"),
    pytest.param((1000, 60), id="long", marks=pytest.mark.long),
]
ROUNDS = [
    pytest.param(20, id="quick"),
    pytest.param(1000, id="long", marks=pytest.mark.long),
]


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest, load: Callable[[int], int]) -> tuple[int, int]:
    """How many agents, and how often each of them asks."""
    agents, rounds = request.param
    # Over a broker, a thousand agents take longer to come than to ask each other.
    return (load(agents), rounds) if rounds < 10 else (agents, load(rounds))


@pytest.fixture(params=ROUNDS)
def rounds(request: pytest.FixtureRequest, load: Callable[[int], int]) -> int:
    """How often something is done."""
    return load(request.param)


@pytest.fixture(
    params=[
        pytest.param(None, id="as it is"),
        pytest.param(1e-5, id="often", marks=pytest.mark.long),
    ]
)
def switching(request: pytest.FixtureRequest) -> Iterator[None]:
    """How often threads take turns: as Python has it, or far more often."""
    before = sys.getswitchinterval()
    if request.param is not None:
        sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(before)


class Peer(Agent):
    """Asks and tells others at random, and keeps what it is told by whom."""

    def __init__(self, id: str, peers: int, first: int = 0, **kwargs: Any) -> None:
        super().__init__(id, **kwargs)
        self.random = random.Random(id)
        self.first = first
        self.peers = peers
        self.told: defaultdict[str, list[int]] = defaultdict(list)
        self.sent: Counter[str] = Counter()

    def other(self) -> str:
        return f"peer {self.random.randrange(self.first, self.peers)}"

    def tell_next(self, to: str) -> None:
        self.send(message(to, "tell", n=self.sent[to]))
        self.sent[to] += 1

    @action
    async def tell(self, n: int) -> None:
        handled = self.current_message
        assert handled is not None
        self.told[handled["from"]].append(n)

    @action
    async def double(self, n: int) -> int:
        return 2 * n

    @action
    async def double_later(self, n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    @action
    def double_plainly(self, n: int) -> int:
        return 2 * n

    @action
    async def play(self, rounds: int) -> int:
        """Ask at random; gives how many answers were right."""
        right = 0
        for n in range(rounds):
            to = self.other()
            self.tell_next(to)
            how = self.random.random()
            if how < 0.5:
                right += await self.ask(to, "double", n=n) == 2 * n
            elif how < 0.7:
                right += await self.ask(to, "double_later", n=n) == 2 * n
            elif how < 0.75:
                right += await self.ask(to, "double_plainly", n=n) == 2 * n
            else:
                asked = (self.ask(self.other(), "double", n=n) for _ in range(3))
                right += await asyncio.gather(*asked) == [2 * n] * 3
            self.tell_next(to)
        return right


@pytest.mark.long
@pytest.mark.timeout(LONG_S)
@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("whom", (pytest.param("anyone", marks=pytest.mark.long), "those behind"))
def test_agents_by_the_thousand_ask_each_other_at_random(
    space: Any, size: tuple[int, int], whom: str
) -> None:
    n, rounds = size
    # Two that handle one message at a time and ask each other wait for each other, whatever the
    # space does. So either there is room for a second message beside the one that asks, or who is
    # asked never asks back.
    if whom == "anyone":
        peers = [space.add(Peer(f"peer {i}", n, concurrency=2)) for i in range(n)]
    else:
        peers = [space.add(Peer(f"peer {i}", n, first=min(i + 1, n - 1))) for i in range(n)]
    me = space.add(Agent("me"))
    games = [me.request(message(peer.id, "play", rounds=rounds), timeout=LONG_S) for peer in peers]
    assert [game.result(timeout=LONG_S) for game in games] == [rounds] * n
    for peer in peers:
        me.ask(peer.id, "help").result(timeout=LONG_S)
    for peer in peers:
        for to, sent in peer.sent.items():
            receiver = peers[int(to.split()[1])]
            told = receiver.told[str(peer.id)]
            # Beside another, a message may be handled before one that came earlier.
            assert (sorted(told) if whom == "anyone" else told) == list(range(sent))
    statistics = space.statistics()
    assert statistics["deadlines"] == 0
    assert all(
        each == {"waiting": 0, "handling": [], "asking": 0}
        for each in statistics["agents"].values()
    )


class Member(Peer):
    """Does only what ends by itself, so that members may ask each other without locking up."""

    @action
    async def chain(self, n: int, hops: int) -> int:
        if not hops:
            return n
        self.tell_next(self.other())
        return await self.ask(self.other(), "chain", n=n, hops=hops - 1)

    @action
    def chain_plainly(self, n: int, hops: int) -> int:
        if not hops:
            return n
        return self.ask(self.other(), "chain_plainly", n=n, hops=hops - 1).result(timeout=LONG_S)


@pytest.mark.timeout(LONG_S)
@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("form", ("chain", "chain_plainly"))
def test_chains_that_revisit_agents_all_end(space: Any, rounds: int, form: str) -> None:
    # One chain at a time over few agents: most steps come back to an agent that waits.
    members = [space.add(Member(f"peer {i}", 5)) for i in range(5)]
    me = space.add(Agent("me"))
    for n in range(rounds):
        hops = n % 20
        assert me.ask(f"peer {n % 5}", form, n=n, hops=hops).result(timeout=LONG_S) == n
    for member in members:
        me.ask(member.id, "help").result(timeout=LONG_S)
    for member in members:
        for to, sent in member.sent.items():
            assert members[int(to.split()[1])].told[member.id] == list(range(sent))


@pytest.mark.timeout(LONG_S)
@pytest.mark.usefixtures("switching")
def test_eight_threads_send_and_ask(space: Any, rounds: int) -> None:
    peers = [space.add(Peer(f"peer {i}", 20)) for i in range(20)]
    senders = [space.add(Peer(f"sender {i}", 20)) for i in range(8)]
    right: list[int] = []

    def play(sender: Peer) -> None:
        good = 0
        for n in range(rounds):
            waiting = []
            for _ in range(5):
                to = sender.other()
                sender.tell_next(to)
                name = ("double", "double_later", "double_plainly")[n % 3]
                waiting.append(sender.ask(to, name, n=n))
                sender.tell_next(to)
            if n % 5 == 0:
                waiting.pop().cancel()
            good += sum(each.result(timeout=LONG_S) == 2 * n for each in waiting)
        right.append(good)

    threads = [threading.Thread(target=play, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert right == [rounds * 5 - len(range(0, rounds, 5))] * 8
    for sender in senders:
        for peer in peers:
            sender.ask(peer.id, "help").result(timeout=LONG_S)
        for to, sent in sender.sent.items():
            assert peers[int(to.split()[1])].told[str(sender.id)] == list(range(sent))


class Restless(Agent):
    """Adds and removes agents, itself included, from within its actions."""

    @action
    async def fetch(self, id: str) -> str:
        try:
            self.space.add(Restless(id))
        except (DuplicateAgent, AttributeError):
            return "there"
        return "added"

    @action
    def fetch_plainly(self, id: str) -> str:
        try:
            self.space.add(Restless(id))
        except (DuplicateAgent, AttributeError):
            return "there"
        return "added"

    @action
    async def chase(self, id: str) -> str:
        try:
            self.space.remove(id)
        except (AgentNotFound, AttributeError):
            return "gone"
        return "removed"

    @action
    def chase_plainly(self, id: str) -> str:
        try:
            self.space.remove(id)
        except (AgentNotFound, AttributeError):
            return "gone"
        return "removed"

    @action
    async def think(self) -> str:
        await asyncio.sleep(0)
        return "thought"

    @action
    async def ask_behind(self, id: str) -> str:
        """Ask one behind: two that ask each other would wait for each other."""
        if id <= str(self.id):
            return await self.think()
        try:
            found: str = await self.ask(id, "think")
        except RequestError as error:
            return type(error).__name__
        return found


@pytest.mark.timeout(LONG_S)
@pytest.mark.usefixtures("switching")
def test_agents_come_and_go_under_load(space: Any, rounds: int) -> None:
    ids = [f"r {i}" for i in range(10)]
    for id in ids:
        space.add(Restless(id))
    callers = [space.add(Agent(f"caller {i}")) for i in range(4)]
    outcomes: Counter[str] = Counter()
    wrong: list[BaseException] = []
    lock = threading.Lock()

    def play(caller: Agent) -> None:
        chance = random.Random(str(caller.id))
        for _ in range(rounds * 5):
            name = chance.choice(
                ["fetch", "fetch", "fetch_plainly", "chase", "chase_plainly", "ask_behind", "think"]
            )
            args = {} if name == "think" else {"id": chance.choice(ids)}
            try:
                if chance.random() < 0.2:
                    caller.space.add(Restless(chance.choice(ids)))
                request = caller.request(message(chance.choice(ids), name, **args), timeout=30)
                outcome = request.result(timeout=LONG_S)
            except DuplicateAgent:
                outcome = "there"
            except (AgentNotFound, AgentStopped) as error:
                outcome = type(error).__name__
            except BaseException as error:
                wrong.append(error)
                return
            with lock:
                outcomes[outcome] += 1

    threads = [threading.Thread(target=play, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert wrong == []
    assert sum(outcomes.values()) == rounds * 5 * 4
    assert {"added", "removed", "thought"} <= outcomes.keys()
    for id in ids:
        if id not in space.ids():
            space.add(Restless(id))
        assert callers[0].ask(id, "think").result(timeout=LONG_S) == "thought"
    assert all(each["handling"] == [] for each in space.statistics()["agents"].values())


class Leaver(Agent):
    @action
    async def leave(self) -> str:
        self.space.remove(self)
        return "left"

    @action
    def leave_plainly(self) -> str:
        self.space.remove(self)
        return "left"

    @action
    async def think(self) -> None:
        await asyncio.sleep(0)


@pytest.mark.timeout(LONG_S)
@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("form", ("leave", "leave_plainly"))
def test_agent_that_leaves_by_itself_answers_first_under_load(
    space: Any, rounds: int, form: str
) -> None:
    stop = threading.Event()
    senders = [space.add(Agent(f"sender {i}")) for i in range(3)]

    def send(sender: Agent) -> None:
        while not stop.is_set():
            try:
                sender.ask("leaver", "think").result(timeout=LONG_S)
            except (AgentNotFound, AgentStopped):
                continue

    threads = [threading.Thread(target=send, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    me = space.add(Agent("me"))
    found = []
    try:
        for _ in range(rounds):
            space.add(Leaver("leaver"))
            try:
                found.append(me.ask("leaver", form).result(timeout=LONG_S))
            except RequestError as error:
                found.append(type(error).__name__)
    finally:
        stop.set()
        for thread in threads:
            thread.join(LONG_S)
    assert found == ["left"] * rounds
    assert "leaver" not in space.ids()


class Target(Agent):
    """Counts what began and what ended, of whatever was cancelled at whatever moment."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.begun = 0
        self.ended = 0

    @action
    async def work(self, steps: int) -> int:
        self.begun += 1
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
        finally:
            self.ended += 1
        return steps

    @action
    async def pass_on(self, to: str, steps: int) -> int:
        self.begun += 1
        try:
            value: int = await self.ask(to, "work", steps=steps)
            return value
        finally:
            self.ended += 1


@pytest.mark.timeout(LONG_S)
@pytest.mark.usefixtures("switching")
def test_requests_cancelled_at_any_moment_have_one_outcome(space: Any, rounds: int) -> None:
    targets = [space.add(Target(f"target {i}")) for i in range(5)]
    callers = [space.add(Agent(f"caller {i}")) for i in range(4)]
    outcomes: Counter[str] = Counter()
    wrong: list[Any] = []
    lock = threading.Lock()

    def play(caller: Agent) -> None:
        chance = random.Random(str(caller.id))
        for _ in range(rounds * 3):
            steps = chance.randrange(5)
            first, second = sorted(chance.sample(range(5), 2))
            if chance.random() < 0.5:
                asked = message(f"target {first}", "work", steps=steps)
            else:
                to = f"target {second}"
                asked = message(f"target {first}", "pass_on", to=to, steps=steps)
            # Only to those behind: two that ask each other would wait for each other.
            request = caller.request(asked, timeout=chance.choice([0, 0.02, 2]))
            how = chance.random()
            if how < 0.2:
                del request
                continue
            if how < 0.6:
                request.cancel()
            found: list[Any] = []
            for _ in range(2):
                try:
                    found.append(request.result(timeout=LONG_S))
                except (RequestCancelled, RequestTimeout) as error:
                    found.append(type(error).__name__)
                except ActionError as error:
                    found.append(error.type)
            if found[0] != found[1] or found[0] not in (
                steps,
                "RequestCancelled",
                "RequestTimeout",
            ):
                wrong.append([steps, *found])
            with lock:
                outcomes[str(found[0])] += 1

    threads = [threading.Thread(target=play, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert wrong == []
    assert {"RequestCancelled", "1"} <= outcomes.keys()
    for target in targets:
        assert callers[0].ask(target.id, "work", steps=1).result(timeout=LONG_S) == 1
        assert target.begun == target.ended
    statistics = space.statistics()
    assert all(
        each == {"waiting": 0, "handling": [], "asking": 0}
        for each in statistics["agents"].values()
    )
    assert statistics["deadlines"] == 0


@pytest.mark.timeout(LONG_S)
def test_spaces_open_and_close_under_load(make_space: Any, rounds: int) -> None:
    for n in range(rounds // 4):
        space = make_space()
        peers = [space.add(Peer(f"peer {i}", 5)) for i in range(5)]
        games = [peer.ask(f"peer {i}", "double_later", n=i) for i, peer in enumerate(peers)]
        if n % 2:
            assert [game.result(timeout=LONG_S) for game in games] == [0, 2, 4, 6, 8]
        space.close()
        assert all(game.done() for game in games)
        for peer in peers:
            with pytest.raises(NotInSpace):
                peer.ask("peer 0", "double", n=1)


@pytest.mark.timeout(LONG_S)
@pytest.mark.usefixtures("switching")
def test_spaces_ask_each_other_under_load(make_space: Any, rounds: int) -> None:
    here, there = make_space(), make_space()

    class Bridge(Peer):
        envoy: Agent

        @action
        async def across(self, n: int) -> int:
            value: int = await self.envoy.ask(f"leaf {n % 5}", "double_later", n=n)
            return value

        @action
        def across_plainly(self, n: int) -> int:
            value: int = self.envoy.ask(f"leaf {n % 5}", "double", n=n).result(timeout=LONG_S)
            return value

    for space, other in ((here, there), (there, here)):
        envoy = other.add(Agent("envoy"))
        for i in range(5):
            bridge = Bridge(f"peer {i}", 5)
            bridge.envoy = envoy
            space.add(bridge)
            space.add(Peer(f"leaf {i}", 5))
    mine = [here.add(Agent("me")), there.add(Agent("me"))]
    for n in range(rounds):
        name = "across_plainly" if n % 4 == 0 else "across"
        asked = [me.ask(f"peer {i}", name, n=n + i) for me in mine for i in range(5)]
        found = [each.result(timeout=LONG_S) for each in asked]
        assert found == [2 * (n + i) for i in range(5)] * 2
