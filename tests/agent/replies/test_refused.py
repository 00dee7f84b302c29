"""What the server of a model refuses is left out of later prompts: the conversation goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journal.crash import crash
from models.openai_server import OpenAIServer, Request, call, calls, status, text
from moothall import (
    ActionError,
    Agent,
    Budget,
    ChosenBy,
    Conversation,
    DualActAgent,
    DualActConfig,
    Journal,
    ModelError,
    NativeSpace,
    OpenAIModel,
    ReActAgent,
    ScriptedModel,
    action,
)
from moothall.memory import SQLiteMemory, SummarizingMemory

URL = "data:image/png;base64,iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": URL}}
SEE: list[Any] = [{"type": "text", "text": "see"}, IMAGE]
REFUSED = "what the user said or attached is left out of later prompts"

WAIT = 20
MEMORIES = ("list", "file", "journal", "both")


def refusing(word: str, *answers: Any, most: int = 0) -> Callable[[Request], Any]:
    """A server that refuses requests with a word, more than `most` times; else it answers."""
    left = [*answers]

    def answer(request: Request) -> Any:
        if json.dumps(request.body["messages"]).count(word) > most:
            return status(400, "The response was filtered")
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def agent_at(server: OpenAIServer, folder: Path, kept: str, **options: Any) -> ReActAgent:
    if kept in ("file", "both"):
        options["memory"] = SQLiteMemory(folder / "chat.db")
    if kept in ("journal", "both"):
        options["journal"] = Journal(folder / "runs.db")
    return ReActAgent("a", OpenAIModel("m", server.url), **options)


def shown(request: Request) -> str:
    return json.dumps(request.body["messages"])


@pytest.mark.parametrize("kept", MEMORIES)
def test_refused_question_ends_its_own_reply_alone(tmp_path: Path, kept: str) -> None:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        agent = agent_at(server, tmp_path, kept)
        agent.reply_sync("hello", thread="ann")
        refused = agent.reply_sync("a forbidden word", thread="ann")
        assert (refused.stop_reason, refused.text) == ("error", "")
        assert refused.detail.endswith(REFUSED)
        assert agent.reply_sync("what is the time?", thread="ann").text == "fine"
    assert [len(each.body["messages"]) for each in server.requests] == [1, 3, 3]
    assert "forbidden" not in shown(server.requests[2])
    people = json.dumps(agent.memory_in("ann").get_memories())
    assert "a forbidden word" in people
    assert "no answer: the server of the model refused this" in people


def test_refused_question_is_left_out_in_a_new_process(tmp_path: Path) -> None:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        for question in ("a forbidden word", "hello"):
            reply = agent_at(server, tmp_path, "file").reply_sync(question, thread="ann")
    assert reply.text == "fine"


def test_refused_question_is_left_out_of_a_loaded_state() -> None:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url))
        agent.reply_sync("a forbidden word")
        other = ReActAgent("a", OpenAIModel("m", server.url))
        other.load_state_dict(json.loads(json.dumps(agent.state_dict())))
        assert other.reply_sync("hello").text == "fine"


@pytest.mark.parametrize("kept", MEMORIES)
def test_image_too_many_is_sent_without_the_older_ones(tmp_path: Path, kept: str) -> None:
    with OpenAIServer(refusing("base64,", text("fine"), most=1)) as server:
        agent = agent_at(server, tmp_path, kept)
        for question in (SEE, SEE, "and?", SEE):
            assert agent.reply_sync(question, thread="ann").text == "fine"
    assert [shown(each).count("base64,") for each in server.requests] == [1, 2, 1, 1, 2, 1]
    assert "an image, left out here" in shown(server.requests[-1])


def test_server_that_takes_texts_alone_goes_on_a_thread_with_images() -> None:
    def look() -> list[Any]:
        """Look."""
        return SEE

    def answer(request: Request) -> Any:
        if any(isinstance(each["content"], list) for each in request.body["messages"]):
            return status(422, "content must be a string")
        return text("fine")

    with OpenAIServer(answer) as server:
        script = ScriptedModel(["An image.", {"name": "look"}, "A cat."])
        agent = ReActAgent("a", script, actions=[look])
        agent.reply_sync(SEE)
        agent.reply_sync("What do you see?")
        agent.model = OpenAIModel("m", server.url)
        reply = agent.reply_sync("What is the time?")
    assert (reply.stop_reason, reply.text) == ("done", "fine")


@pytest.mark.parametrize("kept", MEMORIES)
def test_refused_image_of_an_action_leaves_its_text(tmp_path: Path, kept: str) -> None:
    def look() -> list[Any]:
        """Look."""
        return [{"type": "text", "text": "A cat on a mat."}, IMAGE]

    answers = (calls(call("look", "{}", "c1")), text("A cat."))
    with OpenAIServer(refusing("base64,", *answers)) as server:
        agent = agent_at(server, tmp_path, kept, actions=[look])
        assert agent.reply_sync("What is it?").text == "A cat."
        assert agent.reply_sync("Sure?").text == "A cat."
    assert "A cat on a mat." in shown(server.requests[-1])
    assert len(server.requests) == 4


@pytest.mark.parametrize("kept", MEMORIES)
def test_refused_result_stays_called_and_is_not_read(tmp_path: Path, kept: str) -> None:
    done: list[str] = []

    def pay() -> str:
        """Pay."""
        done.append("paid")
        return "a forbidden page"

    answers = (calls(call("pay", "{}", "c1")), text("It is paid."))
    with OpenAIServer(refusing("forbidden", *answers)) as server:
        agent = agent_at(server, tmp_path, kept, actions=[pay])
        reply = agent.reply_sync("Pay.")
        assert agent.reply_sync("Sure?").text == "It is paid."
    assert (reply.text, done, reply.steps[0].result["result"]) == (
        "It is paid.",
        ["paid"],
        "a forbidden page",
    )
    last = server.requests[-1].body["messages"]
    assert last[1]["tool_calls"][0]["function"]["name"] == "pay"
    assert "do not guess what it said" in last[2]["content"]


def test_refusals_of_results_are_none_of_the_iterations() -> None:
    def page(n: int) -> str:
        """Read a page."""
        return f"a forbidden page {n}"

    answers = [calls(call("page", f'{{"n": {n}}}', f"c{n}")) for n in range(3)]
    with OpenAIServer(refusing("forbidden", *answers, text("done"))) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=[page], max_iterations=4)
        reply = agent.reply_sync("Read three pages.")
    assert (reply.stop_reason, reply.text, len(reply.steps)) == ("done", "done", 3)


def test_server_that_refuses_everything_takes_no_result_away() -> None:
    is_wrong = [False]

    def look() -> str:
        """Look."""
        is_wrong[0] = True
        return "A cat."

    def answer(request: Request) -> Any:
        if is_wrong[0]:
            return status(400, "Unknown parameter: 'top_p'")
        messages = request.body["messages"]
        return text("Yes.") if len(messages) > 1 else calls(call("look", "{}", "c1"))

    with OpenAIServer(answer) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), actions=[look])
        assert agent.reply_sync("What is it?").stop_reason == "error"
        assert agent.reply_sync("Hello?").stop_reason == "error"
        is_wrong[0] = False
        assert agent.reply_sync("Sure?").text == "Yes."
    assert "A cat." in shown(server.requests[-1])
    assert "What is it?" in shown(server.requests[-1])
    assert "Hello?" not in shown(server.requests[-1])


def test_second_refused_question_is_asked_without_what_was_before() -> None:
    with OpenAIServer(text("a word that another server refuses")) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url))
        agent.reply_sync("Hello")
    with OpenAIServer(refusing("another server", text("fine"))) as server:
        agent.model = OpenAIModel("m", server.url)
        assert agent.reply_sync("one").stop_reason == "error"
        assert [agent.reply_sync(each).text for each in ("two", "three")] == ["fine", "fine"]
    assert [len(each.body["messages"]) for each in server.requests] == [3, 3, 1, 3]


def test_refused_question_takes_no_tokens_of_a_budget() -> None:
    budget = Budget(tokens=100_000)
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url), budget=budget)
        agent.reply_sync("a forbidden word")
    assert budget.spent.tokens == 0


async def test_refused_question_in_a_stream_ends_its_own_reply_alone() -> None:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        agent = ReActAgent("a", OpenAIModel("m", server.url))
        stream = agent.stream("a forbidden word")
        assert [each async for each in stream if type(each).__name__ == "TextPiece"] == []
        assert stream.reply.stop_reason == "error"
        assert (await agent.reply("hello")).text == "fine"


async def test_refused_interruption_ends_the_reply_and_is_left_out() -> None:
    agents: list[ReActAgent] = []

    @action
    def look() -> str:
        """Look."""
        agents[0].interrupt("forbidden: look elsewhere")
        return "A cat."

    answers = (calls(call("look", "{}", "c1")), text("A cat."))
    with OpenAIServer(refusing("forbidden", *answers)) as server:
        agents += [ReActAgent("a", OpenAIModel("m", server.url), actions=[look])]
        assert (await agents[0].reply("What is it?")).stop_reason == "error"
        assert (await agents[0].reply("Sure?")).text == "A cat."
    last = shown(server.requests[-1])
    assert "What is it?" in last
    assert "look elsewhere" not in last


async def test_summary_has_nothing_of_a_refused_question() -> None:
    with OpenAIServer(refusing("forbidden", text("a fact"))) as server:
        model = OpenAIModel("m", server.url)
        memory = SummarizingMemory(model, tokens=400, keep=60)
        agent = ReActAgent("a", model, memory=memory)
        await agent.reply("a forbidden word" + " and more" * 20)
        for n in range(8):
            assert (await agent.reply(f"{n}: " + "hello " * 20)).text == "a fact"
        await memory.settled()
        assert memory.summary
        assert (await agent.reply("forbidden")).stop_reason == "error"
        assert (await agent.reply("hello")).text == "a fact"
    summaries = [each for each in server.requests if each.body["messages"][0]["role"] == "system"]
    assert "forbidden" not in "".join(map(shown, summaries))
    asked = [each.body["messages"] for each in server.requests]
    last = next(each for each in asked if each[-1]["content"] == "hello")
    assert "Summary of the conversation" in last[0]["content"]


def test_refused_question_of_a_sender_in_a_space_is_that_question_alone() -> None:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server, NativeSpace() as space:
        space.add(ReActAgent("clerk", OpenAIModel("m", server.url)))
        ann = space.add(Agent("Ann"))
        with pytest.raises((ActionError, ModelError), match=REFUSED):
            ann.ask("clerk", "say", content="a forbidden word").result(WAIT)
        assert ann.ask("clerk", "say", content="hello").result(WAIT) == "fine"


@pytest.mark.parametrize("form", ({}, {"fresh": True}, {"fork": True}))
async def test_refused_question_of_a_caller_ends_the_helpers_reply_alone(form: Any) -> None:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        helper = ReActAgent("helper", OpenAIModel("m", server.url))
        script = [
            {"name": "helper", "args": {"text": "a forbidden word"}},
            {"name": "helper", "args": {"text": "hello"}},
            "done",
        ]
        asks = helper.as_action(**form)
        caller = ReActAgent("caller", ScriptedModel(script), actions=[asks])
        reply = await caller.reply("Ask twice.")
    assert [each.error is None for each in reply.steps] == [False, True], reply.steps


async def test_refused_utterance_is_left_out_for_whoever_could_not_read_it() -> None:
    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        ann = ReActAgent("Ann", ScriptedModel(["a forbidden word", "something else"]))
        bob = ReActAgent("Bob", OpenAIModel("m", server.url))
        talk = Conversation([ann, bob], max_turns=2)
        await talk.reply("Begin.")
        reply = await talk.reply("Go on.")
    assert reply.text == "fine"
    assert "something else" in shown(server.requests[-1])
    assert "forbidden" not in shown(server.requests[-1])


async def test_choice_of_a_speaker_is_made_without_the_words_that_a_server_refuses() -> None:
    with OpenAIServer(refusing("forbidden", text('{"next": "Bob"}'))) as server:
        ann = ReActAgent("Ann", ScriptedModel(["fine"] * 3))
        bob = ReActAgent("Bob", ScriptedModel(["fine"] * 3))
        order = ChosenBy(OpenAIModel("m", server.url), repeat=True)
        talk = Conversation([ann, bob], order, max_turns=1)
        for each in ("a forbidden word", "hello"):
            reply = await talk.reply(each)
            assert (reply.text, talk.state.transcript[-1].speaker) == ("fine", "Bob")
    assert "hello" not in shown(server.requests[0])


async def test_dual_act_goes_on_after_a_task_that_was_refused() -> None:
    def decision(action: str) -> str:
        return json.dumps({"reasoning": "", "action": action, "new_instruction": "Do it."})

    with OpenAIServer(refusing("forbidden", text("fine"))) as server:
        human = ReActAgent("H", ScriptedModel([decision("CONTINUE"), decision("TERMINATE")] * 2))
        dual = DualActAgent(DualActConfig(human, ReActAgent("R", OpenAIModel("m", server.url))))
        await dual.reply("a forbidden word")
        later = await dual.reply("hello")
    assert (later.stop_reason, later.text) == ("terminated", "fine")


def test_resumed_run_leaves_out_what_was_refused_before_its_last_answer(tmp_path: Path) -> None:
    pages = ["a forbidden cat", "a dog"]

    def look() -> str:
        """Look."""
        return pages.pop(0)

    looks = [calls(call("look", "{}", id)) for id in ("c1", "c2")]
    answers = (*looks, status(401, "wrong key"), text("A dog."))
    with OpenAIServer(refusing("forbidden", *answers)) as server:
        first = agent_at(server, tmp_path, "journal", actions=[look])
        assert first.reply_sync("What is it?", run_id="r").stop_reason == "error"
        requests = len(server.requests)
        later = agent_at(server, tmp_path, "journal", actions=[look])
        assert later.reply_sync("What is it?", run_id="r").text == "A dog."
    assert len(server.requests) == requests + 1
    assert "forbidden" not in shown(server.requests[-1])


@pytest.mark.parametrize("request_number", (2, 3, 4))
async def test_killed_run_goes_on_with_what_was_left_out(
    tmp_path: Path, request_number: int
) -> None:
    def look() -> list[Any]:
        """Look."""
        return [{"type": "text", "text": "a forbidden cat"}, IMAGE]

    killed = tmp_path / "killed.db"
    answers = (calls(call("look", "{}", "c1")), text("A cat."))
    answer = refusing("forbidden", *answers)

    def killing(request: Request) -> Any:
        if len(server.requests) == request_number:
            crash(tmp_path / "runs.db", killed)
        return answer(request)

    with OpenAIServer(killing) as server:
        model = OpenAIModel("m", server.url)
        for file in ("runs.db", "killed.db"):
            before = len(server.requests)
            with Journal(tmp_path / file) as journal:
                agent = ReActAgent("a", model, actions=[look], journal=journal)
                assert (await agent.reply("What is it?", run_id="r")).text == "A cat."
                requests = len(server.requests) - before
                assert (await agent.reply("Sure?")).text == "A cat."
    assert requests == 4 - request_number + 1


async def test_run_killed_after_its_question_was_refused_ends(tmp_path: Path) -> None:
    killed = tmp_path / "killed.db"

    class Dying(SQLiteMemory):
        """A memory that keeps what a kill -9 after its last message would leave."""

        def add_once(self, memory: Any, *key: Any) -> Any:
            result = super().add_once(memory, *key)
            crash(journal.path, killed)
            return result

    with (
        Journal(tmp_path / "runs.db") as journal,
        OpenAIServer(refusing("forbidden", text("fine"))) as server,
    ):
        model = OpenAIModel("m", server.url)
        agent = ReActAgent("a", model, journal=journal, memory=Dying(tmp_path / "chat.db"))
        assert (await agent.reply("a forbidden word", run_id="r")).stop_reason == "error"
        with Journal(killed) as then:
            agent = ReActAgent("a", model, journal=then)
            again = await agent.reply("a forbidden word", run_id="r")
    assert again.stop_reason == "error"
    assert again.detail.endswith(REFUSED)
    assert len(server.requests) == 1
