"""Responses that were given, fetched and deleted by the `openai` package."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

from moothall import Call, Conversation, Journal, ModelReply
from moothall.serving import asgi
from serving.doors.conftest import client, serving
from serving.doors.test_openai import FORM, TOOLS, bot

Serve = Callable[[Any], str]


def test_openai_response_is_fetched_as_it_was_given(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    made = responses.create(model="bot", input="hi", instructions="Be brief.", metadata={"a": "b"})
    assert responses.retrieve(made.id) == made
    calls = responses.create(model="bot", input="weather?", tools=TOOLS)
    assert responses.retrieve(calls.id).output == calls.output
    with responses.stream(model="bot", input="ho", previous_response_id=made.id) as events:
        last = events.get_final_response()
    found = responses.retrieve(last.id)
    assert (found.output_text, found.status) == (last.output_text, "completed")
    assert found.previous_response_id == made.id


def test_openai_response_is_fetched_after_a_restart_with_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with serving(asgi(bot(journal=Journal(path)))) as url:
        one = client(url).responses.create(model="bot", input="hi")
        two = client(url).responses.create(
            model="bot", input="weather?", previous_response_id=one.id, tools=TOOLS
        )
    with serving(asgi(bot("bot", [], journal=Journal(path)))) as url:
        responses = client(url).responses
        got = responses.retrieve(one.id)
        assert (got.output, got.usage, got.status) == (one.output, one.usage, "completed")
        assert abs(got.created_at - one.created_at) <= 1
        assert responses.retrieve(two.id).output == two.output
        assert responses.retrieve(two.id).previous_response_id == one.id
        (item,) = responses.input_items.list(two.id)
        assert item.type == "message"
        assert item.content[0].text == "weather?"  # type: ignore[union-attr]
        with pytest.raises(openai.InternalServerError):
            responses.create(model="bot", input="x", previous_response_id=one.id)
        failed = Journal(path).runs()[-1]
        assert responses.retrieve(f"resp_{failed.id}").status == "failed"
        responses.delete(one.id)
        with pytest.raises(openai.NotFoundError):
            responses.retrieve(one.id)
        assert one.id.removeprefix("resp_") not in {run.id for run in Journal(path).runs()}
        with pytest.raises(openai.BadRequestError):
            responses.create(model="bot", input="x", previous_response_id=one.id)


ODD_TOOL: Any = [{**TOOLS[0], "name": "my.weather:now"}]
SUM_FORM: Any = {"format": {"type": "json_schema", "name": "sum", "schema": FORM}}
REQUESTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "settings": (
        "Hello.",
        {
            "instructions": "Be brief.",
            "metadata": {"order": "17"},
            "temperature": 0.2,
            "max_output_tokens": 50,
            "safety_identifier": "ada",
            "tools": TOOLS,
            "tool_choice": "none",
        },
    ),
    "form": ('```json\n{"sum":  3}\n```', {"text": SUM_FORM}),
    "call": (
        lambda messages, actions: [Call("w", actions[0].name, {"city": "Bern"})],
        {"tools": ODD_TOOL, "tool_choice": "required"},
    ),
    "cut": (ModelReply("the beginning", finish_reason="length"), {}),
    "refusal": (ModelReply("I will not.", finish_reason="refusal"), {}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_openai_response_says_after_a_restart_what_it_said_before(
    tmp_path: Path, name: str
) -> None:
    answer, more = REQUESTS[name]
    path = tmp_path / "runs.db"
    answers = answer if callable(answer) else [answer]
    with serving(asgi(bot(answer=answers, journal=path))) as url:
        made = client(url).responses.create(model="bot", input="hi", **more)
    with serving(asgi(bot(journal=path))) as url:
        found = client(url).responses.retrieve(made.id)
    times = {"created_at": made.created_at, "completed_at": made.completed_at}
    assert {**found.model_dump(), **times} == made.model_dump()


def test_openai_deleted_response_is_found_no_more(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    made = responses.create(model="bot", input="hi")
    responses.delete(made.id)
    for call in (responses.retrieve, responses.delete, responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            call(made.id)


def test_openai_response_after_a_deleted_one_says_why_it_is_not_continued(
    serve: Serve, tmp_path: Path
) -> None:
    """It was there, by its id, and "not found" to whoever continued it."""
    agent = bot(journal=tmp_path / "runs.db")
    responses = client(serve(asgi(agent))).responses
    first = responses.create(model="bot", input="hi")
    second = responses.create(model="bot", input="again", previous_response_id=first.id)
    responses.delete(first.id)
    for door in (responses, client(serve(asgi(agent))).responses):
        assert door.retrieve(second.id).output_text == second.output_text
        with pytest.raises(openai.BadRequestError, match="an earlier one of its conversation was"):
            door.create(model="bot", input="more", previous_response_id=second.id)
        with pytest.raises(openai.BadRequestError, match=rf"'{first.id}' not found\."):
            door.create(model="bot", input="more", previous_response_id=first.id)


def test_openai_response_that_is_not_deleted_stays_as_it_was_given(
    serve: Serve, tmp_path: Path
) -> None:
    """Its run is held."""
    path = tmp_path / "runs.db"
    responses = client(serve(asgi(bot(journal=path)))).responses
    made = responses.create(model="bot", input="hi", instructions="Be brief.", metadata={"a": "b"})
    with Journal(path) as journal:
        with journal.file.reading() as db:
            number = journal.file.run_number(db, made.id.removeprefix("resp_"))
        assert journal.held_runs.take_lease(number)
        with pytest.raises(openai.ConflictError):
            responses.delete(made.id)
        journal.held_runs.release(number)
    assert responses.retrieve(made.id) == made
    responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        responses.retrieve(made.id)


def test_openai_input_items_have_the_files_and_sound_of_a_message(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    parts: Any = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,aGk=",
        },
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
    ]
    made = responses.create(model="bot", input=[{"role": "user", "content": parts}])
    (item,) = responses.input_items.list(made.id)
    assert [each.type for each in item.content] == [each["type"] for each in parts]  # type: ignore[union-attr]


def test_openai_input_items_have_what_was_asked_in_pages(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    given: Any = [
        {"role": "system", "content": "Talk like a pirate."},
        {"role": "assistant", "content": "Ahoy."},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "seen"},
        {"role": "user", "content": "Who am I?"},
    ]
    made = responses.create(model="bot", input=given)
    items = list(responses.input_items.list(made.id, limit=2, order="asc"))
    assert [each.type for each in items] == [each.get("type", "message") for each in given]
    back = list(responses.input_items.list(made.id))
    assert [each.id for each in back] == [each.id for each in reversed(items)]
    pages = [responses.input_items.list(made.id, limit=limit) for limit in (4, 5)]
    assert [each.has_more for each in pages] == [True, False]
    for wrong in ({"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": "none"}):
        with pytest.raises(openai.BadRequestError):
            responses.input_items.list(made.id, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ("t-bob", "t-ada"))
@pytest.mark.parametrize("recorded", (False, True))
def test_openai_response_is_found_by_its_own_caller_alone(
    serve: Serve, tmp_path: Path, token: str, recorded: bool
) -> None:
    journal = Journal(tmp_path / "runs.db") if recorded else None
    url = serve(asgi(bot(journal=journal), token={"ada": "t-ada", "bob": "t-bob"}))
    made = client(url, "t-ada").responses.create(model="bot", input="hi")
    if recorded:
        url = serve(asgi(bot(journal=journal), token={"ada": "t-ada", "bob": "t-bob"}))
    responses = client(url, token).responses
    following = {"model": "bot", "input": "And?", "previous_response_id": made.id}
    if token == "t-ada":
        responses.create(**following)
    else:
        with pytest.raises(openai.BadRequestError, match="not found"):
            responses.create(**following)
    calls: tuple[Any, ...] = (responses.retrieve, responses.input_items.list, responses.delete)
    for call in calls:
        if token == "t-ada":
            call(made.id)
        else:
            with pytest.raises(openai.NotFoundError):
                call(made.id)
    if token == "t-bob":
        assert client(url, "t-ada").responses.retrieve(made.id).id == made.id


def test_openai_id_of_a_response_that_another_server_gave_and_deleted_is_not_given_again(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    one, two = (client(serve(asgi(bot(journal=path)))).responses for _ in range(2))
    first = one.create(model="bot", input="hi")
    second = two.create(model="bot", input="ho", previous_response_id=first.id)
    two.delete(second.id)
    third = one.create(model="bot", input="hey", previous_response_id=first.id)
    assert third.id != second.id
    fourth = one.create(model="bot", input="again", previous_response_id=third.id)
    assert one.retrieve(fourth.id).previous_response_id == third.id


@pytest.mark.parametrize(
    "id", ("resp_x", "x", "resp_" + "0" * 32 + "." + "0" * 16, "resp_..%2f..%2fetc")
)
def test_openai_id_of_no_response_is_not_found(serve: Serve, tmp_path: Path, id: str) -> None:
    url = serve(asgi(bot(journal=Journal(tmp_path / "runs.db"))))
    with pytest.raises(openai.NotFoundError):
        client(url).responses.retrieve(id)


def test_openai_conversation_answers_with_its_last_word_streamed_or_not(
    serve: Serve, tmp_path: Path
) -> None:
    """The turns that its owner allowed are no failure, in the journal neither."""
    path = tmp_path / "runs.db"

    def talk() -> Conversation:
        speakers = [bot("a", lambda messages, _: "one"), bot("b", lambda messages, _: "two")]
        return Conversation(speakers, id="talk", max_turns=2, journal=path)

    with serving(asgi(talk())) as url:
        made = client(url).responses.create(model="talk", input="hi")
        assert (made.status, made.output_text) == ("completed", "two")
        with client(url).responses.stream(model="talk", input="ho") as events:
            kinds = [each.type for each in events]
            assert kinds.count("response.completed") == 1
            assert events.get_final_response().output_text == "two"
    with serving(asgi(talk())) as url:
        found = client(url).responses.retrieve(made.id)
        assert (found.status, found.output) == ("completed", made.output)


def test_openai_response_that_has_ended_is_not_streamed_again(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    made = responses.create(model="bot", input="hi")
    with pytest.raises(openai.BadRequestError, match="get this one whole"):
        responses.retrieve(made.id, stream=True)


# -- items of earlier responses, named by their ids ------------------------------------------------


def thinks(messages: Any, actions: Any) -> Any:
    """Think, then call a tool of the client's, or say what was said before."""
    told = " | ".join(f"{each['role']}:{each['content']}" for each in messages)
    if messages[-1]["content"] == "weather?":
        calls = (Call("w1", "weather", {"city": "Bern"}), Call("w2", "weather", {"city": "Rome"}))
        return ModelReply("Let me see.", calls, reasoning="Two.")
    return ModelReply(told, (), reasoning="Hm.")


def named(response: Any) -> list[Any]:
    """Return references to the items of a response."""
    return [{"type": "item_reference", "id": each.id} for each in response.output]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("streamed", (False, True))
@pytest.mark.parametrize("restarted", (False, True))
@pytest.mark.parametrize("recorded", (False, True))
def test_openai_items_of_earlier_responses_are_taken_by_their_ids(
    tmp_path: Path, streamed: bool, restarted: bool, recorded: bool
) -> None:
    def app() -> Any:
        journal = Journal(tmp_path / "runs.db") if recorded or restarted else None
        return asgi(bot(answer=thinks, journal=journal))

    with ExitStack() as stack:
        url = stack.enter_context(serving(app()))

        def ask(*items: Any) -> Any:
            nonlocal url
            given: Any = {"model": "bot", "input": [*items], "tools": TOOLS}
            if streamed:
                with client(url).responses.stream(**given) as events:
                    made = events.get_final_response()
            else:
                made = client(url).responses.create(**given)
            if restarted:
                url = stack.enter_context(serving(app()))
            return made

        one = ask(said("hi"))
        assert {each.type for each in one.output} == {"reasoning", "message"}
        asked = [said("hi"), *named(one), said("weather?")]
        two = ask(*asked)
        assert [each.type for each in two.output].count("function_call") == 2
        results = [
            {"type": "function_call_output", "call_id": id, "output": f"in {id}"}
            for id in ("w1", "w2")
        ]
        three = ask(*asked, *named(two), *results)
        known = "user:hi | assistant:user:hi | user:weather? | assistant:Let me see."
        assert three.output_text == f"{known} | tool:in w1 | tool:in w2"
        four = ask(*asked, *named(two), *results, *named(three), said("again"))
        assert (
            four.output_text == f"{three.output_text} | assistant:{three.output_text} | user:again"
        )


@pytest.mark.parametrize("recorded", (False, True))
def test_openai_item_is_taken_from_responses_of_its_own_caller_alone(
    serve: Serve, tmp_path: Path, recorded: bool
) -> None:
    journal = Journal(tmp_path / "runs.db") if recorded else None
    url = serve(asgi(bot(journal=journal), token={"ada": "t-ada", "bob": "t-bob"}))
    made = client(url, "t-ada").responses.create(model="bot", input="secret")
    with pytest.raises(openai.BadRequestError, match="send the item itself"):
        client(url, "t-bob").responses.create(model="bot", input=[*named(made), said("x")])
    taken = client(url, "t-ada").responses.create(model="bot", input=[*named(made), said("x")])
    assert "secret" in taken.output_text


@pytest.mark.parametrize("recorded", (False, True))
def test_openai_item_of_a_deleted_response_is_refused(
    serve: Serve, tmp_path: Path, recorded: bool
) -> None:
    journal = Journal(tmp_path / "runs.db") if recorded else None
    responses = client(serve(asgi(bot(journal=journal)))).responses
    made = responses.create(model="bot", input="hi")
    responses.delete(made.id)
    with pytest.raises(openai.BadRequestError, match="send the item itself"):
        responses.create(model="bot", input=[*named(made), said("x")])


def test_openai_item_by_an_id_of_none_is_refused(serve: Serve, tmp_path: Path) -> None:
    responses = client(serve(asgi(bot(journal=tmp_path / "runs.db")))).responses
    made = responses.create(model="bot", input="hi")
    (item,) = made.output
    run = made.id.removeprefix("resp_")
    ids = ("msg_x", "", f"msg_{run}_7", f"fc_{run}_w1", f"msg_{run}", f"fc{item.id[3:]}", made.id)
    for id in (
        *ids,
        f"{item.id}x",
        item.id.replace(run, "0" * 32 + "." + "0" * 16),
        f"msg_{run}_../x",
    ):
        reference: Any = {"type": "item_reference", "id": id}
        with pytest.raises(openai.BadRequestError, match="send the item itself"):
            responses.create(model="bot", input=[reference, said("x")])
    for odd in (None, 5, ["x"], {}):
        reference = {"type": "item_reference", "id": odd}
        with pytest.raises(openai.BadRequestError, match="send the item itself"):
            responses.create(model="bot", input=[reference, said("x")])


def test_openai_item_is_named_once_in_a_request(serve: Serve) -> None:
    """Else a small request would stand for a very long one."""
    responses = client(serve(asgi(bot()))).responses
    made = responses.create(model="bot", input="hi")
    with pytest.raises(openai.BadRequestError, match=r"input\[1\] .* send the item itself"):
        responses.create(model="bot", input=[*named(made), *named(made), said("x")])


def test_openai_reference_may_leave_its_type_out(serve: Serve) -> None:
    responses = client(serve(asgi(bot()))).responses
    made = responses.create(model="bot", input="hi")
    for more in ({}, {"type": None}):
        reference: Any = {"id": made.output[0].id, **more}
        last = responses.create(model="bot", input=[reference, said("x")])
        assert last.output_text == "assistant:user:hi | user:x"


def test_openai_response_of_an_imported_run_that_continues_itself_is_refused(
    serve: Serve, tmp_path: Path
) -> None:
    from moothall.journal.store.entry_values import stored_json
    from moothall.journal.store.store import _checksum as sum_of

    path = tmp_path / "r.jsonl"
    with Journal(tmp_path / "a.db") as journal:
        made = client(serve(asgi(bot(journal=journal)))).responses.create(model="bot", input="hi")
        journal.export(made.id.removeprefix("resp_"), path)
    head, *lines = map(json.loads, path.read_text().splitlines())
    sum = b""
    for number, each in enumerate(lines, 1):
        if each["kind"] == "begun":
            each["data"]["response"]["previous_response_id"] = made.id
        data = stored_json(each["data"])
        sum = sum_of(sum, number, each["path"], each["kind"], str(each["at"]), data)
        each["sum"] = sum.hex()
    path.write_text("".join(f"{json.dumps(each)}\n" for each in (head, *lines)))
    with Journal(tmp_path / "b.db") as journal:
        journal.import_run(path)
        responses = client(serve(asgi(bot(journal=journal)))).responses
        with pytest.raises(openai.BadRequestError, match="not found"):
            responses.create(model="bot", input="x", previous_response_id=made.id)
