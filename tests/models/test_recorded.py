from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from models.openai_server import OpenAIServer, text
from moothall.foundation.errors import ConfigError, ModelError
from moothall.models import Call, ModelReply, OpenAIModel, RecordedModel, ScriptedModel, Usage
from moothall.testing.model_suite import (
    ACTIONS,
    PERSON_SCHEMA,
    StreamingModelConformance,
    joined_text,
    never,
    parts_of,
    run,
    user_message,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recorded.jsonl"


class TestRecordedModel(StreamingModelConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.made = 0

    def make(self, *answers: Any) -> RecordedModel:
        self.made += 1
        return RecordedModel(ScriptedModel(answers), self.folder / f"{self.made}.jsonl")


def record(path: Path, *answers: Any, **more: Any) -> ScriptedModel:
    """A file with the answers to "0", "1", …"""
    scripted = ScriptedModel(answers, **more)
    with RecordedModel(scripted, path) as model:
        for number in range(len(answers)):
            run(model.complete(user_message(str(number))))
    return scripted


def test_recorded_model_asks_once_and_then_repeats_the_answer(path: Path) -> None:
    scripted = ScriptedModel(["one", "two"])
    model = RecordedModel(scripted, path)
    assert [run(model.complete(user_message("Hi"))).text for _ in range(3)] == ["one"] * 3
    assert run(model.complete(user_message("Ho"))).text == "two"
    assert len(scripted.received) == len(model) == 2
    again = ScriptedModel(["never"])
    assert run(RecordedModel(again, path).complete(user_message("Ho"))).text == "two"
    assert again.received == []


def test_recorded_model_replays_every_part_of_an_answer(path: Path) -> None:
    reply = ModelReply(
        "text 😀 да",
        (Call("1", "add", {"a": 1}), Call("2", "add", "{not json")),
        Usage(5, 6),
        "length",
    )
    record(path, reply, name="big", context_tokens=99)
    replayed = RecordedModel(None, path)
    assert (replayed.name, replayed.context_tokens, len(replayed)) == ("big", 99, 1)
    assert run(replayed.complete(user_message("0"))) == reply


def test_recorded_request_is_all_of_its_content(path: Path) -> None:
    scripted = ScriptedModel([str(number) for number in range(5)])
    model = RecordedModel(scripted, path)
    requests: list[dict[str, Any]] = [
        {"messages": user_message("Hi")},
        {"messages": [{"role": "system", "content": "Hi"}]},
        {"messages": user_message("Hi"), "actions": ACTIONS},
        {"messages": user_message("Hi"), "actions": ACTIONS[:1]},
        {"messages": user_message("Hi"), "schema": PERSON_SCHEMA},
    ]
    for _ in range(2):
        assert [run(model.complete(**each)).text for each in requests] == list("01234")
    keys = {"messages": [{"content": "Hi", "role": "user"}], "actions": []}
    assert run(model.complete(**keys)).text == "0"  # the order of keys is no content


def test_recorded_model_names_a_request_that_is_not_recorded(path: Path) -> None:
    record(path, "one")
    model = RecordedModel(None, path)
    asked = [*user_message("Hi"), *user_message("What\nelse? " + "x" * 100)]
    with pytest.raises(ModelError) as caught:
        run(model.complete(asked, ACTIONS, PERSON_SCHEMA))
    said = str(caught.value)
    assert said.startswith(f"scripted: {path} has no answer to this request: 2 messages, the last")
    assert "from user: 'What else? xxx" in said
    assert said.endswith("…'; actions add, list_files, read_file; a schema")
    assert "\n" not in said
    assert run(model.complete(user_message("0"))).text == "one"


def test_recorded_model_replays_without_calling_the_server(path: Path) -> None:
    with OpenAIServer(text("ok")) as server:
        asked = OpenAIModel("m", server.url)
        with RecordedModel(asked, path) as model:
            run(model.complete(user_message("Hi")))
        name = asked.name
    replayed = RecordedModel(None, path)
    assert replayed.name == name
    assert run(replayed.complete(user_message("Hi"))).text == "ok"
    with pytest.raises(ModelError, match="has no answer"):
        run(replayed.complete(user_message("Ho")))


def test_errors_are_not_recorded(path: Path) -> None:
    model = RecordedModel(ScriptedModel([ModelError("no"), "yes"]), path)
    with pytest.raises(ModelError, match="no"):
        run(model.complete(user_message("Hi")))
    assert run(model.complete(user_message("Hi"))).text == "yes"


# -- at the same time ------------------------------------------------------------------------------


async def test_recorded_model_asks_the_same_request_at_the_same_time_once(path: Path) -> None:
    go = asyncio.Event()

    async def slow(messages: Any, actions: Any) -> str:
        await go.wait()
        return "slow"

    scripted = ScriptedModel([slow])
    model = RecordedModel(scripted, path)
    asked = [asyncio.create_task(model.complete(user_message("Hi"))) for _ in range(20)]
    await asyncio.sleep(0)
    go.set()
    assert [reply.text for reply in list(await asyncio.gather(*asked))] == ["slow"] * 20
    assert len(scripted.received) == 1
    assert len(model) == 1


def test_threads_ask_once_too(path: Path) -> None:
    asked = threading.Event()
    go = threading.Event()

    async def slow(messages: Any, actions: Any) -> str:
        asked.set()
        await asyncio.to_thread(go.wait, 30)
        return "slow"

    scripted = ScriptedModel([slow])
    model = RecordedModel(scripted, path)
    said: list[str] = []

    def ask() -> None:
        said.append(run(model.complete(user_message("Hi"))).text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads[0].start()
    assert asked.wait(30)
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(30)
    assert said == ["slow"] * 4
    assert len(scripted.received) == 1


async def test_recorded_model_gives_a_failure_to_all_that_wait(path: Path) -> None:
    async def fail(messages: Any, actions: Any) -> str:
        await asyncio.sleep(0)
        raise ModelError("no")

    scripted = ScriptedModel([fail])
    model = RecordedModel(scripted, path)
    asked = (model.complete(user_message("Hi")) for _ in range(3))
    assert [str(error) for error in list(await asyncio.gather(*asked, return_exceptions=True))] == [
        "no"
    ] * 3
    assert len(scripted.received) == 1


async def test_recorded_model_cancelled_asker_is_replaced_by_a_waiting_one(path: Path) -> None:
    model = RecordedModel(ScriptedModel([never, "second"]), path)
    asked = [asyncio.create_task(model.complete(user_message("Hi"))) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked[0]
    assert ([(await each).text for each in asked[1:]]) == ["second"] * 2
    assert len(model) == 1


# -- the file --------------------------------------------------------------------------------------


def test_recording_is_of_one_model(path: Path) -> None:
    record(path, "one", name="big")
    with pytest.raises(ModelError, match="is a recording of big, not of small: use that model"):
        RecordedModel(ScriptedModel(name="small"), path)


def test_recording_is_for_its_owner_in_a_folder_that_is_made(path: Path) -> None:
    path = path.parent / "new" / "folder" / path.name
    record(path, "one")
    assert path.stat().st_mode & 0o077 == 0


def test_recording_of_two_answers_to_a_request_gives_the_first(path: Path) -> None:
    for model in [RecordedModel(ScriptedModel([said]), path) for said in ("one", "two")]:
        run(model.complete(user_message("Hi")))
    assert run(RecordedModel(None, path).complete(user_message("Hi"))).text == "one"


@pytest.mark.parametrize("wrong", (None, 5, b"x", "", ScriptedModel()))
def test_recording_whose_path_is_no_path_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="RecordedModel: path= must be the path of a file, got "):
        RecordedModel(ScriptedModel(), wrong)


def test_recording_that_is_missing_empty_or_something_else_is_named(path: Path) -> None:
    with pytest.raises(ModelError, match=f"there is no recording {path}: record it first"):
        RecordedModel(None, path)
    path.write_bytes(b"")
    with pytest.raises(ModelError, match="is empty: record it first, with a model="):
        RecordedModel(None, path)
    for content in (b'{"a": 1}\n', b'{"format": "other"}\n'):
        path.write_bytes(content)
        with pytest.raises(ModelError, match="is not a recording of a model"):
            RecordedModel(ScriptedModel(), path)
        assert path.read_bytes() == content
    path.write_bytes(b'{"format": "moothall recorded model", "version": 2}\n')
    with pytest.raises(ModelError, match="is not a recording of a model, of version 1"):
        RecordedModel(None, path)
    record(path.with_name("damaged"), "one", "two")
    lines = path.with_name("damaged").read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][1:], lines[2], ""]))
    with pytest.raises(ModelError, match="line 2 is damaged; delete it to record it again"):
        RecordedModel(None, path)
    with pytest.raises(ModelError, match="cannot be opened: Is a directory"):
        RecordedModel(None, path.parent)


def test_recording_cut_anywhere_is_answered_or_named(path: Path) -> None:
    record(path, "one", ModelReply(calls=(Call("1", "add", {"a": 1}),)), "three")
    whole = path.read_bytes()
    lines = whole.count(b"\n")
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        ended = whole[:size].count(b"\n")
        if ended:
            with RecordedModel(None, path) as model:
                assert len(model) == ended - 1
        else:
            with pytest.raises(ModelError, match="is empty"):
                RecordedModel(None, path)
        # Recording goes on after it, and everything is there in the end.
        if size % 40 == 0:
            record(path, "one", "two", "three")
            with RecordedModel(None, path) as model:
                assert len(model) == lines - 1


def test_killed_it_loses_nothing_that_was_answered(path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from moothall.models import RecordedModel, ScriptedModel\n"
        f"model = RecordedModel(ScriptedModel([str(n) for n in range(10**6)]), {str(path)!r})\n"
        "async def main():\n"
        "    for n in range(10**6):\n"
        "        await model.complete([{'role': 'user', 'content': str(n)}])\n"
        "        print(n, flush=True)\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if line == "200\n":
                process.send_signal(signal.SIGKILL)
                break
        said = int([200, *map(int, process.stdout.read().splitlines())][-1])
    with RecordedModel(None, path) as model:
        assert len(model) in (said + 1, said + 2)
        assert run(model.complete(user_message(str(said)))).text == str(said)


def test_recordings_of_two_models_into_one_file_do_not_spoil_it(path: Path) -> None:
    one, other = (RecordedModel(ScriptedModel(["x" * 9000] * 50), path) for _ in range(2))

    def fill(model: RecordedModel, first: int) -> None:
        for number in range(first, first + 50):
            run(model.complete(user_message(str(number))))

    threads = [threading.Thread(target=fill, args=each) for each in ((one, 0), (other, 50))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert run(one.complete(user_message("49"))).text == "x" * 9000
    assert len(RecordedModel(None, path)) == 100


def test_recordings_that_processes_begin_at_once_are_one(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from moothall.models import RecordedModel, ScriptedModel\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
        "for number in range(300):\n"
        f"    RecordedModel(ScriptedModel([]), {str(tmp_path)!r} + f'/{{number}}').close()\n"
    )
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    begun = [subprocess.Popen([sys.executable, "-c", script], **pipes) for _ in range(4)]
    for process in begun:
        process.stdout.readline()
    for process in begun:
        process.stdin.write("\n")
        process.stdin.flush()
    assert {process.wait(50) for process in begun} == {0}
    for process in begun:
        process.communicate()
    assert {path.read_bytes().count(b"\n") for path in tmp_path.iterdir()} == {1}


def test_answer_that_comes_after_the_close_is_given_and_not_kept(path: Path) -> None:
    def closes(messages: Any, actions: Any) -> str:
        model.close()
        return "Late."

    model = RecordedModel(ScriptedModel(closes), path)
    assert run(model.complete(user_message("Hi"))).text == "Late."
    assert "Late." not in path.read_text()


def test_closed_it_answers_no_more(path: Path) -> None:
    model = RecordedModel(ScriptedModel(["one"]), path)
    run(model.complete(user_message("Hi")))
    model.close()
    model.close()
    with pytest.raises(ModelError, match="is closed"):
        run(model.complete(user_message("Hi")))


def test_recorded_model_answer_that_is_no_json_is_refused(path: Path) -> None:
    model = RecordedModel(
        ScriptedModel(["one", ModelReply(calls=(Call("1", "a", {"x": {1}}),))]), path
    )
    with pytest.raises(ModelError, match="not JSON"):
        run(model.complete([{"role": "user", "content": {1, 2}}]))
    assert run(model.complete(user_message("Hi"))).text == "one"
    with pytest.raises(ModelError, match="cannot keep an answer that is not JSON"):
        run(model.complete(user_message("Ho")))
    assert len(path.read_text().splitlines()) == 2
    assert json.loads(path.read_text().splitlines()[1])["reply"]["text"] == "one"


# -- piece by piece --------------------------------------------------------------------------------


async def breaks(messages: Any, actions: Any) -> Any:
    yield "It is"
    raise ModelError("broke off")


def test_recorded_stream_is_streamed_again(path: Path) -> None:
    reply = ModelReply("It is 5.", usage=Usage(3, 4), reasoning="2 and 3")
    scripted = ScriptedModel([reply])
    with RecordedModel(scripted, path) as model:
        first = run(parts_of(model, user_message("Hi")))
        assert run(parts_of(model, user_message("Hi"))) == first
        assert run(model.complete(user_message("Hi"))) == reply
    assert len(scripted.received) == 1
    replayed = RecordedModel(None, path)
    assert run(parts_of(replayed, user_message("Hi"))) == first
    assert joined_text(first) == first[-1].text == "It is 5."
    with pytest.raises(ModelError, match="has no answer"):
        run(parts_of(replayed, user_message("Ho")))


def test_recorded_stream_that_broke_off_or_was_left_is_not_recorded(path: Path) -> None:
    model = RecordedModel(ScriptedModel([breaks, "not to the end", "whole"]), path)

    async def leave() -> None:
        stream = model.stream(user_message("Hi"))
        await anext(stream)
        await stream.aclose()

    with pytest.raises(ModelError, match="broke off"):
        run(parts_of(model, user_message("Hi")))
    run(leave())
    assert len(model) == 0
    assert run(parts_of(model, user_message("Hi")))[-1].text == "whole"
    assert len(model) == 1


async def test_streams_of_the_same_request_cause_one_call(path: Path) -> None:
    scripted = ScriptedModel(["the only one"])
    model = RecordedModel(scripted, path)
    asked = (parts_of(model, user_message("Hi")) for _ in range(4))
    *streams, whole = list(await asyncio.gather(*asked, model.complete(user_message("Hi"))))
    assert [joined_text(parts) for parts in streams] == ["the only one"] * 4
    assert whole.text == "the only one"
    assert len(scripted.received) == 1


async def test_recorded_stream_that_is_left_is_asked_for_by_one_who_waits(path: Path) -> None:
    model = RecordedModel(ScriptedModel(["left alone", "second"]), path)
    stream = model.stream(user_message("Hi"))
    await anext(stream)
    waiting = asyncio.create_task(model.complete(user_message("Hi")))
    await asyncio.sleep(0)
    assert not waiting.done()
    await stream.aclose()
    assert (await waiting).text == "second"


def test_recordings_from_before_there_was_reasoning_are_read(path: Path) -> None:
    path.write_text(
        '{"format": "moothall recorded model", "version": 1, "model": "scripted", '
        '"context_tokens": null}\n'
    )
    record(path, "one")
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert "reasoning" not in lines[1]
    replayed = RecordedModel(None, path)
    assert replayed.max_tokens is None
    assert run(replayed.complete(user_message("0"))) == ModelReply("one")


def test_recorded_model_has_the_models_max_tokens(path: Path) -> None:
    record(path, "one", max_tokens=9)
    assert RecordedModel(None, path).max_tokens == 9
    assert RecordedModel(None, path, max_tokens=5).max_tokens == 5
    assert RecordedModel(None, path, context_tokens=7).context_tokens == 7
    assert RecordedModel(ScriptedModel(max_tokens=7), path).max_tokens == 7
