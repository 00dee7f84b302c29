"""A2A tasks: what they ask, who sees them, and how they outlive their process."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from moothall import Journal
from moothall.serving import asgi
from serving.doors.a2a_calls import (
    BEGUN,
    BOUGHT,
    asked,
    call,
    data,
    plain,
    requested,
    rpc,
    shop,
    started,
    state,
    when_asked,
)
from serving.doors.conftest import serving

Serve = Callable[[Any], str]
TESTS = Path(__file__).resolve().parents[2]


# -- what a task asks ------------------------------------------------------------------------------


def test_a2a_approval_is_input_required_and_its_hash_permits_the_call(serve: Serve) -> None:
    url = serve(asgi(shop(call("buy", item="tea"), "Done.")))
    task = started(url, "Buy tea")
    assert state(task) == "TASK_STATE_INPUT_REQUIRED"
    assert '/shop.buy item:"tea"' in task["status"]["message"]["parts"][0]["text"]
    wanted = asked(task)
    assert (wanted["action"], wanted["args"]) == ("buy", {"item": "tea"})
    answer = data({"approval": wanted["approval"], "permit": True}, taskId=task["id"])
    ended = rpc(url, "SendMessage", answer)["result"]["task"]
    assert state(ended) == "TASK_STATE_COMPLETED"
    assert BOUGHT == ["tea"]
    assert rpc(url, "SendMessage", answer)["result"]["task"] == ended
    answer["message"]["messageId"] = "another"
    assert rpc(url, "SendMessage", answer)["error"]["code"] == -32004


def told_tasks(url: str, params: Any) -> list[dict[str, Any]]:
    """Return the tasks that the stream of a message tells."""
    http, answer = requested(url, "SendStreamingMessage", params)
    with closing(http):
        sent = [json.loads(line[5:])["result"] for line in answer if line.startswith(b"data:")]
    return [each["task"] for each in sent if "task" in each]


@pytest.mark.parametrize("recorded", (False, True))
def test_a2a_message_that_is_sent_again_leads_to_its_first_task(
    serve: Serve, tmp_path: Path, recorded: bool
) -> None:
    path = tmp_path / "runs.db" if recorded else None
    said = ["One.", call("buy", item="tea"), "Bought.", "Two."]
    callers: Any = {"token": {"ada": "t-ada", "bob": "t-bob"}, "approves": "ada"}
    url = serve(asgi(shop(*said, journal=path), **callers))
    ada = {"Authorization": "Bearer t-ada"}
    hello, buy = plain("Hello"), plain("Buy")

    def sent(params: Any, url: str = url, **headers: str) -> dict[str, Any]:
        task: dict[str, Any] = rpc(url, "SendMessage", params, **(headers or ada))["result"]
        return dict(task["task"])

    one, asking = sent(hello), sent(buy)
    answer = data({"approval": asked(asking)["approval"], "permit": True}, taskId=asking["id"])
    again = sent(buy)
    assert (again["id"], asked(again)) == (asking["id"], asked(asking))
    bought = sent(answer)
    assert state(bought) == "TASK_STATE_COMPLETED"
    for params, task in ((hello, one), (buy, bought), (answer, bought)):
        assert sent(params) == task
    assert BOUGHT == ["tea"]
    if recorded:
        url_2 = serve(asgi(shop(journal=path), **callers))
        for params, task in ((hello, one), (buy, bought), (answer, bought)):
            again = sent(params, url_2)
            assert (again["id"], again["artifacts"]) == (task["id"], task["artifacts"])
    other = sent(hello, Authorization="Bearer t-bob")
    assert other["id"] != one["id"]


def test_a2a_message_that_is_sent_again_in_a_stream_gets_its_first_task(
    serve: Serve, tmp_path: Path
) -> None:
    path, ask, hello = tmp_path / "runs.db", plain("Buy"), plain("Hello")
    url = serve(asgi(shop("Hi.", call("buy", item="tea"), journal=path)))
    ids = [told_tasks(url, each)[0]["id"] for each in (hello, ask)]
    for again in (url, serve(asgi(shop(journal=path)))):
        for params, id in zip((hello, ask), ids, strict=True):
            assert {each["id"] for each in told_tasks(again, params)} == {id}


def test_a2a_approval_that_is_refused_does_not_run_the_call(serve: Serve) -> None:
    url = serve(asgi(shop(call("buy", item="tea"), "No tea.")))
    task = started(url, "Buy tea")
    answer = {"approval": asked(task)["approval"], "permit": False}
    ended = rpc(url, "SendMessage", data(answer, taskId=task["id"]))["result"]["task"]
    assert state(ended) == "TASK_STATE_COMPLETED"
    assert BOUGHT == []


def forgeries(wanted: dict[str, Any], task: str) -> list[Any]:
    """Return 200 answers that are not the caller's answer to what was asked."""
    made, hash, chance = [], wanted["approval"], random.Random(42)
    for _ in range(120):  # a digit changed, dropped, doubled, or all of it
        at, digit = chance.randrange(64), chance.choice("0123456789abcdef")
        other = [
            hash[:at] + ("f" if hash[at] != "f" else "0") + hash[at + 1 :],
            hash[:at] + hash[at + 1 :],
            hash[:at] + digit + hash[at:],
            chance.randbytes(32).hex(),
        ]
        made.append({"approval": chance.choice(other), "permit": True})
    exact = json.dumps(["shop", "buy", wanted["args"]], sort_keys=True)
    guesses = (exact, f"{task}\n{exact}", task, "shop", "buy", "")
    made += [{"approval": hashlib.sha256(g.encode()).hexdigest(), "permit": True} for g in guesses]
    given = {"approval": hash, "permit": True}
    altered = [{"args": {"item": n}} for n in ("coffee", "Tea", "tea ", 1, None, ["tea"])]
    altered += [{"args": {}}, {"args": None}, {"action": "sell"}, {"agent": "bank"}, {"note": "x"}]
    altered += [{"permit": n} for n in (1, "true", "yes", None, [], {}, "True", 1.0)]
    altered += [{"approval": n} for n in (None, 1, True, [], {}, [hash], hash.upper(), f" {hash}")]
    altered += [{"question": hash}, {"answer": "yes"}, {"extra": 1}, {"sender": "a2a"}]
    made += [given | each for each in altered]
    made += [{"question": hash, "answer": "yes"}, {"permit": True}, {}, [given], hash, True, None]
    return [*made, *({**given, f"k{n}": n} for n in range(200 - len(made)))]


def test_a2a_forged_or_altered_answers_to_an_approval_are_refused(serve: Serve) -> None:
    url = serve(asgi(shop(call("buy", item="tea"), "Done.")))
    task = started(url, "Buy tea")
    tried = forgeries(asked(task), task["id"])
    assert len(tried) == 200
    for each in tried:
        assert rpc(url, "SendMessage", data(each, taskId=task["id"]))["error"]["code"] == -32602
    for text in ("yes", "permit", asked(task)["approval"]):
        error = rpc(url, "SendMessage", plain(text, taskId=task["id"]))["error"]
        assert error["code"] == -32602
    mine = data({"approval": asked(task)["approval"], "permit": True}, taskId=task["id"])
    assert rpc(url, "SendMessage", mine, source="127.0.0.2")["error"]["code"] == -32001
    mine["message"]["parts"].append({"text": "but only if it is green"})
    assert rpc(url, "SendMessage", mine)["error"]["code"] == -32602
    assert BOUGHT == []
    assert state(rpc(url, "GetTask", {"id": task["id"]})["result"]) == "TASK_STATE_INPUT_REQUIRED"


def test_a2a_answer_to_an_earlier_approval_permits_no_later_one(serve: Serve) -> None:
    url = serve(asgi(shop(call("buy", item="tea"), call("buy", item="tea"), "Done.")))
    task = started(url, "Buy tea")
    first = data({"approval": asked(task)["approval"], "permit": True}, taskId=task["id"])
    second = rpc(url, "SendMessage", first)["result"]["task"]
    assert state(second) == "TASK_STATE_INPUT_REQUIRED"
    assert asked(second)["approval"] != asked(task)["approval"]
    assert rpc(url, "SendMessage", first)["result"]["task"] == second
    first["message"]["messageId"] = "another"
    assert rpc(url, "SendMessage", first)["error"]["code"] == -32602
    assert BOUGHT == ["tea"]


def test_a2a_question_is_answered_by_a_text(serve: Serve) -> None:
    url = serve(asgi(shop(call("ask"), "Red it is.")))
    task = started(url, "Which?")
    assert asked(task)["text"] == "What colour?"
    ended = started(url, "red", taskId=task["id"])
    assert state(ended) == "TASK_STATE_COMPLETED"
    assert [each["parts"][0]["text"] for each in ended["history"]] == ["Which?", "red"]


# -- who sees tasks --------------------------------------------------------------------------------


def test_a2a_caller_sees_only_its_own_tasks(serve: Serve, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs.db")
    url = serve(asgi(shop("one", "two", "three", journal=journal)))
    ids = [started(url, text)["id"] for text in ("a", "b")]
    other = rpc(url, "SendMessage", plain("c"), source="127.0.0.2")["result"]["task"]["id"]
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        assert rpc(url, method, {"id": other})["error"]["code"] == -32001
    url = serve(asgi(shop(journal=journal)))  # another process, as far as tasks are concerned
    assert {each["id"] for each in rpc(url, "ListTasks", {})["result"]["tasks"]} == set(ids)
    assert rpc(url, "GetTask", {"id": other})["error"]["code"] == -32001
    assert rpc(url, "GetTask", {"id": other}, source="127.0.0.2")["result"]["id"] == other


@pytest.mark.parametrize("recorded", (False, True))
def test_a2a_list_has_pages_and_filters(serve: Serve, tmp_path: Path, recorded: bool) -> None:
    options = {"journal": Journal(tmp_path / "runs.db")}
    url = serve(asgi(shop(*"abcdefg", **options)))
    tasks = [started(url, str(n)) for n in range(7)]
    if recorded:
        url = serve(asgi(shop(**options)))
    ids = [each["id"] for each in reversed(tasks)]
    found: list[str] = []
    token = ""
    while True:
        page = rpc(url, "ListTasks", {"pageSize": 3, "pageToken": token})["result"]
        assert page["totalSize"] == 7
        assert all("artifacts" not in each for each in page["tasks"])
        found += [each["id"] for each in page["tasks"]]
        if not (token := page["nextPageToken"]):
            break
    assert found == ids
    context = tasks[2]["contextId"]
    asked_for = {"contextId": context, "includeArtifacts": True, "historyLength": 1}
    (one,) = rpc(url, "ListTasks", asked_for)["result"]["tasks"]
    assert one["artifacts"] == tasks[2]["artifacts"]
    assert one["history"][0]["parts"][0]["text"] == "2"
    failed = {"status": "TASK_STATE_FAILED"}
    assert rpc(url, "ListTasks", failed)["result"]["tasks"] == []
    assert rpc(url, "ListTasks", {"status": "UNRECOGNIZED"})["result"]["totalSize"] == 7
    late = {"statusTimestampAfter": "2999-01-01T00:00:00Z"}
    assert rpc(url, "ListTasks", late)["result"]["totalSize"] == 0
    for wrong in ({"pageToken": "x"}, {"statusTimestampAfter": "soon"}, {"pageSize": 101}):
        assert rpc(url, "ListTasks", wrong)["error"]["code"] == -32602


def test_a2a_subscriber_follows_a_task_to_its_end(serve: Serve) -> None:
    url = serve(asgi(shop(call("ask"), "Red it is.")))
    task = started(url, "Which?")
    http, answer = requested(url, "SubscribeToTask", {"id": task["id"]})
    with closing(http):  # the answer's head has come, so the reader is there
        started(url, "red", taskId=task["id"])
        told = [json.loads(line[5:])["result"] for line in answer if line.startswith(b"data:")]
    assert state(told[0]["task"]) == "TASK_STATE_INPUT_REQUIRED"
    assert state(told[-1]["statusUpdate"]) == "TASK_STATE_COMPLETED"
    assert rpc(url, "SubscribeToTask", {"id": task["id"]})["error"]["code"] == -32004


# -- how tasks outlive their process ---------------------------------------------------------------


def test_a2a_ended_tasks_are_read_from_the_journal(serve: Serve, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs.db")
    url = serve(asgi(shop("Good day.", call("wait"), journal=journal)))
    done = started(url, "Hello")
    waits = plain("Wait") | {"configuration": {"returnImmediately": True}}
    task = rpc(url, "SendMessage", waits)["result"]["task"]
    assert BEGUN.wait(10)
    rpc(url, "CancelTask", {"id": task["id"]})
    failed = started(url, "More")
    url = serve(asgi(shop(journal=journal)))
    again = rpc(url, "GetTask", {"id": done["id"]})["result"]
    assert (again["artifacts"], again["history"]) == (done["artifacts"], done["history"])
    assert again["contextId"] == done["contextId"]
    assert state(again) == "TASK_STATE_COMPLETED"
    got = rpc(url, "GetTask", {"id": task["id"]})["result"]
    assert state(got) == "TASK_STATE_CANCELED"
    got = rpc(url, "GetTask", {"id": failed["id"]})["result"]
    assert state(got) == "TASK_STATE_FAILED"
    assert f"under run {failed['id']}" in got["status"]["message"]["parts"][0]["text"]


@contextmanager
def served(folder: Path, limit: int = 0, *more: str) -> Iterator[tuple[str, Command]]:
    """Serve in a process; connections wait in its socket until it takes them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        process = Command(
            *(folder, limit, *more),
            module="serving.doors.a2a_program",
            cwd=TESTS,
            stdin=listening.fileno(),
        )
    try:
        yield url, process
    finally:
        process.kill()
        process.wait()


def test_a2a_task_of_a_killed_process_goes_on_and_is_fetched_by_its_id(tmp_path: Path) -> None:
    with served(tmp_path, 5) as (url, process):
        with pytest.raises(ConnectionError):  # the process is gone before it answers
            rpc(url, "SendMessage", plain("Buy all"))
        assert process.wait(30) == -signal.SIGKILL
    (run,) = Journal(tmp_path / "runs.db").runs()
    with served(tmp_path) as (url, _):
        first = when_asked(url, run.id)  # it has gone on by itself
        assert asked(first)["args"] == {"amount": 8}
        assert rpc(url, "GetTask", {"id": run.id}, source="127.0.0.2")["error"]["code"] == -32001
    with served(tmp_path) as (url, _):
        assert asked(when_asked(url, run.id)) == asked(first)  # it is the same question
        answer = {"approval": asked(first)["approval"], "permit": True}
        ended = rpc(url, "SendMessage", data(answer, taskId=run.id))["result"]["task"]
        assert ended["artifacts"][0]["parts"][0]["text"] == "All is bought."
    bought = (tmp_path / "bought").read_text().split()
    assert sorted(map(int, bought)) == list(range(8))


@pytest.mark.parametrize("shared", (False, True))
def test_a2a_task_goes_on_after_an_application_that_ends_in_order(
    journal: Journal, shared: bool
) -> None:
    answers = (call("buy", item="tea"), "Done.")
    with serving(asgi(shop(*answers, journal=journal, shared=shared))) as url:
        task = started(url, "Buy tea\nand soon")
        wanted = asked(task)["approval"]
    assert journal.run(task["id"]).state == "waiting"
    with serving(asgi(shop(*answers, journal=journal, shared=shared))) as url:
        answer = data({"approval": wanted, "permit": True}, taskId=task["id"])
        ended = rpc(url, "SendMessage", answer)["result"]["task"]
        assert state(ended) == "TASK_STATE_COMPLETED"
        assert ended["contextId"] == task["contextId"]
        assert BOUGHT == ["tea"]
    with serving(asgi(shop(journal=journal, shared=shared))) as url:
        got = rpc(url, "GetTask", {"id": task["id"]})["result"]
        assert got["history"][0]["parts"][0]["text"] == "Buy tea\nand soon"


@pytest.mark.parametrize("ends_by", ("the client", "the application"))
def test_a2a_task_that_is_cut_off_in_a_call_stays_cancelled_or_waits_for_a_decision(
    journal: Journal, ends_by: str
) -> None:
    with serving(asgi(shop(call("wait"), journal=journal))) as url:
        given = plain("Wait") | {"configuration": {"returnImmediately": True}}
        task = rpc(url, "SendMessage", given)["result"]["task"]
        assert BEGUN.wait(10)
        if ends_by == "the client":
            ended = rpc(url, "CancelTask", {"id": task["id"]})["result"]
            assert state(ended) == "TASK_STATE_CANCELED"
    assert journal.run(task["id"]).state == "in_doubt"
    with serving(asgi(shop(journal=journal))) as url:
        got = rpc(url, "GetTask", {"id": task["id"]})["result"]
        expected = "CANCELED" if ends_by == "the client" else "INPUT_REQUIRED"
        assert state(got) == f"TASK_STATE_{expected}"


@pytest.mark.long
def test_a2a_task_in_doubt_waits_for_whoever_runs_the_agent(tmp_path: Path) -> None:
    with served(tmp_path, 5, "once") as (url, process):
        with pytest.raises(ConnectionError):
            rpc(url, "SendMessage", plain("Buy all"))
        process.wait(30)
    journal = Journal(tmp_path / "runs.db")
    (run,) = journal.runs()
    with served(tmp_path, 0, "once") as (url, _):
        rpc(url, "SubscribeToTask", {"id": run.id})  # until it does nothing more
        task = rpc(url, "GetTask", {"id": run.id})["result"]
        assert state(task) == "TASK_STATE_INPUT_REQUIRED"
    journal.decide(run.id, "repeat")
    with served(tmp_path, 0, "once") as (url, _):
        assert asked(when_asked(url, run.id))["args"] == {"amount": 8}
