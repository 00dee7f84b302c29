"""Lists of MCP servers that do not end, or cannot be read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from moothall import Agent, NativeSpace
from moothall.foundation.errors import MCPServerError
from moothall.serving import MCPAgent

Make = Callable[..., MCPAgent]
OBJECT = {"type": "object"}
AGAIN = "MCP server 'odd': its list of {} goes on with a page that it has had: it ends there"


def tools(*names: str, cursor: str | None = None) -> dict[str, Any]:
    listed = [{"name": name, "inputSchema": OBJECT} for name in names]
    return {"result": {"tools": listed} | ({} if cursor is None else {"nextCursor": cursor})}


def mode(**pages: Any) -> str:
    return "answers:" + json.dumps({f"{kind}/list": each for kind, each in pages.items()})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("pages", "names"),
    (
        ({"first": tools("a", cursor=""), "": tools("a", cursor="")}, ["a"]),
        ({"first": tools("a", cursor=""), "": tools("b", cursor="")}, ["a", "b"]),
        ({"first": tools("a", cursor="x"), "x": tools("b", cursor="x")}, ["a", "b"]),
        (
            {
                "first": tools("a", cursor="x"),
                "x": tools("b", cursor="y"),
                "y": tools("c", cursor="x"),
            },
            ["a", "b", "c"],
        ),
        ({"first": tools("a", "b", cursor="+")}, ["a", "b"]),
    ),
    ids=("empty", "empty-second", "same", "two-in-turn", "always-another"),
)
def test_mcp_list_whose_pages_come_again_ends_with_each_tool_once(
    server: Make, caplog: pytest.LogCaptureFixture, pages: Any, names: list[str]
) -> None:
    with server(mode=mode(tools=pages)) as kit:
        assert list(kit.offers)[:-2] == names
    assert warnings(caplog) == [AGAIN.format("tools")]


def test_mcp_list_goes_on_at_an_empty_cursor_and_behind_an_empty_page(
    server: Make, caplog: pytest.LogCaptureFixture
) -> None:
    pages = {
        "first": tools("a", cursor=""),
        "": tools(cursor="x"),
        "x": tools("b"),
    }
    with server(mode=mode(tools=pages)) as kit:
        assert list(kit.offers)[:-2] == ["a", "b"]
    assert warnings(caplog) == []


def test_mcp_lists_of_resources_and_prompts_whose_pages_come_again_end(
    server: Make, caplog: pytest.LogCaptureFixture
) -> None:
    file = {"uri": "file:///a", "name": "a"}
    resources = {"resources": [file], "nextCursor": "x"}
    prompts = {"prompts": [{"name": "p"}], "nextCursor": "x"}
    again = mode(
        tools={"first": tools("a")},
        resources={"*": {"result": resources}, "first": {"result": resources}},
        prompts={"*": {"result": prompts}, "first": {"result": prompts}},
    )
    with server(mode=again) as kit:
        assert list(kit.offers) == ["a", "read_resource", "get_prompt"]
        assert kit.offers["read_resource"].description.count("file:///a") == 1
    assert warnings(caplog) == [AGAIN.format("resources"), AGAIN.format("prompts")]


@pytest.mark.parametrize(
    ("fault", "reason"),
    (
        ({"error": {"code": -32603, "message": "no disk"}}, "no disk"),
        ({"result": {"resources": 5, "prompts": 5}}, "not as the protocol has it"),
        (None, "it does not come"),
    ),
    ids=("error", "wrong-form", "silent"),
)
@pytest.mark.parametrize("kind", ("resources", "prompts"))
def test_mcp_list_of_resources_or_prompts_that_cannot_be_read_leaves_the_tools(
    server: Make, caplog: pytest.LogCaptureFixture, kind: str, fault: Any, reason: str
) -> None:
    faulty = mode(tools={"first": tools("a")}, **{kind: {"first": fault}})
    with server(mode=faulty, timeout_s=4) as kit, NativeSpace() as space:
        assert "a" in kit.offers
        space.add(kit)
        assert space.add(Agent("me")).ask("odd", "a").result(20) == "called a"
    (line,) = warnings(caplog)
    assert line.startswith(
        f"MCP server 'odd': its list of {kind} is left out, since it cannot be read: "
    )
    assert reason in line


def test_mcp_list_of_tools_without_end_is_told(server: Make) -> None:
    pages = {f"{n}": tools(f"t{n}", cursor=f"{n + 1}") for n in range(200)}
    endless = mode(tools={"first": tools("t", cursor="0"), **pages})
    with pytest.raises(MCPServerError, match="its list of tools has more than 100 pages"):
        print(server(mode=endless).offers)
