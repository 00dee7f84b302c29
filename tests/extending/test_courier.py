"""A package of somebody else's, built as a wheel and installed: what it adds on public names works.

Its tab, its command and its orchestrator are in `test_package.py`.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run
from packages import wheel

SOURCE = Path(__file__).with_name("courier")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(wheel(SOURCE))}
PUBLIC = {
    *("moothall", "moothall.build", "moothall.cli.build", "moothall.models", "moothall.research"),
    *("moothall.serving.doors", "moothall.society", "moothall.studio", "moothall.testing"),
}


def program(code: str, folder: Path, **more: str) -> str:
    """Run a program with the package; return what it prints."""
    done = run(code=code, cwd=folder, env=ENVIRONMENT | more)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.mark.parametrize("suite", ("TestShelf", "TestOracle", "TestStreamSpace"))
def test_package_of_another_passes_the_suite_of_memories_models_or_spaces(
    tmp_path: Path, suite: str
) -> None:
    quiet = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", suite, "--pyargs")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, "courier.conformance"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout  # it is 5 if no test was found


@pytest.mark.parametrize(
    "module", sorted((SOURCE / "courier").glob("*.py")), ids=lambda it: it.stem
)
def test_package_of_another_imports_public_names_alone(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            assert not any(each.name.startswith("moothall") for each in node.names)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("moothall"):
            home = importlib.import_module(str(node.module))
            assert home.__name__ in PUBLIC
            assert {each.name for each in node.names} <= {*home.__all__}


HOST = """
import sys
from courier.fake_streams import FakeStreams
from courier.space import StreamSpace
from moothall import Agent, action

class Post(Agent):
    letters = []

    @action
    async def weigh(self, grams: int) -> str:
        if grams < 0:
            raise ValueError("nothing weighs less than nothing")
        return f"{grams} g"

    @action
    def take(self, letter: str) -> None:
        self.letters.append(letter)

    @action
    def count(self) -> list[str]:
        return sorted(self.letters)

with FakeStreams() as streams, StreamSpace(streams.address) as space:
    space.add(Post("post"))
    print(streams.address[1], flush=True)
    sys.stdin.read()
"""
GUEST = """
import asyncio
import sys
from courier.space import StreamSpace
from moothall import Agent, AgentNotFound, RequestError

with StreamSpace(("127.0.0.1", int(sys.argv[1]))) as space:
    me = space.add(Agent("me"))
    assert asyncio.run(space.all_ids()) == ["me", "post"]
    print(me.ask("post", "weigh", grams=20).result(20))
    for wrong in (lambda: me.ask("post", "weigh", grams=-1), lambda: me.ask("pots", "weigh")):
        try:
            wrong().result(20)
        except RequestError as error:
            print(type(error).__name__, error)
    me.send({"to": "post", "action": {"name": "take", "args": {"letter": "a"}}})
    me.send({"to": "*", "action": {"name": "take", "args": {"letter": "b"}}})
    print(*me.ask("post", "count").result(20))
"""


def test_space_over_streams_carries_messages_to_agents_of_another_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        assert host.stdout is not None
        port = host.stdout.readline().strip()
        done = run(port, code=GUEST, cwd=tmp_path, env=ENVIRONMENT)
        host.communicate("")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "20 g",
        "RequestError ValueError: nothing weighs less than nothing",
        'AgentNotFound no agent "pots" in this space',
        "a b",
    ]


ANSWERS = """
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

class Site(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = f"{body['model']} of {self.headers['authorization']}"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        self.answer("application/json", json.dumps({"choices": [choice]}).encode())

    def do_GET(self):
        self.answer("text/x-diary", open("days.diary", "rb").read())

    def answer(self, kind, data):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

site = HTTPServer(("127.0.0.1", 0), Site)
threading.Thread(target=site.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{site.server_port}"
"""
USES_PROVIDER = """
import os
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from moothall import ModelError, ReActAgent, model
from moothall.serving.telemetry import instrument

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
instrument(provider)
os.environ.pop("MOOTHALL_OFFLINE")
try:
    ReActAgent("Ann", model("acme:anvil-2")).reply_sync("Hi").raise_for_error()
except ModelError as error:
    print(error)
os.environ |= {"ACME_BASE_URL": f"{url}/v1", "ACME_API_KEY": "k" * 20}
anvil = model("acme:anvil-2")
print(anvil.name, ReActAgent("Ann", anvil).reply_sync("Hi").text)
spans = [each.attributes.get("gen_ai.provider.name") for each in exporter.get_finished_spans()]
print({*spans} - {None})
"""


def test_provider_of_a_package_is_named_listed_and_asked_as_ours_are(tmp_path: Path) -> None:
    assert program(ANSWERS + USES_PROVIDER, tmp_path).splitlines() == [
        "acme:anvil-2: there is no key: set ACME_API_KEY, or pass api_key=",
        f"acme:anvil-2 anvil-2 of Bearer {'k' * 20}",
        "{'acme.cloud'}",
    ]
    listed = run("models", cwd=tmp_path, env=ENVIRONMENT).stdout
    assert "acme:NAME" in listed
    assert "Acme's, by its key" in listed


def test_row_of_a_package_that_cannot_be_used_is_named_and_left_out(tmp_path: Path) -> None:
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[moothall.providers]\nlost = nowhere:ROW\nwrong = os:name\nlocal = os:name\n"
    )
    path = os.pathsep.join((ENVIRONMENT["PYTHONPATH"], str(tmp_path)))
    listed = run("models", cwd=tmp_path, env=ENVIRONMENT | {"PYTHONPATH": path})
    assert "acme:NAME" in listed.stdout
    assert "lost" not in listed.stdout
    assert "the provider 'lost' of broken 1.0 cannot be used: ModuleNotFoundError" in listed.stderr
    assert "the provider 'wrong' of broken 1.0 cannot be used: it must be a Provider" in (
        listed.stderr
    )


READS = """
import asyncio
from pathlib import Path
from moothall import UnreadableDocument
from moothall.research import ResourcePool, search_folder, visit_page

DAYS = "== 1 May\\nThe bridge opened.\\n== 2 May\\nRain.\\n"
Path("days.diary").write_text(f"Diary of Ada\\n\\n{DAYS}")
page = asyncio.run(visit_page(allow_hosts=["127.0.0.1"]).execute(url=url, pool=ResourcePool()))
(file,) = search_folder(".").execute(query="When did the bridge open?")
for each in (page, file):
    print(each.description, "|", each.sections[0].title, "|", each.content.splitlines()[1])
Path("days.diary").write_text("nothing")
try:
    asyncio.run(visit_page(allow_hosts=["127.0.0.1"]).execute(url=url, pool=ResourcePool()))
except UnreadableDocument as error:
    print(str(error).partition(": ")[2])
"""


def test_kind_of_documents_of_a_package_is_read_from_folders_and_the_web(tmp_path: Path) -> None:
    assert program(ANSWERS + READS, tmp_path).splitlines() == [
        "Ada | 1 May | The bridge opened.",
        "Ada | 1 May | The bridge opened.",
        "the diary has no day",
    ]


ASKS_DOOR = """
import asyncio
import httpx2
from courier.door import TextDoor
from courier.memory import Shelf
from courier.model import Oracle
from moothall import Agent, Context, Journal, ReActAgent, action
from moothall.serving.doors import Callers

class Shouter(Agent):
    @action
    async def shout(self, text: str, context: Context) -> str:
        return f"{text.upper()}, {context.sender}!"

async def main(journal):
    bot = ReActAgent("bot", Oracle("Good day."), memory=Shelf(), journal=journal)
    door = TextDoor([Shouter("Eve"), bot], Callers({"ada": "a" * 20, "bob": "b" * 20}, rate=3))
    transport = httpx2.ASGITransport(door.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for path, token, customer in (
            ("Eve/shout", "a", ""),
            ("Eve/shout", "", ""),
            ("Eve/sing", "a", ""),
            ("bot/say", "a", "acme"),
            ("Eve/shout", "a", ""),
            ("bot/say", "b", "=" * 600),
        ):
            headers = {"Authorization": f"Bearer {token * 20}", "X-Customer": customer}
            answer = await client.post(f"/text/{path}", content="hello", headers=headers)
            print(answer.status_code, answer.text.splitlines()[0])

with Journal("runs.db") as journal:
    asyncio.run(main(journal))
    print([(run.thread, run.tags) for run in journal.runs(tags={"customer": "acme"})])
"""


def test_door_of_a_package_is_guarded_calls_agents_and_tags_their_runs(tmp_path: Path) -> None:
    *answers, wrong, runs = program(ASKS_DOOR, tmp_path).splitlines()
    assert answers[0] == "200 HELLO, text-ada!"
    assert answers[1] == "401 the token is missing or wrong"
    assert answers[2].startswith("400 ")
    assert "sing" in answers[2]
    assert answers[3] == "200 Good day."
    assert answers[4].startswith("429 too many requests")
    assert wrong.startswith("400 ")
    assert "at most 500 characters" in wrong
    assert runs == "[('text-ada', {'customer': 'acme'})]"


LIVES = """
from courier.block import RoundsBlock
from moothall import ConfigError, Society
from moothall.society import CitizenAgent, CitizenMemory, Population

agents = [CitizenAgent(id, memory=CitizenMemory({}), blocks=[RoundsBlock()]) for id in range(1, 21)]
with Society(agents, seed=7) as town:
    town.run_sync(steps=5)
rows = Population(20, None, [RoundsBlock()], seed=7)
with Society(rows, seed=7) as town:
    town.run_sync(steps=5)
parcels = rows.columns["parcels"].tolist()
assert parcels == [agent.status["parcels"] for agent in agents]
assert rows.status_of(3)["parcels"] == parcels[3] and len({*parcels}) > 5
few = Population(3, None, [RoundsBlock(block_params={"most": 1})], seed=7)
with Society(few, seed=7) as town:
    town.run_sync(steps=5)
assert few.columns["parcels"].tolist() == [5, 5, 5]
try:
    RoundsBlock(block_params={"most": 0})
except ConfigError as error:
    print(error)
"""


def test_block_of_a_package_does_the_same_to_agents_and_rows_by_checked_parameters(
    tmp_path: Path,
) -> None:
    printed = program(LIVES, tmp_path)
    assert printed.startswith("RoundsParams.most: ")
    assert "greater than or equal to 1" in printed
