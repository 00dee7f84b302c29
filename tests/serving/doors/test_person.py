"""A person without a desk, behind a door: asked by way of the caller, never at the server."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp
import mcp_types as types
import openai
import pytest

from moothall import (
    CallbackApprover,
    DualActAgent,
    Journal,
    NativeSpace,
    Person,
    ReActAgent,
    ScriptedModel,
)
from moothall.serving import asgi
from serving.doors.a2a_calls import asked, rpc, started, state
from serving.doors.conftest import client
from serving.doors.test_ag_ui import run, user

Serve = Callable[[Any], str]


def reviewed(
    person: Person | None = None, id: str = "shop", journal: Journal | None = None
) -> DualActAgent:
    """A dual act whose H is a person, who returns the first conclusion and accepts the second."""
    clerk = ReActAgent("clerk", ScriptedModel(["Ten.", "Two.", "Three."]))
    about: Any = {"first": "reactive", "id": id, "journal": journal}
    return DualActAgent(human=person or Person("you"), reactive=clerk, **about)


@pytest.fixture(autouse=True)
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server's terminal, where somebody would accept everything: nobody is asked there."""
    monkeypatch.setattr("sys.stdin", io.StringIO("a\n" * 100))
    yield
    assert capsys.readouterr().out == ""


def test_person_behind_ag_ui_is_asked_by_interrupts(serve: Serve) -> None:
    url = serve(asgi(reviewed()))
    events, shown = run(url, user("How many?")), []
    for said in ("what?", "c Count again.", "a"):
        (asks,) = events[-1]["outcome"]["interrupts"]
        shown.append(asks["message"])
        assert (asks["reason"], asks["metadata"]["agent"]) == ("question", "shop")
        assert "toolCallId" not in asks  # no call asks, and clients take null for none
        answer = {"interruptId": asks["id"], "status": "resolved", "payload": {"answer": said}}
        events = run(url, user("How many?"), resume=[answer])
    assert "Ten." in shown[0]
    assert "accept: the work is done" in shown[0]
    assert "'what?' is not a choice" in shown[1]
    assert "Two." in shown[2]
    assert events[-1]["outcome"] == {"type": "success"}


def test_person_behind_a2a_is_asked_for_input(serve: Serve) -> None:
    url = serve(asgi(reviewed()))
    task = started(url, "How many?")
    assert "Ten." in asked(task)["text"]
    task = started(url, "c Count again.", taskId=task["id"])
    assert "Two." in asked(task)["text"]
    ended = started(url, "a", taskId=task["id"])
    assert state(ended) == "TASK_STATE_COMPLETED"
    assert ended["artifacts"][0]["parts"][0]["text"] == "Two."


@pytest.mark.parametrize("mode", ("legacy", "auto"))
def test_person_behind_mcp_is_asked_by_elicitation(serve: Serve, mode: str) -> None:
    seen: list[str] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        seen.append(params.message)
        answer = "c Count again." if len(seen) == 1 else "a"
        return types.ElicitResult(action="accept", content={"answer": answer})

    async def main() -> Any:
        url = f"{serve(asgi(reviewed()))}/mcp"
        async with mcp.Client(url, mode=mode, elicitation_callback=elicit) as made:
            return await made.call_tool("say", {"content": "How many?"})

    result = asyncio.run(main())
    assert (result.is_error, result.content[0].text) == (False, "Two.")
    first, *lines = seen[0].splitlines()
    assert first == "shop asks:"
    assert any(line.endswith("Ten.") for line in lines)
    assert all(line.startswith("    ") for line in lines)


def test_person_behind_openais_interface_is_refused_with_what_to_give(serve: Serve) -> None:
    with pytest.raises(openai.InternalServerError) as failed:
        client(serve(asgi(reviewed()))).responses.create(model="shop", input="How many?")
    assert "'you'" in str(failed.value)
    assert "give it desk=" in str(failed.value)


def test_person_who_is_served_itself_is_refused_and_hears_nothing_at_the_server(
    serve: Serve,
) -> None:
    url = serve(asgi(Person("shop")))
    assert run(url, user("Before."), user("Hello"))[-1]["type"] == "RUN_ERROR"
    failed = started(url, "Hello")
    assert state(failed) == "TASK_STATE_FAILED"
    assert "give it desk=" in failed["status"]["message"]["parts"][0]["text"]
    body = {"model": "shop", "messages": [{"role": "user", "content": each} for each in "ab"]}
    assert httpx2.post(f"{url}/v1/chat/completions", json=body).status_code == 500


def test_person_who_answers_no_choice_again_and_again_ends_the_run(serve: Serve) -> None:
    url = serve(asgi(reviewed()))
    events = run(url, user("How many?"))
    for _ in range(5):
        (asks,) = events[-1]["outcome"]["interrupts"]
        answer = {"interruptId": asks["id"], "status": "resolved", "payload": {"answer": "hm"}}
        events = run(url, user("How many?"), resume=[answer])
    assert "'you' was asked and has left" in events[-1]["message"]


def test_person_with_a_terminal_of_its_own_is_asked_there(serve: Serve) -> None:
    shown = io.StringIO()
    person = Person("you", stdin=io.StringIO("a\n"), stdout=shown)
    events = run(serve(asgi(reviewed(person))), user("How many?"))
    assert events[-1]["outcome"] == {"type": "success"}
    assert "Ten." in shown.getvalue()


def test_person_of_a_space_is_asked_by_its_approver(serve: Serve) -> None:
    questions: list[str] = []

    def answer(question: Any) -> str:
        questions.append(question.text)
        return "a"

    for approver in (CallbackApprover(lambda _: True, answer=answer), None):
        with NativeSpace(approver=approver) as space:
            url = serve(asgi(space.add(reviewed())))
            (ended,) = [rpc(url, "SendMessage", message("How many?"))["result"]["task"]]
            told = json.dumps(ended["status"])
        assert ("give it desk=" in told) == (approver is None), told
    assert len(questions) == 1


def message(text: str) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}


def test_person_behind_a_door_with_a_journal_has_the_run_wait_there(
    serve: Serve, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "runs.db")
    task = started(serve(asgi(reviewed(journal=journal))), "How many?")
    (wait,) = journal.waiting()
    assert (wait.kind, wait.step) == ("question", "H1")
    url = serve(asgi(reviewed(journal=journal)))  # after a restart
    assert "Ten." in asked(rpc(url, "GetTask", {"id": task["id"]})["result"])["text"]
    task = started(url, "c Count again.", taskId=task["id"])
    assert "Two." in asked(task)["text"]
    assert state(started(url, "a", taskId=task["id"])) == "TASK_STATE_COMPLETED"
    assert journal.waiting() == []


def test_person_behind_chat_completions_with_a_journal_is_named_as_who_is_waited_for(
    serve: Serve, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "runs.db")
    made = client(serve(asgi(reviewed(journal=journal))))
    said = made.chat.completions.create(
        model="shop", messages=[{"role": "user", "content": "How many?"}]
    )
    assert "waiting for an answer" in str(said.choices[0].message.content)
    assert len(journal.waiting()) == 1
