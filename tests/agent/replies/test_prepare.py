"""After `prepare`, the first reply of a service does nothing that is done once for all."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from models.openai_server import OpenAIServer, text
from moothall import (
    Conversation,
    LocalModel,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
)
from moothall.foundation.errors import WeightsError

PROGRAM = """
import asyncio, json, sys
import moothall
from moothall import Budget, Context, Journal, ReActAgent, SQLiteMemory

url, kind = sys.argv[1:]


def order(number: int, context: Context) -> str:
    '''Order something.

    Args:
        number: how many
    '''
    return "done"


def desk(id="desk", **options):
    model = moothall.OpenAIModel("m", base_url=url, api_key="k")
    return ReActAgent(id, model, actions=[order], memory=SQLiteMemory(f"{id}.db"), **options)


async def main():
    journal = Journal("runs.db")
    budget = Budget(tokens=10**6, journal=journal, name="whole")
    kept = {"journal": journal, "budget": budget}
    if kind == "ReActAgent":
        agent = desk(system_prompt="You.", **kept)
    elif kind == "DualActAgent":
        agent = moothall.DualActAgent(human=desk("H"), reactive=desk(), id="both", **kept)
    elif kind == "Conversation":
        until = moothall.MaxTurns(2)
        agent = moothall.Conversation([desk("one"), desk("two")], until=until, **kept)
    elif kind == "Researcher":
        open("a.txt", "w").write("Amber is a fossil resin of conifers.")
        from moothall.research import search_folder

        tools = [search_folder(".")]
        model = desk().model
        agent = moothall.Researcher("r", model, ["What is amber?"], tools, 1, **kept)
    else:
        agent = moothall.ChattyAI("chatty", desk().model)
    await agent.prepare()
    before = set(sys.modules)
    if kind == "ChattyAI":
        await agent.say("Hello")
    else:
        share = budget.child(tokens=500_000, name="ada")
        async with agent.stream("Hello", thread="ada", budget=share, run_id="r") as events:
            async for _ in events:
                pass
    ours = ("moothall", "aiohttp", "docstring_parser", "jsonschema_rs", "pydantic")
    heavy = (*ours, "yarl", "numpy")
    print(json.dumps([m for m in set(sys.modules) - before if m.partition(".")[0] in heavy]))


asyncio.run(main())
"""


@pytest.mark.parametrize(
    "kind", ("ReActAgent", "DualActAgent", "Conversation", "Researcher", "ChattyAI")
)
def test_prepare_lets_the_first_reply_import_nothing(tmp_path: Path, kind: str) -> None:
    with OpenAIServer(lambda request: text("Good morning.")) as server:
        program = [sys.executable, "-c", PROGRAM, server.url, kind]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    assert server.requests or kind == "Researcher"


async def test_prepare_sends_and_remembers_nothing(tmp_path: Path) -> None:
    model = ScriptedModel(["Hello."])
    made: list[str | None] = []

    def memory(thread: str | None) -> SQLiteMemory:
        made.append(thread)
        return SQLiteMemory(tmp_path / f"{thread}.db")

    agent = ReActAgent("a", model, memory=memory)
    for _ in range(2):
        await agent.prepare()
    assert (made, len(model.received)) == ([], 0)
    assert (await agent.reply("Hi", thread="t")).text == "Hello."


def test_prepare_loads_a_local_model_of_members_too(shallow: Path) -> None:
    with LocalModel(shallow) as model, NativeSpace() as space:
        member = ReActAgent("a", model)
        both = space.add(Conversation([member, ReActAgent("b", ScriptedModel([]))], id="both"))
        assert not model.loaded

        asyncio.run(both.prepare())
        assert model.loaded


def test_prepare_names_missing_weights(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    agent = ReActAgent("a", f"gguf:{tmp_path / 'broken.gguf'}")

    with pytest.raises(WeightsError, match=r"broken\.gguf"):
        asyncio.run(agent.prepare())
