"""The memory in a file: durable, threaded, recalling."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from commands import Command
from moothall import Action, ReActAgent, ScriptedModel
from moothall.foundation.errors import DefinitionError, MoothallError, StateError
from moothall.foundation.jsonvalue import NotJSON
from moothall.memory import (
    HashEmbedder,
    Memory,
    MemoryFileError,
    PostgresMemory,
    SQLiteMemory,
    TokenBoundedMemory,
)
from moothall.models.protocol import Call
from moothall.testing.memory_suite import assistant, call, result, user


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


Made = Callable[..., Any]


@pytest.fixture(params=("file", "server"))
def place(request: pytest.FixtureRequest, path: Path) -> Any:
    """The path or URL of this test's store, in either of them."""
    if request.param == "file":
        return path
    return request.getfixturevalue("postgresql").url(f"m{secrets.token_hex(6)}")


@pytest.fixture
def made(place: Any) -> Made:
    """Makes a memory of this test's store."""
    kind: Any = SQLiteMemory if isinstance(place, Path) else PostgresMemory
    return lambda *of, **options: kind(place, *of, **options)


def test_agent_with_the_path_or_url_of_a_memory_keeps_its_conversation_there(
    place: Any, made: Made
) -> None:
    agent = ReActAgent("a", ScriptedModel(["Hello, Ada."]), memory=place)
    assert agent.reply_sync("I am Ada.").text == "Hello, Ada."
    agent.memory.close()
    with made() as memory:
        assert contents(memory.items) == ["I am Ada.", "Hello, Ada."]


def test_words_that_a_killed_prune_left_go_with_the_next(path: Path) -> None:
    with SQLiteMemory(path) as memory:
        for number in range(500):
            memory.thread("anna").add_memory(user(f"secret{number}"))
        memory.thread("bo").add_memory(user("public"))
    program = f"""
        import os
        from moothall.memory import SQLiteMemory

        class Killed(SQLiteMemory):
            def threads(self):
                yield "anna"
                os._exit(9)

        Killed({str(path)!r}).prune(0)
    """
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert child.returncode == 9
    with SQLiteMemory(path) as memory:
        assert memory.threads() == ["bo"]
        assert memory.prune(timedelta(hours=1)) == []
    assert b"secret" not in path.read_bytes()


def test_conversations_are_forgotten_by_age(made: Made) -> None:
    memory = made("anna")
    memory.add_memory(user("a lamp"))
    bo = memory.thread("bo")
    bo.add_memory(user("a chair"))
    assert memory.prune(timedelta(hours=1)) == []
    assert memory.threads() == ["anna", "bo"]
    assert memory.prune(0) == ["anna", "bo"]
    assert (memory.threads(), memory.recall("lamp", everywhere=True)) == ([], [])
    memory.add_memory(user("a lamp again"))  # a conversation that was forgotten begins anew
    assert (memory.prune(3600), contents(memory.items)) == ([], ["a lamp again"])
    with pytest.raises(DefinitionError, match="older_than= must be"):
        memory.prune(-1)


@pytest.mark.parametrize("recorded", (False, True), ids=("plain", "recorded"))
def test_results_stand_after_their_calls_although_others_write_the_thread(
    made: Made, tmp_path: Path, recorded: bool
) -> None:
    """A provider refuses a conversation in which another message stands between the two."""
    journal = str(tmp_path / "runs.db") if recorded else None
    at_once = threading.Barrier(2)

    def work(id: str) -> None:
        script = [Call("c", "look", {}) if n % 2 else "Seen." for n in range(1, 41)]
        look = Action("look", at_once.wait, "Look.")
        agent = ReActAgent(id, ScriptedModel(script), actions=[look], memory=made())
        agent.journal = journal
        for _ in range(20):
            assert agent.reply_sync("Look.", thread="t").stop_reason == "done"

    threads = [threading.Thread(target=work, args=(id,)) for id in ("a", "b")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    items = made().thread("t").newest(None)
    calls = [place for place, each in enumerate(items) if each.get("tool_calls")]
    assert len(calls) == 40
    assert {items[place + 1]["role"] for place in calls} == {"tool"}


def test_turn_of_which_one_message_is_not_json_is_not_added(made: Made) -> None:
    memory = made()
    with pytest.raises(NotJSON):
        memory.add_turn([call("look"), {"role": "tool", "content": object()}], (None, None))
    assert memory.get_memories() == []


def contents(items: list[dict[str, Any]]) -> list[Any]:
    return [item["content"] for item in items]


# -- durable ---------------------------------------------------------------------------------------


def test_sqlite_memory_of_a_killed_process_keeps_every_added_item(path: Path) -> None:
    program = (
        "import sys\n"
        "from moothall.memory import SQLiteMemory\n"
        "memory = SQLiteMemory(sys.argv[1])\n"
        "number = 0\n"
        "while True:\n"
        "    memory.add_memory({'role': 'user', 'content': f'message {number} of {sys.argv[2]}'})\n"
        "    print(number, flush=True)\n"
        "    number += 1\n"
    )
    for round in range(3):
        process = Command(path, round, code=program, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told = -1
        for line in process.stdout:
            told = int(line)
            if told >= 150 + 97 * round:
                process.send_signal(signal.SIGKILL)
                break
        # It may have told of more until it died: all of that counts.
        told = max([told, *(int(line) for line in process.stdout.read().split("\n") if line)])
        process.stdout.close()
        assert process.wait(50) == -signal.SIGKILL
        with SQLiteMemory(path) as memory:
            every = contents(list(memory.messages()))
            mine = [text for text in every if text.endswith(f"of {round}")]
            # In order, without a gap; the last one may have been on its way.
            assert mine == [f"message {n} of {round}" for n in range(len(mine))]
            assert len(mine) in (told + 1, told + 2)
            # What is in the file is found in it.
            assert memory.recall(f'"message {told}"', limit=2000)
            assert len(memory.recall("message", limit=len(every) + 1)) == len(every)


def test_sqlite_memory_lets_an_agent_continue_in_another_process(path: Path) -> None:
    program = (
        "import sys\n"
        "from moothall import ReActAgent, ScriptedModel\n"
        "from moothall.memory import SQLiteMemory\n"
        "agent = ReActAgent('a', ScriptedModel(['Hello.']), memory=SQLiteMemory(sys.argv[1]))\n"
        "agent.reply_sync('I am Ada.')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
    model = ScriptedModel(["Ada."])
    with SQLiteMemory(path) as memory:
        agent = ReActAgent("a", model, memory=memory)
        assert agent.reply_sync("Who am I?").text == "Ada."
    assert contents(model.received[0]) == ["I am Ada.", "Hello.", "Who am I?"]


def test_sqlite_memory_garbage_collected_closes_its_files(path: Path) -> None:
    memory = SQLiteMemory(path)
    memory.add_memory(user("a"))
    other = memory.thread("other")
    del memory
    gc.collect()
    other.add_memory(user("b"))
    assert path.with_name("memory.db-wal").exists()
    del other
    gc.collect()
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]


def test_sqlite_memory_closed_refuses_every_call(made: Made) -> None:
    memory = made()
    other = memory.thread("other")
    memory.close()
    memory.close()
    for use in (memory.get_memories, memory.threads, lambda: other.add_memory(user("a"))):
        with pytest.raises(MemoryFileError, match="': it was closed: make a new"):
            use()


def test_sqlite_memory_relative_path_survives_chdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub #1?%41").mkdir()
    with SQLiteMemory("sub #1?%41/é.db") as memory:
        memory.add_memory(user("a"))
        monkeypatch.chdir(tmp_path / "sub #1?%41")
        # A second connection: while one reads, another is needed.
        listing = memory.messages()
        next(listing)
        memory.add_memory(user("b"))
        assert memory.get_memories() == [user("a"), user("b")]
        listing.close()  # type: ignore[attr-defined]
    assert os.listdir() == ["é.db"]


# -- bounded ---------------------------------------------------------------------------------------


def length(text: str) -> int:
    return len(text)


@pytest.mark.parametrize("bound", (20, 60, 150, 400, 10_000))
def test_sqlite_memory_shows_the_same_as_token_bounded_memory(made: Made, bound: int) -> None:
    items = [user("old"), {"role": "system", "content": "Be brief."}, user("the task")]
    for number in range(12):
        items += [call(str(number)), result(str(number), "x" * 10), assistant("so")]
    expected = TokenBoundedMemory(bound, length)
    with made(tokens=bound, count=length) as memory:
        for item in items:
            memory.add_memory(item)
            expected.add_memory(item)
            assert memory.get_memories() == expected.get_memories()
        assert memory.items == expected.items
        assert list(memory.messages()) == items
    # Opened anew it reads from the end, and comes to the same.
    with made(tokens=bound, count=length) as memory:
        assert memory.get_memories() == expected.get_memories()
        assert memory.get_memories(2) == expected.get_memories(2)


def test_sqlite_memory_without_bound_gives_every_item(made: Made) -> None:
    with made(tokens=None) as memory:
        for number in range(1000):
            memory.add_memory(user(f"{number} " + "x" * 50))
        assert len(memory.get_memories()) == 1000
        assert contents(memory.get_memories(1)) == ["999 " + "x" * 50]
        assert len(memory.get_memories(10**30)) == 1000
        with pytest.raises(ValueError, match="limit= must be a whole number from 0 up, got -1"):
            memory.get_memories(-1)


def test_sqlite_memory_reads_only_the_end_of_a_long_thread(path: Path) -> None:
    with SQLiteMemory(path) as memory:
        memory.add_memory(user("the first"))
    with sqlite3.connect(path) as db:  # what cannot be read, and need not be
        db.execute("UPDATE memories SET item = 'no JSON'")
    db.close()
    with SQLiteMemory(path, tokens=50) as memory:
        for number in range(5):
            memory.add_memory(user(f"{number} " + "x" * 50))
        assert contents(memory.get_memories()) == ["4 " + "x" * 50]


def test_sqlite_memory_counter_that_fails_keeps_items_shown_next(made: Made) -> None:
    failing = [False]

    def count(text: str) -> int:
        if failing[0]:
            raise RuntimeError("no tokenizer")
        return len(text)

    with made(count=count) as memory:
        for number in range(3):
            memory.add_memory(user(str(number)))
            failing[0] = number == 1
            if failing[0]:
                with pytest.raises(RuntimeError, match="no tokenizer"):
                    memory.get_memories()
            failing[0] = False
        assert contents(memory.get_memories()) == ["0", "1", "2"]


# -- threads ---------------------------------------------------------------------------------------


def test_conversations_lie_side_by_side(made: Made) -> None:
    with made() as memory:
        assert memory.id == "default"
        assert memory.threads() == []
        ada, bob = memory.thread("ada"), memory.thread("bob'; --")
        assert type(ada) is type(memory)
        bob.add_memory(user("I am Bob."))
        ada.add_memory(user("I am Ada."))
        assert memory.get_memories() == []
        assert ada.get_memories() == memory.thread("ada").get_memories() == [user("I am Ada.")]
        assert bob.get_memories() == [user("I am Bob.")]
        assert memory.threads() == ["bob'; --", "ada"]
        assert ada.recall("am") == [user("I am Ada.")]
        assert memory.recall("am") == []
        assert len(ada.recall("am", everywhere=True)) == 2
    with made("ada") as memory:
        assert memory.get_memories() == [user("I am Ada.")]


def test_sqlite_memory_forget_removes_items_words_and_vectors(path: Path) -> None:
    with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
        other = memory.thread("other")
        elsewhere = SQLiteMemory(path)
        for number in range(10):
            memory.add_memory(user(f"secret {number} 日本語"))
            other.add_memory(user(f"public {number} 日本語"))
        assert len(memory.recall("secret", 20)) == len(elsewhere.get_memories()) == 10
        memory.forget()
        memory.thread("never used").forget()
        assert memory.get_memories() == elsewhere.get_memories() == []
        assert memory.recall("secret", by="words") == memory.recall("secret") == []
        assert memory.recall("secret", by="words", everywhere=True) == []
        assert memory.threads() == ["other"]
        assert len(other.recall("public", 20)) == len(other.recall("日本", 20, by="words")) == 10
        memory.add_memory(user("anew"))
        assert memory.get_memories() == elsewhere.get_memories() == [user("anew")]
        assert memory.recall("anew") == [user("anew")]
        elsewhere.close()
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        (found,) = db.execute("SELECT count(*) FROM vectors").fetchone()
    db.close()
    assert found == 11
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize("id", ("", 7, b"a", "\ud800", "a\0b"))
def test_threads_id_is_a_text(path: Path, id: Any) -> None:
    with SQLiteMemory(path) as memory:
        with pytest.raises(DefinitionError, match="a thread's id must be"):
            memory.thread(id)
        with pytest.raises(DefinitionError, match="a thread's id must be"):
            SQLiteMemory(path, id)
        assert memory.threads() == []


# -- recall by words -------------------------------------------------------------------------------

SAID = (
    "The retry limit is 5.",
    "Ada's invoice, number 4711, was paid in March.",
    "Où est la bibliothèque?",
    "東京の天気は晴れです。",
    "Use foo_bar() AND baz-qux, NOT NEAR(x).",
    "Straße und Maß",
)


@pytest.fixture
def told(made: Made) -> Any:
    with made() as memory:
        for text in SAID:
            memory.add_memory(user(text))
        yield memory


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ("What was the RETRY limit?", 0),
        ("4711", 1),
        ("bibliotheque", 2),
        ("bibliothe\u0300que", 2),
        ("天気", 3),
        ("明日の天気", 3),
        ("foo_bar", 4),
        ("near", 4),
        ("straße", 5),
    ),
)
def test_words_are_found(told: SQLiteMemory, text: str, found: int) -> None:
    assert contents(told.recall(text, 1)) == [SAID[found]]


@pytest.mark.parametrize("text", ("look_up", "bread"))
def test_sqlite_memory_recall_finds_a_call_by_name_and_arguments(
    told: SQLiteMemory, text: str
) -> None:
    call = {"id": "c", "name": "look_up", "args": {"item": "bread"}}
    made = {"role": "assistant", "content": "", "tool_calls": [call]}
    told.add_memory(made)
    assert told.recall(text) == [made]


@pytest.mark.parametrize(
    "text",
    (
        "",
        " ",
        '"',
        "***",
        "()",
        "NOT",
        "AND OR NOT",
        'text:"',
        "thread:t1",
        "t1",
        "^x",
        "x*",
        "{a b}: c",
        "NEAR(a b, 3)",
        "-absent",
        "' OR 1 = 1; --",
        "a\0b",
        "\ud800",
        "\U0010ffff",
        "☃",
        "absent " * 100_000,
        " ".join(f"absent{n}" for n in range(10_000)),
    ),
)
def test_text_is_never_a_query_language(told: SQLiteMemory, text: str) -> None:
    found = contents(told.recall(text))
    assert set(found) <= set(SAID)
    assert len(found) <= 2
    assert contents(told.recall("4711 " + text))[0] in (*found, SAID[1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
@example(text="\u0300 \u0301")
def test_sqlite_memory_finds_any_text_by_itself(told: SQLiteMemory, text: str) -> None:
    told.add_memory(user(f"{text} unmistakable"))
    found = told.recall(f"{text} unmistakable", 1000)
    assert user(f"{text} unmistakable") in found
    told.recall(text)


def test_nearest_come_first_and_the_newest_of_equals(told: SQLiteMemory) -> None:
    for number in range(3):
        told.add_memory(user(f"A limit, the {number}."))
    told.add_memory(user("limit limit"))
    assert told.recall("limit", 0) == []
    assert contents(told.recall("limit", 2)) == ["limit limit", "A limit, the 2."]
    assert len(told.recall("limit", 10**30)) == 5
    with pytest.raises(ValueError, match="limit= must be a whole number from 0 up, got -1"):
        told.recall("limit", -1)
    with pytest.raises(ValueError, match='recall: by= must be "words" or "meaning", got \'sense\''):
        told.recall("limit", by="sense")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"recall: limit= must be a whole number from 0 up, got 2.5"
    ):
        told.recall("limit", 2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="recall: text must be a text, got None"):
        told.recall(None)  # type: ignore[arg-type]


def test_calls_and_blocks_are_found_and_pictures_are_not(told: SQLiteMemory) -> None:
    picture = {"type": "image", "data": "AAAA", "text": 5}
    blocks = {"role": "user", "content": [{"type": "text", "text": "my garden"}, picture, 7]}
    for item in (call("1"), result("1", "in the attic"), blocks, {"role": "user", "content": {}}):
        told.add_memory(item)
    assert told.recall("look") == [call("1")]
    assert told.recall("attic") == [result("1", "in the attic")]
    assert told.recall("garden") == [blocks]
    assert told.recall("AAAA") == []


# -- recall by meaning -----------------------------------------------------------------------------


class Counted(HashEmbedder):
    """Keeps what it was asked for."""

    def __init__(self, name: str = "counted", dimensions: int = 256) -> None:
        super().__init__(dimensions)
        self.name = name
        self.asked: list[list[str]] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        return super().embed(texts)


def test_meaning_is_found_and_each_message_is_embedded_once(made: Made) -> None:
    embedder = Counted()
    with made(embedder=embedder) as memory:
        for text in SAID:
            memory.add_memory(user(text))
        assert embedder.asked == []  # adding does not wait for a model
        assert contents(memory.recall("invoices that are unpaid", 1)) == [SAID[1]]
        assert embedder.asked == [["invoices that are unpaid"], list(SAID)]
        memory.add_memory(user("libraries"))
        assert contents(memory.recall("library", 1)) == ["libraries"]
        assert embedder.asked[2:] == [["library"], ["libraries"]]
        assert memory.recall("…") == memory.recall("library", 0) == []
        assert memory.embed() == 0
    with made(embedder=Counted()) as memory:
        assert memory.embed() == memory.embed(everywhere=True) == 0
        assert contents(memory.recall("library", 1)) == ["libraries"]


def test_recall_by_meaning_embeds_the_messages_of_its_own_thread_alone(made: Made) -> None:
    embedder = Counted()
    with made(embedder=embedder) as memory:
        memory.thread("ada").add_memory(user("I lost my library card"))
        memory.thread("bob").add_memory(user("My dog is lost"))
        memory.thread("ada").recall("card", 1)
        assert embedder.asked == [["card"], ["I lost my library card"]]


def test_vectors_of_different_embedders_are_never_compared(made: Made) -> None:
    class Backwards(HashEmbedder):
        """The same vectors, the other way round."""

        name = "backwards"

        def __init__(self) -> None:
            super().__init__()
            self.name = "backwards"

        def embed(self, texts: list[str]) -> list[list[float]]:
            return [vector[::-1] for vector in super().embed(texts)]

    embedders = (HashEmbedder(), Backwards(), HashEmbedder(64), Counted("a"), Counted("b", 32))
    for number, embedder in enumerate(embedders):
        with made(embedder=embedder) as memory:
            memory.add_memory(user(f"an invoice, the {number}."))
            memory.add_memory(user(f"the weather, the {number}."))
            assert memory.embed() == 2 * number + 2
            assert all("invoice" in text for text in contents(memory.recall("invoices", number)))


def test_sqlite_memory_recall_ranks_short_and_long_queries_alike(made: Made) -> None:
    # Short and long queries are multiplied in two ways.
    with made(embedder=HashEmbedder(64)) as memory:
        for number in range(50):
            memory.add_memory(user(f"{number} " + "abcdefghij"[number % 10] * (number % 7 + 1)))
        for query in ("jjj", "a", " ".join(contents(memory.get_memories()))):
            (wanted,) = HashEmbedder(64).embed([query])
            scores = {
                text: sum(x * y for x, y in zip(wanted, vector, strict=True))
                for text, vector in zip(
                    contents(memory.get_memories()),
                    HashEmbedder(64).embed(contents(memory.get_memories())),
                    strict=True,
                )
            }
            found = contents(memory.recall(query, 5))
            best = sorted(scores.values(), reverse=True)[: len(found)]
            assert [scores[text] for text in found] == pytest.approx(best, abs=1e-6)


class FirstLetter:
    """A dimension for each letter that a text may begin with."""

    name = "first letter"

    def __init__(self, dimensions: int = 26) -> None:
        self.dimensions = dimensions

    def embed(self, texts: list[str]) -> list[list[float]]:
        letters = [ord(text.encode().decode()[:1] or " ") - ord("a") for text in texts]
        return [[float(n == letter) for n in range(self.dimensions)] for letter in letters]


def test_sqlite_memory_recall_omits_unrelated_items(made: Made) -> None:
    with made(embedder=FirstLetter()) as memory:
        for text in ("apple", "bread", "\N{PARTY POPPER}", "apricot"):
            memory.add_memory(user(text))
        assert contents(memory.recall("all")) == ["apricot", "apple"]
        assert memory.recall("zest") == memory.recall("\ud800") == []
    with made(embedder=FirstLetter(4)) as memory:  # another, of the same name
        assert contents(memory.recall("all")) == ["apricot", "apple"]


def test_sqlite_memory_recall_ranks_by_cosine(made: Made) -> None:
    class Letters:
        name, dimensions = "letters", 2

        def embed(self, texts: list[str]) -> list[list[float]]:
            return [[float(text.count("a")), float(text.count("b"))] for text in texts]

    with made(embedder=Letters()) as memory:
        for text in ("a", "aaaaab"):
            memory.add_memory(user(text))
        assert contents(memory.recall("aa")) == ["a", "aaaaab"]


class Wrong(HashEmbedder):
    """Gives what it was told to."""

    def __init__(self, given: Any) -> None:
        super().__init__(8)
        self.given = given

    def embed(self, texts: list[str]) -> list[list[float]]:
        return self.given  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("given", "text"),
    (
        ([], "did not give one vector for each of 1 texts"),
        (None, "did not give one vector"),
        ([[1.0] * 8] * 2, "did not give one vector"),
        (np.ones(1), "did not give one vector"),
        ([[1.0] * 7], "gave a vector of 7 numbers, and says that it has 8 dimensions"),
        ([[float("nan")] * 8], "a number that is not finite"),
        ([[float("inf")] * 8], "a number that is not finite"),
    ),
)
def test_sqlite_memory_error_names_a_faulty_embedder(path: Path, given: Any, text: str) -> None:
    with SQLiteMemory(path, embedder=Wrong(given)) as memory:
        memory.add_memory(user("a"))
        for use in (memory.embed, lambda: memory.recall("a")):
            with pytest.raises(DefinitionError, match=f"embedder 'hashed-pieces-1-8' .*{text}"):
                use()
        assert memory.recall("a", by="words") == memory.get_memories() == [user("a")]


def test_sqlite_memory_takes_vectors_as_an_array(path: Path) -> None:
    class Array(HashEmbedder):
        def embed(self, texts: list[str]) -> Any:
            return np.array(super().embed(texts), np.float32)

    with SQLiteMemory(path, embedder=Array()) as memory:
        for text in SAID:
            memory.add_memory(user(text))
        assert contents(memory.recall("invoices that are unpaid", 1)) == [SAID[1]]


def test_memory_recall_by_meaning_without_embedder_raises(made: Made) -> None:
    with made() as memory:
        for use in (lambda: memory.recall("a", by="meaning"), memory.embed):
            with pytest.raises(
                DefinitionError, match="needs an embedder: give the memory embedder="
            ):
                use()
        with pytest.raises(
            DefinitionError, match=r"embedder= must have name, dimensions and embed"
        ):
            SQLiteMemory(path, embedder="hash")  # type: ignore[arg-type]


# -- at the same time ------------------------------------------------------------------------------


def test_sqlite_memory_sees_items_added_by_another_connection(made: Made) -> None:
    with made(tokens=100) as one, made(tokens=100) as other:
        for number in range(20):
            (one, other)[number % 2].add_memory(user(str(number)))
            assert one.get_memories() == other.get_memories()
            assert one.get_memories(1) == [user(str(number))]


def _add(path: str, name: str, start: Any) -> None:
    start.wait(50)
    with SQLiteMemory(path, timeout=50) as memory:
        for number in range(50):
            memory.add_memory(user(f"{name} {number}"))


def test_sqlite_memory_file_may_be_created_by_several_processes_at_once(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    processes = [context.Process(target=_add, args=(str(path), n, start)) for n in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(50)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with SQLiteMemory(path, tokens=None) as memory:
        texts = contents(memory.get_memories())
        assert len(texts) == 150
        for name in "abc":
            mine = [text for text in texts if text.startswith(name)]
            assert mine == [f"{name} {number}" for number in range(50)]


def test_sqlite_memory_is_shared_by_event_loops_and_threads(made: Made) -> None:
    with made(embedder=HashEmbedder(32)) as memory:

        async def talk(name: str) -> None:
            agent = ReActAgent(name, ScriptedModel(["yes"] * 5), memory=memory.thread(name))
            for number in range(5):
                await agent.reply(f"{name} {number}")
                found = await asyncio.to_thread(memory.recall, name, 1, everywhere=True)
                assert found

        threads = [
            threading.Thread(target=asyncio.run, args=(talk(name),))
            for name in ("ada", "bob", "eve")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        for name in ("ada", "bob", "eve"):
            every = contents(memory.thread(name).get_memories())
            assert every == [text for n in range(5) for text in (f"{name} {n}", "yes")]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", ("hello", None, 7, ["a"], [("role", "user")]))
def test_sqlite_memory_takes_only_messages(path: Path, item: Any) -> None:
    with SQLiteMemory(path) as memory:
        with pytest.raises(TypeError, match=r"a memory is a chat message .*, not "):
            memory.add_memory(item)
        assert memory.threads() == []


@pytest.mark.parametrize(
    ("value", "text"),
    (
        (object(), "memory.content"),
        (float("nan"), "memory.content: nan is not JSON"),
        ("\ud800", "memory.content: a lone surrogate"),
        ({1: 2}, "memory.content: a key is integer"),
        ("x" * 17 * 1024 * 1024, "larger than 16 MiB"),
    ),
)
def test_sqlite_memory_refuses_an_item_that_is_not_json(path: Path, value: Any, text: str) -> None:
    with SQLiteMemory(path) as memory:
        with pytest.raises(MoothallError, match=text):
            memory.add_memory({"role": "user", "content": value})
        assert memory.get_memories() == []
        assert memory.threads() == []


def test_sqlite_memory_copies_items_in_and_out(made: Made) -> None:
    with made() as memory:
        item = call("1")
        memory.add_memory(item)
        item["tool_calls"][0]["args"]["where"].append("c")
        for got in (memory.get_memories(), memory.items, memory.recall("look")):
            got[0]["tool_calls"].clear()
        assert memory.get_memories() == memory.recall("look") == [call("1")]


def test_wrong_bound_of_a_memory_makes_no_file(path: Path) -> None:
    with pytest.raises(DefinitionError, match="tokens= must be a whole number from 1 up, got 0"):
        SQLiteMemory(path, tokens=0)
    assert not path.exists()


def test_sqlite_memory_repr_names_path_and_thread(path: Path) -> None:
    with SQLiteMemory(path, "a") as memory:
        assert isinstance(memory, Memory)
        assert repr(memory) == f"SQLiteMemory({str(path)!r}, 'a')"
        json.dumps(memory.items)


@pytest.mark.long
def test_process_does_not_grow_with_the_file(path: Path) -> None:
    program = (
        "import resource, sys\n"
        "from moothall.memory import HashEmbedder, SQLiteMemory\n"
        "def live(count):\n"
        "    for number in range(count):\n"
        "        text = f'message {number} ' + 'abcdefghij'[number % 10] * 200\n"
        "        memory.add_memory({'role': 'user', 'content': text})\n"
        "        memory.get_memories(1)\n"
        "    memory.recall('message', 5, by='words')\n"
        "    memory.recall('message', 5)\n"
        "    assert sum(1 for _ in memory.messages()) >= count\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "memory = SQLiteMemory(sys.argv[1], embedder=HashEmbedder(64))\n"
        "unit = 1 if sys.platform == 'darwin' else 1024\n"
        "print((-live(2_000) + live(20_000)) * unit)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert path.stat().st_size > 10_000_000
    assert int(done.stdout) < 8_000_000


def test_words_that_a_loaded_state_forgets_are_overwritten(path: Path) -> None:
    with SQLiteMemory(path) as memory:
        memory.add_memory(user("kept"))
        state = memory.state_dict()
        memory.add_memory(user("unmistakable"))
        memory.load_state_dict(state)
    assert b"unmistakable" not in path.read_bytes()


def test_words_that_a_killed_process_has_left_are_overwritten_by_compact(path: Path) -> None:
    with SQLiteMemory(path) as memory:
        memory.add_memory(user("unmistakable"))
    with sqlite3.connect(path) as db:
        left = "INSERT INTO words (words, rowid, thread, text) VALUES ('delete', 1, 't1', ?)"
        db.execute(left, ("unmistakable",))
        db.execute("DELETE FROM memories")
    db.close()
    with SQLiteMemory(path) as memory:
        assert memory.compact()
    assert b"unmistakable" not in path.read_bytes()


def test_words_of_a_conversation_beside_a_damaged_one_are_overwritten(path: Path) -> None:
    with SQLiteMemory(path, "anna") as memory:
        memory.add_memory(user("unmistakable"))
        memory.thread("bo").add_memory(user("damaged"))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE memories SET item = '[' WHERE item LIKE '%damaged%'")
    db.close()
    with SQLiteMemory(path) as memory, pytest.raises(MemoryFileError, match="cannot be read"):
        memory.prune(0)
    assert b"unmistakable" not in path.read_bytes()


# -- the state of an agent -------------------------------------------------------------------------


def test_sqlite_memory_loading_a_state_removes_later_items_of_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
        agent = ReActAgent("a", ScriptedModel(["one", "two"]), memory=memory)
        agent.reply_sync("first")
        agent.reply_sync("elsewhere", thread="other")
        memory.recall("first")
        saved = json.loads(json.dumps(agent.state_dict()))
        before = memory.get_memories()
    with SQLiteMemory(path, embedder=HashEmbedder()) as memory:
        agent = ReActAgent("a", ScriptedModel(["three"]), memory=memory)
        agent.reply_sync("a turn that was cut off")
        assert memory.recall("cut off", by="words")
        memory.embed()
        agent.load_state_dict(saved)
        assert memory.get_memories() == before
        assert agent.state_dict() == saved
        assert memory.recall("cut off", by="words") == []
        assert all("cut off" not in item["content"] for item in memory.recall("cut off"))
        memory.add_memory({"role": "user", "content": "gone on with"})
        assert memory.recall("gone on with", 1)[0]["content"] == "gone on with"
        assert len(memory.thread("other").get_memories()) == 2


def test_run_adds_again_what_a_loaded_state_does_not_have(made: Made) -> None:
    with made() as memory:
        told = [user(f"message {number}") for number in range(5)]

        def add(count: int) -> None:
            for number, each in enumerate(told[:count]):
                memory.add_once(each, "key of R", number)

        add(2)
        state = memory.state_dict()
        memory.thread("other").add_once(user("elsewhere"), "key of R", 0)
        add(5)
        memory.load_state_dict(state)
        assert memory.get_memories() == told[:2]
        add(5)
        add(5)
        assert memory.get_memories() == told


@pytest.mark.parametrize(
    "state",
    (
        None,
        {},
        {"thread": "another", "messages": 2, "newest": 2},
        {"thread": "main", "messages": 2, "newest": "2"},
        {"thread": "main", "messages": 3, "newest": 2},
        {"thread": "main", "messages": 2, "newest": 99},
    ),
)
def test_sqlite_memory_refuses_a_foreign_state_and_keeps_items(tmp_path: Path, state: Any) -> None:
    with SQLiteMemory(tmp_path / "memory.db") as memory:
        for text in ("one", "two", "three"):
            memory.add_memory({"role": "user", "content": text})
        if isinstance(state, dict) and state.get("thread") == "main":
            state = {**state, "thread": memory.id}
        with pytest.raises(StateError):
            memory.load_state_dict(state)
        assert len(memory.get_memories()) == 3


def test_memory_finds_by_what_a_long_message_begins_with(made: Made) -> None:
    embedder = Counted()
    with made(embedder=embedder) as memory:
        memory.add_memory(user("a" * 99_990 + " inside " + "b" + " outside"))
        assert len(memory.recall("inside", by="words")) == 1
        assert memory.recall("outside", by="words") == []
        memory.recall("anything")
        assert {len(text) for texts in embedder.asked for text in texts} == {8, 8000}
