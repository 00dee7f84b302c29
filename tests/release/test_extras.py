"""Each extra, installed alone into an empty environment, does what it is for."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from release.conftest import ROOT, Install

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

ALONE = {
    "": """
        from moothall import Agent, NativeSpace, ReActAgent, ScriptedModel, action

        class Calculator(Agent):
            @action
            def add(self, a: int, b: int) -> int:
                return a + b

        with NativeSpace() as space:
            space.add(Calculator("Calculator"))
            assert space.add(Agent("me")).ask("Calculator", "add", a=1, b=2).result(5) == 3
        agent = ReActAgent("shop", ScriptedModel(["three"]), journal="runs.db")
        assert agent.reply_sync("How many?").text == "three"
    """,
    "local": """
        from moothall import ReActAgent

        def in_stock(item: str) -> int:
            "How many of an item are in stock."
            return 3

        agent = ReActAgent("shop", "local", actions=[in_stock])
        assert agent.reply_sync("How many pears are in stock?").text == "3"
    """,
    "openai": """
        from moothall import ModelError, ReActAgent

        reply = ReActAgent("far", "http://127.0.0.1:9/v1#m").reply_sync("Hello")
        assert isinstance(reply.error, ModelError) and "127.0.0.1:9" in str(reply.error), reply
    """,
    "amqp": """
        from moothall import AMQPOptions, AMQPSpace, Agent, BrokerError

        try:
            with AMQPSpace(amqp_options=AMQPOptions("127.0.0.1", 9)) as space:
                space.add(Agent("me"))
        except BrokerError as error:
            assert "127.0.0.1" in str(error), error
        else:
            raise AssertionError("it found a broker")
    """,
    "postgres": """
        from moothall import Journal, JournalError, PostgresMemory

        try:
            Journal("postgresql://nobody:secret@127.0.0.1:9/none")
        except JournalError as error:
            assert "127.0.0.1:9/none" in str(error) and "secret" not in str(error), error
        else:
            raise AssertionError("it found a server")
    """,
    "testing": """
        import subprocess, sys
        from pathlib import Path

        lines = [
            "from moothall import Memory, NativeSpace",
            "from moothall.testing import SpaceConformance, ThreadMemoryConformance",
            "class TestSpace(SpaceConformance):",
            "    def make(self, **options):",
            "        return NativeSpace(**options)",
            "class TestMemory(ThreadMemoryConformance):",
            "    def make(self, tokens):",
            "        return Memory()",
        ]
        Path("test_own.py").write_text("\\n".join(lines))
        subprocess.run([sys.executable, "-m", "pytest", "-q", "test_own.py"], check=True)
    """,
    "cli": """
        import subprocess, sys

        command = [sys.executable, "-m", "moothall"]
        for each in ("--help", "act --help", "models"):
            subprocess.run([*command, *each.split()], check=True)
    """,
    "research": """
        from pathlib import Path
        from moothall.research import Researcher, search_folder

        Path("notes").mkdir()
        Path("notes/a.md").write_text("The lighthouse of Genoa is 77 metres tall.")
        asked = ["How tall is the lighthouse of Genoa?"]
        report = Researcher("r", None, asked, [search_folder("notes")]).report_sync()
        assert "77 metres" in report.markdown and "77 metres" in report.html()
    """,
    "mcp": """
        import sys
        from pathlib import Path
        from moothall import ACCESS_PERMITTED, ReActAgent, ScriptedModel
        from moothall.serving import MCPAgent

        lines = ["from moothall import Agent, action", "class Calculator(Agent):",
                 "    @action", "    def add(self, a: int, b: int) -> int:",
                 "        return a + b"]
        Path("shop.py").write_text("\\n".join(lines))
        served = [sys.executable, "-m", "moothall", "serve", "shop:Calculator", "--mcp-stdio"]
        sums = MCPAgent("sums", served, access=ACCESS_PERMITTED)
        model = ScriptedModel([{"name": "sums_add", "args": {"a": 1, "b": 2}}, "three"])
        reply = ReActAgent("clerk", model, actions=[sums]).reply_sync("1 + 2?")
        assert "3" in str(reply.steps[0].result), reply.steps

        import asyncio
        import httpx2
        from moothall import Agent, action
        from moothall.serving import asgi

        class Clerk(Agent):
            @action
            def greet(self) -> str:
                return "Good day"

        async def at_a_door():
            app = asgi(Clerk("Clerk"), token="secret")
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
                found = await client.get("http://127.0.0.1/v1/models")
                assert found.status_code == 401, found
                head = {"Authorization": "Bearer secret"}
                found = await client.get("http://127.0.0.1/v1/models", headers=head)
                assert found.status_code == 200, found

        asyncio.run(at_a_door())
    """,
    "skills": """
        from pathlib import Path
        from moothall import ReActAgent, ScriptedModel, Skills

        folder = Path("skills/greeting")
        folder.mkdir(parents=True)
        head = "---\\nname: greeting\\ndescription: How we greet.\\n---\\n"
        (folder / "SKILL.md").write_text(head + "Begin with Good day.")
        model = ScriptedModel([{"name": "load_skill", "args": {"name": "greeting"}}, "Good day."])
        reply = ReActAgent("clerk", model, actions=[Skills("skills")]).reply_sync("Greet Ada")
        assert "Begin with" in str(reply.steps[0].result), reply.steps
    """,
    "otel": """
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from moothall import ReActAgent, ScriptedModel
        from moothall.serving.telemetry import instrument

        provider, kept = TracerProvider(), InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(kept))
        instrument(provider)
        ReActAgent("clerk", ScriptedModel(["Good day."])).reply_sync("Hello")
        assert "invoke_agent clerk" in [each.name for each in kept.get_finished_spans()]
    """,
    "company": """
        import asyncio
        from pathlib import Path
        from moothall import Agent
        from moothall.serving import Company

        lines = ["from moothall import Agent, action", "class Clerk(Agent):",
                 "    @action", "    def greet(self) -> str:", "        return 'Good day'"]
        Path("shop.py").write_text("\\n".join(lines))
        Path("company.yaml").write_text("agents: {Clerk: {ref: 'shop.py:Clerk'}}")

        async def main():
            company = Company.from_yaml("company.yaml")
            async with company:
                me = await asyncio.to_thread(company.space.add, Agent("me"))
                assert await me.ask("Clerk", "greet") == "Good day"
                assert "moothall_requests_total" in company.metrics()

        asyncio.run(main())
    """,
    "society": """
        import asyncio
        from moothall.society import Society

        town = Society(50, seed=1)
        rows = asyncio.run(town.run(days=1))
        assert rows
    """,
    "tables": """
        import asyncio
        from pathlib import Path
        from moothall.society import Society

        asyncio.run(Society(20, seed=1).run(days=1, out="town"))
        assert list(Path("town").glob("*.parquet"))
    """,
    "pandas": """
        from moothall.society import Experiment

        facts = {"society": {"citizens": 20}, "metrics": ["home"]}
        many = Experiment(name="e", **facts, workflow=[{"run": {"steps": 2}}])
        frame = many.run_sync(jobs=0).to_pandas()
        assert len(frame)
    """,
    "osm": """
        from pathlib import Path
        from moothall.society import City

        ends = '<node id="1" lon="11" lat="48"/><node id="2" lon="11.01" lat="48"/>'
        home = '<node id="3" lon="11" lat="48"><tag k="building" v="house"/></node>'
        road = '<nd ref="1"/><nd ref="2"/><tag k="highway" v="residential"/>'
        text = f'<osm version="0.6">{ends}{home}<way id="1">{road}</way></osm>'
        Path("town.osm").write_text(text)
        assert City.from_osm("town.osm")["home-1"].capacity == 3
    """,
    "sensitivity": """
        from moothall.society import Experiment

        facts = {"society": {"citizens": 10}, "metrics": ["home"]}
        made = Experiment(name="e", workflow=[{"run": {"steps": 1}}], **facts)
        bounds = {"blocks.SocialBlock.bound": (1, 9)}
        found = made.sensitivity_sync("morris", bounds, samples=2, jobs=0)
        assert len(found.rows) == 1
    """,
    "pictures": """
        import asyncio
        from pathlib import Path
        from moothall.society import City, Society, draw_map

        draw_map(Society(20, City.generate(seed=1, citizens=20), seed=1), "map.png")
        assert Path("map.png").stat().st_size > 1000
    """,
    "ray": """
        import asyncio
        from moothall.society import Population, RayEngine, Society

        if __name__ == "__main__":
            town = Society(200, seed=1, engine=RayEngine(workers=1))
            asyncio.run(town.run(days=1))
    """,
    "gradio": """
        import urllib.error, urllib.request
        from moothall import NativeSpace
        from moothall.studio.gradio import demo, gradio_user

        with NativeSpace() as space, demo:
            space.add(gradio_user)
            demo.launch(0, prevent_thread_lock=True, quiet=True)
            try:
                urllib.request.urlopen(demo.url)
            except urllib.error.HTTPError as error:
                assert error.code == 401, error
    """,
    "studio": """
        import sys, urllib.error, urllib.request
        from moothall.studio import Studio

        with Studio() as studio:
            studio.launch(0, journal="runs.db", prevent_thread_lock=True, quiet=True)
            try:
                urllib.request.urlopen(studio.url)
            except urllib.error.HTTPError as error:
                assert error.code == 401, error
        assert "gradio" not in sys.modules
    """,
    "pydantic-evals": """
        from moothall import ReActAgent, ScriptedModel
        from moothall.evals import Case, Evaluation
        from pydantic_evals.evaluators import Contains

        agent = ReActAgent("clerk", ScriptedModel(["Good day."]))
        results = Evaluation(agent, [Case("greeting", "Greet")], [Contains("day")]).run_sync()
        assert results.mean("Contains").mean == 1.0, results.errors
    """,
    "inspect": """
        from moothall import ReActAgent, ScriptedModel
        from moothall.evals import Case, Evaluation
        from inspect_ai.scorer import includes

        agent = ReActAgent("clerk", ScriptedModel(["Good day."]))
        results = Evaluation(agent, [Case("greeting", "Greet", "day")], [includes()]).run_sync()
        assert results.mean("includes").mean == 1.0, results.errors
    """,
}
"""A program for each extra; for none of them the default install."""
PIN_OTHERS = {"pydantic-evals", "inspect"}
"""Extras whose packages allow others but in one version, or in old ones: beside no constraints."""

CORE_AND_COMMAND = """
        import subprocess, sys

        exec(compile(open("core.py").read(), "core.py", "exec"))
        command = [sys.executable, "-W", "error::ImportWarning", "-m", "moothall"]
        for each in ("--version", "--help", "act --help", "runs --journal runs.db"):
            subprocess.run([*command, *each.split()], check=True)
        wrong = subprocess.run([*command, "runs", "--since", "soon"], stderr=-1, text=True)
        assert wrong.returncode == 2 and "must be a date" in wrong.stderr, wrong
        wrong = subprocess.run([*command, "act", "--model", ""], stderr=-1, text=True)
        assert wrong.returncode == 2 and 'must not be ""' in wrong.stderr, wrong
    """
"""What holds with each extra's lowest versions: the default install's program, and commands."""

NOT_OF_USERS = {"all", "bench", "dev", "docs", "release"}


def lines_of(program: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in program.strip("\n").splitlines())


def run(python: Path, program: str, folder: Path) -> None:
    """Run a program in an environment, with none of this one's paths."""
    file = folder / "program.py"
    file.write_text(lines_of(program))
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-W", "error::ImportWarning", file],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


def extras() -> dict[str, list[str]]:
    """The extras of pyproject.toml and what each brings; the default install without a name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def test_extras_of_users_each_have_a_program() -> None:
    assert set(ALONE) == set(extras()) - NOT_OF_USERS


@pytest.mark.parametrize("extra", [pytest.param(each, id=each or "none") for each in ALONE])
def test_extra_alone_does_what_it_is_for(extra: str, install: Install, tmp_path: Path) -> None:
    constraints = Path(os.devnull) if extra in PIN_OTHERS else ROOT / "constraints.txt"
    run(install(extra, constraints), ALONE[extra], tmp_path)


@pytest.mark.parametrize(
    "extra", [pytest.param(each, id=each or "none") for each in (*ALONE, "all")]
)
def test_lowest_versions_that_the_bounds_of_an_extra_allow_work(
    extra: str, wheel: Path, tmp_path: Path
) -> None:
    # Each by itself: beside another extra, that one's packages ask for later versions.
    python, lowest = tmp_path / "environment" / "bin" / "python", tmp_path / "lowest.txt"
    uv = [sys.executable, "-m", "uv", "--quiet"]
    bounds = ["--resolution", "lowest-direct", "-o", lowest, *(["--extra", extra] * bool(extra))]
    for each in (
        [*uv, "pip", "compile", *bounds, "pyproject.toml"],
        [*uv, "venv", "--python", sys.executable, tmp_path / "environment"],
        [*uv, "pip", "install", "--python", python, "-r", lowest],
        [*uv, "pip", "install", "--python", python, "--no-deps", wheel],
    ):
        subprocess.run(each, cwd=ROOT, check=True, capture_output=True, text=True)
    (tmp_path / "core.py").write_text(lines_of(ALONE[""]))
    run(python, CORE_AND_COMMAND, tmp_path)
    for each in [extra] if extra in ALONE else ALONE:
        run(python, ALONE[each], tmp_path)
