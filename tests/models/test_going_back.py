"""What a provider wants back with its calls goes back, to the server that gave it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.model import ACTIONS, run, user
from models import messages_format
from models.openai_server import OpenAIServer, Request, answer, call, completion, events, http, text
from moothall import (
    AnthropicModel,
    FallbackModel,
    Journal,
    OpenAIModel,
    ReActAgent,
    RecordedModel,
    SQLiteMemory,
)
from moothall.models import Call, ModelReply

SIGNED = {"google": {"thought_signature": "SIG"}}
DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "I add.", "signature": "S"},
    {"type": "reasoning.encrypted", "index": 1, "data": "b3BhcXVl", "id": "r1"},
]
ADD = call("add", '{"a": 1, "b": 2}', "c1")
MORE = call("add", '{"a": 3, "b": 4}', "c2")
THOUGHTS = {"reasoning_content": "I add.", "reasoning_details": DETAILS, "extra_content": SIGNED}


def calling(*calls: dict[str, Any], **fields: Any) -> Any:
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    return answer(completion(message | fields, "tool_calls"))


def streaming(*deltas: dict[str, Any]) -> Any:
    """The deltas of an answer that calls; the last event ends it."""
    ends = [{}] * (len(deltas) - 1) + [{"finish_reason": "tool_calls"}]
    return events(
        *(
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None} | end]}
            for delta, end in zip(deltas, ends, strict=True)
        ),
        b"[DONE]",
    )


def of(server: OpenAIServer) -> OpenAIModel:
    return OpenAIModel("m", server.url)


def agent_of(model: Any, **more: Any) -> ReActAgent:
    return ReActAgent("adder", model, actions=ACTIONS[:1], **more)


def sent(request: Request) -> dict[str, Any]:
    """The first answer of the model in a request."""
    return next(each for each in request.body["messages"] if each["role"] == "assistant")


def asked(*answers: Any) -> list[Request]:
    with OpenAIServer(*answers, text("3")) as server:
        reply = agent_of(of(server)).reply_sync("Add")
    assert reply.stop_reason == "done", reply.detail
    return server.requests


def test_fields_of_reasoning_go_back_with_the_results() -> None:
    message = sent(asked(calling(ADD, **THOUGHTS))[1])
    assert {name: message[name] for name in THOUGHTS} == THOUGHTS


def test_signature_of_each_call_is_kept_over_several_rounds() -> None:
    signed = ADD | {"extra_content": SIGNED}
    third = call("add", '{"a": 5, "b": 6}', "c3") | {"extra_content": {"google": {"n": 1}}}
    requests = asked(calling(signed, MORE), calling(third))
    assert sent(requests[1])["tool_calls"] == [signed, MORE]
    answers = [each for each in requests[2].body["messages"] if each["role"] == "assistant"]
    assert [each["tool_calls"] for each in answers] == [[signed, MORE], [third]]


def test_streamed_fields_go_back_whole() -> None:
    first = {"index": 0, **ADD, "extra_content": SIGNED}
    pieces = streaming(
        {"reasoning_content": "I "},
        {"reasoning_content": "add.", "reasoning_details": [DETAILS[0] | {"text": "I "}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "add."}]},
        {"reasoning_details": DETAILS[1:], "extra_content": SIGNED, "tool_calls": [first]},
        {"tool_calls": [{"index": 1, **MORE}]},
    )

    async def streamed(server: OpenAIServer) -> None:
        async with agent_of(of(server)).stream("Add") as parts:
            assert [part async for part in parts][-1].reply.stop_reason == "done"

    with OpenAIServer(pieces, text("3")) as server:
        run(streamed(server))
    message = sent(server.requests[1])
    assert {name: message[name] for name in THOUGHTS} == THOUGHTS
    assert message["tool_calls"] == [ADD | {"extra_content": SIGNED}, MORE]


def test_server_that_did_not_give_it_gets_nothing_back() -> None:
    overloaded = answer({"error": {"message": "busy", "code": 400}})
    first = calling(ADD | {"extra_content": SIGNED}, **THOUGHTS)
    with OpenAIServer(first, overloaded) as one, OpenAIServer(text("3")) as other:
        model = FallbackModel([of(one), of(other)])
        assert agent_of(model).reply_sync("Add").text == "3"
    message = sent(other.requests[0])
    assert message["tool_calls"] == [ADD]
    assert not THOUGHTS.keys() & message.keys()


def test_signatures_of_gateways_go_back() -> None:
    signed = {"provider_specific_fields": {"thought_signature": "S"}}
    opaque = {"reasoning_text": "I add.", "reasoning_opaque": "R"}
    message = sent(asked(calling(ADD | signed, **signed, **opaque))[1])
    assert message["tool_calls"] == [ADD | signed]
    assert message.items() >= (signed | opaque).items()


def test_reasoning_under_the_name_of_vllm_goes_back() -> None:
    message = sent(asked(calling(ADD, reasoning="I add."))[1])
    assert message["reasoning"] == "I add."
    message = sent(asked(calling(ADD, reasoning="I add.", reasoning_content="I add."))[1])
    assert "reasoning" not in message


@pytest.mark.parametrize("more", ({}, {"reasoning_content": "I add."}), ids=("alone", "repeated"))
def test_reasoning_that_is_marked_in_the_text_goes_back_in_its_place(more: Any) -> None:
    content = "<think>\nI add.\n</think>\n\nA moment."
    message = sent(asked(calling(ADD, content=content, **more))[1])
    assert message["content"] == content


def test_signature_that_the_server_no_longer_takes_is_left_out() -> None:
    def refuses(request: Request) -> Any:
        if any("extra_content" in each for each in sent(request).get("tool_calls", ())):
            return http(
                b'[{"error": {"code": 400, "message": "Corrupted thought signature."}}]', 400
            )
        return text("3")

    signed = ADD | {"extra_content": SIGNED}
    with OpenAIServer(calling(signed), refuses) as server:
        assert agent_of(of(server)).reply_sync("Add").text == "3"


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


def test_final_answer_keeps_its_signature_but_not_its_reasoning() -> None:
    message = {"role": "assistant", "content": "Hello.", **THOUGHTS}
    with OpenAIServer(answer(completion(message)), text("Bye.")) as server:
        agent = agent_of(of(server))
        agent.reply_sync("Hi")
        agent.reply_sync("Bye")
    told = sent(server.requests[1])
    assert told["extra_content"] == SIGNED
    assert "reasoning_content" not in told


def test_reasoning_of_all_turns_goes_back_to_a_server_that_keeps_it() -> None:
    message = {"role": "assistant", "content": "Hello.", **THOUGHTS}
    with OpenAIServer(answer(completion(message)), text("Bye.")) as server:
        options = {"thinking": {"type": "enabled", "clear_thinking": False}}
        agent = agent_of(OpenAIModel("m", server.url, options=options))
        agent.reply_sync("Hi")
        agent.reply_sync("Bye")
    assert sent(server.requests[1])["reasoning_content"] == "I add."


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
    run(of(server).complete([*messages, *user("And now?")]))


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


@pytest.mark.parametrize("thought", ({"signature": "S1"}, {}), ids=("signed", "unsigned"))
def test_anthropic_blocks_go_back_in_the_order_in_which_they_came(thought: dict[str, str]) -> None:
    blocks = [BLOCKS[0], {"type": "thinking", "thinking": "one", **thought}, *BLOCKS[2:]]
    first = messages_format.message(*blocks, stop_reason="tool_use")
    with OpenAIServer(first, messages_format.text("3")) as server:
        reply = agent_of(claude(server)).reply_sync("Add")
    assert reply.messages[1]["content"] == "First. Then."
    assert server.requests[1].body["messages"][1]["content"] == blocks


def test_anthropic_streamed_thinking_without_signature_goes_back() -> None:
    blocks = [{"type": "thinking", "thinking": "one two"}, BLOCKS[4]]

    async def streamed(server: OpenAIServer) -> None:
        async with agent_of(claude(server)).stream("Add") as parts:
            assert [part async for part in parts][-1].reply.text == "3"

    first = messages_format.streamed(*blocks, stop_reason="tool_use")
    with OpenAIServer(first, messages_format.text("3")) as server:
        run(streamed(server))
    assert server.requests[1].body["messages"][1]["content"] == blocks


def test_anthropic_text_that_was_changed_since_stands_once_in_its_place() -> None:
    first = messages_format.message(*BLOCKS[:5], stop_reason="tool_use")
    with OpenAIServer(first, messages_format.text("3")) as server:
        model = claude(server)
        given = run(model.complete(user("Add"), ACTIONS))
        calls = [{"id": each.id, "name": each.name, "args": each.args} for each in given.calls]
        made = {"role": "assistant", "content": "Other.", "tool_calls": calls}
        result = {"role": "tool", "tool_call_id": "t1", "content": "3"}
        run(model.complete([*user("Add"), made | {"thinking": given.thinking}, result]))
    shown = server.requests[1].body["messages"][1]["content"]
    assert shown == [{"type": "text", "text": "Other."}, BLOCKS[1], *BLOCKS[3:5]]


def test_thinking_blocks_do_not_go_to_a_model_of_the_other_form() -> None:
    kept = {"server": "http://127.0.0.1:1", "content": BLOCKS}
    made = ModelReply("", (Call("c1", "add", {}),), thinking=(kept,))
    with OpenAIServer(text("3")) as server:
        message = {"role": "assistant", "content": "", "thinking": list(made.thinking)}
        calls = [{"id": "c1", "name": "add", "args": {}}]
        result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
        run(of(server).complete([*user("Add"), message | {"tool_calls": calls}, result]))
    assert "S1" not in json.dumps(server.requests[0].body)
