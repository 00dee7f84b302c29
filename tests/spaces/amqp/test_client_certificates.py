"""A broker with TLS that wants a certificate of its clients: programs and commands alike."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trustme
from benchmarks.broker import Broker, Certificates
from cryptography.hazmat.primitives import serialization

from cli.broker_programs import moothall
from commands import run
from moothall import Agent, AMQPOptions, AMQPSpace, BrokerError
from moothall.serving import Company
from spaces.amqp.conftest import WAIT_S

# One worker starts the broker.
pytestmark = pytest.mark.xdist_group("mutual")

USER = "ann"
SETTINGS = {
    "ssl_options.verify": "verify_peer",
    "ssl_options.fail_if_no_peer_cert": "true",
    "ssl_cert_login_from": "common_name",
    "auth_mechanisms.1": "PLAIN",
    "auth_mechanisms.2": "EXTERNAL",
}
AGENT = '''
from moothall import Agent, action

class Calculator(Agent):
    @action
    async def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b
'''


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def mutual(authority: trustme.CA) -> Iterator[Broker]:
    """A broker that talks only with who has a certificate of its authority."""
    issued = authority.issue_cert("localhost")
    certificates = Certificates(
        authority.cert_pem.bytes(),
        b"".join(each.bytes() for each in issued.cert_chain_pems),
        issued.private_key_pem.bytes(),
    )
    plugins = ("rabbitmq_auth_mechanism_ssl",)
    with Broker(tls=certificates, settings=SETTINGS, plugins=plugins) as broker:
        broker.add_user(USER, "password of ann")
        yield broker


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> Path:
    """A folder with the certificates of Ann, of a stranger, and one that has expired."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for name, issued in (
        ("ann", authority.issue_cert("ann.example", common_name=USER)),
        ("nobody", authority.issue_cert("nobody.example", common_name="nobody")),
        ("stranger", trustme.CA().issue_cert("ann.example", common_name=USER)),
        ("expired", authority.issue_cert("a.example", common_name=USER, not_after=long_ago)),
    ):
        (tmp_path / f"{name}.pem").write_bytes(
            b"".join(each.bytes() for each in issued.cert_chain_pems)
        )
        (tmp_path / f"{name}.key").write_bytes(issued.private_key_pem.bytes())
    return tmp_path


def options(broker: Broker, files: Path, name: str | None, **given: Any) -> AMQPOptions:
    """Those of who shows the certificate of that name, or none."""
    if name is not None:
        given |= {"cert_file": files / f"{name}.pem", "key_file": files / f"{name}.key"}
    return AMQPOptions(
        "localhost", broker.tls_port, use_ssl=True, ca_file=files / "ca.pem", **given
    )


def connections(broker: Broker) -> list[tuple[str, ...]]:
    """The user of each connection, and whether it has TLS."""
    shown = "rabbit_networking:connection_info_all([user, ssl])"
    said = broker.eval(f'[io:format("~s ~p~n", [U, S]) || [{{user, U}}, {{ssl, S}}] <- {shown}]')
    return [tuple(line.split()) for line in said.splitlines()]


def test_amqp_client_certificate_logs_in_without_a_password(mutual: Broker, files: Path) -> None:
    with AMQPSpace(amqp_options=options(mutual, files, "ann"), exchange=uuid4().hex) as space:
        assert space.add(Agent("a")).ask("a", "help").result(timeout=WAIT_S) == {}
        assert connections(mutual) == [(USER, "true")]


def test_amqp_client_certificate_goes_with_a_username(mutual: Broker, files: Path) -> None:
    given = options(mutual, files, "ann", username="guest", password="guest")
    with AMQPSpace(amqp_options=given, exchange=uuid4().hex) as space:
        assert space.add(Agent("a")).ask("a", "help").result(timeout=WAIT_S) == {}
        assert connections(mutual) == [("guest", "true")]


def test_amqp_client_certificate_file_may_hold_the_key(mutual: Broker, files: Path) -> None:
    both = files / "both.pem"
    both.write_bytes((files / "ann.pem").read_bytes() + (files / "ann.key").read_bytes())
    given = options(mutual, files, None, cert_file=both)
    with AMQPSpace(amqp_options=given, exchange=uuid4().hex) as space:
        assert space.add(Agent("a")).ask("a", "help").result(timeout=WAIT_S) == {}


@pytest.mark.parametrize(
    ("name", "parts"),
    (
        (None, ("client certificate", "by cert_file= (AMQP_CERT_FILE, --cert-file)")),
        ("stranger", ("client certificate", "by cert_file= (AMQP_CERT_FILE, --cert-file)")),
        ("expired", ("client certificate", "by cert_file= (AMQP_CERT_FILE, --cert-file)")),
        ("nobody", ("refuses the client certificate", "rabbitmqctl add_user", "AMQP_USERNAME")),
    ),
)
def test_amqp_refused_client_certificate_raises_broker_error(
    mutual: Broker, files: Path, name: str | None, parts: tuple[str, ...]
) -> None:
    with AMQPSpace(amqp_options=options(mutual, files, name)) as space:
        with pytest.raises(BrokerError) as caught:
            space.add(Agent("a"))
        assert [part for part in parts if part not in str(caught.value)] == [], caught.value


@pytest.mark.parametrize("what", ("missing", "of another", "encrypted"))
def test_amqp_unusable_client_certificate_error_names_the_file(
    what: str, mutual: Broker, authority: trustme.CA, files: Path
) -> None:
    key = files / "ann.key"
    if what == "missing":
        key.unlink()
    elif what == "of another":
        key.write_bytes((files / "nobody.key").read_bytes())
    else:
        found = serialization.load_pem_private_key(key.read_bytes(), None)
        key.write_bytes(
            found.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b"secret"),
            )
        )
    space = AMQPSpace(amqp_options=options(mutual, files, "ann"))
    with space, pytest.raises(BrokerError) as caught:
        space.add(Agent("a"))
    for part in (str(files / "ann.pem"), str(key), "--cert-file", "AMQP_KEY_FILE", "be used"):
        assert part in str(caught.value)


# -- commands --------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ("variables", "options"))
def test_commands_speak_tls(by: str, mutual: Broker, files: Path) -> None:
    """An agent is served, a person talks with it, and its dead letters are listed."""
    (files / "my_agents.py").write_text(AGENT)
    exchange = uuid4().hex
    environment = {"AMQP_PORT": str(mutual.tls_port)}
    args = ["--exchange", exchange]
    if by == "variables":
        environment |= {
            "AMQP_USE_SSL": "1",
            "AMQP_CA_FILE": "ca.pem",
            "AMQP_CERT_FILE": "ann.pem",
            "AMQP_KEY_FILE": "ann.key",
        }
    else:
        args += ["--use-ssl", "--ca-file", "ca.pem"]
        args += ["--cert-file", "ann.pem", "--key-file", "ann.key"]
    assert mutual.tls_port is not None
    served = ("serve", "my_agents:Calculator", *args)
    with moothall(*served, cwd=files, port=mutual.tls_port, **environment) as serving:
        assert f"served at localhost:{mutual.tls_port}" in serving.line()
        how: Any = {"cwd": files, "env": {**os.environ, **environment}}
        asked = run("chat", "--amqp", *args, input="/Calculator.add a:1 b:2\n", **how)
        assert (asked.returncode, asked.stderr) == (0, "")
        assert "3" in asked.stdout
        listed = run("dead-letters", *args, **how)
        assert (listed.returncode, listed.stdout) == (0, "There are no dead letters.\n")
        serving.signal(signal.SIGTERM)
        assert serving.end() == 0


@pytest.mark.parametrize(
    ("args", "environment", "code", "text"),
    (
        ((), {}, 1, "use_ssl=True (AMQP_USE_SSL, --use-ssl)"),
        (("--use-ssl",), {}, 1, "ca_file= (AMQP_CA_FILE, --ca-file)"),
        (("--use-ssl", "--ca-file", "ca.pem"), {}, 1, "cert_file= (AMQP_CERT_FILE, --cert-file)"),
        (("--ca-file", "ca.pem"), {}, 2, "needs use_ssl=True (AMQP_USE_SSL, --use-ssl)"),
        ((), {"AMQP_USE_SSL": "please"}, 2, "AMQP_USE_SSL must be one of 1, true"),
        (("--use-ssl", "--key-file", "ann.key"), {}, 2, "key_file= needs cert_file="),
    ),
)
def test_dead_letters_command_names_the_tls_option_to_mend(
    mutual: Broker,
    files: Path,
    args: tuple[str, ...],
    environment: dict[str, str],
    code: int,
    text: str,
) -> None:
    env = {**os.environ, "AMQP_PORT": str(mutual.tls_port), **environment}
    done = run("dead-letters", *args, cwd=files, env=env)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr.splitlines()[-1]


async def test_company_logs_in_by_the_certificate_that_its_file_names(
    mutual: Broker, files: Path
) -> None:
    (files / "sums.py").write_text(AGENT)
    exchange = f"test.{uuid4().hex}"
    (files / "company.yaml").write_text(
        f"""
broker:
  host: localhost
  port: {mutual.tls_port}
  exchange: {exchange}
  tls: true
  ca_file: ca.pem
  cert_file: ann.pem
  key_file: ann.key
  quorum: true
agents:
  Sums: {{ref: 'sums.py:Calculator'}}
"""
    )
    async with Company.from_yaml(files / "company.yaml") as company:
        me = await asyncio.to_thread(company.space.add, Agent("me"))
        assert await me.ask("Sums", "add", a=2, b=3) == 5
        assert company.health()["broker"] == {"connected": True}
