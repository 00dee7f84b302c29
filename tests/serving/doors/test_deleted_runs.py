"""Runs that were deleted from the journal of a server that runs: no door finds them any more."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from commands import Command
from moothall import Journal, ReActAgent, ScriptedModel
from moothall.serving import asgi
from serving.doors.a2a_calls import call, plain, requested, rpc, started, state
from serving.doors.a2a_calls import shop as waiting_shop
from serving.doors.conftest import client, serving

Serve = Callable[[Any], str]
Delete = Callable[[Path, str], None]
WORDS = "Zebrastreifen"


def by_command(path: Path, run: str) -> None:
    with Command("runs", "delete", run, "--journal", path) as command:
        assert command.wait(60) == 0


def in_process(path: Path, run: str) -> None:
    with Journal(path) as journal:
        journal.delete(run)


deleting = pytest.mark.parametrize("delete", (in_process, by_command))


def heard(messages: Any, _: Any) -> str:
    return " | ".join(str(each["content"]) for each in messages if each["role"] == "user")


def shop(path: Path | None) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(heard)
    return model, asgi(ReActAgent("shop", model, journal=path))


@deleting
def test_openai_response_deleted_from_the_journal_is_found_by_nothing(
    serve: Serve, tmp_path: Path, delete: Delete
) -> None:
    path = tmp_path / "runs.db"
    model, app = shop(path)
    responses = client(serve(app)).responses
    other = responses.create(model="shop", input="hello")
    made = responses.create(model="shop", input=WORDS)
    delete(path, made.id.removeprefix("resp_"))
    asked = len(model.received)
    for ask in (responses.retrieve, responses.input_items.list, responses.delete):
        with pytest.raises(openai.NotFoundError):
            ask(made.id)
    item: Any = {"type": "item_reference", "id": made.output[0].id}
    for more in ({"previous_response_id": made.id, "input": "and?"}, {"input": [item]}):
        with pytest.raises(openai.BadRequestError):
            responses.create(model="shop", **more)
    assert len(model.received) == asked
    assert not Journal(path).runs(recorded=WORDS)
    assert responses.retrieve(other.id) == other


def test_openai_conversation_with_a_deleted_response_does_not_go_on(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    model, app = shop(path)
    responses = client(serve(app)).responses
    first = responses.create(model="shop", input=WORDS)
    last = responses.create(model="shop", input="two", previous_response_id=first.id)
    in_process(path, first.id.removeprefix("resp_"))
    asked = len(model.received)
    with pytest.raises(openai.BadRequestError):
        responses.create(model="shop", input="three", previous_response_id=last.id)
    assert len(model.received) == asked


@deleting
def test_openai_id_of_a_deleted_response_is_given_to_no_other_after_a_restart(
    tmp_path: Path, delete: Delete
) -> None:
    path = tmp_path / "runs.db"
    with serving(shop(path)[1]) as url:
        responses = client(url).responses
        first = responses.create(model="shop", input="one")
        last = responses.create(model="shop", input=WORDS, previous_response_id=first.id)
    delete(path, last.id.removeprefix("resp_"))
    with serving(shop(path)[1]) as url:
        responses = client(url).responses
        other = responses.create(model="shop", input="two", previous_response_id=first.id)
        assert other.output_text == "one | two"
        with pytest.raises(openai.NotFoundError):
            responses.retrieve(last.id)


def test_openai_conversation_goes_on_over_many_restarts_where_others_are_deleted(
    tmp_path: Path,
) -> None:
    path, last = tmp_path / "runs.db", None
    for number in range(20):
        with serving(shop(path)[1]) as url:
            responses = client(url).responses
            responses.delete(responses.create(model="shop", input="hello").id)
            more: Any = {} if last is None else {"previous_response_id": last.id}
            last = responses.create(model="shop", input=str(number), **more)
    assert last is not None
    assert last.output_text == " | ".join(map(str, range(20)))


def test_openai_response_that_is_deleted_while_it_is_read_is_not_found(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    with Journal(path) as journal:
        with serving(shop(path)[1]) as url:
            responses = client(url).responses
            ids = [responses.create(model="shop", input=f"{number}").id for number in range(40)]
        responses = client(serve(shop(path)[1])).responses

        def read(id: str) -> None:
            with suppress(openai.NotFoundError):
                while True:
                    responses.retrieve(id)
                    responses.input_items.list(id)

        with ThreadPoolExecutor(4) as pool:
            for id in ids:
                reading = [pool.submit(read, id) for _ in range(4)]
                journal.delete(id.removeprefix("resp_"))
                for each in reading:
                    each.result()


def test_a2a_context_with_a_deleted_task_begins_anew(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    model, app = shop(path)
    url = serve(app)
    made = started(url, WORDS)
    in_process(path, made["id"])
    started(url, "and?", contextId=made["contextId"])
    assert "and?" in str(model.received[-1])
    assert WORDS not in str(model.received[-1])


@deleting
def test_a2a_task_deleted_from_the_journal_is_found_by_nothing(
    serve: Serve, tmp_path: Path, delete: Delete
) -> None:
    path = tmp_path / "runs.db"
    url = serve(shop(path)[1])
    other, made = started(url, "hello"), started(url, WORDS)
    delete(path, made["id"])
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        assert rpc(url, method, {"id": made["id"]})["error"]["code"] == -32001
    again = rpc(url, "SendMessage", plain("more", taskId=made["id"]))
    assert again["error"]["code"] == -32001
    listed = rpc(url, "ListTasks", {"includeArtifacts": True, "historyLength": 9})["result"]
    assert [each["id"] for each in listed["tasks"]] == [other["id"]]


def test_a2a_subscriber_of_a_task_that_is_deleted_meanwhile_reads_that_there_is_none(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    url = serve(asgi(waiting_shop(call("buy", item="tea"), journal=path)))
    made = started(url, "Buy.")
    http, answer = requested(url, "SubscribeToTask", {"id": made["id"]})
    with closing(http):
        events = (json.loads(line[6:]) for line in answer if line[:5] == b"data:")
        assert state(next(events)["result"]["task"]) == "TASK_STATE_INPUT_REQUIRED"
        in_process(path, made["id"])
        assert [each["error"]["code"] for each in events] == [-32001]


def test_a2a_tasks_are_listed_while_others_of_them_are_deleted(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    with Journal(path) as journal:
        with serving(shop(path)[1]) as url:
            for number in range(40):
                started(url, f"{number}")
        url = serve(shop(path)[1])
        with ThreadPoolExecutor(1) as pool:
            deleting = pool.submit(lambda: [journal.delete(run.id) for run in journal.runs()])
            while not deleting.done():
                listed = rpc(url, "ListTasks", {})["result"]
                assert len(listed["tasks"]) == listed["pageSize"]
            deleting.result()
        assert rpc(url, "ListTasks", {})["result"]["tasks"] == []


def test_a2a_task_whose_model_failed_is_gone_with_its_run(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    url = serve(asgi(ReActAgent("shop", ScriptedModel([]), journal=path)))
    made = started(url, WORDS)
    assert state(made) == "TASK_STATE_FAILED"
    assert rpc(url, "GetTask", {"id": made["id"]})["result"]["id"] == made["id"]
    in_process(path, made["id"])
    assert rpc(url, "GetTask", {"id": made["id"]})["error"]["code"] == -32001


@pytest.mark.parametrize("recorded", (False, True))
def test_a2a_task_that_fails_before_its_run_begins_is_found(
    serve: Serve, tmp_path: Path, recorded: bool
) -> None:
    def fail(agent: Any, given: Any) -> None:
        raise RuntimeError("no")

    agent = ReActAgent(
        "shop", ScriptedModel(heard), journal=tmp_path / "runs.db" if recorded else None
    )
    agent.register_hook("pre_reply", "fail", fail)
    url = serve(asgi(agent))
    made = started(url, "hello")
    assert state(made) == "TASK_STATE_FAILED"
    assert rpc(url, "GetTask", {"id": made["id"]})["result"]["id"] == made["id"]
