"""Agents behind OpenAI's interface, called by the `openai` package over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import openai
import pytest

from moothall import (
    ACCESS_DENIED,
    ACCESS_REQUESTED,
    Agent,
    Budget,
    Call,
    CallbackApprover,
    Conversation,
    DualActAgent,
    Journal,
    ModelReply,
    NativeSpace,
    ReActAgent,
    ScriptedModel,
    Usage,
    action,
)
from moothall.serving import asgi
from serving.doors.conftest import client, serving

Serve = Callable[[Any], str]
Messages = list[dict[str, Any]]

WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "Tell the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
CHAT_TOOLS: Any = [{"type": "function", "function": WEATHER}]
TOOLS: Any = [{"type": "function", **WEATHER}]
CUT = "(cut off: whether it took effect is unknown)"
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}


def repeats(messages: Messages, actions: Any) -> Any:
    """Answer with what was said, or call a tool for what asks for it."""
    last = messages[-1]
    if last["role"] == "user" and last["content"] == "weather?":
        return [Call("w1", "weather", {"city": "Bern"}), Call("w2", "weather", {"city": "Rome"})]
    said = [f"{each['role']}:{each['content']}" for each in messages if each["content"]]
    return " | ".join(said)


def bot(id: str = "bot", answer: Any = repeats, **options: Any) -> ReActAgent:
    return ReActAgent(id, ScriptedModel(answer), **options)


def test_openai_door_lists_agents_that_reply_as_models(serve: Serve) -> None:
    class Mute(ReActAgent):
        @action(access_policy=ACCESS_DENIED)
        async def say(self, content: str, thread: str | None = None) -> str:
            """Say nothing."""
            raise NotImplementedError

    agents = [bot("a"), Agent("plain"), Mute("mute", ScriptedModel(["x"])), bot("b/c")]
    models = client(serve(asgi(agents))).models
    assert [each.id for each in models.list()] == ["a", "b/c"]
    assert models.retrieve("b/c").object == "model"
    with pytest.raises(openai.NotFoundError):
        models.retrieve("mute")


def test_openai_chat_takes_the_clients_messages_as_the_whole_conversation(serve: Serve) -> None:
    agent = bot(system_prompt="Own.")
    chat = client(serve(asgi(agent))).chat.completions
    messages: Any = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},
    ]
    for _ in range(2):  # nothing is left of the first time
        made = chat.create(model="bot", messages=messages)
        assert made.choices[0].message.content == (
            "system:Own. | system:Be kind. | user:one | assistant:1 | user:two"
        )
        assert made.choices[0].finish_reason == "stop"
        assert made.object == "chat.completion"
    assert agent.memory.get_memories() == []
    assert list(agent.all_threads) == []


def test_openai_chat_streams_pieces_and_the_tokens_at_the_end(serve: Serve) -> None:
    answer = ModelReply("some words here", usage=Usage(10, 3, 4, 0, 2))
    chat = client(serve(asgi(bot(answer=[answer] * 2)))).chat.completions
    told: Any = {"model": "bot", "messages": [{"role": "user", "content": "x"}]}
    chunks = list(chat.create(**told, stream=True, stream_options={"include_usage": True}))
    assert len({each.id for each in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [each.choices[0].delta.content for each in chunks if each.choices]
    assert "".join(filter(None, texts)) == "some words here"
    assert sum(bool(each) for each in texts) > 1
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 3, 13)
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 4
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 2
    assert chat.create(**told).usage == usage


def test_openai_chat_hands_calls_of_the_clients_tools_back_and_takes_their_results(
    serve: Serve,
) -> None:
    chat = client(serve(asgi(bot()))).chat.completions
    messages: Any = [{"role": "user", "content": "weather?"}]
    for streamed in (False, True):
        if streamed:
            with chat.stream(model="bot", messages=messages, tools=CHAT_TOOLS) as events:
                made: Any = events.get_final_completion()
        else:
            made = chat.create(model="bot", messages=messages, tools=CHAT_TOOLS)
        choice = made.choices[0]
        assert choice.finish_reason == "tool_calls"
        calls = choice.message.tool_calls
        assert [(each.id, each.function.name) for each in calls] == [
            ("w1", "weather"),
            ("w2", "weather"),
        ]
        assert json.loads(calls[0].function.arguments) == {"city": "Bern"}
    messages.append(choice.message.model_dump(exclude_none=True))
    for id, result in (("w1", "sun"), ("w2", "rain")):
        messages.append({"role": "tool", "tool_call_id": id, "content": result})
    made = chat.create(model="bot", messages=messages, tools=CHAT_TOOLS)
    assert made.choices[0].message.content == "user:weather? | tool:sun | tool:rain"
    del messages[-1]
    made = chat.create(model="bot", messages=messages, tools=CHAT_TOOLS)
    assert made.choices[0].message.content == f"user:weather? | tool:sun | tool:{CUT}"
    older: Any = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "sun"},
    ]
    assert chat.create(model="bot", messages=older).choices[0].message.content == (
        "user:weather? | tool:sun"
    )


NAMED_CHAT = {"type": "function", "function": {"name": "weather"}}
ALLOWED = {"mode": "required", "tools": [NAMED_CHAT]}
OTHER: dict[str, Any] = {"type": "function", "function": {"name": "other"}}


@pytest.mark.parametrize(
    "choice",
    ("required", NAMED_CHAT, {"type": "allowed_tools", "allowed_tools": ALLOWED}),
    ids=("required", "named", "allowed"),
)
@pytest.mark.parametrize("stream", (False, True))
def test_openai_chat_whose_tool_choice_demands_a_call_ends_with_one(
    serve: Serve, choice: Any, stream: bool
) -> None:
    shown: list[list[str]] = []

    def answer(messages: Messages, actions: Any) -> Any:
        shown.append([each.name for each in actions])
        if len(shown) == 1:
            return "It is sunny."  # no call, so it is asked for again
        assert "call" in messages[-1]["content"]
        return Call("c", "weather", {"city": "Rome"})

    made = client(serve(asgi(bot(answer=answer))))
    asked: Any = [{"role": "user", "content": "How is it?"}]
    tools: Any = [*CHAT_TOOLS, OTHER]
    given: Any = {"model": "bot", "messages": asked, "tools": tools, "tool_choice": choice}
    if stream:
        chunks = list(made.chat.completions.create(**given, stream=True))
        deltas = [each.choices[0].delta for each in chunks if each.choices]
        calls: Any = [call for each in deltas for call in each.tool_calls or ()]
        assert [each.content for each in deltas if each.content] == []
        assert chunks[-1].choices[0].finish_reason == "tool_calls"
    else:
        choices = made.chat.completions.create(**given).choices
        assert choices[0].finish_reason == "tool_calls"
        calls = choices[0].message.tool_calls
    assert [each.function.name for each in calls] == ["weather"]
    assert shown[0] == (["weather", "other"] if choice == "required" else ["weather"])


def test_openai_model_that_never_makes_the_demanded_call_is_an_error(serve: Serve) -> None:
    made = client(serve(asgi(bot(answer=lambda messages, actions: "No."))))
    asked: Any = [{"role": "user", "content": "How is it?"}]
    given: Any = {"model": "bot", "messages": asked, "tools": CHAT_TOOLS}
    with pytest.raises(openai.InternalServerError, match="weather"):
        made.chat.completions.create(**given, tool_choice="required")
    for wrong in (OTHER, {"type": "custom"}, "any", 5, {"type": "function"}):
        with pytest.raises(openai.BadRequestError, match="tool_choice must be"):
            made.chat.completions.create(**given, tool_choice=wrong)


def test_openai_door_executes_the_agents_own_actions_itself(serve: Serve) -> None:
    done = []

    @action
    def note(text: str) -> str:
        """Note something."""
        done.append(text)
        return "noted"

    def answer(messages: Messages, actions: Any) -> Any:
        if messages[-1]["role"] == "tool":
            return "It is noted."
        return ModelReply("A moment.", (Call("1", "note", {"text": "x"}),))

    url = serve(asgi(bot(answer=answer, actions=[note])))
    responses = client(url).responses
    whole = responses.create(model="bot", input="note x")
    with responses.stream(model="bot", input="note x") as events:
        kinds = [each.type for each in events]
        made = events.get_final_response()
    for each in (whole, made, responses.retrieve(made.id)):
        said: list[Any] = [item for item in each.output if item.type == "message"]
        assert [(item.phase, item.content[0].text) for item in said] == [
            ("commentary", "A moment.\n\n"),
            ("final_answer", "It is noted."),
        ]
    assert kinds.count("response.output_item.added") == 2
    told: Any = {"model": "bot", "messages": [{"role": "user", "content": "note x"}]}
    chat = client(url).chat.completions
    assert chat.create(**told).choices[0].message.content == "A moment.\n\nIt is noted."
    with chat.stream(**told) as chunks:
        content = chunks.get_final_completion().choices[0].message.content
    assert content == "A moment.\n\nIt is noted."
    assert done == ["x"] * 4
    tool: Any = {"type": "function", "name": "note", "parameters": {}}
    with pytest.raises(openai.BadRequestError, match="an action of the agent's own"):
        responses.create(model="bot", input="x", tools=[tool])


def test_openai_door_passes_the_models_reasoning_whole_and_streamed(
    serve: Serve,
) -> None:
    @action
    def look() -> str:
        """Look."""
        return "seen"

    def answer(messages: Messages, actions: Any) -> ModelReply:
        if messages[-1]["role"] == "tool":
            return ModelReply("It is blue.", reasoning="I know it.")
        return ModelReply("A moment.", (Call("1", "look", {}),), reasoning="I must look.")

    url = serve(asgi(bot(answer=answer, actions=[look])))
    told: Any = {"model": "bot", "messages": [{"role": "user", "content": "which colour?"}]}
    chat = client(url).chat.completions
    message: Any = chat.create(**told).choices[0].message
    assert message.reasoning_content == "I must look.\n\nI know it."
    deltas: list[Any] = [each.choices[0].delta for each in chat.create(**told, stream=True)]
    thoughts = [getattr(each, "reasoning_content", None) for each in deltas]
    assert "".join(filter(None, thoughts)) == message.reasoning_content
    assert "".join(each.content or "" for each in deltas) == message.content
    texts = [each.content for each in deltas]
    assert thoughts.index("I must look.") < texts.index("A")

    responses = client(url).responses
    with responses.stream(model="bot", input="which colour?") as events:
        told_of = [each for each in events if each.type == "response.reasoning_text.delta"]
        streamed = events.get_final_response()
    assert "".join(each.delta for each in told_of) == "I must look.I know it."
    for made in (responses.create(model="bot", input="which colour?"), streamed):
        items: list[Any] = made.output
        assert [(each.type, each.content[0].text) for each in items] == [
            ("reasoning", "I must look."),
            ("message", "A moment.\n\n"),
            ("reasoning", "I know it."),
            ("message", "It is blue."),
        ]
    form: Any = {"format": {"type": "json_schema", "name": "s", "schema": FORM, "strict": True}}
    thinks = ModelReply('{"sum": 5}', reasoning="2 and 3")
    strict = client(serve(asgi(bot(answer=[thinks] * 2)))).responses
    with strict.stream(model="bot", input="2+3", text=form) as events:
        assert json.loads(events.get_final_response().output_text) == {"sum": 5}


def test_openai_door_answers_by_a_json_schema(serve: Serve) -> None:
    answers = ["no json", '```json\n{"sum": 5}\n```'] * 4
    made = client(serve(asgi(bot(answer=answers))))
    chat_form: Any = {"type": "json_schema", "json_schema": {"name": "s", "schema": FORM}}
    form: Any = {"format": {"type": "json_schema", "name": "s", "schema": FORM, "strict": True}}
    told: Any = {"model": "bot", "messages": [{"role": "user", "content": "2+3"}]}
    chat = made.chat.completions.create(**told, response_format=chat_form)
    assert json.loads(chat.choices[0].message.content or "") == {"sum": 5}
    with made.chat.completions.stream(**told, response_format=chat_form) as chunks:
        content = chunks.get_final_completion().choices[0].message.content
    assert json.loads(content or "") == {"sum": 5}
    response = made.responses.create(model="bot", input="2+3", text=form)
    assert json.loads(response.output_text) == {"sum": 5}
    with made.responses.stream(model="bot", input="2+3", text=form) as events:
        assert json.loads(events.get_final_response().output_text) == {"sum": 5}


@pytest.mark.parametrize("stream", (False, True))
def test_openai_answer_of_a_group_follows_the_json_schema_or_is_an_error(
    serve: Serve, stream: bool
) -> None:
    done = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": "good"})

    def pair(*answers: str) -> DualActAgent:
        human, worker = ReActAgent("H", ScriptedModel([done])), bot("R", list(answers))
        return DualActAgent(human=human, reactive=worker, first="reactive", id="pair")

    def talk(*answers: str) -> Conversation:
        speakers = [bot(id, [each]) for id, each in zip("ab", answers, strict=True)]
        return Conversation(speakers, id="talk", max_turns=2)

    form: Any = {"type": "json_schema", "json_schema": {"name": "s", "schema": FORM}}
    asked: Any = {"messages": [{"role": "user", "content": "2+3"}], "response_format": form}
    good, bad = '```json\n{"sum": 5}\n```', "five"

    def answered(agent: Any) -> str:
        made = client(serve(asgi(agent))).chat.completions
        if not stream:
            return made.create(model=str(agent.id), **asked).choices[0].message.content or ""
        chunks = made.create(model=str(agent.id), stream=True, **asked)
        return "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)

    for agent in (pair(good), talk("hm", '{"sum": 5}'), talk("hm", good)):
        assert json.loads(answered(agent)) == {"sum": 5}
    for agent in (pair(bad, bad, bad), talk("hm", bad), talk("hm", '{"sum": "5"}')):
        with pytest.raises(openai.APIError, match=r"JSON|schema"):
            answered(agent)


# -- responses -------------------------------------------------------------------------------------


def test_openai_responses_basic_text_and_instructions(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    made = responses.create(
        model="bot", instructions="Be brief.", input="hi", metadata={"a": "b"}, temperature=0.5
    )
    assert made.output_text == "system:Be brief. | user:hi"
    assert (made.status, made.object, made.model) == ("completed", "response", "bot")
    assert (made.metadata, made.instructions) == ({"a": "b"}, "Be brief.")
    again = responses.create(model="bot", input="ho", previous_response_id=made.id)
    # Instructions hold for one response only.
    assert again.output_text == "user:hi | assistant:system:Be brief. | user:hi | user:ho"


def test_openai_responses_text_between_calls_and_the_answer_stay_apart(serve: Serve) -> None:
    @action
    def look() -> str:
        """Look."""
        return "seen"

    script = ScriptedModel([ModelReply("Let me see.", (Call("c", "look", {}),)), "Done."])
    made = client(serve(asgi(ReActAgent("bot", script, actions=[look]))))
    with made.responses.stream(model="bot", input="x") as events:
        whole = events.get_final_response()
    assert whole.output_text == "Let me see.\n\nDone."


def test_openai_responses_hand_calls_back_and_take_their_results(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    with responses.stream(model="bot", input="weather?", tools=TOOLS) as stream:
        events: list[Any] = list(stream)
        made = stream.get_final_response()
    kinds = [each.type for each in events]
    assert kinds[2:6] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    calls: list[Any] = [each for each in made.output if each.type == "function_call"]
    assert [each.call_id for each in calls] == ["w1", "w2"]
    outputs: Any = [
        {"type": "function_call_output", "call_id": "w2", "output": "rain"},
        {"type": "function_call_output", "call_id": "w1", "output": "sun"},
    ]
    cut = responses.create(model="bot", input=outputs[:1], previous_response_id=made.id)
    assert cut.output_text == f"user:weather? | tool:{CUT} | tool:rain"
    last = responses.create(model="bot", input=outputs, previous_response_id=made.id)
    assert last.output_text == "user:weather? | tool:sun | tool:rain"
    # The same without the server's memory.
    given: Any = [{"role": "user", "content": "weather?"}]
    given += [each.model_dump() for each in calls] + outputs
    assert responses.create(model="bot", input=given).output_text == last.output_text


def test_openai_responses_continue_and_fork(serve: Serve) -> None:
    responses = client(serve(asgi([bot(), bot("other")]))).responses

    def ask(text: str, previous: str | None = None, **options: Any) -> Any:
        told: Any = {} if previous is None else {"previous_response_id": previous}
        return responses.create(model="bot", input=text, **told, **options)

    one = ask("a")
    two, three = ask("b", one.id), ask("c", one.id)
    assert two.output_text == "user:a | assistant:user:a | user:b"
    assert three.output_text == "user:a | assistant:user:a | user:c"
    assert "user:c" in ask("d", three.id).output_text
    assert "user:c" not in ask("d", two.id).output_text
    unkept = ask("x", store=False)
    for wrong in (unkept.id, "resp_x", "x", "", f"resp_{'0' * 32}.{'0' * 16}", two.id + "/../x"):
        with pytest.raises(openai.BadRequestError, match="not found") as caught:
            ask("y", wrong)
        assert caught.value.code == "previous_response_not_found"
    with pytest.raises(openai.BadRequestError, match="not found"):
        responses.create(model="other", input="y", previous_response_id=one.id)


def test_openai_responses_continue_after_a_restart_with_a_journal(tmp_path: Path) -> None:
    def server(journal: bool) -> Any:
        path = tmp_path / "runs.db"
        return serving(asgi(bot(journal=Journal(path) if journal else None)))

    with server(journal=True) as url:
        one = client(url).responses.create(model="bot", input="a")
        two = client(url).responses.create(
            model="bot", input="weather?", previous_response_id=one.id, tools=TOOLS
        )
        side = client(url).responses.create(model="bot", input="s", previous_response_id=one.id)
    outputs: Any = [
        {"type": "function_call_output", "call_id": id, "output": id} for id in ("w1", "w2")
    ]
    with server(journal=True) as url:
        responses = client(url).responses
        three = responses.create(model="bot", input=outputs, previous_response_id=two.id)
        assert three.output_text == (
            "user:a | assistant:user:a | user:weather? | tool:w1 | tool:w2"
        )
        fork = responses.create(model="bot", input="t", previous_response_id=side.id)
        assert fork.output_text.startswith("user:a | assistant:user:a | user:s | assistant:")
        assert fork.output_text.endswith("user:t")
    with server(journal=True) as url:  # what came in as results is read back as such
        four = client(url).responses.create(model="bot", input="b", previous_response_id=three.id)
        assert four.output_text.startswith(f"{three.output_text} | assistant:")
    with server(journal=False) as url, pytest.raises(openai.BadRequestError, match="journal"):
        client(url).responses.create(model="bot", input="b", previous_response_id=four.id)
    runs = Journal(tmp_path / "runs.db").runs()
    assert runs[0].id == one.id.removeprefix("resp_")
    assert {each.state for each in runs} == {"done", "terminal"}
    threads = {each.id: each.thread for each in runs}
    assert runs[0].thread == runs[1].thread != threads[side.id.removeprefix("resp_")]


# -- errors, approvals, the end of a client --------------------------------------------------------


def test_openai_door_errors_have_the_form_and_the_status_of_the_protocol(serve: Serve) -> None:
    url = serve(asgi(bot(), token="s3cret"))
    with pytest.raises(openai.AuthenticationError, match="token is missing or wrong") as denied:
        client(url, "other").models.list()
    assert denied.value.type == "invalid_request_error"
    made = client(url, "s3cret")
    with pytest.raises(openai.NotFoundError, match="The model 'x' does not exist") as missing:
        made.responses.create(model="x", input="y")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    headers = {"Authorization": "Bearer s3cret"}
    answer = httpx.post(f"{url}/v1/responses", content=b"{nothing", headers=headers)
    assert answer.status_code == 400
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json()["error"]["type"] == "invalid_request_error"
    refused = httpx.get(f"{url}/v1/responses", headers=headers)
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_openai_door_stop_reasons_have_their_status(serve: Serve) -> None:
    cut = ModelReply("the beginning", finish_reason="length")
    filtered = ModelReply("the start", finish_reason="content_filter")
    spent = ModelReply("x", usage=Usage(60, 60))
    agents = [
        bot("cut", [cut] * 3),
        bot("filtered", [filtered] * 2),
        bot("failing", []),
        bot("poor", [spent] * 3, budget=Budget(tokens=250)),
    ]
    made = client(serve(asgi(agents)))
    message: Any = [{"role": "user", "content": "x"}]
    for name, reason, detail in (
        ("cut", "length", "max_output_tokens"),
        ("filtered", "content_filter", "content_filter"),
    ):
        chat = made.chat.completions.create(model=name, messages=message)
        assert chat.choices[0].finish_reason == reason
        response = made.responses.create(model=name, input="x")
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == detail
    with made.responses.stream(model="cut", input="x") as events:
        assert [each.type for each in events][-1] == "response.incomplete"
    with pytest.raises(openai.InternalServerError, match="the server has failed"):
        made.responses.create(model="failing", input="x")
    made.responses.create(model="poor", input="x")
    with pytest.raises(openai.RateLimitError) as spent_error:
        made.responses.create(model="poor", input="x")
    assert spent_error.value.code == "insufficient_quota"


def test_openai_door_refusal_of_a_model_is_a_whole_answer(serve: Serve) -> None:
    refusal = ModelReply("I do not do that.", finish_reason="refusal")
    made = client(serve(asgi(bot(answer=[refusal] * 2))))
    (choice,) = made.chat.completions.create(
        model="bot", messages=[{"role": "user", "content": "x"}]
    ).choices
    assert choice.finish_reason == "stop"
    assert (choice.message.content, choice.message.refusal) == (None, "I do not do that.")
    response = made.responses.create(model="bot", input="x")
    assert (response.status, response.incomplete_details) == ("completed", None)
    assert response.output_text == "I do not do that."


def test_openai_stream_that_fails_in_its_midst_says_so(serve: Serve) -> None:
    @action
    def look() -> str:
        """Look."""
        return "seen"

    agent = bot(answer=[Call("1", "look", {})] * 2, actions=[look], max_iterations=1)
    made = client(serve(asgi(agent)))
    events: list[Any] = list(made.responses.create(model="bot", input="x", stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.message
    message: Any = [{"role": "user", "content": "x"}]
    with pytest.raises(openai.APIError, match="no answer after"):
        list(made.chat.completions.create(model="bot", messages=message, stream=True))


def buyer(bought: list[str]) -> ReActAgent:
    @action(access_policy=ACCESS_REQUESTED)
    def buy(item: str) -> str:
        """Buy an item."""
        bought.append(item)
        return "bought"

    def answer(messages: Messages, actions: Any) -> Any:
        last = messages[-1]
        return last["content"] if last["role"] == "tool" else Call("1", "buy", {"item": "lamp"})

    return bot(answer=answer, actions=[buy])


def test_openai_door_refuses_what_needs_approval_unless_the_spaces_approver_permits(
    serve: Serve,
) -> None:
    bought: list[str] = []
    refused = client(serve(asgi(buyer(bought)))).responses.create(model="bot", input="x")
    assert "its caller's client cannot ask anybody" in refused.output_text
    assert bought == []
    with NativeSpace(approver=CallbackApprover(lambda request: True)) as space:
        agent = space.add(buyer(bought))
        made = client(serve(asgi(agent))).responses.create(model="bot", input="x")
    assert made.output_text == "bought"
    assert bought == ["lamp"]


def test_openai_response_of_which_no_result_came_goes_on_and_takes_none_later(
    serve: Serve,
) -> None:
    responses = client(serve(asgi(bot()))).responses
    made = responses.create(model="bot", input="weather?", tools=TOOLS)
    then = responses.create(model="bot", input="never mind", previous_response_id=made.id)
    told = f"user:weather? | tool:{CUT} | tool:{CUT} | user:never mind"
    assert then.output_text == told
    late: Any = [{"type": "function_call_output", "call_id": "w1", "output": "sun"}]
    late.append({"role": "user", "content": "and?"})
    last = responses.create(model="bot", input=late, previous_response_id=then.id)
    assert last.output_text == f"{told} | assistant:{told} | user:and?"
