"""What the tab Runs says that a model was given is what its server received, word for word."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from models.openai_server import OpenAIServer, Request, call, calls, status, text
from moothall import DualActAgent, DualActConfig, ReActAgent, TokenBoundedMemory, action
from moothall.models.remote.chat_format import chat_messages
from moothall.research import Researcher, search_folder
from moothall.studio import Studio

LOOK = calls(call("look_at", '{"path": "a"}'))


@action(name="look at")
def look(path: str) -> str:
    """Look at a file."""
    return f"{path}: {'words ' * 30}"


def aside(work: Coroutine[Any, Any, None]) -> None:
    """Do it in a thread of its own: this one may have Playwright's loop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def shown(studio: Studio, run: str) -> list[Any]:
    """What each call of a model was given in a run, as the page shows it."""
    given, began = [], {}
    for each in studio.runs.entries(run):
        data, path = each["data"], each["path"]
        if each["kind"] == "started":
            began[path, data["key"]] = each["sequence"]
        elif "model" in data.get("about", {}):
            start = studio.runs.entry(run, began[path, data["key"]])["data"]
            found: Any = start.get("args") or studio.runs.prompt(run, path, each["sequence"])
            schema = found.get("schema")
            given.append((chat_messages(found["messages"], ""), found.get("tools") or [], schema))
    return given


def received(requests: list[Request]) -> list[Any]:
    """The same, as the server has it: beside actions a schema is that of a final action."""
    made = []
    for body in (each.body for each in requests):
        tools = [each["function"] for each in body.get("tools", ())]
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if tools and tools[-1]["name"] == "final_answer":
            (schema,) = tools.pop()["parameters"]["properties"].values()
        made.append((body["messages"], tools, schema))
    return made


def test_agents_prompts_are_shown_as_its_server_received_them(studio: Studio) -> None:
    """With an earlier conversation, a window that moves, a hook, a failure, and going on."""
    answers = (text("Before."), LOOK, LOOK, status(400), text("1"), text("2"))
    with OpenAIServer(*answers) as server:
        memory = TokenBoundedMemory(400)

        def hinted(agent: Any, about: dict[str, Any]) -> dict[str, Any] | None:
            if about["iteration"] != 2:
                return None
            return about | {"messages": [*about["messages"], {"role": "user", "content": "Hint"}]}

        def agent() -> ReActAgent:
            made = ReActAgent(
                "a",
                f"{server.url}#m",
                actions=[look],
                system_prompt="You look. " * 300,
                memory=memory,
                journal=studio.journal,
            )
            made.register_hook("pre_reasoning", "hint", hinted)
            return made

        async def replies() -> None:
            await agent().reply("Hello?")
            await agent().reply("How many? " + "?" * 400, schema=int, run_id="r")
            await agent().reply("How many? " + "?" * 400, schema=int, run_id="r")

        aside(replies())
        wanted = received(server.requests[1:])
    assert len(wanted) == 4
    assert wanted == shown(studio, "r")


def test_prompts_of_members_and_of_a_researcher(studio: Studio, tmp_path: Path) -> None:
    """Each in a part of its own; the researcher's are not the loop's."""
    decisions = [
        '{"action": "CONTINUE", "new_instruction": "Look.", "reasoning": ""}',
        '{"action": "TERMINATE", "new_instruction": "", "reasoning": ""}',
    ]
    answers = (text(decisions[0]), LOOK, text("Looked."), text(decisions[1]), text("No plan."))
    with OpenAIServer(*answers) as server:
        h = ReActAgent("h", f"{server.url}#h", system_prompt="Decide.")
        r = ReActAgent("r", f"{server.url}#r", actions=[look])
        pair = DualActAgent(DualActConfig(human=h, reactive=r), journal=studio.journal)
        who = Researcher(
            "w", f"{server.url}#m", ["alpha"], [search_folder(tmp_path)], journal=studio.journal
        )

        async def replies() -> None:
            await pair.reply("Look around.", run_id="pair")
            await who.reply("alpha", run_id="research")

        aside(replies())
        wanted = received(server.requests)
    assert shown(studio, "pair") == wanted[:4]
    assert shown(studio, "research") == wanted[4:] != []
