"""The private RabbitMQ and the TCP proxy that other tests and the benchmarks break and mend."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest
import trustme
from benchmarks.broker import Broker, BrokerError, Certificates
from benchmarks.ports import free_port
from benchmarks.proxy import Proxy
from pika.adapters.blocking_connection import BlockingChannel

# Each worker would start brokers of its own for them.
pytestmark = pytest.mark.xdist_group("broker")

ROOT = Path(__file__).resolve().parent.parent
WAIT_S = 10


def parameters(port: int | None, **kwargs: object) -> pika.ConnectionParameters:
    assert port is not None
    return pika.ConnectionParameters("127.0.0.1", port, **kwargs)


def publish(channel: BlockingChannel, queue: str, body: bytes) -> None:
    """Send a message, and return when it is on the broker's disk."""
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))


def get(port: int, queue: str) -> bytes | None:
    with pika.BlockingConnection(parameters(port)) as connection:
        body: bytes | None = connection.channel().basic_get(queue, auto_ack=True)[2]
        return body


def drain(link: socket.socket) -> None:
    """Read to the end of a connection."""
    while link.recv(4096):
        pass


def processes() -> dict[int, int]:
    """Every process that has not ended, with its parent."""
    done = subprocess.run(
        ("ps", "-eo", "pid=,ppid=,stat="), capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in done.stdout.splitlines())
    return {int(row[0]): int(row[1]) for row in rows if not row[2].startswith("Z")}


def descendants(root: int) -> set[int]:
    table = processes()
    found = {root}
    while more := {pid for pid, parent in table.items() if parent in found} - found:
        found |= more
    return found - {root}


def listeners(pids: set[int]) -> set[str]:
    """The addresses that the processes listen on, as Linux writes them."""
    sockets = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(handle))
            except FileNotFoundError:
                continue  # closed meanwhile
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait on a condition that nothing gives notice of."""
    tick = threading.Event()
    for _ in range(WAIT_S * 50):
        if condition():
            return
        tick.wait(0.02)
    raise AssertionError("it did not come about")


@pytest.fixture(scope="module")
def fragile() -> Iterator[Broker]:
    """A broker that this file's tests break; each leaves it running."""
    with Broker(settings={"consumer_timeout": 60000}) as broker:
        yield broker


@pytest.mark.long
def test_confirmed_message_outlives_the_kill_of_the_node(fragile: Broker) -> None:
    port = fragile.port
    with pika.BlockingConnection(parameters(port)) as connection:
        connection.channel().queue_declare("kept", durable=True)
    # RabbitMQ keeps what was declared in a buffer of its own for two seconds: a kill would lose the
    # queue, and with it what is in it.
    fragile.stop()
    fragile.start()
    before = fragile.pid
    connection = pika.BlockingConnection(parameters(port))
    publish(connection.channel(), "kept", b"still here")
    fragile.kill()
    assert fragile.pid is None
    with pytest.raises(pika.exceptions.AMQPError):
        connection.process_data_events(WAIT_S)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    fragile.start()
    assert fragile.port == port
    assert fragile.pid not in (None, before)
    assert get(port, "kept") == b"still here"


@pytest.mark.long
def test_settings_reach_the_node(fragile: Broker) -> None:
    assert "{consumer_timeout,60000}" in fragile.ctl("environment")


@pytest.mark.long
def test_rabbitmqctl_works_on_the_private_node_and_says_what_failed(fragile: Broker) -> None:
    fragile.ctl("add_vhost", "other")
    assert "other" in fragile.ctl("list_vhosts").split()
    fragile.ctl("delete_vhost", "other")
    with pytest.raises(BrokerError, match=r"rabbitmqctl delete_queue missing ended with \d+: .+"):
        fragile.ctl("delete_queue", "missing")


def test_broker_listens_only_on_loopback(broker: Broker) -> None:
    assert broker.pid is not None
    # What a node does every minute that it finds no epmd: by itself it starts one on all addresses.
    broker.eval("rabbit_nodes:ensure_epmd()")
    keeper = processes()[broker.pid]
    assert listeners(descendants(keeper)) == {"0100007F"}


@pytest.mark.long
def test_suspended_node_keeps_its_connections_and_answers_nothing(fragile: Broker) -> None:
    with pika.BlockingConnection(parameters(fragile.port)) as connection:
        channel = connection.channel()
        fragile.suspend()
        asking = threading.Thread(target=channel.queue_declare, args=("later",))
        asking.start()
        asking.join(0.3)
        assert asking.is_alive()
        fragile.resume()
        asking.join(WAIT_S)
        assert not asking.is_alive()


@pytest.mark.long
def test_broker_ends_when_its_owner_is_killed() -> None:
    program = (
        "import json, os\n"
        "from benchmarks.broker import Broker\n"
        "broker = Broker()\n"
        "broker.start()\n"
        "broker.suspend()\n"
        # A copy of it holds all that it has open.
        "copy = os.fork()\n"
        "if copy:\n"
        "    print(json.dumps([copy, broker.pid, broker.port, str(broker.folder)]), flush=True)\n"
        "os.read(0, 1)\n"
        "os._exit(0)\n"
    )
    with subprocess.Popen(
        (sys.executable, "-c", program),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        copy, pid, port, folder = json.loads(owner.stdout.readline())
        family = descendants(owner.pid) - {copy}
        assert pid in family
        assert len(family) > 2
        owner.send_signal(signal.SIGKILL)
        wait_until(lambda: not family & set(processes()) and not Path(folder).exists())
        assert copy in processes()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.long
def test_tls_is_verified_by_the_client_and_a_stopped_broker_leaves_nothing() -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    own = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(part.bytes() for part in own.cert_chain_pems)
    certificates = Certificates(authority.cert_pem.bytes(), chain, own.private_key_pem.bytes())
    with Broker(tls=certificates) as broker:
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        options = pika.SSLOptions(trusting, "localhost")
        with pika.BlockingConnection(parameters(broker.tls_port, ssl_options=options)) as link:
            publish(link.channel(), "secret", b"by TLS")
        assert get(broker.port, "secret") == b"by TLS"

        doubting = ssl.create_default_context()
        stranger.configure_trust(doubting)
        with (
            socket.create_connection(("127.0.0.1", broker.tls_port)) as plain,
            pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"),
        ):
            doubting.wrap_socket(plain, server_hostname="localhost")
        assert broker.pid is not None
        family, folder = {broker.pid, *descendants(broker.pid)}, broker.folder
        assert len(family) > 1
        broker.stop()
        assert not family & set(processes())
        assert folder.exists(), "it can be started again"
    assert not folder.exists()
    with pytest.raises(BrokerError, match="closed"):
        broker.start()


@pytest.mark.long
def test_node_that_does_not_come_up_is_an_error_with_the_end_of_its_log() -> None:
    with pytest.raises(BrokerError, match=r"(?s)RabbitMQ ended while it started:.*no_such_setting"):
        Broker(settings={"no_such_setting": 1}).__enter__()


# -- the proxy -------------------------------------------------------------------------------------


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    with Proxy(broker.port) as proxy:
        yield proxy


def test_proxy_counts_connections_and_bytes(proxy: Proxy) -> None:
    body = b"x" * 300_000
    with pika.BlockingConnection(parameters(proxy.port)) as connection:
        assert (proxy.connections, proxy.open) == (1, 1)
        publish(connection.channel(), "large", body)
        wait_until(lambda: len(body) < proxy.sent)
        assert proxy.sent < 2 * len(body)
        assert connection.channel().basic_get("large", auto_ack=True)[2] == body
        wait_until(lambda: len(body) < proxy.received)
        assert proxy.received < 2 * len(body)
    wait_until(lambda: proxy.open == 0)
    assert get(proxy.port, "large") is None
    assert proxy.connections == 2


def test_proxy_cut_resets_every_connection_and_lets_new_ones_through(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as link:
        link.sendall(b"AMQP\x00\x00\x09\x01")
        assert link.recv(1) == b"\x01"
        connection = pika.BlockingConnection(parameters(proxy.port))
        proxy.cut()
        assert proxy.open == 0
        with pytest.raises(ConnectionResetError):
            drain(link)
    with pytest.raises(pika.exceptions.AMQPError):
        connection.process_data_events(WAIT_S)
    pika.BlockingConnection(parameters(proxy.port)).close()


def test_proxy_stall_holds_everything_until_resume(proxy: Proxy) -> None:
    with pika.BlockingConnection(parameters(proxy.port)) as connection:
        channel = connection.channel()
        proxy.stall()
        passed = (proxy.sent, proxy.received)
        asking = threading.Thread(target=publish, args=(channel, "held", b"late"))
        asking.start()
        with socket.create_connection(("127.0.0.1", proxy.port)) as new:
            new.sendall(b"AMQP\x00\x00\x09\x01")
            new.settimeout(0.3)
            with pytest.raises(TimeoutError):
                new.recv(1)
            assert asking.is_alive()
            assert (proxy.sent, proxy.received) == passed
            proxy.resume()
            new.settimeout(WAIT_S)
            assert new.recv(1) == b"\x01"
        asking.join(WAIT_S)
        assert not asking.is_alive()
        assert channel.basic_get("held", auto_ack=True)[2] == b"late"


def test_refusing_leaves_the_connections_that_are_there(proxy: Proxy) -> None:
    with pika.BlockingConnection(parameters(proxy.port)) as connection:
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port))
        publish(connection.channel(), "through", b"1")
        proxy.accept()
        assert get(proxy.port, "through") == b"1"


def test_proxy_to_a_server_that_is_away_resets_connections() -> None:
    with (
        Proxy(free_port()) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port)) as link,
        pytest.raises(ConnectionResetError),
    ):
        link.recv(1)


def test_proxy_that_is_closed_refuses_connections() -> None:
    proxy = Proxy(free_port())
    proxy.close()
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))
