"""What comes with an answer, a server's embeddings, and a fallback that chooses."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from journal.crash import crash
from models import messages_format
from models.openai_server import (
    HANG,
    OpenAIServer,
    Request,
    answer,
    call,
    calls,
    status,
    text,
)
from moothall import (
    Action,
    AnthropicModel,
    FallbackModel,
    Journal,
    MessagesLeftOut,
    OpenAIModel,
    ReActAgent,
    RecordedModel,
    ScriptedModel,
    SQLiteMemory,
    TokenBoundedMemory,
)
from moothall.foundation.errors import DefinitionError, ModelError
from moothall.models import OpenAIEmbedder
from moothall.testing.model_suite import run, user_message

# -- what comes with an answer ---------------------------------------------------------------------


def test_meta_is_recorded(tmp_path: Path) -> None:
    with OpenAIServer(text("Hi")) as server:
        with RecordedModel(OpenAIModel("m", server.url), tmp_path / "a.jsonl") as model:
            first = run(model.complete(user_message("Hi")))
        with Journal(tmp_path / "runs.db") as journal:
            agent = ReActAgent("a", OpenAIModel("m", server.url), journal=journal)
            assert agent.reply_sync("Hi", run_id="r").text == "Hi"
    with RecordedModel(None, tmp_path / "a.jsonl") as model:
        again = run(model.complete(user_message("Hi")))
    assert again.meta == first.meta == {"id": "chatcmpl-1", "model": "m"}


# -- embeddings ------------------------------------------------------------------------------------


def vectors(request: Request) -> Any:
    rows = [
        {"index": n, "embedding": [float(len(t)), 1]} for n, t in enumerate(request.body["input"])
    ]
    return answer({"data": rows})


def test_openai_embedder_gives_the_servers_vectors() -> None:
    with OpenAIServer(vectors) as server:
        embedder = OpenAIEmbedder("m", server.url, "k")
        assert embedder.dimensions == 2
        assert embedder.embed(["a", "bcd"]) == [[1, 1], [3, 1]]
        assert len(embedder.embed(["x"] * 300)) == 300
    assert {request.path for request in server.requests} == {"/v1/embeddings"}
    assert server.requests[0].headers["authorization"] == "Bearer k"
    assert [len(request.body["input"]) for request in server.requests] == [1, 2, 128, 128, 44]


@pytest.mark.parametrize(
    ("rows", "expected"),
    (
        ([{"index": 2}, {"index": 0}, {"index": 1}], [[1], [2], [0]]),
        ([{"index": 2}, {}, {"index": 1}], [[1], [2], [0]]),
        ([{}, {}, {}], [[0], [1], [2]]),
        ([{"index": 0}, {"index": 0}, {"index": 0}], [[0], [1], [2]]),
    ),
    ids=("in-another-order", "without-0", "without-an-index", "all-0"),
)
def test_openai_embedder_gives_each_text_the_vector_of_its_index(
    rows: list[dict[str, Any]], expected: list[list[float]]
) -> None:
    data = [{**row, "embedding": [n]} for n, row in enumerate(rows)]
    with OpenAIServer(answer({"data": data})) as server:
        assert OpenAIEmbedder("m", server.url).embed(["a", "b", "c"]) == expected


def test_memory_recalls_by_a_servers_vectors(tmp_path: Path) -> None:
    with OpenAIServer(vectors) as server:
        embedder = OpenAIEmbedder("m", server.url, dimensions=2)
        with SQLiteMemory(tmp_path / "m.db", embedder=embedder) as memory:
            for word in ("cat", "hippopotamus"):
                memory.add_memory({"role": "user", "content": word})
            assert memory.recall("dog", limit=1)[0]["content"] == "cat"


def test_openai_embedder_may_be_asked_within_a_loop() -> None:
    async def within() -> Any:
        assert threading.current_thread() is threading.main_thread()
        return embedder.embed(["a"])

    with OpenAIServer(vectors) as server:
        embedder = OpenAIEmbedder("m", server.url)
        assert run(within()) == [[1, 1]]


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (answer({"data": []}), "no vector for each text"),
        (answer({"data": [{"embedding": ["x"]}]}), "no vector for each text"),
        (answer([1]), "no vector for each text"),
        (status(401, "wrong key"), "401: wrong key; check"),
    ),
)
def test_openai_embedder_says_what_is_wrong(given: Any, said: str) -> None:
    with OpenAIServer(given) as server, pytest.raises(ModelError, match=said):
        OpenAIEmbedder("m", server.url).embed(["a"])


# -- a fallback that chooses -----------------------------------------------------------------------


def fallback(first: Any, **more: Any) -> tuple[Any, int]:
    with OpenAIServer(first) as one, OpenAIServer(text("Hi")) as two:
        models = [OpenAIModel("m", each.url, max_retries=0) for each in (one, two)]
        model = FallbackModel(models, **more)
        try:
            return run(model.complete(user_message("Hi"))).text, len(two.requests)
        except ModelError as error:
            return error, len(two.requests)


@pytest.mark.parametrize("code", (400, 422))
def test_fallback_does_not_ask_the_next_model_a_wrong_request(code: int) -> None:
    error, asked = fallback(status(code, "messages[0].role is wrong"))
    assert (type(error), error.status, asked) == (ModelError, code, 0)


@pytest.mark.parametrize(
    ("code", "said"),
    (
        (400, "API key not valid"),
        (400, "Your credit balance is too low"),
        (400, "unknown model"),
        (404, "no"),
        (429, "slow down"),
        (500, "busy"),
    ),
)
def test_fallback_asks_the_next_model_what_it_may_answer(code: int, said: str) -> None:
    assert fallback(status(code, said)) == ("Hi", 1)


def test_fallback_when_decides_if_the_next_model_is_asked() -> None:
    assert fallback(status(400, "wrong"), when=lambda error: True) == ("Hi", 1)
    error, asked = fallback(status(500, "busy"), when=lambda error: "busy" not in str(error))
    assert (asked, "busy" in str(error)) == (0, True)


# -- published types -------------------------------------------------------------------------------

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        ],
    },
    {
        "role": "assistant",
        "content": "I add.",
        "tool_calls": [{"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}],
    },
    {
        "role": "tool",
        "tool_call_id": "c1",
        "name": "add",
        "content": [
            {"type": "text", "text": "3"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        ],
    },
    {"role": "assistant", "content": "Three."},
    {"role": "user", "content": "Thanks"},
]
SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


def test_chat_requests_fit_openais_published_types() -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    from moothall.testing.model_suite import ACTIONS

    with OpenAIServer(text("Hi")) as server:
        model = OpenAIModel("m", server.url, temperature=0, seed=1)
        run(model.complete(CONVERSATION, ACTIONS, SCHEMA))
        run(model.complete(CONVERSATION, None, SCHEMA))
    adapter = TypeAdapter(CompletionCreateParamsNonStreaming)
    for request in server.requests:
        made = adapter.validate_python(request.body, strict=True)
        assert [each["role"] for each in made["messages"]][3:5] == ["tool", "user"]


def test_messages_requests_fit_anthropics_published_types() -> None:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from pydantic import TypeAdapter

    from moothall.testing.model_suite import ACTIONS

    with OpenAIServer(messages_format.text("Hi")) as server:
        model = AnthropicModel("m", server.url, "k", cache=True)
        run(model.complete(CONVERSATION, ACTIONS, SCHEMA))
        run(model.complete(CONVERSATION, None, SCHEMA))
    adapter = TypeAdapter(MessageCreateParamsNonStreaming)
    for request in server.requests:
        body = json.loads(json.dumps(request.body))
        for each in adapter.validate_python(body, strict=True)["messages"]:
            assert list(each["content"])


# -- settings of one reply -------------------------------------------------------------------------


def test_options_of_a_reply_go_with_its_requests_alone() -> None:
    with OpenAIServer(text("Hi")) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url, options={"top_p": 0.5}))
        options = {"temperature": 0, "max_tokens": 9, "tool_choice": "none"}
        agent.reply_sync("Hi", options=options)
        agent.reply_sync("Hi")
        agent.reply_sync("Hi", options={"max_completion_tokens": 5})

        async def streamed() -> None:
            async with agent.stream("Hi", options={"seed": 7}) as parts:
                assert [part async for part in parts][-1].reply.text == "Hi"

        run(streamed())
    first, second, short, third = (request.body for request in server.requests)
    assert {name: first[name] for name in options} == options
    assert (first["top_p"], second["max_tokens"]) == (0.5, 4096)
    assert not {"temperature", "tool_choice", "seed"} & second.keys()
    assert short["max_tokens"] == 5  # the server's own name of it
    assert "max_completion_tokens" not in short
    assert third["seed"] == 7


def test_options_of_a_reply_hold_in_the_run_that_resumes_it(tmp_path: Path) -> None:
    with OpenAIServer(HANG, text("Hi")) as server:
        with Journal(tmp_path / "runs.db") as journal:
            agent = ReActAgent("a", OpenAIModel("m", server.url), journal=journal)

            async def cut_off() -> None:
                asking = asyncio.create_task(agent.reply("Hi", options={"seed": 7}, run_id="r"))
                await asyncio.to_thread(server.wait_for_request)
                crash(journal.path, tmp_path / "copy.db")
                asking.cancel()
                await asyncio.wait([asking])

            run(cut_off())
        with Journal(tmp_path / "copy.db") as journal:
            agent = ReActAgent("a", OpenAIModel("m", server.url), journal=journal)
            (resumed,) = run(agent.resume_runs())
            assert resumed.reply is not None
            assert resumed.reply.text == "Hi"
    assert [request.body["seed"] for request in server.requests] == [7, 7]


# -- what a reply loses ----------------------------------------------------------------------------


def test_reply_that_loses_messages_of_its_own_says_so_in_an_event() -> None:
    def page(n: int) -> str:
        return f"PAGE-{n} " + "lorem ipsum " * 300

    asked = [calls(call("page", json.dumps({"n": n}), f"c{n}")) for n in range(5)]
    with OpenAIServer(*asked, text("Done.")) as server:
        model = OpenAIModel("m", server.url, context_tokens=8000)
        memory = TokenBoundedMemory(4000, clear=False)
        agent = ReActAgent("a", model, actions=[Action("page", page)], memory=memory)

        async def read() -> list[Any]:
            async with agent.stream("Compare the pages.") as parts:
                return [part async for part in parts]

        events = run(read())
    lost = [each.count for each in events if isinstance(each, MessagesLeftOut)]
    assert lost == sorted(set(lost))
    assert f"{lost[-1]} earlier messages of this reply" in events[-1].reply.detail


def test_options_of_a_reply_reach_each_model_of_a_fallback() -> None:
    with OpenAIServer(status(500, "busy")) as one, OpenAIServer(text("Hi")) as two:
        models = [OpenAIModel("m", each.url, max_retries=0) for each in (one, two)]
        agent = ReActAgent("a", FallbackModel(models))
        assert agent.reply_sync("Hi", options={"temperature": 1}).text == "Hi"
    assert [each.requests[0].body["temperature"] for each in (one, two)] == [1, 1]


@pytest.mark.parametrize(
    ("options", "said"),
    (
        ({"messages": []}, "options= cannot set messages"),
        ({"max_tokens": "9"}, "max_tokens must be"),
        (5, "options= must be a dict"),
    ),
)
def test_options_that_cannot_be_are_refused(options: Any, said: str) -> None:
    agent = ReActAgent("a", OpenAIModel("m", "http://127.0.0.1:1/v1"))
    with pytest.raises(DefinitionError, match=said):
        agent.reply_sync("Hi", options=options)


def test_model_without_a_server_takes_no_options() -> None:
    with pytest.raises(DefinitionError, match="options= is for a model behind a server"):
        ReActAgent("a", ScriptedModel(["Hi"])).reply_sync("Hi", options={"temperature": 0})
