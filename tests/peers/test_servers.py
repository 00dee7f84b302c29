"""Other people's servers, which we call: three turns of a conversation, and one restart."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ACCESS_PERMITTED,
    A2AAgent,
    AnthropicModel,
    CallbackApprover,
    Done,
    OpenAIModel,
    ReActAgent,
    Reply,
    ScriptedModel,
)
from moothall.serving import MCPAgent
from peers.clerk import QUESTIONS, answer
from peers.playing import Peer, Program, plays


def end(pid: int) -> None:
    """Kill a process, and wait until it has ended."""
    process = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([process], [], [], 20)[0]
    finally:
        os.close(process)


def text_of(reply: Reply) -> str:
    return reply.text or f"{reply.stop_reason}: {reply.detail} {reply.messages[-2:]}"


@pytest.mark.parametrize("peer", plays("mcp"))
def test_mcp_agent_goes_on_after_its_server_was_killed(peer: Peer, tmp_path: Path) -> None:
    where = tmp_path / "pid"
    for mode in peer.modes:
        with ExitStack() as stack:
            target: Any = [*peer.command(), mode, str(where)]
            if mode == "http":
                program = stack.enter_context(Program(*target))
                target = f"{program.url}/mcp"
            kit = stack.enter_context(MCPAgent("kit", target, access=ACCESS_PERMITTED))
            approver = CallbackApprover(lambda request: True, lambda question: "yes")
            agent = ReActAgent("clerk", ScriptedModel(answer), actions=[kit], approver=approver)
            told = [text_of(agent.reply_sync(each, thread="t")) for each in QUESTIONS[:2]]
            if mode == "http":
                program.restart()
            else:
                end(int(where.read_text()))
            told.append(text_of(agent.reply_sync(QUESTIONS[2], thread="t")))
            orders = "order" in kit.offers
            lamp, chair = ("; ordered lamp", "; ordered chair") if orders else ("", "")
            assert told == [
                "question 1; Ada",
                f"question 2; Ada; lamp: 12{lamp}",
                f"question 3; Ada; lamp: 12{lamp}; chair: 40{chair}",
            ], mode


@pytest.mark.parametrize("peer", plays("a2a"))
def test_a2a_agent_goes_on_after_its_server_was_killed(peer: Peer, tmp_path: Path) -> None:
    for mode in peer.modes:
        with Program(*peer.command(), mode, str(tmp_path)) as program:
            far = A2AAgent("far", program.url)
            told = [far.reply_sync(each, thread="t").text for each in QUESTIONS[:2]]
            program.restart()
            told.append(far.reply_sync(QUESTIONS[2], thread="t").text)
            said = [" ".join(QUESTIONS[:turn]) for turn in (1, 2, 3)]
            assert told == said, mode


FORMS: dict[str, Callable[[str], Any]] = {
    "chat": lambda url: OpenAIModel("m", f"{url}/v1", max_tokens=9),
    "responses": lambda url: OpenAIModel("m", f"{url}/v1", max_tokens=9, api="responses"),
    "messages": lambda url: AnthropicModel("m", url, "none", max_tokens=9),
}


async def replied(agent: ReActAgent, question: str, streamed: bool) -> Reply:
    if not streamed:
        return await agent.reply(question, thread="t")
    async with agent.stream(question, thread="t") as events:
        *_, last = [each async for each in events]
    assert isinstance(last, Done)
    return last.reply


@pytest.mark.parametrize("peer", plays("llama"))
def test_model_goes_on_after_its_llama_server_was_killed(peer: Peer, shallow: Path) -> None:
    def started(port: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*peer.command(), port, str(shallow)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        for each in (process.stdin, process.stdout):
            assert each is not None
            stack.callback(each.close)
        addresses.append(each.readline().strip())
        return process

    addresses: list[str] = []
    with ExitStack() as stack:
        server = started("0")
        agents = {}
        for mode in peer.modes:
            model = FORMS[mode.removesuffix("-stream")](addresses[0])
            agents[mode] = ReActAgent(mode, model, actions=[price], max_iterations=3)
        read: dict[str, list[int]] = {}
        for turn, question in enumerate(QUESTIONS):
            if turn == 2:
                server.kill()
                server.wait()
                started(addresses[0].rpartition(":")[2])
            for mode, agent in agents.items():
                reply = asyncio.run(replied(agent, question, mode.endswith("-stream")))
                assert (reply.stop_reason, bool(reply.text)) == ("done", True), (mode, reply.detail)
                read.setdefault(mode, []).append(reply.usage.input_tokens)
        # Each prompt holds what was said before.
        assert all(a < b < c for a, b, c in read.values()), read


def price(item: str) -> str:
    """Tell the price of an item."""
    return f"{item}: 12"
