"""Servers that die, hang, flood, or send what is no message: each call has a clear end."""

from __future__ import annotations

import asyncio
import json
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from moothall import ActionError, Agent, InvalidArguments, MCPServerError, NativeSpace
from moothall.serving import MCPAgent
from serving.mcp_servers.conftest import command

Make = Callable[..., MCPAgent]


def ends(pid: int) -> bool:
    """Wait until a process has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


@pytest.mark.parametrize(
    ("tool", "told"),
    (
        ("die", r"ended \(exit code 3\); on its standard error: out of paper"),
        ("close", "has closed its output"),
        ("babble", "printed 1,000 lines .* such as 'I am a log line'"),
        pytest.param(
            "chatter", "sent 100,000 messages, and answered nothing", marks=pytest.mark.long
        ),
        ("long", "a message of more than 16,777,216 bytes"),
        ("bad", "what the protocol does not allow: content"),
    ),
)
def test_mcp_call_that_breaks_its_server_ends_with_the_reason(
    server: Make, tool: str, told: str
) -> None:
    with NativeSpace() as space:
        space.add(server())
        me = space.add(Agent("me"))

        with pytest.raises(ActionError, match=told) as caught:
            me.ask("odd", tool).result(50)
        assert caught.value.type == "MCPServerError"
        assert "\n" not in str(caught.value)
        # The server is started again for the next call.
        assert me.ask("odd", "echo", text="again").result(30) == "again"


def test_mcp_server_tells_a_page_how_many_calls_failed_and_the_last_reason(server: Make) -> None:
    with NativeSpace() as space:
        odd = space.add(server())
        me = space.add(Agent("me"))
        counts = []
        for tool, arguments in (("echo", {"text": "a"}), ("die", {}), ("echo", {"text": "b"})):
            with suppress(ActionError):
                me.ask("odd", tool, **arguments).result(30)
            row = odd.door_row()
            counts.append((row["calls"], row["failed"]))
        assert counts == [(1, 0), (2, 1), (3, 1)]
        at, reason = row["last_fault"]
        assert abs(at - time.time()) < 60
        assert "out of paper" in reason


@pytest.mark.parametrize("tool", ("noise", "deep"))
def test_mcp_what_is_no_message_is_passed_over(server: Make, tool: str) -> None:
    with NativeSpace() as space:
        space.add(server())
        me = space.add(Agent("me"))
        assert me.ask("odd", tool).result(20)
        with pytest.raises(ActionError, match="on its standard output it printed"):
            me.ask("odd", "die").result(20)


def test_mcp_all_calls_under_way_end_when_the_server_dies(server: Make) -> None:
    with NativeSpace() as space:
        space.add(server())
        me = space.add(Agent("me"))
        waiting = [me.ask("odd", "wait") for _ in range(10)]
        waiting.append(me.ask("odd", "die"))
        for each in waiting:
            with pytest.raises(ActionError, match="exit code 3"):
                each.result(20)


def test_mcp_call_that_waits_for_the_list_is_sent_to_the_next_server_if_this_one_dies(
    server: Make, tmp_path: Path
) -> None:
    pipe, tools = tmp_path / "pipe", tmp_path / "tools"
    os.mkfifo(pipe)
    names = ("changes", "echo")
    tools.write_text(json.dumps([{"name": e, "inputSchema": {"type": "object"}} for e in names]))
    with NativeSpace() as space:
        space.add(server(path=str(tools), mode=f"dies:{pipe}"))
        me = space.add(Agent("me"))
        assert me.ask("odd", "changes", count=1).result(20) == "after the changes"
        waiting = me.ask("odd", "echo", text="again")
        me.ask("odd", "help").result(20)  # comes after it
        pipe.write_text("die")
        assert waiting.result(30) == "again"


def test_mcp_call_that_takes_too_long_ends_and_is_cancelled_at_the_server(
    server: Make, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with NativeSpace() as space:
        space.add(server(timeout_s=3, env={"LOG": str(log)}))
        me = space.add(Agent("me"))
        with pytest.raises(ActionError, match=r'"wait" took longer than 3 s') as caught:
            me.ask("odd", "wait").result(20)
        assert caught.value.type == "TimeoutError"
        assert me.ask("odd", "echo", text="x").result(20) == "x"  # after the cancellation
    assert "cancelled" in log.read_text()


async def test_mcp_cancelled_call_ends_at_once_and_is_cancelled_at_the_server(
    server: Make, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    odd = server(env={"LOG": str(log)})
    await odd.connect()
    call = asyncio.ensure_future(odd.offers["wait"].execute())
    next_call = asyncio.ensure_future(odd.offers["echo"].execute(text="x"))
    assert await next_call == "x"  # the call before was sent
    begun = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    took = time.monotonic() - begun
    await odd.offers["echo"].execute(text="x")
    assert took < 0.05
    assert "cancelled" in log.read_text()


def test_mcp_server_that_hangs_at_the_start_has_an_end(server: Make) -> None:
    with NativeSpace() as space, pytest.raises(MCPServerError, match="did not answer in time"):
        space.add(server(mode="silent", timeout_s=1))


def test_mcp_server_that_ends_at_the_start_says_why() -> None:
    agent = MCPAgent("x", ["/bin/sh", "-c", "echo no licence >&2; exit 4"])
    with agent, pytest.raises(MCPServerError, match=r"exit code 4\); .*error: no licence"):
        _ = agent.offers


def test_mcp_server_that_fails_is_not_started_in_a_hurry(tmp_path: Path) -> None:
    log = tmp_path / "log"
    agent = MCPAgent("x", ["/bin/sh", "-c", f"echo started >> {log}; exit 1"])
    with agent:
        begun = time.monotonic()
        for _ in range(4):
            with pytest.raises(MCPServerError, match="exit code 1"):
                _ = agent.offers
        assert log.read_text().count("started") == 4
        # The pauses are 0.4, 0.8 and 1.6 s, each times 0.5 to 1.
        assert time.monotonic() - begun > 1.4


def test_mcp_close_leaves_no_process_of_the_group(server: Make) -> None:
    with NativeSpace() as space:
        space.add(server())
        child = int(space.add(Agent("me")).ask("odd", "children").result(20))
    assert ends(child)


def test_mcp_close_ends_a_server_that_does_not_heed_it(server: Make, tmp_path: Path) -> None:
    log = tmp_path / "log"
    odd = server(mode="stubborn", env={"LOG": str(log)})
    assert odd.offers

    odd.close()

    assert ends(int(log.read_text().split()[1]))


def test_mcp_start_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["/bin/sh", "-c", f"echo $$ > {log}; exec sleep 1000"]
    with MCPAgent("odd", command, timeout_s=1e-6) as odd:
        with pytest.raises(MCPServerError, match="did not answer in time"):
            _ = odd.offers
        odd.close()
    assert ends(int(log.read_text()))


async def test_mcp_calls_that_wait_end_when_the_agent_is_closed(server: Make) -> None:
    odd = server()
    await odd.connect()
    call = asyncio.ensure_future(odd.offers["wait"].execute())
    await odd.offers["count"].execute()
    await asyncio.to_thread(odd.close)
    with pytest.raises(MCPServerError, match="closed"):
        await call
    with pytest.raises(MCPServerError, match="closed"):
        await odd.offers["count"].execute()


@pytest.mark.parametrize(
    ("schema", "told"),
    (
        ({"type": "object", "properties": {"a": {"type": 12}}}, "is no JSON schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, "leads nowhere"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "nothing is fetched"),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/x0"}},
                "$defs": {
                    f"x{n}": {"allOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 2} for n in range(40)
                }
                | {"x40": {"type": "string"}},
            },
            "leads through more than",
        ),
    ),
)
def test_mcp_tool_without_a_usable_schema_is_not_called(
    server: Make, schema: object, told: str
) -> None:
    import json

    tools = [
        {"name": "odd", "inputSchema": schema},
        {"name": "fine", "inputSchema": {"type": "object"}},
    ]
    with NativeSpace() as space:
        odd = space.add(server(mode="list:" + json.dumps(tools)))
        me = space.add(Agent("me"))
        assert me.ask("odd", "fine").result(20) == "called fine"
        with pytest.raises(InvalidArguments, match=told):
            me.ask("odd", "odd", a="x").result(20)
        assert [*odd.server_actions()] == ["odd_fine"]


def test_mcp_list_that_is_none_ends_the_start(server: Make) -> None:
    for each in ('{"name": 5}', '{"name": "a", "inputSchema": 5}', '{"name": "a"}', "5"):
        with pytest.raises(MCPServerError, match="what the protocol does not allow: tools"):
            _ = server(mode=f"list:[{each}]").offers


def test_mcp_tools_that_the_protocol_does_not_allow_are_left_out_and_named(
    server: Make, caplog: pytest.LogCaptureFixture
) -> None:
    import json

    fine = {"name": "fine", "inputSchema": {"type": "object"}}
    wrong = [{"name": "a"}, {"name": "b", "inputSchema": None}, {"name": 5}, "c"]
    with NativeSpace() as space:
        odd = space.add(server(mode="list:" + json.dumps([*wrong, fine])))
        assert space.add(Agent("me")).ask("odd", "fine").result(20) == "called fine"
        assert [*odd.server_actions()] == ["odd_fine"]
    assert "4 tools are left out" in caplog.text
    assert "'a' (inputSchema: Field required)" in caplog.text


def test_mcp_schema_without_a_type_is_that_of_an_object(server: Make) -> None:
    import json

    tools = [{"name": "fine", "inputSchema": {}}]
    with NativeSpace() as space:
        space.add(server(mode="list:" + json.dumps(tools)))
        assert space.add(Agent("me")).ask("odd", "fine").result(20) == "called fine"


def test_mcp_schema_of_an_earlier_draft_is_checked_by_that_draft(server: Make) -> None:
    import json

    pair = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": pair},
    }
    tools = [{"name": "fine", "inputSchema": schema}]
    with NativeSpace() as space:
        space.add(server(mode="list:" + json.dumps(tools)))
        me = space.add(Agent("me"))
        assert me.ask("odd", "fine", pair=["a", 1]).result(20) == "called fine"
        with pytest.raises(InvalidArguments, match="'b' is not of type 'integer'"):
            me.ask("odd", "fine", pair=["a", "b"]).result(20)


def test_mcp_server_without_the_lists_that_it_promises_is_used_without_them(server: Make) -> None:
    assert "echo" in server(mode="promises").offers


def test_mcp_server_that_hangs_at_the_start_shows_its_last_words() -> None:
    # A shell is there at once, where an interpreter takes as long as a busy machine has it.
    command = ["/bin/sh", "-c", "echo log in at example >&2; exec sleep 1000"]
    told = "on its standard error: log in at example"
    with MCPAgent("odd", command, timeout_s=2) as odd, pytest.raises(MCPServerError, match=told):
        _ = odd.offers


def test_mcp_call_that_takes_too_long_shows_what_the_server_wrote(server: Make) -> None:
    with NativeSpace() as space:
        space.add(server(timeout_s=3))
        with pytest.raises(ActionError, match="longer than 3 s; on its standard error: no disk"):
            space.add(Agent("me")).ask("odd", "stuck").result(20)


def test_mcp_fork_opens_a_connection_of_its_own(server: Make) -> None:
    odd = server()
    assert asyncio.run(_count(odd)) == "1"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if asyncio.run(_count(odd)) == "1" else 2
            odd.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(_count(odd)) == "2"


async def _count(odd: MCPAgent) -> object:
    if not odd.server_actions():
        await odd.connect()
    return await odd.server_actions()["odd_count"].execute()


def test_mcp_many_callers_of_many_loops_at_a_time(server: Make) -> None:
    odd = server()
    assert odd.offers

    async def many() -> set[object]:
        calls = [odd.server_actions()["odd_echo"].execute(text=str(n)) for n in range(50)]
        return set(await asyncio.gather(*calls))

    async def main() -> None:
        found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, many()) for _ in range(4)))
        assert all(each == {str(n) for n in range(50)} for each in found)

    asyncio.run(main())


def test_mcp_stubborn_command_of_a_list_is_used_as_it_is() -> None:
    with MCPAgent("odd", command()) as agent:
        assert "echo" in agent.offers
