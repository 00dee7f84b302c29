"""Agents behind AG-UI: events checked by the protocol's own package, approvals as interrupts."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from moothall import (
    ACCESS_REQUESTED,
    Action,
    Call,
    Context,
    Conversation,
    ConversationalAgent,
    DualActAgent,
    ModelReply,
    ReActAgent,
    Reply,
    ScriptedModel,
    action,
)
from moothall.agents import ReplyRequest
from moothall.serving import asgi

Serve = Callable[[Any], str]
EVENT: TypeAdapter[Any] = TypeAdapter(Event)
TOOL: dict[str, Any] = {
    "name": "paint",
    "description": "Paint the page.",
    "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}},
}


def run(url: str, *messages: Any, status: int = 200, **more: Any) -> list[dict[str, Any]]:
    given = {"threadId": "t", "runId": "r", "messages": list(messages), "tools": [], "context": []}
    answer = httpx2.post(f"{url}/ag-ui", json={**given, **more}, timeout=30)
    assert answer.status_code == status, answer.text
    if status != 200:
        return [answer.json()]
    found = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    for each in found:
        EVENT.validate_python(each)
    return found


def user(text: str) -> dict[str, Any]:
    return {"id": "m", "role": "user", "content": text}


class Broken(ConversationalAgent):
    """An agent of one's own that fails by an error that is not moothall's."""

    async def respond(self, request: ReplyRequest) -> Reply:
        raise OSError("/srv/secret is full")


def test_ag_ui_run_of_an_agent_that_fails_ends_with_an_error(serve: Serve) -> None:
    events = run(serve(asgi(Broken("shop"))), user("Hello"))
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "OSError")
    assert events[-1]["message"].startswith("the server has failed (OSError); its log has")


def its(id: str) -> str:
    """Return the id that the model gave a call, of that under which the page knows it."""
    return id.partition("-")[2]


def buyer(bought: list[str]) -> ReActAgent:
    @action(access_policy=ACCESS_REQUESTED, facts={"cost_usd": 3})
    def buy(item: str) -> str:
        """Buy an item."""
        bought.append(item)
        return f"bought {item}"

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        last = messages[-1]
        if last["role"] == "tool":
            return f"So: {last['content']}"
        if last["content"] == "paint":
            return Call("p", "paint", {"colour": "red"})
        if last["content"] == "buy":
            return ModelReply("", (Call("c", "buy", {"item": "lamp"}),), reasoning="A lamp.")
        return f"heard {last['content']}"

    return ReActAgent("bot", ScriptedModel(answer), actions=[buy])


def kinds(events: list[dict[str, Any]]) -> list[str]:
    made = [each["type"] for each in events]
    return [each for n, each in enumerate(made) if n == 0 or each != made[n - 1]]


def test_ag_ui_progress_of_an_action_is_a_custom_event(serve: Serve) -> None:
    def dig(context: Context[Any]) -> str:
        """Dig."""
        context.progress("1 m")
        return "deep"

    script = ScriptedModel([Call("c", "dig", {}), "Done."])
    events = run(serve(asgi(ReActAgent("bot", script, actions=[dig]))), user("dig"))
    told = [each for each in events if each["type"] == "CUSTOM"]
    (known,) = [each["toolCallId"] for each in events if each["type"] == "TOOL_CALL_START"]
    assert [(each["name"], each["value"]) for each in told] == [
        ("call_progress", {"toolCallId": known, "text": "1 m"})
    ]


def test_ag_ui_approval_is_an_interrupt_that_a_resume_answers(serve: Serve) -> None:
    for approved in (True, False):
        bought: list[str] = []
        url = serve(asgi(buyer(bought)))
        events = run(url, user("buy"))
        assert "TOOL_CALL_END" in kinds(events)
        asked = events[-1]["outcome"]["interrupts"][0]
        call = {"agent": "bot", "action": "buy", "args": {"item": "lamp"}}
        offered = {"run": "Always in this run", "never": "Never in this run"}
        assert asked["metadata"] == {**call, "facts": {"cost_usd": 3}, "for": offered}
        assert its(asked["toolCallId"]) == "c"
        assert bought == []
        answer = {
            "interruptId": asked["id"],
            "status": "resolved",
            "payload": {"approved": approved},
        }
        after = run(url, user("buy"), resume=[answer], runId="r2")
        assert kinds(after)[:3] == ["RUN_STARTED", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START"]
        assert after[-1]["runId"] == "r2"
        assert bought == (["lamp"] if approved else [])
        other = {**answer, "payload": {"approved": not approved}}  # the first one counts
        refused = run(url, user("buy"), resume=[other], status=400)
        assert "waits for this answer" in refused[0]["error"]["message"]


@pytest.mark.parametrize(
    ("answer", "result"),
    (
        ({"payload": {"answer": "red"}}, "painted red"),
        ({"payload": {"answer": "red"}, "status": "cancelled"}, "nobody answered"),
        ({"payload": {"answer": 5}}, "nobody answered"),
        ({"payload": {"answer": "red", "approved": True}}, "nobody answered"),
        ({"payload": {"approved": True}}, "nobody answered"),
        ({"payload": "red"}, "nobody answered"),
        ({}, "nobody answered"),
    ),
)
def test_ag_ui_question_is_an_interrupt_that_a_resume_answers(
    serve: Serve, answer: dict[str, Any], result: str
) -> None:
    async def paint(context: Context[Any]) -> str:
        """Paint the door."""
        return f"painted {await context.ask_person('What colour?')}"

    script = ScriptedModel([Call("c", "paint", {}), "Done."])
    url = serve(asgi(ReActAgent("bot", script, actions=[paint])))
    (asked,) = run(url, user("paint"))[-1]["outcome"]["interrupts"]
    assert (asked["reason"], its(asked["toolCallId"])) == ("question", "c")
    assert asked["metadata"] == {"agent": "bot", "text": "What colour?"}
    entry = {"interruptId": asked["id"], "status": "resolved", **answer}
    events = run(url, user("paint"), resume=[entry], runId="r2")
    (told,) = [each["content"] for each in events if each["type"] == "TOOL_CALL_RESULT"]
    assert result in told
    assert events[-1]["outcome"] == {"type": "success"}
    other = {**entry, "payload": {"answer": "blue"}}  # the first one counts
    run(url, user("paint"), resume=[other], status=400)


def test_ag_ui_answer_that_comes_again_gets_of_a_text_only_what_the_client_lacks(
    serve: Serve,
) -> None:
    url = serve(asgi(buyer([])))
    asked = run(url, user("buy"))[-1]["outcome"]["interrupts"][0]
    answer = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}

    def told(*messages: Any) -> list[dict[str, Any]]:
        events = run(url, user("buy"), *messages, resume=[answer], runId="r2")
        return [each for each in events if each["type"] == "TEXT_MESSAGE_CONTENT"]

    pieces = told()
    assert len(pieces) > 1
    whole = "".join(each["delta"] for each in pieces)
    for has in range(len(whole) + 1):
        part = {"id": pieces[0]["messageId"], "role": "assistant", "content": whole[:has]}
        assert "".join(each["delta"] for each in told(part)) == whole[has:]


def test_ag_ui_equal_calls_that_are_asked_about_at_once_are_each_named(serve: Serve) -> None:
    def buy(item: str) -> str:
        """Buy an item."""
        return item

    calls = tuple(Call(id, "buy", {"item": "lamp"}) for id in "ab")
    asks = Action("buy", buy, "Buy.", access_policy=ACCESS_REQUESTED)
    url = serve(asgi(ReActAgent("bot", ScriptedModel([calls, "Done."]), actions=[asks])))
    asked = run(url, user("buy"))[-1]["outcome"]["interrupts"]
    assert sorted(its(each["toolCallId"]) for each in asked) == ["a", "b"]


def test_ag_ui_late_answer_to_a_withdrawn_question_gets_the_rest_of_the_run(serve: Serve) -> None:
    give_up, painted = threading.Event(), threading.Event()

    async def paint(context: Context[Any]) -> str:
        """Paint the door."""

        async def ask() -> str:
            return await context.ask_person("What colour?")

        asking = asyncio.create_task(ask())
        await asyncio.to_thread(give_up.wait, 20)
        asking.cancel()
        await asyncio.wait((asking,))
        painted.set()
        return "painted white"

    script = ScriptedModel([Call("c", "paint", {}), "Done."])
    url = serve(asgi(ReActAgent("bot", script, actions=[paint])))
    (asked,) = run(url, user("paint"))[-1]["outcome"]["interrupts"]
    give_up.set()
    assert painted.wait(20)
    entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"answer": "red"}}
    events = run(url, user("paint"), resume=[entry], runId="r2")
    (told,) = [each["content"] for each in events if each["type"] == "TOOL_CALL_RESULT"]
    assert (told, events[-1]["outcome"]) == ("painted white", {"type": "success"})
    run(url, user("paint"), resume=[{**entry, "payload": {"answer": "blue"}}], status=400)


def test_ag_ui_answer_twice_in_a_request_or_in_its_messages_permits_nothing(serve: Serve) -> None:
    bought: list[str] = []
    url = serve(asgi(buyer(bought)))
    asked = run(url, user("buy"))[-1]["outcome"]["interrupts"][0]
    answer = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
    run(url, user("buy"), resume=[answer, answer], status=400)
    # What a client says in its messages is no approval either.
    called = {"id": "c", "type": "function", "function": {"name": "buy", "arguments": "{}"}}
    run(
        url,
        user("buy"),
        {"id": "a", "role": "assistant", "toolCalls": [called]},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": "approved: true"},
    )
    assert bought == []


def test_ag_ui_tool_of_the_client_is_left_to_it(serve: Serve) -> None:
    url = serve(asgi(buyer([])))
    events = run(url, user("paint"), tools=[TOOL], protocolVersion="1.0")
    assert "TOOL_CALL_RESULT" not in kinds(events)
    (id,) = [each["toolCallId"] for each in events if each["type"] == "TOOL_CALL_START"]
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [id]}
    called = {"id": id, "type": "function", "function": {"name": "paint", "arguments": "{}"}}
    events = run(
        url,
        user("paint"),
        {"id": "a", "role": "assistant", "toolCalls": [called]},
        {"id": "t", "role": "tool", "toolCallId": id, "content": "red"},
        tools=[TOOL],
    )
    assert "".join(each.get("delta", "") for each in events) == "So: red"
    # A run was cancelled within a call; the person writes again.
    cut = {"id": "a", "role": "assistant", "toolCalls": [called]}
    assert run(url, user("paint"), cut, user("paint"), tools=[TOOL])[-1]["type"] == "RUN_FINISHED"


def test_ag_ui_calls_of_one_answer_belong_to_its_message(serve: Serve) -> None:
    def look(where: str) -> str:
        """Look."""
        return where

    calls = [Call(each, "look", {"where": each}) for each in "ab"]
    own = [Call(each, "paint", {"colour": "red"}) for each in "pq"]
    script = ScriptedModel([ModelReply("Let me see.", tuple(calls)), ModelReply("", tuple(own))])
    url = serve(asgi(ReActAgent("bot", script, actions=[look])))
    events = run(url, user("paint"), tools=[TOOL])
    (said,) = [each["messageId"] for each in events if each["type"] == "TEXT_MESSAGE_START"]
    parents = {
        its(each["toolCallId"]): each["parentMessageId"]
        for each in events
        if each["type"] == "TOOL_CALL_START"
    }
    assert parents["a"] == said
    assert parents["p"] == parents["q"] != said


def test_ag_ui_run_without_an_answer_ends_as_an_error(serve: Serve) -> None:
    url = serve(asgi(ReActAgent("bot", ScriptedModel([]))))
    events = run(url, user("x"))
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "error")
    run(url, status=400)


def forgeries(entry: dict[str, Any]) -> list[Any]:
    """Return answers that name another interrupt than the one that waits, or none."""
    id, chance, made = entry["interruptId"], random.Random(42), list[Any]()
    for number in range(150):
        at, sign = chance.randrange(len(id)), chance.choice("0123456789abcdefXYZ-_.")
        other = (
            id[:at] + ("A" if id[at] != "A" else "B") + id[at + 1 :],
            id[:at] + id[at + 1 :],
            id[:at] + sign + id[at:],
            f"{chance.randbytes(24).hex()}.{id.partition('.')[2]}",
        )
        made.append([{**entry, "interruptId": other[number % 4]}])
    odd = (None, True, 0, [], {}, [id], {id: id}, f" {id}", f"{id}\n", id.upper(), id[::-1], "")
    made += [[{**entry, "interruptId": each}] for each in odd]
    return [*made, [entry, entry], [[entry]], [id], [None], entry, id, True, 1]


async def test_ag_ui_takes_none_of_200_forged_or_altered_answers() -> None:
    bought: list[str] = []
    here = httpx2.ASGITransport(asgi(buyer(bought)))
    async with httpx2.AsyncClient(transport=here, base_url="http://127.0.0.1") as client:

        async def told(resume: Any = None, **more: Any) -> tuple[int, str]:
            given = {"threadId": "t", "runId": "r", "messages": [user("buy")], **more}
            given |= {} if resume is None else {"resume": resume}
            answer = await client.post("/ag-ui", json=given)
            return answer.status_code, answer.text

        async def asked() -> dict[str, Any]:
            last = json.loads((await told())[1].strip().splitlines()[-1][6:])
            id = last["outcome"]["interrupts"][0]["id"]
            yes = {"approved": True}
            return {"interruptId": id, "status": "resolved", "payload": yes}

        entry = await asked()
        forged = forgeries(entry)
        for each in forged:
            assert (await told(each))[0] == 400
        for thread in ("T", "", "t ", "t2"):
            assert (await told([entry], threadId=thread))[0] == 400
        altered = [{"status": each} for each in ("approved", "cancelled", None, True, 1, "")]
        yes = (1, "true", "yes", None, [], {}, [True], 1.0)
        altered += [{"payload": {"approved": each}} for each in yes]
        altered += [{"payload": each} for each in (True, None, [], "approved", {}, 1)]
        other = ({"args": {"item": "car"}}, {"action": "sell"}, {"approve": True}, {"": 1})
        altered += [{"payload": {"approved": True, **each}} for each in other]
        altered += [{"payload": {key: True}} for key in ("Approved", "approve", "permit")]
        for each in altered:
            _, text = await told([{**await asked(), **each}])
            assert "not permitted" in text, text
        assert len(forged) + 4 + len(altered) >= 200
    assert bought == []


def test_ag_ui_context_of_the_page_reaches_the_model_as_from_outside(serve: Serve) -> None:
    seen: list[dict[str, Any]] = []

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        seen[:] = messages
        return "ok"

    url = serve(asgi(ReActAgent("bot", ScriptedModel(answer))))
    shown = [
        {"description": "the open order", "value": "17"},
        {"description": "the cart", "value": {"lamp": 2}},
    ]
    assert run(url, user("hi"), context=shown)[-1]["outcome"] == {"type": "success"}
    texts = [str(each["content"]) for each in seen]
    assert any('the open order: 17\n- the cart: {"lamp": 2}' in each for each in texts)
    assert seen[-1]["content"] == "hi"


def test_ag_ui_conversation_tells_what_each_has_said_and_finishes_when_all_have(
    serve: Serve,
) -> None:
    """Each utterance is a message of its own; the turns that its owner allowed are no failure."""
    speakers = [ReActAgent(id, ScriptedModel([id])) for id in ("one", "two", "three")]
    talk = Conversation(speakers, id="talk", max_turns=3)
    events = run(serve(asgi(talk)), user("hi"))
    assert [each["delta"] for each in events if "delta" in each] == ["one", "two", "three"]
    assert [each["name"] for each in events if "name" in each] == ["one", "two", "three"]
    assert len({each["messageId"] for each in events if "messageId" in each}) == 3
    assert [each["type"] for each in events].index("RUN_FINISHED") == len(events) - 1


def reviewed(*decisions: Any, **r: Any) -> DualActAgent:
    """A dual act whose H is a dual act, too: each decision is the conclusion of its R."""
    clerk = ReActAgent("clerk", ScriptedModel(["Ten.", "Two."]), **r)
    judge = ReActAgent("judge", ScriptedModel([json.dumps(each) for each in decisions]))
    boss = ReActAgent("boss", ScriptedModel([DONE] * len(decisions)))
    judges = DualActAgent(human=boss, reactive=judge, first="reactive", id="judges")
    return DualActAgent(human=judges, reactive=clerk, first="reactive", id="pair")


DONE = json.dumps({"action": "TERMINATE", "new_instruction": "", "reasoning": "good"})
AGAIN = {"action": "CONTINUE", "new_instruction": "Count again.", "reasoning": "too many"}


def test_ag_ui_dual_act_tells_decisions_as_events_and_only_the_workers_words_as_text(
    serve: Serve,
) -> None:
    events = run(serve(asgi(reviewed(AGAIN, json.loads(DONE)))), user("How many?"))
    texts: dict[str, str] = {}
    for each in events:
        if each["type"] == "TEXT_MESSAGE_CONTENT":
            texts[each["messageId"]] = texts.get(each["messageId"], "") + each["delta"]
    assert [*texts.values()] == ["Ten.", "Two."]
    told = [each for each in events if each["type"] == "CUSTOM"]
    said = [(each["name"], each["value"]["agent"], each["value"]["loop"]) for each in told]
    of_pair = [each for each in said if each[1] == "pair"]
    assert of_pair == [
        ("conclusion", "pair", 1),
        ("decision", "pair", 1),
        ("conclusion", "pair", 2),
        ("decision", "pair", 2),
    ]
    first = next(each["value"] for each in told if each["value"]["agent"] == "pair")
    assert first["conclusion"]["summary"] == "Ten."
    decided = [each["value"]["decision"] for each in told if each["name"] == "decision"]
    assert AGAIN in decided
    assert events[-1]["outcome"] == {"type": "success"}


def test_ag_ui_conversation_in_which_nobody_said_a_word_fails_as_say_does(serve: Serve) -> None:
    talk = Conversation([ReActAgent("a", ScriptedModel([""]))], id="talk", max_turns=1)
    assert run(serve(asgi(talk)), user("hi"))[-1]["type"] == "RUN_ERROR"


# -- clients of other versions, and conversations that go on --------------------------------------


@pytest.mark.parametrize(
    "stated", (None, "", "0.0.59", "0", 1, 1.0, "one", "01", ["1.0"], "1.0", "1", "1.2.3", "2.0")
)
def test_ag_ui_keys_of_version_1_go_to_clients_alone_that_state_it(
    serve: Serve, stated: Any
) -> None:
    url = serve(asgi(buyer([])))
    more = {} if stated is None else {"protocolVersion": stated}
    events = run(url, user("paint"), tools=[TOOL], **more)
    knows = isinstance(stated, str) and stated[:1] in ("1", "2")
    assert ("protocolVersion" in events[0]) is knows
    assert ("pendingToolCallIds" in events[-1]["outcome"]) is knows
    if not knows:
        assert events[-1]["outcome"] == {"type": "success"}
        assert events[0].keys() == {"type", "threadId", "runId"}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def called(events: list[dict[str, Any]]) -> list[str]:
    return [each["toolCallId"] for each in events if each["type"] == "TOOL_CALL_START"]


def test_ag_ui_calls_have_ids_that_their_thread_has_not_had(serve: Serve) -> None:
    """As with providers that count from 0 in each turn; also where page or server forgets."""
    call = Call("add:0", "add", {"a": 1, "b": 2})
    seen: list[list[dict[str, Any]]] = []

    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        seen.append(messages)
        return "3" if messages[-1]["role"] == "tool" else call

    known: list[str] = []
    history: list[dict[str, Any]] = []
    for turn in range(4):
        url = serve(asgi(ReActAgent("bot", ScriptedModel(answer), actions=[add])))
        history.append({"id": f"u{turn}", "role": "user", "content": "x"})
        events = run(url, *history)
        (id,) = called(events)
        (result,) = [each for each in events if each["type"] == "TOOL_CALL_RESULT"]
        assert result["toolCallId"] == id
        known.append(id)
        function = {"name": "add", "arguments": json.dumps(call.args)}
        made = [{"id": id, "type": "function", "function": function}]
        history += [
            {"id": f"a{turn}", "role": "assistant", "toolCalls": made},
            {"id": f"t{turn}", "role": "tool", "toolCallId": id, "content": "3"},
            {"id": f"s{turn}", "role": "assistant", "content": "3"},
        ]
    assert len({*known, *called(run(url, history[0]))}) == 5
    # The model reads ids in its own form: in them a provider may keep what it wants back.
    calls = [each for message in seen[-3] for each in message.get("tool_calls", ())]
    assert [each["id"] for each in calls] == ["add:0", "add:1", "add:2", "add:3"]
    assert [each["role"] for each in seen[-3]].count("tool") == len(calls) == 4


def test_ag_ui_members_of_a_group_that_use_the_same_ids_are_told_apart(serve: Serve) -> None:
    def member(id: str) -> ReActAgent:
        script = [Call("c", "add", {"a": 1, "b": 2}), "three"] * 2
        return ReActAgent(id, ScriptedModel(script), actions=[add])

    talk = Conversation([member("one"), member("two")], id="talk", max_turns=4)
    events = run(serve(asgi(talk)), user("x"))
    results = [each["toolCallId"] for each in events if each["type"] == "TOOL_CALL_RESULT"]
    assert len({*called(events)}) == 4
    assert results == called(events)
