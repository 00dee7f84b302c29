"""What a provider wants back with its calls goes back, to the server that gave it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models import messages_format
from models.openai_server import OpenAIServer, Request, answer, call, completion, http, text
from moothall import (
    AnthropicModel,
    FallbackModel,
    Journal,
    OpenAIModel,
    ReActAgent,
    RecordedModel,
    SQLiteMemory,
)
from moothall.testing.model_suite import ACTIONS, run, user_message

SIGNED = {"google": {"thought_signature": "SIG"}}
DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "I add.", "signature": "S"},
    {"type": "reasoning.encrypted", "index": 1, "data": "b3BhcXVl", "id": "r1"},
]
ADD = call("add", '{"a": 1, "b": 2}', "c1")
THOUGHTS = {"reasoning_content": "I add.", "reasoning_details": DETAILS, "extra_content": SIGNED}


def calling(*calls: dict[str, Any], **fields: Any) -> Any:
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    return answer(completion(message | fields, "tool_calls"))


def of(server: OpenAIServer) -> OpenAIModel:
    return OpenAIModel("m", server.url)


def agent_of(model: Any, **more: Any) -> ReActAgent:
    return ReActAgent("adder", model, actions=ACTIONS[:1], **more)


def sent(request: Request) -> dict[str, Any]:
    """The first answer of the model in a request."""
    return next(each for each in request.body["messages"] if each["role"] == "assistant")


def test_server_that_did_not_give_it_gets_nothing_back() -> None:
    overloaded = answer({"error": {"message": "busy", "code": 400}})
    first = calling(ADD | {"extra_content": SIGNED}, **THOUGHTS)
    with OpenAIServer(first, overloaded) as one, OpenAIServer(text("3")) as other:
        model = FallbackModel([of(one), of(other)])
        assert agent_of(model).reply_sync("Add").text == "3"
    message = sent(other.requests[0])
    assert message["tool_calls"] == [ADD]
    assert not THOUGHTS.keys() & message.keys()


def test_anthropic_server_that_wants_reasoning_with_each_answer_gets_it() -> None:
    def wants(request: Request) -> Any:
        answers = [each for each in request.body["messages"] if each["role"] == "assistant"]
        if any(each["content"][0]["type"] != "thinking" for each in answers):
            said = "The `content[].thinking` in the thinking mode must be passed back to the API."
            return http(json.dumps({"error": {"message": said}}).encode(), 400)
        return messages_format.message(BLOCKS[1], {"type": "text", "text": "3"})

    with OpenAIServer(text("Hi"), text("Yes")) as one, OpenAIServer(wants) as other:
        agent = agent_of(of(one))
        agent.reply_sync("Hi")
        agent.model = claude(other)
        assert [agent.reply_sync("Add").text for _ in range(2)] == ["3", "3"]
    back = other.requests[-1].body["messages"][-2]["content"]
    assert back[0] == BLOCKS[1]  # its own, from then on


def in_memory_file(server: OpenAIServer, folder: Path) -> None:
    for message in ("Add", "And now?"):
        with SQLiteMemory(folder / "memory.db") as memory:
            agent_of(of(server), memory=memory).reply_sync(message)


def in_state(server: OpenAIServer, folder: Path) -> None:
    first = agent_of(of(server))
    first.reply_sync("Add")
    second = agent_of(of(server))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    second.reply_sync("And now?")


def in_journal(server: OpenAIServer, folder: Path) -> None:
    with Journal(folder / "runs.db") as journal:
        agent_of(of(server), journal=journal).reply_sync("Add", run_id="r")
        messages = journal.replay("r").messages
    run(of(server).complete([*messages, *user_message("And now?")]))


def in_recording(server: OpenAIServer, folder: Path) -> None:
    for _ in range(2):
        with RecordedModel(of(server), folder / "answers.jsonl") as model:
            agent = agent_of(model)
            agent.reply_sync("Add")
    agent.model = of(server)
    agent.reply_sync("And now?")


@pytest.mark.parametrize("keep", (in_memory_file, in_state, in_journal, in_recording))
def test_kept_fields_go_back_later(
    keep: Callable[[OpenAIServer, Path], None], tmp_path: Path
) -> None:
    signed = ADD | {"extra_content": SIGNED}
    with OpenAIServer(calling(signed, **THOUGHTS), text("3"), text("4")) as server:
        keep(server, tmp_path)
    assert len(server.requests) == 3
    message = sent(server.requests[2])
    assert {name: message[name] for name in THOUGHTS} == THOUGHTS
    assert message["tool_calls"] == [signed]


# -- Anthropic's form ------------------------------------------------------------------------------

BLOCKS = [
    {"type": "text", "text": "First."},
    {"type": "thinking", "thinking": "one", "signature": "S1"},
    {"type": "text", "text": " Then."},
    {"type": "thinking", "thinking": "", "signature": "S2"},
    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "tool_use", "id": "t2", "name": "add", "input": {"a": 3, "b": 4}},
]


def claude(server: OpenAIServer) -> AnthropicModel:
    return AnthropicModel("m", server.url.removesuffix("/v1"), "k")
