"""Conversations that another provider began, as the servers of providers check them."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models import messages_format, responses_format
from models.openai_server import OpenAIServer, Request, call, calls, events, status, text
from moothall import AnthropicModel, Context, FallbackModel, OpenAIModel, ReActAgent
from moothall.memory import SQLiteMemory

NINE = re.compile("[A-Za-z0-9]{9}")
PLAIN = re.compile("[A-Za-z0-9_-]{1,64}")
LONG = "call_" + "x" * 60


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def turns_of(messages: list[Any]) -> list[tuple[str, list[str], list[str]]]:
    """The role of each message of a request, the ids of its calls, and those of its results."""
    return [
        (
            each["role"],
            [one["id"] for one in each.get("tool_calls") or ()],
            [each["tool_call_id"]] if each["role"] == "tool" else [],
        )
        for each in messages
    ]


def unpaired(turns: list[tuple[str, list[str], list[str]]]) -> str:
    """What every provider says of calls without results, results without calls, ids used twice."""
    open_calls: list[str] = []
    used: set[str] = set()
    for role, made, results in turns:
        for id in results:
            if id not in open_calls:
                return f"Unexpected tool call id {id} in tool results"
            open_calls.remove(id)
        if role != "tool" and open_calls:
            return "An assistant message with 'tool_calls' must be followed by tool messages"
        if len({*made}) < len(made) or used & {*made} or "" in made:
            return "`tool_use` ids must be unique"
        used |= {*made}
        open_calls += made
    return "Not the same number of function calls and responses" if open_calls else ""


def openai(request: Request) -> str:
    for n, (_, made, results) in enumerate(turns_of(request.body["messages"])):
        for id in (*made, *results):
            if len(id) > 40:
                return (
                    f"Invalid 'messages[{n}].tool_calls[0].id': string too long. Expected a string "
                    f"with maximum length 40, but got a string with length {len(id)} instead."
                )
    return ""


def mistral(request: Request) -> str:
    turns = turns_of(request.body["messages"])
    roles = [role for role, _, _ in turns]
    for _, made, results in turns:
        for id in (*made, *results):
            if not NINE.fullmatch(id):
                form = "must be a-z, A-Z, 0-9, with a length of 9."
                return f"Tool call id was {id} but {form}"
    if ("tool", "user") in itertools.pairwise(roles):
        return "Unexpected role 'user' after role 'tool'"
    if roles[-1] == "assistant":
        return (
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
            "assistant"
        )
    return ""


def bedrock(request: Request) -> str:
    turns = turns_of(request.body["messages"])
    roles = ["user" if role == "tool" else role for role, _, _ in turns if role != "system"]
    for n, (_, made, results) in enumerate(turns):
        for id in (*made, *results):
            if not PLAIN.fullmatch(id):
                rule = "length less than or equal to 64" if len(id) > 64 else "regular expression"
                return (
                    f"1 validation error detected: Value '{id}' at 'messages.{n}.member.content.1."
                    "member.toolUse.toolUseId' failed to satisfy constraint: Member must satisfy "
                    f"{rule} pattern: [a-zA-Z0-9_-]+"
                )
    if roles[0] != "user":
        return "A conversation must start with a user message. Try again with a conversation that "
    for (one, _, results), (two, _, _) in itertools.pairwise(turns):
        if one == two == "assistant" or (one == two == "user") or (results and two == "user"):
            return "A conversation must alternate between user and assistant roles. Make sure"
    return ""


def gemini(request: Request) -> str:
    turns = turns_of(request.body["messages"])
    for (before, _, _), (_, made, _) in itertools.pairwise(turns):
        if made and before not in ("user", "tool"):
            return (
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
    return ""


def devstral(request: Request) -> str:
    """The chat template of Mistral's open weights, in llama.cpp's server and vLLM."""
    shown = [role for role, made, _ in turns_of(request.body["messages"]) if not made]
    shown = [role for role in shown if role not in ("tool", "system")]
    if any((role == "user") != (n % 2 == 0) for n, role in enumerate(shown)):
        return (
            "\n------------\nWhile executing CallExpression at line 189, column 32 in source:\n"
            "...== 0) %}↵            {{- raise_exception('After the optional system message, con..."
            f"\n{' ' * 70}^\nError: Jinja Exception: After the optional system message, "
            "conversation roles must alternate user and assistant roles except for tool calls and "
            "results."
        )
    return ""


def claude_by_chat(request: Request) -> str:
    """Claude behind OpenRouter, Copilot and others."""
    if turns_of(request.body["messages"])[-1][0] == "assistant":
        return (
            "This model does not support assistant message prefill. The conversation must end with "
            "a user message."
        )
    return ""


def deepseek(request: Request) -> str:
    roles = [role for role, _, _ in turns_of(request.body["messages"])]
    if any(one == two != "tool" for one, two in itertools.pairwise(roles)):
        return (
            "deepseek-reasoner does not support successive user or assistant messages (messages[1] "
            "and messages[2] in your input). You should interleave the user/assistant messages."
        )
    if roles[-1] == "assistant":
        return "The last message of deepseek-reasoner must be a user message, or an assistant one"
    return ""


def minimax(request: Request) -> str:
    ids = [id for _, made, _ in turns_of(request.body["messages"]) for id in made]
    return (
        f"invalid params, duplicate tool_call id: {ids[-1]} (2013)"
        if len({*ids}) < len(ids)
        else ""
    )


Checks = Callable[[Request], str]
PROVIDERS: tuple[Checks, ...] = (
    *(openai, mistral, bedrock, gemini, devstral, claude_by_chat, deepseek, minimax),
)


def served(checks: Checks, *answers: Any) -> Callable[[Request], Any]:
    """A server that refuses what its provider refuses; then it gives the next of its answers."""
    left = list(answers)

    def answer(request: Request) -> Any:
        said = checks(request) or unpaired(turns_of(request.body["messages"]))
        return status(400, said) if said else left.pop(0) if len(left) > 1 else left[0]

    return answer


def result(id: str, content: str = "3", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "name": "add", "content": content, **more}


def made(*ids: str, content: str = "") -> dict[str, Any]:
    listed = [{"id": id, "name": "add", "args": {"a": 1, "b": 2}} for id in ids]
    return {"role": "assistant", "content": content, "tool_calls": listed}


def user(content: str = "Add") -> dict[str, Any]:
    return {"role": "user", "content": content}


ANSWER = {"role": "assistant", "content": "It is 3."}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "an interrupt": [user(), made("c1"), result("c1"), user("Stop.")],
    "parallel, the other way": [user(), made("c1", "c2"), result("c2", "2"), result("c1", "1")],
    "a message between results": [user(), made("a", "b"), result("a"), user("?"), result("b")],
    "ids used again": [user(), made("c1"), result("c1"), ANSWER, user(), made("c1"), result("c1")],
    "one id for two": [user(), made("c1", "c1"), result("c1", "1"), result("c1", "2")],
    "no ids": [user(), made("", ""), result("", "1"), result("", "2")],
    "long ids that begin alike": [
        user(),
        made(LONG + "1", LONG + "2"),
        *map(result, (LONG + "1", LONG + "2")),
    ],
    "marks in ids": [
        user(),
        made("functions.add:0", "functions.add|0"),
        result("functions.add:0"),
        result("functions.add|0"),
    ],
    "a call without a result": [user(), made("c1"), user("Again.")],
    "a result whose call is gone": [result("c0", "7"), ANSWER, user()],
    "an answer first": [ANSWER, user()],
    "an answer last": [user(), ANSWER],
    "two questions": [user("One."), user("Two.")],
    "two answers": [user(), ANSWER, {**made("c1"), "content": "Once more."}, result("c1")],
}


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda each: each.__name__)
def test_providers_each_take_the_conversation_of_another(
    provider: Checks, conversation: str
) -> None:
    messages = CONVERSATIONS[conversation]
    kept = json.dumps(messages)
    with OpenAIServer(served(provider, text("ok"))) as server:
        model = OpenAIModel("m", server.url)
        assert asyncio.run(model.complete(messages)).text == "ok"
        asked = len(server.requests)
        assert asyncio.run(model.complete(messages)).text == "ok"
    assert len(server.requests) == asked + 1  # what it wants is known
    assert json.dumps(messages) == kept
    sent = server.requests[-1].body["messages"]
    texts = [each["content"] for each in messages if each["content"]]
    assert all(each in json.dumps(sent) for each in texts)
    calls = [call for each in sent for call in each.get("tool_calls", ())]
    assert all(call["function"]["name"] == "add" for call in calls)
    if "parallel" in conversation or "no ids" in conversation or "one id" in conversation:
        assert [each["content"] for each in sent if each["role"] == "tool"] == ["1", "2"]


def plain_messages(request: Request) -> str:
    """Anthropic's API."""
    turns = request.body["messages"]
    calls_of, results_of = (
        [[b[key] for b in each["content"] if b["type"] == kind] for each in turns]
        for kind, key in (("tool_use", "id"), ("tool_result", "tool_use_id"))
    )
    used = [id for each in calls_of for id in each]
    if bad := [id for id in used if not PLAIN.fullmatch(id)]:
        return f"messages.1.content.0.tool_use.id: String should match pattern: {bad[0]}"
    if len({*used}) < len(used):
        return "messages.1.content.2: `tool_use` ids must be unique"
    for made_, answered in zip(calls_of, [*results_of[1:], []], strict=True):
        if made_ != answered:
            return "`tool_use` ids were found without `tool_result` blocks immediately after"
    if results_of[0]:
        return "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks"
    if turns[-1]["role"] == "assistant":
        return "This model does not support assistant message prefill. The conversation must end"
    return ""


def paired_items(request: Request) -> str:
    """OpenAI's Responses API."""
    items = request.body["input"]
    used = [each["call_id"] for each in items if each.get("type") == "function_call"]
    results = [each["call_id"] for each in items if each.get("type") == "function_call_output"]
    if long := [id for id in used if not 0 < len(id) <= 64]:
        return (
            f"Invalid 'input[2].call_id': string too long. Expected a string with maximum length "
            f"64, but got a string with length {len(long[0])} instead."
        )
    if len({*used}) < len(used):
        return "Duplicate item found with call_id"
    return "" if used == results else "No tool output found for function call."


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("checks", (plain_messages, paired_items), ids=lambda each: each.__name__)
def test_anthropic_and_responses_forms_take_the_conversation_of_another(
    checks: Checks, conversation: str
) -> None:
    def answers(request: Request) -> Any:
        said = checks(request)
        return status(400, said) if said else good

    anthropic = checks is plain_messages
    good = (
        messages_format.text("ok")
        if anthropic
        else responses_format.response(responses_format.said("ok"))
    )
    with OpenAIServer(answers) as server:
        model: Any = (
            AnthropicModel("m", server.url, "k")
            if anthropic
            else OpenAIModel("m", server.url, api="responses")
        )
        assert asyncio.run(model.complete(CONVERSATIONS[conversation])).text == "ok"


def test_ids_that_a_server_takes_go_back_as_it_gave_them() -> None:
    with OpenAIServer(text("ok")) as server:
        kimi = [user(), made("functions.add:0", LONG), result("functions.add:0"), result(LONG)]
        asyncio.run(OpenAIModel("m", server.url).complete(kimi))
    assert turns_of(server.requests[0].body["messages"])[1][1] == ["functions.add:0", LONG]


# -- agents ----------------------------------------------------------------------------------------

ARGS = '{"a": 1, "b": 2}'
BUSY = status(503, "busy")
SECOND = [provider for provider in PROVIDERS if provider in (mistral, bedrock, openai)]


def streamed(*listed: dict[str, Any]) -> Any:
    pieces = [{"index": n, **each} for n, each in enumerate(listed)]
    return events(
        {"choices": [{"index": 0, "delta": {"tool_calls": pieces}, "finish_reason": "tool_calls"}]},
        "[DONE]",
    )


async def said(agent: Any, text: str, streams: bool) -> Any:
    if not streams:
        return await agent.reply(text)
    async with agent.stream(text) as parts:
        return [each async for each in parts][-1].reply


@pytest.mark.parametrize("streams", (False, True))
@pytest.mark.parametrize("provider", SECOND, ids=lambda each: each.__name__)
def test_fallback_goes_on_with_the_next_model_within_a_reply(
    provider: Checks, streams: bool
) -> None:
    both = call("add", ARGS, LONG + "1"), call("add", ARGS, LONG + "2")
    first = streamed(*both) if streams else calls(*both)
    with (
        OpenAIServer(first, BUSY, first, BUSY) as one,
        OpenAIServer(served(provider, text("It is 3."))) as two,
    ):
        models = OpenAIModel("m", one.url, max_retries=0), OpenAIModel("m", two.url)
        agent = ReActAgent("a", FallbackModel(models), actions=[add])
        for _ in range(2):  # the second time, its ids are used again
            reply = asyncio.run(said(agent, "Add", streams))
            assert (reply.stop_reason, reply.text, len(reply.steps)) == ("done", "It is 3.", 2)


@pytest.mark.parametrize("provider", SECOND, ids=lambda each: each.__name__)
def test_memory_of_one_provider_is_read_by_another_model(provider: Checks, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with (
        OpenAIServer(
            calls(call("add", ARGS, ""), call("add", ARGS, "")),
            text("3"),
            calls(call("add", ARGS, LONG)),
            text("3"),
        ) as one,
        SQLiteMemory(path, "a") as memory,
    ):
        agent = ReActAgent("a", OpenAIModel("m", one.url), actions=[add], memory=memory)
        assert [agent.reply_sync("Add").text for _ in range(2)] == ["3", "3"]
    two = OpenAIServer(served(provider, text("It was 3.")))
    with two, SQLiteMemory(path, "a") as memory:
        agent = ReActAgent("a", OpenAIModel("m", two.url), actions=[add], memory=memory)
        assert agent.reply_sync("What was it?").text == "It was 3."


def test_message_that_comes_within_an_action_stands_after_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def look(context: Context) -> str:
        """Look."""
        agent.interrupt("Be quick.")
        return "seen"

    monkeypatch.setenv("MISTRAL_API_KEY", "k")
    with OpenAIServer(served(mistral, calls(call("look", "{}", "abcDEF123")), text("Done."))) as it:
        monkeypatch.setenv("MISTRAL_BASE_URL", it.url)
        agent = ReActAgent("a", "mistral:mistral-small", actions=[look])
        assert agent.reply_sync("Look").text == "Done."
    assert "Be quick." in json.dumps(it.requests[-1].body)
    assert len(it.requests) == 2  # nothing was refused
