"""Three agents on two hosts, as docs/deploy.md has it: network namespaces, with TLS. Needs root.

    python -m benchmarks.two_hosts

The hosts are two network namespaces that reach the services, and nothing else, over a pair of
virtual cards each. RabbitMQ and PostgreSQL are private ones that show certificates. Host 1 serves
Clerk and Stock, host 2 serves Till and stands by for the first; Stock has a schedule. Then the
script kills the process on host 1, unplugs host 2's card and plugs it in again, kills PostgreSQL
and RabbitMQ and starts them again, prunes the journal, dumps the database, loses it, and restores
it. Each step says what came of it; the first that fails ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import psycopg
import trustme

from benchmarks.broker import Broker, Certificates
from benchmarks.postgresql import Authority, Server, programs
from benchmarks.proxy import Proxy
from moothall import Agent, AMQPOptions, AMQPSpace, Journal, MoothallError

SERVICES = "10.213.1.1"
WITHIN_S = 60.0
AGENTS = """
import os
from pathlib import Path

from moothall import Agent, ModelReply, ReActAgent, action

class Stock(Agent):
    @action
    async def note(self, at: str) -> None:
        "Note the time of a firing, in a file of both hosts."
        path = Path(__file__).parent.parent / "noted"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{at} ".encode())
        os.close(file)

    @action(idempotent=True)
    async def count(self) -> int:
        "Return how many there are."
        return 7

class Till(Agent):
    @action(idempotent=True)
    async def price(self) -> int:
        "Ask the stock on the other host, and return a price."
        return 3 * await self.ask("Stock", "count")

class Echo:
    name = "echo"
    context_tokens = None

    async def complete(self, messages, actions=None, schema=None):
        return ModelReply("You said: " + messages[-1]["content"])

def clerk(id):
    return ReActAgent(id, Echo())
"""
COMPANY = """
journal: '{url}'
http: {{listen: '{address}:0', token: '${{MOOTHALL_TOKEN}}'}}
broker:
  host: {services}
  port: {port}
  username: guest
  password: ${{AMQP_PASSWORD}}
  tls: true
  ca_file: ca.pem
  heartbeat: 5
  exchange: shop
  inbox: {name}.inbox
agents:
{agents}
"""
FIRST = """  Clerk: {ref: 'agents.py:clerk'}
  Stock: {ref: 'agents.py:Stock'}
schedules:
  note: {every: 1s, missed: all, to: Stock, action: note, time_as: at}"""
SECOND = "  Till: {ref: 'agents.py:Till'}"


def ip(*args: str) -> None:
    subprocess.run(("ip", *args), check=True, capture_output=True, text=True)


class Host:
    """A host: a network namespace with a card, whose other end is here."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name = f"moothall-{os.getpid()}-{number}"
        self.card = f"mh{os.getpid() % 100_000}{number}"
        self.address = f"10.213.{number}.2"
        self.folder = folder / f"host{number}"
        self.folder.mkdir()
        ip("netns", "add", self.name)
        ip("link", "add", self.card, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("address", "add", f"10.213.{number}.1/24", "dev", self.card)
        ip("link", "set", self.card, "up")
        for inside in (
            ("address", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", f"10.213.{number}.1"),
        ):
            ip("-n", self.name, *inside)

    def serve(self, file: str, environment: dict[str, str]) -> Served:
        return Served(self, file, environment)

    def run(self, *args: str, environment: dict[str, str]) -> str:
        """Run `moothall` on the host; what it says."""
        done = subprocess.run(
            ("ip", "netns", "exec", self.name, sys.executable, "-m", "moothall", *args),
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def plug(self, state: str) -> None:
        """Plug its card in (`up`), or out (`down`)."""
        ip("link", "set", self.card, state)

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("netns", "delete", self.name)
            ip("link", "delete", self.card)


class Served:
    """`moothall serve` on a host."""

    def __init__(self, host: Host, file: str, environment: dict[str, str]) -> None:
        self.host = host
        command = ("ip", "netns", "exec", host.name, sys.executable, "-m", "moothall", "serve")
        self.process = subprocess.Popen(
            (*command, file), cwd=host.folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "at port " in line, f"{file} did not start: {line}"
        self.port = int(line.rpartition("at port ")[2].partition(".")[0])

    def states(self) -> dict[str, str]:
        """What its agents are doing."""
        address = f"http://{self.host.address}:{self.port}/health"
        asked = urllib.request.Request(address, headers={"Authorization": "Bearer secret"})
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:
                said = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            said = json.loads(error.read())
        return {name: each["state"] for name, each in said["agents"].items()}

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def wait(condition: Callable[[], bool], what: str) -> float:
    """Wait until it holds; how many seconds that took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < WITHIN_S, what
        threading.Event().wait(0.05)
    return time.monotonic() - begun


def exceeds(outcomes: Counter[str], count: int) -> bool:
    return outcomes.total() > count


@contextlib.contextmanager
def asking(me: Agent) -> Iterator[Counter[str]]:
    """Ask all three agents meanwhile; the outcomes of all requests."""
    outcomes: Counter[str] = Counter()
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            asked = (
                me.ask("Clerk", "say", content="Hello."),
                me.ask("Stock", "count"),
                me.ask("Till", "price"),
            )
            for each in asked:
                try:
                    each.result(2 * WITHIN_S)
                    outcomes["ok"] += 1
                except MoothallError as error:
                    outcomes[type(error).__name__] += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield outcomes
    finally:
        over.set()
        thread.join()


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("it makes network namespaces, which takes root")
    authority = trustme.CA()
    own = authority.issue_cert(SERVICES, "127.0.0.1")
    chain = b"".join(each.bytes() for each in own.cert_chain_pems)
    key = own.private_key_pem.bytes()
    ca = authority.cert_pem.bytes()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = []
        for number in (1, 2):
            hosts.append(Host(number, folder))
            stack.callback(hosts[-1].close)
        broker = stack.enter_context(Broker(tls=Certificates(ca, chain, key)))
        server = stack.enter_context(Server(tls=Authority(chain, key)))
        assert broker.tls_port is not None
        rabbit = stack.enter_context(Proxy(broker.tls_port, SERVICES))
        postgres = stack.enter_context(Proxy(server.port, SERVICES))
        url = f"postgresql://{server.user}@{SERVICES}:{postgres.port}/postgres?sslmode=verify-full"
        url += "&sslrootcert=ca.pem"
        environment = {
            **os.environ,
            "AMQP_PASSWORD": "guest",
            "MOOTHALL_TOKEN": "secret",
            "PGPASSWORD": server.password,
            "MOOTHALL_JOURNAL": url,
        }
        files = (("one", FIRST, hosts), ("two", SECOND, hosts[1:]))
        for host in hosts:
            (host.folder / "ca.pem").write_bytes(ca)
            (host.folder / "agents.py").write_text(AGENTS)
        for name, agents, where in files:
            for host in where:
                given = {"url": url, "address": host.address, "services": SERVICES, "name": name}
                text = COMPANY.format(port=rabbit.port, agents=agents, **given)
                (host.folder / f"{name}.yaml").write_text(text)

        first = hosts[0].serve("one.yaml", environment)
        stack.callback(first.end)
        wait(lambda: set(first.states().values()) == {"running"}, "host 1 serves Clerk and Stock")
        till, next_one = (hosts[1].serve(f"{name}.yaml", environment) for name in ("two", "one"))
        for each in (till, next_one):
            stack.callback(each.end)
        wait(lambda: set(till.states().values()) == {"running"}, "host 2 serves Till")
        wait(lambda: set(next_one.states().values()) == {"standby"}, "host 2 stands by")
        print("host 1 serves Clerk and Stock; host 2 serves Till, and stands by")

        (folder / "ca.pem").write_bytes(ca)
        options = AMQPOptions(
            hostname=SERVICES, port=rabbit.port, use_ssl=True, ca_file=str(folder / "ca.pem")
        )
        space = stack.enter_context(AMQPSpace(amqp_options=options, exchange="shop"))
        me = space.add(Agent("me"))
        print("Till asks Stock on the other host:", me.ask("Till", "price").result(WITHIN_S))
        print("Clerk:", me.ask("Clerk", "say", content="Good day.").result(WITHIN_S))

        with asking(me) as outcomes:
            wait(lambda: outcomes.total() > 30, "requests are answered")
            first.process.kill()
            took = wait(lambda: set(next_one.states().values()) == {"running"}, "host 2 takes over")
            before = outcomes.total()
            wait(lambda: outcomes.total() > before + 30, "requests are answered by host 2")
        print(f"host 1 killed: host 2 took over in {took:.1f} s; outcomes: {dict(outcomes)}")

        back = hosts[0].serve("one.yaml", environment)
        stack.callback(back.end)
        wait(lambda: set(back.states().values()) == {"standby"}, "host 1 stands by")
        with asking(me) as outcomes:
            wait(lambda: outcomes.total() > 30, "requests are answered")
            hosts[1].plug("down")
            took = wait(lambda: set(back.states().values()) == {"running"}, "host 1 takes over")
            hosts[1].plug("up")
            ip("address", "replace", "10.213.2.1/24", "dev", hosts[1].card)
            wait(lambda: set(till.states().values()) == {"running"}, "host 2 has its Till again")
            before = outcomes.total()
            wait(lambda: outcomes.total() > before + 30, "requests are answered by both")
        print(f"host 2 unplugged: host 1 took over in {took:.1f} s; outcomes: {dict(outcomes)}")

        for what, away_s in ((server, 15.0), (broker, 2.0)):
            with asking(me) as outcomes:
                wait(lambda: outcomes.total() > 30, "requests are answered")
                what.kill()
                threading.Event().wait(away_s)
                what.start()
                enough = outcomes.total() + 30
                wait(partial(exceeds, outcomes, enough), "requests are answered again")
            print(f"{what.what} killed, away for {away_s:g} s; outcomes: {dict(outcomes)}")
        noted = Counter((folder / "noted").read_text().split())
        with Journal(server.url()) as journal:
            firings = {run.id: run.state for run in journal.runs(kind="Schedule", agent="note")}
        firings = {id.partition("@")[2]: state for id, state in firings.items() if "@s" not in id}
        times = sorted(datetime.fromisoformat(each).timestamp() for each in firings)
        print(
            f"the schedule's firings: {dict(Counter(firings.values()))};",
            f"times without one: {round(times[-1] - times[0]) + 1 - len(times)};",
            f"fired twice: {len([each for each in noted.values() if each > 1])};",
            f"done without effect: {sum(firings[e] == 'done' and e not in noted for e in firings)}",
        )

        def order(*args: str) -> str:
            return hosts[0].run(*args, environment=environment).strip()

        local = server.url()
        print("pruned:", order("runs", "prune", "--older", "1s", "--keep", "20").splitlines()[-1])
        with Journal(local) as journal:
            kept = [(run.id, len(journal.entries(run.id))) for run in journal.runs()]
        tool = {**environment, "PGPASSWORD": server.password}
        dumped = subprocess.run(
            (programs() / "pg_dump", "--schema=moothall", local),
            env=tool,
            capture_output=True,
            check=True,
        ).stdout
        for each in (back, till, next_one):
            each.end()
        with psycopg.connect(local, autocommit=True) as db:
            db.execute("DROP SCHEMA moothall CASCADE")
        subprocess.run(
            (programs().parent / "bin" / "psql", "--quiet", "--set=ON_ERROR_STOP=1", local),
            env=tool,
            input=dumped,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        with Journal(local) as journal:
            assert kept == [(run.id, len(journal.entries(run.id))) for run in journal.runs()]
            (reply, *_) = journal.runs(kind="ReActAgent")
            print(f"restored: {len(kept)} runs;", journal.replay(reply.id).text)
        print("on host 1:", order("replay", reply.id).splitlines()[-1])


if __name__ == "__main__":
    main()
