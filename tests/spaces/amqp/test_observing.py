"""What is seen of a space: messages here and everywhere, the connection, what waits."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pika
import pytest
from benchmarks.broker import Broker
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

from conformance.conftest import Kept, Recorder, message
from conformance.gate import Holder
from moothall import Agent, AgentNotFound, AMQPOptions, SpaceClosed
from moothall.foundation.errors import ActionError, DefinitionError
from spaces.amqp.conftest import WAIT_S, MakeSpace
from spaces.amqp.worker import Notes, Worker


def short(messages: list[dict[str, Any]]) -> Counter[str]:
    """Each message as `from > to: name what`, with how often it was seen."""
    found: Counter[str] = Counter()
    for each in messages:
        args = each["action"]["args"]
        what = next((str(args[k]) for k in ("value", "data", "error", "content") if k in args), "")
        found[f"{each['from']} > {each['to']}: {each['action']['name']} {what}".rstrip()] += 1
    return found


def talk(here: Recorder, other: Recorder) -> None:
    """A request, a failure, sends, answers and a broadcast, between two processes."""
    here.ask("there", "echo", value="asked").result(timeout=WAIT_S)
    here.ask("there", "echo").result(timeout=WAIT_S)
    with pytest.raises(ActionError):
        here.ask("there", "fail").result(timeout=WAIT_S)
    here.send({"id": "s", **message("there", "echo", value="sent")})
    here.send({"id": "f", **message("there", "fail")})
    here.wait_for(2)
    here.send(message("*", "say", content="to all"))
    here.wait_for(3)
    other.wait_for(1)
    here.ask("here", "help").result(timeout=WAIT_S)


TALK = Counter(
    {
        "here > there: echo asked": 1,
        "there > here: response asked": 1,
        "here > there: echo": 1,
        "here > there: fail": 2,
        "there > here: error ValueError: in vain": 2,
        "here > there: echo sent": 1,
        "there > here: response sent": 1,
        "here > *: say to all": 1,
        "here > here: help": 1,
        "here > here: response {'say': {'description': 'Keep what is said.', 'args': {'content':"
        " {'type': 'string'}}, 'returns': {'type': 'null'}}}": 1,
    }
)


def without_help(seen: Counter[str]) -> Counter[str]:
    """What was seen but for the last request, which only shows that all before it is done."""
    return Counter({line: n for line, n in seen.items() if not line.startswith("here > here")})


def test_amqp_observe_shows_messages_of_the_process_once(make_space: MakeSpace) -> None:
    one, two, three = make_space(), make_space(), make_space()
    seen: list[Kept[dict[str, Any]]] = [Kept(), Kept(), Kept()]
    for space, kept in zip((one, two, three), seen, strict=True):
        space.observe(kept.add)
    here = one.add(Recorder("here"))
    two.add(Worker("there", Notes("/dev/null")))
    other = three.add(Recorder("other"))
    talk(here, other)
    expected = without_help(TALK)
    assert without_help(short(seen[0])) == expected
    seen[1].wait_for(lambda kept: sum(short(kept).values()) >= sum(expected.values()))
    assert short(seen[1]) == expected
    assert short(seen[2]) == Counter({"here > *: say to all": 1})


def test_everywhere_sees_all_processes_once(make_space: MakeSpace) -> None:
    watcher = make_space()
    seen: Kept[dict[str, Any]] = Kept()
    watcher.observe(seen.add, everywhere=True)
    me = watcher.add(Agent("watcher"))
    here = make_space().add(Recorder("here"))
    make_space().add(Worker("there", Notes("/dev/null")))
    other = make_space().add(Recorder("other"))
    talk(here, other)
    me.ask("other", "help").result(timeout=WAIT_S)
    seen.wait_for(lambda kept: any(m["to"] == "watcher" for m in kept))

    def others(kept: list[dict[str, Any]]) -> Counter[str]:
        return without_help(short([m for m in kept if "watcher" not in (m["from"], m["to"])]))

    expected = without_help(TALK)
    # What each process tells of comes by a way of its own.
    seen.wait_for(lambda kept: sum(others(kept).values()) >= sum(expected.values()))
    assert others(seen) == expected


def test_amqp_observe_everywhere_works_in_a_space_without_agents(make_space: MakeSpace) -> None:
    watcher = make_space()
    seen: Kept[dict[str, Any]] = Kept()
    watcher.observe(seen.add, everywhere=True)
    here = make_space().add(Recorder("here"))
    here.send(message("here", "say", content="x"))
    seen.wait_for(lambda kept: any(m["action"]["name"] == "say" for m in kept))


def test_everywhere_after_the_space_is_in_use_and_twice(make_space: MakeSpace) -> None:
    space = make_space()
    me = space.add(Agent("me"))
    first: Kept[dict[str, Any]] = Kept()
    second: Kept[dict[str, Any]] = Kept()
    other = make_space().add(Recorder("other"))
    space.observe(first.add, everywhere=True)
    space.observe(second.add, everywhere=True)

    other.send(message("other", "say", content="at once"))
    assert me.ask("other", "help").result(timeout=WAIT_S)
    for kept in (first, second):
        kept.wait_for(lambda kept: any(m["to"] == "me" for m in kept))
        assert sorted(m["from"] for m in kept) == ["me", "other", "other"]


def test_amqp_observe_everywhere_from_threads_misses_no_message_after_return(
    make_space: MakeSpace,
) -> None:
    space = make_space()
    space.add(Agent("me"))
    other = make_space().add(Recorder("other"))

    def observe(word: str) -> None:
        seen: Kept[dict[str, Any]] = Kept()
        space.observe(seen.add, everywhere=True)
        other.send(message("other", "say", content=word))
        seen.wait_for(lambda kept: any(m["action"]["args"].get("content") == word for m in kept))

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(observe, "abcd"))) == 4


def test_amqp_observe_everywhere_keeps_request_with_wait_waiting(
    make_space: MakeSpace,
) -> None:
    """The broker does not return a message that only an observer's queue receives."""
    make_space().observe(lambda message: None, everywhere=True)
    here, there = make_space(), make_space()
    me = here.add(Agent("me"))
    for name in ("later", "never"):
        with pytest.raises(AgentNotFound):
            me.ask(name, "note", name="a").result(timeout=WAIT_S)
    request = me.request(message("later", "note", name="b"), wait=True)
    me.ask("me", "help").result(timeout=WAIT_S)
    later = there.add(Holder("later"))
    assert request.result(timeout=WAIT_S) == "b"
    there.remove("later")
    request = me.request(message("later", "note", name="c"), wait=True)
    with pytest.raises(AgentNotFound):
        me.ask("later", "note", name="d").result(timeout=WAIT_S)
    there.add(later)
    assert request.result(timeout=WAIT_S) == "c"
    assert later.begun == ["b", "c"]


def test_amqp_observe_everywhere_shows_messages_after_thousands(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str
) -> None:
    seen: Kept[dict[str, Any]] = Kept()
    make_space().observe(seen.add, everywhere=True)
    said = json.dumps({"from": "a", **message("nobody", "say", content="x")}).encode()
    for number in range(2_100):
        properties = pika.BasicProperties(message_id=str(number), type="send")
        channel.basic_publish(exchange, "agent.nobody", said, properties)
    seen.wait_for(2_100)


@pytest.mark.parametrize("everywhere", (False, True))
def test_amqp_observer_that_raises_is_removed_and_others_remain(
    make_space: MakeSpace, log: Any, everywhere: bool
) -> None:
    space = make_space()
    calls: list[Any] = []
    seen: Kept[dict[str, Any]] = Kept()

    def bad(shown: dict[str, Any]) -> None:
        calls.append(shown)
        shown["to"] = "elsewhere"
        raise ValueError("cannot watch")

    space.observe(bad, everywhere=everywhere)
    space.observe(seen.add, everywhere=everywhere)
    me = space.add(Recorder("me"))
    for number in range(3):
        me.send(message("me", "say", content=str(number)))
    me.wait_for(3)
    assert "failed and is called no more: ValueError: cannot watch" in log.wait_for("observer")
    seen.wait_for(3)
    assert len(calls) == 1
    assert {m["to"] for m in seen} == {"me"}


def test_amqp_observe_everywhere_skips_unreadable_bodies(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str, log: Any
) -> None:
    space = make_space()
    seen: Kept[dict[str, Any]] = Kept()
    space.observe(seen.add, everywhere=True)
    channel.basic_publish(exchange, "any.key", b"junk", pika.BasicProperties(type="send"))
    me = space.add(Agent("me"))
    me.ask("me", "help").result(timeout=WAIT_S)
    assert [each["from"] for each in seen.wait_for(2)] == ["me", "me"]
    line = log.wait_for("an observer is not shown a message that cannot be read")
    assert line.startswith("WARNING")
    assert "it is not JSON" in line


def test_amqp_observe_everywhere_shows_a_republished_message_once(
    make_space: MakeSpace, channel: BlockingChannel, exchange: str
) -> None:
    space = make_space()
    seen: Kept[dict[str, Any]] = Kept()
    space.observe(seen.add, everywhere=True)
    body = json.dumps({"from": "Ann", **message("Bob", "say", content="twice")}).encode()
    for _ in range(2):
        again = pika.BasicProperties(type="send", message_id="one")
        channel.basic_publish(exchange, "agent.Bob", body, again)
    space.add(Agent("me")).ask("me", "help").result(timeout=WAIT_S)
    assert [each["from"] for each in seen.wait_for(3)] == ["Ann", "me", "me"]


def test_amqp_observe_refuses_anything_but_a_plain_function(make_space: MakeSpace) -> None:
    async def coroutine(shown: dict[str, Any]) -> None:
        raise AssertionError(shown)

    space = make_space()
    for wrong in (coroutine, "print", None):
        for everywhere in (False, True):
            with pytest.raises(DefinitionError, match="plain function"):
                space.observe(wrong, everywhere=everywhere)  # type: ignore[arg-type]
    space.close()
    with pytest.raises(SpaceClosed):
        space.observe(print, everywhere=True)


def test_amqp_observe_everywhere_reconnects_while_the_old_queue_is_locked(
    make_space: MakeSpace, broker: Broker, exchange: str
) -> None:
    """The broker may still hold the exclusive queues of a lost connection."""
    events: Kept[str] = Kept()
    seen: Kept[dict[str, Any]] = Kept()
    with Proxy(broker.port) as proxy:
        space = make_space(
            amqp_options=AMQPOptions("127.0.0.1", proxy.port),
            on_connection=lambda what, text: events.add(what),
        )
        space.observe(seen.add, everywhere=True)
        me = space.add(Recorder("me"))
        me.ask("me", "help").result(timeout=WAIT_S)
        seen.wait_for(1)
        (queue,) = [name for name in broker.queues() if name.startswith(f"{exchange}.observer.")]
        proxy.refuse()
        proxy.cut()
        events.wait_for(lambda found: "retrying" in found)
        with pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", broker.port)
        ) as connection:
            channel: BlockingChannel = connection.channel()
            channel.queue_declare(queue, exclusive=True)
            proxy.accept()
            events.wait_for(lambda found: found.count("connected") == 2)
            before = len(seen)
            me.ask("me", "help").result(timeout=WAIT_S)
        seen.wait_for(before + 1)
        space.close()


def test_amqp_on_connection_reports_lost_and_restored_connection(
    make_space: MakeSpace, broker: Broker, log: Any
) -> None:
    events: Kept[tuple[str, str]] = Kept()
    with Proxy(broker.port) as proxy:
        options = AMQPOptions("127.0.0.1", proxy.port)
        space = make_space(
            amqp_options=options, on_connection=lambda what, text: events.add((what, text))
        )
        me = space.add(Recorder("me"))
        events.wait_for(1)
        proxy.refuse()
        proxy.cut()
        events.wait_for(lambda found: [what for what, _ in found].count("retrying") >= 2)
        me.send(message("me", "say", content="kept meanwhile"))
        proxy.accept()
        me.wait_for(1)
        events.wait_for(lambda found: [what for what, _ in found].count("connected") == 2)
        space.close()
    names = [what for what, _ in events]
    assert names[:2] == ["connected", "lost"]
    assert set(names[2:-1]) == {"retrying"}
    assert names[-1] == "connected"
    where = f"127.0.0.1:{proxy.port}"
    assert all(where in text and "\n" not in text for _, text in events)
    tries = [text for what, text in events if what == "retrying"]
    assert tries[0].endswith("trying again within 0.4 s")
    assert tries[1].endswith("trying again within 0.8 s")  # ever less often
    for what, text in events:
        if what != "connected":
            assert log.wait_for(text).startswith("WARNING")


def test_amqp_on_connection_that_raises_is_removed(
    make_space: MakeSpace, proxy: Proxy, log: Any
) -> None:
    calls = []

    def told(what: str, text: str) -> None:
        calls.append(what)
        raise ValueError(text)

    options = AMQPOptions("127.0.0.1", proxy.port)
    me = make_space(amqp_options=options, on_connection=told).add(Agent("me"))
    assert "on_connection failed" in log.wait_for("on_connection")
    proxy.cut()
    assert me.ask("me", "help").result(timeout=WAIT_S) == {}
    assert calls == ["connected"]


def test_amqp_statistics_count_waiting_and_running_messages(make_space: MakeSpace) -> None:
    there, here = make_space(), make_space()
    assert there.statistics() == {"agents": {}, "deadlines": 0}
    holder = there.add(Holder("holder"))
    me = here.add(Agent("me"))
    held = me.ask("holder", "hold")
    holder.begun.wait_for(1)
    behind = [me.ask("holder", "note", name=str(n)) for n in range(3)]
    me.ask("me", "help").result(timeout=WAIT_S)
    for _ in range(1000):
        found = there.statistics()["agents"]["holder"]
        if found["waiting"] == 3:
            break
        me.ask("me", "help").result(timeout=WAIT_S)
    assert found == {"waiting": 3, "handling": ["hold"], "asking": 0}
    assert here.statistics()["deadlines"] == 4
    holder.gate("one").open()
    for request in (held, *behind):
        request.result(timeout=WAIT_S)
    assert here.statistics()["deadlines"] == 0
    here.close()
    assert here.statistics() == {"agents": {}, "deadlines": 0}
