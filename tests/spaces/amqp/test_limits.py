"""A broker with limits of queues, channels or connections, as each hosted plan has them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.broker import Broker

from moothall import Agent, AMQPOptions, AMQPSpace, BrokerError, action
from spaces.amqp.conftest import MakeSpace, until

VHOST = "limited"


class Worker(Agent):
    @action
    def work(self) -> str:
        """Work."""
        return "done"


@pytest.fixture
def limited(broker: Broker) -> Iterator[Broker]:
    """A broker with a virtual host of its own, whose limits a test sets."""
    broker.eval(f'rabbit_vhost:add(<<"{VHOST}">>, <<"tests">>)')
    broker.permit("guest", ".*", VHOST)
    yield broker
    broker.eval(f'rabbit_vhost:delete(<<"{VHOST}">>, <<"tests">>)')


def limit(broker: Broker, queues: int) -> None:
    """Limit the queues of that virtual host, as `rabbitmqctl set_vhost_limits` does."""
    broker.eval(
        f'rabbit_vhost_limit:set(<<"{VHOST}">>, [{{<<"max-queues">>, {queues}}}], <<"tests">>)'
    )


def limit_to_present(broker: Broker, more: int = 0) -> int:
    """Limit them to those that are there, and some more."""
    said = broker.eval(f'io:format("~p", [length(rabbit_amqqueue:list(<<"{VHOST}">>))])')
    limit(broker, queues := int(said) + more)
    return queues


def in_limited(broker: Broker) -> dict[str, Any]:
    return {"amqp_options": AMQPOptions("127.0.0.1", broker.port, virtual_host=VHOST)}


def reached(queues: int) -> str:
    return f"queue limit in vhost '{VHOST}' ({queues}) is reached"


def refusal(space: AMQPSpace, agent: Agent, **options: Any) -> str:
    with pytest.raises(BrokerError) as caught:
        space.add(agent, **options)
    return str(caught.value)


@pytest.mark.parametrize("shared", (False, True))
def test_amqp_add_at_the_limit_of_queues_raises_it_in_the_words_of_the_broker(
    limited: Broker, make_space: MakeSpace, shared: bool
) -> None:
    space = make_space(**in_limited(limited))
    space.add(Worker("w1"), shared=shared)
    queues = limit_to_present(limited)
    text = refusal(space, Worker("w2"), shared=shared)
    assert "agent 'w2' can have no queue at the broker: " in text
    assert reached(queues) in text
    assert "NOT_FOUND" not in text
    limit(limited, queues + 1)  # enough for its claim, and not for its messages
    assert reached(queues + 1) in refusal(space, Worker("w2"), shared=shared)
    limit(limited, -1)
    space.add(Worker("w2"), shared=shared)
    assert space.add(Agent("me")).ask("w2", "work").result(20) == "done"


@pytest.mark.parametrize("queues", (0, 1))
def test_amqp_open_at_the_limit_of_queues_raises_it_in_the_words_of_the_broker(
    limited: Broker, make_space: MakeSpace, queues: int
) -> None:
    limit(limited, queues)
    text = refusal(make_space(**in_limited(limited)), Worker("w1"))
    assert f"127.0.0.1:{limited.port} refuses to declare what the exchange" in text
    assert reached(queues) in text
    assert "something else" not in text


def test_amqp_delay_at_the_limit_of_queues_logs_it_in_the_words_of_the_broker(
    limited: Broker, make_space: MakeSpace, caplog: pytest.LogCaptureFixture
) -> None:
    space = make_space(**in_limited(limited))
    me = space.add(Agent("me"))
    space.add(Worker("w1"))
    queues = limit_to_present(limited, 3)
    with caplog.at_level(logging.ERROR):
        me.send({"to": "w1", "action": {"name": "work"}}, delay=1)
        until(lambda: "messages cannot wait at the broker" in caplog.text)
    assert reached(queues) in caplog.text
    limit(limited, -1)


def test_amqp_observe_at_the_limit_of_queues_raises_it_in_the_words_of_the_broker(
    limited: Broker, make_space: MakeSpace
) -> None:
    space, seen = make_space(**in_limited(limited)), list[Any]()
    me = space.add(Agent("me"))
    space.add(Worker("w1"))
    queues = limit_to_present(limited)
    with pytest.raises(BrokerError) as caught:
        space.observe(seen.append, everywhere=True)
    assert "an observer can have no queue at the broker: PRECONDITION_FAILED" in str(caught.value)
    assert reached(queues) in str(caught.value)
    limit(limited, -1)
    space.observe(seen.append, everywhere=True)
    assert me.ask("w1", "work").result(20) == "done"
    until(lambda: seen)


@pytest.mark.parametrize(
    ("kind", "said"),
    (
        ("max-channels", "has reached the maximum allowed user limit of (1)"),
        ("max-connections", "user connection limit (1) is reached"),
    ),
)
def test_amqp_limit_of_a_user_is_raised_in_the_words_of_the_broker(
    limited: Broker, make_space: MakeSpace, kind: str, said: str
) -> None:
    limited.add_user(kind, "password")
    limited.permit(kind, ".*", VHOST)
    limits = f'<<"{kind}">>, <<"{{\\"{kind}\\": 1}}">>, <<"tests">>'
    limited.eval(f"rabbit_auth_backend_internal:set_user_limits({limits})")
    options = AMQPOptions(
        "127.0.0.1", limited.port, virtual_host=VHOST, username=kind, password="password"
    )
    spaces = [make_space(amqp_options=options) for _ in range(2)]
    if kind == "max-connections":
        spaces[0].add(Worker("w0"))
    text = refusal(spaces[1], Worker("w1"))
    assert said in text
    assert "AMQP_VHOST" not in text
