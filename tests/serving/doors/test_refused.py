"""A question that the server of the model refuses ends that request, at each door with threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from agent.replies.test_refused import refusing, shown
from models.openai_server import OpenAIServer, text
from moothall import Conversation, Journal, OpenAIModel, ReActAgent
from moothall.serving import asgi
from serving.doors.a2a_calls import plain, rpc
from serving.doors.conftest import client
from serving.doors.test_ag_ui import run, user

Serve = Callable[[Any], str]


@pytest.fixture
def refuses() -> Any:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        yield server


def agent_at(server: OpenAIServer, tmp_path: Path, kept: str) -> ReActAgent:
    journal = Journal(tmp_path / "runs.db") if kept == "journal" else None
    return ReActAgent("shop", OpenAIModel("m", server.url), journal=journal)


@pytest.mark.parametrize("kept", ("list", "journal"))
@pytest.mark.parametrize("is_group", (False, True), ids=("alone", "group"))
async def test_a2a_context_goes_on_after_a_refused_message(
    serve: Serve, refuses: OpenAIServer, tmp_path: Path, kept: str, is_group: bool
) -> None:
    agent: Any = agent_at(refuses, tmp_path, kept)
    url = serve(asgi(Conversation([agent], id="shop", max_turns=1) if is_group else agent))
    answers = [
        rpc(url, "SendMessage", plain(each, contextId="c"))["result"]["task"]
        for each in ("hello", "a forbidden word", "what is the time?")
    ]
    assert [each["status"]["state"].removeprefix("TASK_STATE_") for each in answers] == [
        "COMPLETED",
        "FAILED",
        "COMPLETED",
    ]
    assert "forbidden" not in shown(refuses.requests[-1])


@pytest.mark.parametrize("kept", ("list", "journal"))
async def test_ag_ui_thread_goes_on_after_a_refused_message(
    serve: Serve, refuses: OpenAIServer, tmp_path: Path, kept: str
) -> None:
    url = serve(asgi(agent_at(refuses, tmp_path, kept)))
    ends = []
    for number, each in enumerate(("hello", "a forbidden word", "what is the time?")):
        message = {**user(each), "id": f"m{number}"}
        ends.append(run(url, message, runId=f"r{number}")[-1]["type"])
    assert ends == ["RUN_FINISHED", "RUN_ERROR", "RUN_FINISHED"]
    assert "forbidden" not in shown(refuses.requests[-1])


@pytest.mark.parametrize("door", ("AG-UI", "chat"))
@pytest.mark.parametrize("kept", ("list", "journal"))
def test_client_that_sends_a_refused_question_again_is_answered(
    serve: Serve, refuses: OpenAIServer, tmp_path: Path, kept: str, door: str
) -> None:
    url = serve(asgi(agent_at(refuses, tmp_path, kept)))
    messages: list[dict[str, Any]] = []

    def ask(question: str) -> bool:
        """Ask with all that was said so far, as the protocol requires; return if it is answered."""
        messages.append({"id": f"m{len(messages)}", "role": "user", "content": question})
        if door == "AG-UI":
            is_answered = run(url, *messages, runId=f"r{len(messages)}")[-1]["type"] != "RUN_ERROR"
        else:
            given: Any = [{key: each[key] for key in ("role", "content")} for each in messages]
            try:
                client(url).chat.completions.create(model="shop", messages=given)
                is_answered = True
            except openai.APIStatusError:
                is_answered = False
        if is_answered:
            messages.append({"id": f"m{len(messages)}", "role": "assistant", "content": "fine"})
        return is_answered

    asked = ("hello", "a forbidden word", "what is the time?", "really?")
    assert [ask(each) for each in asked] == [True, False, True, True]
    assert "forbidden" not in shown(refuses.requests[-1])
    assert "do not guess" in shown(refuses.requests[-1])
    assert "what is the time?" in shown(refuses.requests[-1])


def test_client_that_sends_a_refused_result_of_its_tool_again_is_answered(
    serve: Serve, refuses: OpenAIServer, tmp_path: Path
) -> None:
    served = client(serve(asgi(agent_at(refuses, tmp_path, "list"))))
    look: Any = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
    tool: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    messages: list[Any] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": id, **look} for id in "cd"]},
        {"role": "tool", "tool_call_id": "c", "content": "a forbidden page"},
        {"role": "tool", "tool_call_id": "d", "content": "a page"},
    ]
    for question in ("what is the time?", "really?"):
        answer = served.chat.completions.create(model="shop", messages=messages, tools=[tool])
        assert answer.choices[0].message.content == "fine"
        messages += [
            {"role": "assistant", "content": "fine"},
            {"role": "user", "content": question},
        ]
    assert "forbidden" not in shown(refuses.requests[-1])


@pytest.mark.parametrize("kept", ("list", "journal"))
def test_openai_responses_go_on_after_one_whose_input_was_refused(
    serve: Serve, refuses: OpenAIServer, tmp_path: Path, kept: str
) -> None:
    served = client(serve(asgi(agent_at(refuses, tmp_path, kept))))
    first = served.responses.create(model="shop", input="hello")
    with pytest.raises(openai.BadRequestError, match="refused what you said or attached"):
        served.responses.create(
            model="shop", input="a forbidden word", previous_response_id=first.id
        )
    last = served.responses.create(
        model="shop", input="what is the time?", previous_response_id=first.id
    )
    assert last.output_text == "fine"
    assert "forbidden" not in shown(refuses.requests[-1])
    assert "hello" in shown(refuses.requests[-1])
