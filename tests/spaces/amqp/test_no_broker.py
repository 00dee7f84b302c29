"""No broker, or one that will not: one line says which and what to do, and then it works."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from benchmarks.broker import Broker, Certificates
from benchmarks.ports import free_port
from benchmarks.proxy import Proxy

from conformance.conftest import Kept, Log
from moothall import Agent, AMQPOptions, AMQPSpace, BrokerError
from spaces.amqp.conftest import WAIT_S, MakeSpace


def refusal(space: AMQPSpace, id: str = "a") -> str:
    """What `add` says, which is one line."""
    with pytest.raises(BrokerError) as caught:
        space.add(Agent(id))
    text = str(caught.value)
    assert "\n" not in text
    assert isinstance(caught.value, ConnectionError)
    return text


def works(space: AMQPSpace, id: str = "a") -> bool:
    """Whether an agent can be added, and reached."""
    return space.add(Agent(id)).ask(id, "help").result(timeout=WAIT_S) == {}


def test_amqp_add_without_broker_raises_and_works_once_it_is_up(
    broker: Broker, make_space: MakeSpace
) -> None:
    with Proxy(broker.port) as proxy:
        proxy.refuse()
        space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port))
        text = refusal(space)
        assert text.startswith(f"no message broker at 127.0.0.1:{proxy.port} (")
        assert "start RabbitMQ, or set AMQP_HOST and AMQP_PORT" in text
        assert refusal(space) == text
        assert space.ids() == []
        proxy.accept()
        assert works(space)
        space.close()


def test_amqp_observe_without_broker_raises_and_adds_no_observer(
    broker: Broker, make_space: MakeSpace
) -> None:
    seen: Kept[dict[str, Any]] = Kept()
    with Proxy(broker.port) as proxy:
        proxy.refuse()
        space = make_space(amqp_options=AMQPOptions("127.0.0.1", proxy.port))
        with pytest.raises(BrokerError):
            space.observe(seen.add, everywhere=True)
        proxy.accept()
        assert works(space)
        space.observe(seen.add, everywhere=True)
        me = space.add(Agent("me"))
        for _ in range(2):  # the first is seen before the second is asked
            me.ask("me", "help").result(timeout=WAIT_S)
        seen.wait_for(4)
        assert [(m["from"], m["action"]["name"]) for m in seen] == [
            ("me", "help"),
            ("me", "response"),
        ] * 2
        space.close()


async def test_amqp_add_and_observe_on_a_running_loop_do_not_wait_for_a_silent_broker(
    make_space: MakeSpace, log: Log
) -> None:
    seen: Kept[dict[str, Any]] = Kept()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        space = make_space(amqp_options=AMQPOptions("127.0.0.1", silent.getsockname()[1]))
        began = time.monotonic()
        space.observe(seen.add, everywhere=True)
        space.add(Agent("a"))
        assert (time.monotonic() - began) < 1
        silent.close()
    log.wait_for("an observer of everything could not be added")


async def test_amqp_remove_with_drain_of_an_agent_that_waits_for_the_broker_does_not_wait(
    make_space: MakeSpace,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        space = make_space(amqp_options=AMQPOptions("127.0.0.1", silent.getsockname()[1]))
        agent = space.add(Agent("a"))
        async with asyncio.timeout(WAIT_S):
            await space.aremove(agent, drain=True)
        assert space.ids() == []


def test_amqp_add_without_broker_leaves_agent_free_for_another_space(
    broker: Broker, make_space: MakeSpace
) -> None:
    agent = Agent("a")
    without = make_space(amqp_options=AMQPOptions("127.0.0.1", free_port()))
    with pytest.raises(BrokerError, match=r"\(Connection refused\): start RabbitMQ"):
        without.add(agent)
    assert make_space().add(agent).ask("a", "help").result(timeout=WAIT_S) == {}
    without.close()


@pytest.mark.parametrize("host", ("no-such-host.invalid", "two..dots", "nul\0nul", "a b"))
def test_amqp_unusable_host_error_names_the_host(make_space: MakeSpace, host: str) -> None:
    text = refusal(make_space(amqp_options=AMQPOptions(host)))
    assert f"no message broker at {host}:5672" in text
    assert "AMQP_HOST" in text


def test_amqp_port_of_another_protocol_raises_broker_error(make_space: MakeSpace) -> None:
    """A web server on the port answers without AMQP and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            with link:
                link.recv(100)
                link.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

        serving = threading.Thread(target=serve)
        serving.start()
        port = server.getsockname()[1]
        text = refusal(make_space(amqp_options=AMQPOptions("127.0.0.1", port)))
        serving.join()
    assert f"127.0.0.1:{port}" in text
    assert "does not speak AMQP 0-9-1 on that port" in text


def test_amqp_wrong_password_is_refused_and_a_corrected_one_works(
    broker: Broker, make_space: MakeSpace
) -> None:
    broker.add_user("worker", "right")
    options = AMQPOptions("127.0.0.1", broker.port, "worker", "wrong")
    space = make_space(amqp_options=options)
    text = refusal(space)
    assert f"127.0.0.1:{broker.port} refuses the user 'worker' or the password" in text
    assert "AMQP_USERNAME and AMQP_PASSWORD" in text
    broker.eval(
        'rabbit_auth_backend_internal:change_password(<<"worker">>, <<"wrong">>, <<"tests">>)'
    )
    assert works(space)


def test_amqp_missing_virtual_host_raises_and_works_once_created(
    broker: Broker, make_space: MakeSpace
) -> None:
    space = make_space(amqp_options=AMQPOptions("127.0.0.1", broker.port, virtual_host="later"))
    text = refusal(space)
    assert "has no virtual host 'later' for the user 'guest'" in text
    assert "AMQP_VHOST" in text
    quorum = '#{default_queue_type => <<"quorum">>}'
    broker.eval(f'rabbit_vhost:add(<<"later">>, {quorum}, <<"tests">>)')
    assert "virtual host 'later'" in refusal(space)  # it is there, and not for us
    broker.permit("guest", "^other", "later")
    denied = refusal(space)
    assert f"127.0.0.1:{broker.port}" in denied
    assert "refuses" in denied
    broker.permit("guest", ".*", "later")
    assert works(space)  # its default queue type notwithstanding
    limit = '[{<<"max-connections">>, 1}]'
    broker.eval(f'rabbit_vhost_limit:set(<<"later">>, {limit}, <<"tests">>)')
    other = make_space(amqp_options=AMQPOptions("127.0.0.1", broker.port, virtual_host="later"))
    text = refusal(other)
    assert "connection limit (1) is reached" in text
    assert "AMQP_VHOST" not in text


def test_amqp_exchange_name_taken_raises_broker_error(
    broker: Broker, make_space: MakeSpace, channel: Any, exchange: str
) -> None:
    channel.exchange_declare(exchange, "direct")
    space = make_space()
    text = refusal(space)
    assert f"has something else under the name {exchange!r}" in text
    channel.exchange_delete(exchange)
    assert works(space)


def test_amqp_exchange_name_of_dead_letters_raises_broker_error(
    make_space: MakeSpace, exchange: str
) -> None:
    assert works(make_space())
    assert "something else" in refusal(make_space(exchange=f"{exchange}.dead"))


# -- TLS -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def secure(authority: trustme.CA) -> Iterator[Broker]:
    """A broker that has a certificate for `localhost`, and none for its address.

    It takes long to start. In the quick tests, those of client certificates speak TLS.
    """
    issued = authority.issue_cert("localhost")
    certificates = Certificates(
        authority.cert_pem.bytes(),
        b"".join(each.bytes() for each in issued.cert_chain_pems),
        issued.private_key_pem.bytes(),
    )
    with Broker(tls=certificates) as broker:
        yield broker


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.mark.long
def test_amqp_tls_with_trusted_ca_file_connects(
    secure: Broker, ca_file: Path, make_space: MakeSpace
) -> None:
    assert secure.tls_port is not None
    options = AMQPOptions("localhost", secure.tls_port, use_ssl=True, ca_file=ca_file)
    assert works(make_space(amqp_options=options))
    plain = make_space(amqp_options=AMQPOptions("localhost", secure.port))
    assert works(plain, "b")
    found = plain.add(Agent("c")).ask("a", "help").result(timeout=WAIT_S)
    assert found == {}, "one reaches the other, however each is connected"


@pytest.mark.long
def test_amqp_tls_with_unknown_authority_error_names_ca_file(
    secure: Broker, make_space: MakeSpace
) -> None:
    options = AMQPOptions("localhost", secure.tls_port, use_ssl=True)
    text = refusal(make_space(amqp_options=options))
    assert f"the certificate of the message broker at localhost:{secure.tls_port}" in text
    assert "give its authority as ca_file=" in text


@pytest.mark.long
def test_amqp_tls_with_wrong_ca_file_raises_broker_error(
    secure: Broker, tmp_path: Path, make_space: MakeSpace
) -> None:
    path = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    options = AMQPOptions("localhost", secure.tls_port, use_ssl=True, ca_file=path)
    assert "give its authority as ca_file=" in refusal(make_space(amqp_options=options))


@pytest.mark.long
def test_amqp_tls_host_name_mismatch_raises_broker_error(
    secure: Broker, ca_file: Path, make_space: MakeSpace
) -> None:
    options = AMQPOptions("127.0.0.1", secure.tls_port, use_ssl=True, ca_file=ca_file)
    text = refusal(make_space(amqp_options=options))
    assert "is not to be trusted" in text
    assert "not valid for '127.0.0.1'" in text
    assert "AMQP_HOST" in text
    assert "ca_file=" not in text, "the authority is right"


@pytest.mark.long
@pytest.mark.parametrize("what", ("missing", "no certificate", "folder"))
def test_amqp_tls_unusable_ca_file_error_names_the_file(
    what: str, secure: Broker, tmp_path: Path, make_space: MakeSpace
) -> None:
    path = tmp_path / "ca.pem"
    if what == "folder":
        path.mkdir()
    elif what == "no certificate":
        path.write_text("nothing of the kind")
    options = AMQPOptions("localhost", secure.tls_port, use_ssl=True, ca_file=path)
    text = refusal(make_space(amqp_options=options))
    assert "ca_file" in text
    assert str(path) in text


@pytest.mark.long
def test_amqp_tls_mismatch_of_port_error_names_use_ssl(
    secure: Broker, ca_file: Path, make_space: MakeSpace
) -> None:
    options = AMQPOptions("localhost", secure.port, use_ssl=True, ca_file=ca_file)
    text = refusal(make_space(amqp_options=options))
    assert f"localhost:{secure.port}" in text
    assert "without use_ssl=True" in text
    text = refusal(make_space(amqp_options=AMQPOptions("localhost", secure.tls_port)))
    assert f"localhost:{secure.tls_port}" in text
    assert "try it with use_ssl=True" in text


@pytest.mark.long
def test_amqp_client_certificate_without_broker_plugin_raises_broker_error(
    secure: Broker, authority: trustme.CA, ca_file: Path, tmp_path: Path, make_space: MakeSpace
) -> None:
    """The broker lacks the plugin that takes a certificate in place of a password."""
    path = tmp_path / "ann.pem"
    authority.issue_cert("ann.example").private_key_and_cert_chain_pem.write_to_path(str(path))
    given: dict[str, Any] = {"use_ssl": True, "ca_file": ca_file, "cert_file": path}
    text = refusal(make_space(amqp_options=AMQPOptions("localhost", secure.tls_port, **given)))
    assert "rabbitmq_auth_mechanism_ssl" in text
    assert "AMQP_USERNAME" in text
    named = AMQPOptions("localhost", secure.tls_port, "guest", **given)
    assert works(make_space(amqp_options=named), "with a password")
