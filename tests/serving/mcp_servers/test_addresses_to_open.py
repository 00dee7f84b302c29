"""Servers that want a person to open an address, such as to log in, before or within a call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moothall import (
    ActionError,
    Agent,
    Call,
    CallbackApprover,
    Journal,
    NativeSpace,
    Question,
    ReActAgent,
    ScriptedModel,
    Waiting,
)
from moothall.serving import MCPAgent, asgi
from serving.doors.conftest import serving
from serving.doors.test_ag_ui import run, user

Make = Callable[..., MCPAgent]
URL = "https://accounts.example/o/oauth2?state=" + "x" * 3000 + "&scope=mail"
TOOLS = ("open", "login")


def saying(*answers: str) -> tuple[CallbackApprover, list[str]]:
    """Return an approver whose person says these, and what it is asked."""
    asked, left = list[str](), [*answers]

    def say(question: Question) -> str:
        asked.append(question.text)
        return left.pop(0)

    return CallbackApprover(lambda request: True, answer=say), asked


def ask(server: Make, tool: str, approver: Any = None, **args: Any) -> Any:
    with NativeSpace(approver=approver) as space:
        space.add(server())
        return space.add(Agent("me")).ask("odd", tool, **args).result(20)


@pytest.mark.parametrize("tool", TOOLS)
def test_mcp_address_is_opened_by_the_person_and_the_call_goes_on(server: Make, tool: str) -> None:
    approver, asked = saying("Yes")
    done = ask(server, tool, approver, url=URL)
    assert done == ('{"action": "accept"}' if tool == "open" else "called login")
    (text,) = asked
    assert text.startswith("the MCP server 'odd' asks: Log in. ")
    assert "address of accounts.example" in text
    assert text.endswith(URL)


@pytest.mark.parametrize(
    ("tool", "answer"), (("open", "no"), ("open", ""), ("open", "/decline"), ("login", "later"))
)
def test_mcp_address_that_the_person_does_not_open_is_told_in_the_error(
    server: Make, tool: str, answer: str
) -> None:
    approver, asked = saying(answer)
    with pytest.raises(ActionError) as caught:
        ask(server, tool, approver, url=URL)
    assert len(asked) == 1
    assert URL in str(caught.value)
    assert "Log in." in str(caught.value)


@pytest.mark.parametrize("tool", TOOLS)
def test_mcp_address_with_nobody_to_ask_is_told_in_the_error(server: Make, tool: str) -> None:
    with pytest.raises(ActionError) as caught:
        ask(server, tool, url=URL)
    assert URL in str(caught.value)


def test_mcp_address_of_a_wrong_kind_is_refused_without_asking(server: Make) -> None:
    approver, asked = saying("yes")
    with pytest.raises(ActionError, match="refused"):
        ask(server, "login", approver, url="javascript:alert(1)")
    with NativeSpace(approver=approver) as space:
        space.add(server())
        me = space.add(Agent("me"))
        for url in (
            *("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ftp://x.example/"),
            *("https:///path", "https://", "http:x.example", "//x.example/", "x.example", ""),
            *("https://good.example@evil.example/", "https://a:b@evil.example"),
            *("https://x.example:x/", "https://good.example\\@evil.example/"),
            *("https://g\u043eod.example/", "https://[::1", "https://x.example/\u202egpj"),
            *("https://x.example/\n", " https://x.example", "https://x.example/a b"),
            *("https://x.example/" + "x" * 9000, "JavaScript://x.example/%0a"),
        ):
            with pytest.raises(ActionError, match="refused") as caught:
                me.ask("odd", "open", url=url).result(20)
            assert asked == [], url
            assert str(caught.value).isprintable()


def test_mcp_address_is_asked_for_three_times_at_most(server: Make) -> None:
    """A person may say yes before the login has ended."""
    approver, asked = saying(*["yes"] * 9)
    assert ask(server, "login", approver, url=URL, times=3) == "called login"
    assert len(asked) == 3
    approver, asked = saying(*["yes"] * 9)
    with pytest.raises(ActionError) as caught:
        ask(server, "login", approver, url=URL, times=4)
    assert len(asked) == 3
    assert URL in str(caught.value)


def test_mcp_addresses_are_asked_for_one_after_the_other(server: Make) -> None:
    urls = [f"https://{name}.example/" for name in "ab"]
    wanted = [
        {"mode": "url", "message": name, "url": url} for name, url in zip("AB", urls, strict=True)
    ]
    approver, asked = saying("yes", "yes")
    assert ask(server, "login", approver, wanted=wanted) == "called login"
    assert [each.rpartition(" ")[2] for each in asked] == urls
    approver, asked = saying("yes", "no")
    with pytest.raises(ActionError, match=r"https://b\.example/"):
        ask(server, "login", approver, wanted=wanted)


@pytest.mark.parametrize(
    "wanted", (None, [], {}, "x", [5], [{}], [{"url": 5}], [{"url": None, "message": 5}])
)
def test_mcp_error_without_a_readable_address_is_told_as_it_is(server: Make, wanted: Any) -> None:
    approver, asked = saying("yes")
    with pytest.raises(ActionError, match="requires more information"):
        ask(server, "login", approver, wanted=wanted)
    assert asked == []


@pytest.mark.parametrize("tool", TOOLS)
def test_mcp_address_waits_in_the_journal_until_the_person_has_opened_it(
    server: Make, tmp_path: Path, tool: str
) -> None:
    made = [Call("c", f"odd_{tool}", {"url": URL}), "Done."]
    journal = Journal(tmp_path / "runs.db")
    odd = server()
    agent = ReActAgent("a", ScriptedModel(made), actions=[odd], approver=Waiting(), journal=journal)
    assert agent.reply_sync("go", run_id="r").stop_reason == "waiting"
    (wait,) = journal.waiting("r")
    assert URL in wait.text
    assert odd.offers["echo"]  # its connection lives
    journal.answer("r", wait.key, "yes")
    reply = agent.reply_sync("go", run_id="r")
    assert reply.text == "Done."
    result = next(each["content"] for each in reply.messages if each["role"] == "tool")
    assert result == ('{"action": "accept"}' if tool == "open" else "called login")
    assert json.dumps(URL)[1:-1] not in result


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("recorded", (False, True))
def test_mcp_address_is_asked_of_the_page_whose_run_calls_the_tool(
    server: Make, tmp_path: Path, tool: str, recorded: bool
) -> None:
    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        last = messages[-1]
        if last["role"] == "tool":
            return f"So: {last['content']}"
        return Call("c", f"odd_{tool}", {"url": URL})

    journal = tmp_path / "runs.db" if recorded else None
    agent = ReActAgent("bot", ScriptedModel(answer), actions=[server()], journal=journal)
    with serving(asgi(agent)) as url:
        (asks,) = run(url, user("go"))[-1]["outcome"]["interrupts"]
        assert (asks["reason"], URL in asks["message"]) == ("question", True)
        entry = {"interruptId": asks["id"], "status": "resolved", "payload": {"answer": "yes"}}
        events = run(url, user("go"), resume=[entry])
    said = "".join(each.get("delta", "") for each in events)
    assert said == "So: " + ('{"action": "accept"}' if tool == "open" else "called login")
