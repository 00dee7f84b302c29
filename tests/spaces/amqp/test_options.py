"""Where the broker is, and who asks: what may be said, and what is never shown."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import Broker

from moothall import Agent, AMQPOptions, AMQPSpace, BrokerError, ConfigError
from moothall.foundation.errors import DefinitionError
from spaces.amqp.conftest import MakeSpace

PLACE = ("HOST", "PORT", "USERNAME", "PASSWORD", "VHOST", "HEARTBEAT")
VARIABLES = [f"AMQP_{name}" for name in (*PLACE, "USE_SSL", "CA_FILE", "CERT_FILE", "KEY_FILE")]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_amqp_options_defaults_equal_rabbitmq_defaults() -> None:
    options = AMQPOptions()
    assert (options.hostname, options.port, options.username) == ("localhost", 5672, "guest")
    assert (options.password, options.virtual_host, options.use_ssl) == ("guest", "/", False)
    assert (options.heartbeat, options.ca_file) == (60, None)
    assert AMQPOptions(use_ssl=True).port == 5671
    assert AMQPOptions(use_ssl=True, port=5672).port == 5672


@pytest.mark.parametrize(
    ("field", "values"),
    (
        ("hostname", ("a", "10.0.0.1", "::1", "a:1", "[::1]:1", "a,b:5673, c", "a" * 255)),
        ("port", (1, 65535, None)),
        ("username", ("a", "jürgen", "with space", "a" * 4096)),
        ("password", ("x", "with : @ / #", "ü" * 300)),
        ("virtual_host", ("/", "agents", "a/b c", "ü" * 127 + "a")),
        ("use_ssl", (True, False)),
        ("heartbeat", (1, 65535)),
    ),
)
def test_amqp_options_accept_valid_values(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        found = getattr(AMQPOptions(**{field: value}), field)
        assert found == (5672 if (field, value) == ("port", None) else value)


@pytest.mark.parametrize(
    ("field", "values"),
    (
        ("hostname", ("", None, 5, b"localhost", "a,,b", ":5672", "a:0", "a:65536")),
        ("username", ("", 5, "a" * 4097)),
        ("password", ("", None, 5)),
        ("virtual_host", ("", None, 5)),
        ("use_ssl", (1, "yes", None)),
        ("ca_file", (5, b"ca.pem", True)),
    ),
)
def test_amqp_options_refuse_invalid_values(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=rf"AMQPOptions: {field}= must be") as caught:
            AMQPOptions(**{field: value})
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("field", ("hostname", "username", "password", "virtual_host"))
def test_amqp_options_refuse_text_that_amqp_cannot_encode(field: str) -> None:
    """AMQP has 255 bytes for most of these, and UTF-8."""
    with pytest.raises(ConfigError, match=f"{field}="):
        AMQPOptions(**{field: "\ud800"})
    if field in ("virtual_host", "hostname"):
        with pytest.raises(ConfigError, match=f"{field}="):
            AMQPOptions(**{field: "ü" * 200})


def test_amqp_ca_file_needs_an_encrypted_connection() -> None:
    for path in ("ca.pem", Path("ca.pem")):
        assert AMQPOptions(use_ssl=True, ca_file=path).ca_file == path
        with pytest.raises(ConfigError, match="ca_file= needs use_ssl=True"):
            AMQPOptions(ca_file=path)


def test_amqp_cluster_nodes_are_each_named_in_errors() -> None:
    options = AMQPOptions("one, two:5673,[::1]:5674", use_ssl=True)
    assert options.address == "one:5671,two:5673,::1:5674"


def test_amqp_client_certificate_needs_an_encrypted_connection_but_no_user() -> None:
    assert AMQPOptions(use_ssl=True, cert_file="me.pem").username is None
    for wrong, said in (
        ({"cert_file": "me.pem"}, "cert_file= needs use_ssl=True"),
        ({"use_ssl": True, "key_file": "me.key"}, "key_file= needs cert_file="),
        ({"use_ssl": True, "cert_file": "me.pem", "password": "x"}, "password= needs username="),
    ):
        with pytest.raises(ConfigError, match=said):
            AMQPOptions(**wrong)  # type: ignore[arg-type]


def test_options_are_not_changed() -> None:
    with pytest.raises(AttributeError):
        AMQPOptions().port = 1  # type: ignore[misc]


def test_amqp_options_from_environment_reads_all_variables() -> None:
    given = {
        "AMQP_HOST": "broker",
        "AMQP_PORT": "5673",
        "AMQP_USERNAME": "me",
        "AMQP_PASSWORD": "secret",
        "AMQP_VHOST": "agents",
    }
    found = AMQPOptions.from_environment(given)
    assert found == AMQPOptions("broker", 5673, "me", "secret", "agents")
    secure = {
        "AMQP_USE_SSL": "Yes",
        "AMQP_HEARTBEAT": "5",
        "AMQP_CA_FILE": "ca.pem",
        "AMQP_CERT_FILE": "me.pem",
        "AMQP_KEY_FILE": "me.key",
    }
    encrypted = AMQPOptions.from_environment(secure, cert_file="other.pem")
    assert (encrypted.port, encrypted.use_ssl, encrypted.heartbeat) == (5671, True, 5)
    assert (encrypted.ca_file, encrypted.cert_file) == ("ca.pem", "other.pem")
    assert (encrypted.key_file, encrypted.username) == ("me.key", None)
    assert not AMQPOptions.from_environment({"AMQP_USE_SSL": "off"}).use_ssl
    assert AMQPOptions.from_environment({}) == AMQPOptions()
    assert AMQPOptions.from_environment(dict.fromkeys(given, "")) == AMQPOptions()
    assert AMQPOptions.from_environment({"AMQP_HOST": "other"}) == AMQPOptions("other")


@pytest.mark.parametrize(
    "port",
    ("0", "65536", "-1", "amqp", "5672 ", "5672.0", "\uff15\uff16\uff17\uff12", "9" * 9, "100000"),
)
def test_amqp_options_from_environment_refuses_invalid_port(port: str) -> None:
    with pytest.raises(ConfigError, match=r"AMQP_PORT must be 1 to 65535, got "):
        AMQPOptions.from_environment({"AMQP_PORT": port})


def test_amqp_space_reads_environment_unless_options_are_given(
    broker: Broker, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_HOST", "127.0.0.1")
    monkeypatch.setenv("AMQP_PORT", str(broker.port))
    with AMQPSpace(exchange=exchange) as space:
        assert space.add(Agent("here")).ask("here", "help").result(timeout=10) == {}
    monkeypatch.setenv("AMQP_PORT", "none")
    with pytest.raises(ConfigError, match="AMQP_PORT"):
        AMQPSpace()
    AMQPSpace(amqp_options=AMQPOptions()).close()
    with pytest.raises(ConfigError, match="must be an AMQPOptions, got 'localhost'"):
        AMQPSpace(amqp_options="localhost")  # type: ignore[arg-type]


def test_amqp_password_is_shown_nowhere(
    broker: Broker, make_space: MakeSpace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cret-of-mine"
    options = AMQPOptions("127.0.0.1", broker.port, password=secret)
    space = make_space(amqp_options=options)
    with pytest.raises(BrokerError) as caught:
        space.add(Agent("a"))
    shown = (repr(options), str(options), repr(space), str(caught.value), repr(caught.value))
    assert [text for text in (*shown, caplog.text) if secret in text] == []
    for wrong in ({"port": 0}, {"heartbeat": 0}, {"password": f"{secret}\ud800"}):
        with pytest.raises(ConfigError) as refused:
            AMQPOptions(**({"password": secret} | wrong))  # type: ignore[arg-type]
        assert secret not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "values"),
    (
        ("amqp_options", ("localhost", {"hostname": "localhost"}, 5672)),
        (
            "exchange",
            ("", "a b", "ü", "amq", "amq.topic", "a" * 101, "a\n", None, 5, "a/b", "a*", "a#"),
        ),
        ("keep", (0, 0.9, -1, "1", None, True, float("nan"), float("inf"), 2_000_001)),
        ("grace", (-1, "1", None, True, float("nan"), float("inf"))),
        ("on_connection", ("print", 5)),
        ("mailbox", (0, -1, 1.5, True, "1", None)),
        ("inbox", (5, 1.5, "", True)),
    ),
)
def test_amqp_space_refuses_invalid_arguments(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(DefinitionError, match=f"{name}="):
            AMQPSpace(**{name: value})


async def told(what: str, text: str) -> None:
    """Not what on_connection may be."""


def test_amqp_space_refuses_async_on_connection() -> None:
    with pytest.raises(DefinitionError, match="on_connection="):
        AMQPSpace(on_connection=told)


@pytest.mark.parametrize("exchange", ("a", "moothall.test:1-2_3", "A" * 100, "amqp.x"))
def test_amqp_space_of_any_valid_exchange_name_has_agents(
    make_space: MakeSpace, exchange: str
) -> None:
    with make_space(exchange=exchange) as space:
        space.add(Agent("a"))
        assert space.ids() == ["a"]


@pytest.mark.parametrize("seconds", (1, 2_000_000))
def test_amqp_space_that_keeps_and_waits_for_any_time_has_agents(
    make_space: MakeSpace, seconds: int
) -> None:
    with make_space(keep=seconds, grace=seconds) as space:
        space.add(Agent("a"))
        assert space.ids() == ["a"]
