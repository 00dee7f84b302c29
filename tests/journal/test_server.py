"""A journal in PostgreSQL: what only a server does, and what breaks only there."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trustme
from benchmarks.postgresql import Authority, Server
from benchmarks.proxy import Proxy

from moothall import (
    Budget,
    Journal,
    MoothallError,
    PostgresMemory,
    ReActAgent,
    ScriptedModel,
    SQLiteMemory,
)
from moothall.foundation.errors import (
    BudgetExceeded,
    DefinitionError,
    JournalError,
    MemoryFileError,
)
from moothall.foundation.postgres.schema import migrate
from moothall.journal.store.tables import SERVER_MIGRATIONS
from moothall.models.protocol import Call


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def fragile(authority: trustme.CA) -> Iterator[Server]:
    """A server that these tests break, which waits for the disk; each leaves it running."""
    own = authority.issue_cert("127.0.0.1", "localhost")
    chain = b"".join(each.bytes() for each in own.cert_chain_pems)
    with Server(tls=Authority(chain, own.private_key_pem.bytes())) as server:
        yield server


@pytest.fixture
def schema() -> str:
    return f"s{secrets.token_hex(6)}"


@pytest.fixture
def proxy(fragile: Server) -> Iterator[Proxy]:
    """The network before it."""
    with Proxy(fragile.port) as proxy:
        yield proxy


@pytest.fixture
def far(fragile: Server, proxy: Proxy, schema: str) -> str:
    """The URL of a journal beyond that network."""
    return f"{fragile.url(schema, proxy.port)}&sslmode=disable"


@pytest.fixture
def near(fragile: Server, schema: str) -> str:
    """The URL of the same journal, at the server itself."""
    return fragile.url(schema)


def kinds(url: str, run: str = "R") -> list[str]:
    with Journal(url) as journal:
        return [entry.kind for entry in journal.entries(run)]


def cut(proxy: Proxy, when: str, marker: str) -> None:
    """Cut the connection as a commit is sent, or as the server says that it took effect."""
    if when == "sent":
        proxy.cut_at(marker.encode())
    else:
        proxy.cut_at_answer(b"COMMIT")


@pytest.mark.parametrize("when", ("sent", "answered"))
async def test_commit_whose_connection_is_cut_is_there_once(
    far: str, near: str, proxy: Proxy, when: str
) -> None:
    with Journal(far) as journal:
        part = await journal.begin("R", "A", "a", "t")
        part.note("one", {})
        await part.commit()
        part.note("two", {"mark": "never sent"})
        cut(proxy, when, "never sent")
        await part.commit()
        part.note("three", {})
        await part.commit()
        assert kinds(near) == ["one", "two", "three"]
        assert journal.run("R").state == "running"
        part.close()


async def test_run_that_another_has_taken_over_is_written_no_further(
    far: str, near: str, proxy: Proxy
) -> None:
    with Journal(far) as journal, Journal(near) as other:
        part = await journal.begin("R", "A", "a", "t")
        part.note("one", {})
        await part.commit()
        same = await journal.begin("S", "A", "a", "t")
        proxy.cut()
        while other.run("R").state == "running":
            pass  # the server hears of it a moment later
        taken = await other.begin("R", "A", "a", "t")
        taken.note("theirs", {})
        await taken.commit()
        part.note("ours", {})
        with pytest.raises(JournalError, match="another process has taken over run 'R' while"):
            await part.commit()
        same.note("also ours", {})
        await same.commit()
        taken.close()
        assert kinds(near) == ["one", "theirs"]
        assert kinds(near, "S") == ["also ours"]


async def test_run_that_another_has_worked_on_meanwhile_is_written_no_further(
    far: str, near: str, proxy: Proxy
) -> None:
    with Journal(far) as journal, Journal(near) as other:
        part = await journal.begin("R", "A", "a", "t")
        proxy.cut()
        while other.run("R").state == "running":
            pass
        taken = await other.begin("R", "A", "a", "t")
        taken.note("theirs", {})
        await taken.commit()
        taken.close()
        part.note("ours", {})
        with pytest.raises(JournalError, match="another process has taken over run 'R' while"):
            await part.commit()
    assert kinds(near) == ["theirs"]


def test_server_that_restarts_under_load_loses_and_doubles_nothing(
    fragile: Server, near: str
) -> None:
    """What a commit has returned is there; each entry once; runs go on when it is back."""
    ended, commits = threading.Event(), threading.Semaphore(0)
    opened = threading.Barrier(3)
    counts: dict[str, int] = {}

    async def write(journal: Journal, run: str) -> None:
        part = await journal.begin(run, "A", "a", "t")
        while run not in counts or not ended.is_set():
            part.note("step", {"n": counts.get(run, 0)})
            await part.commit()
            counts[run] = counts.get(run, 0) + 1
            commits.release()
        part.close()

    async def all_of(number: int) -> None:
        with Journal(near, timeout=30) as journal:
            opened.wait(30)  # a journal is not opened without its server
            await asyncio.gather(*(write(journal, f"{number}-{n}") for n in range(5)))

    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            asyncio.run(all_of(number))
        except BaseException as error:
            failures.append(error)

    with Journal(near):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        opened.wait(30)
        for end in (fragile.kill, fragile.stop, fragile.kill):
            for _ in range(60):
                assert commits.acquire(timeout=30), failures
            end()
            fragile.start()
        ended.set()
        for thread in threads:
            thread.join()
    assert failures == []
    with Journal(near) as journal:
        assert len(counts) == 10
        for run, count in counts.items():
            written = [entry.data["n"] for entry in journal.entries(run)]
            assert written == list(range(count))


@pytest.mark.parametrize("when", ("sent", "answered"))
def test_reservation_whose_connection_is_cut_is_made_once_or_not(
    far: str, near: str, proxy: Proxy, when: str
) -> None:
    with Journal(far) as journal, Journal(near) as other:
        budget = Budget(tokens=100, journal=journal, name="team")
        budget.reserve(tokens=10).settle()
        cut(proxy, when, '"taken"')
        if when == "sent":
            with pytest.raises(JournalError, match="the connection to the server was lost"):
                budget.reserve(tokens=20)
            assert other.budgets.list()[0].reserved.tokens == 0
        held = budget.reserve(tokens=20)
        assert other.budgets.list()[0].reserved.tokens == 20
        held.settle(tokens=15)
        assert budget.spent.tokens == 25
        with pytest.raises(BudgetExceeded):
            budget.reserve(tokens=90)


def test_reservation_whose_server_is_gone_says_that_the_connection_was_lost(
    far: str, near: str, proxy: Proxy
) -> None:
    with Journal(far, timeout=0.3) as journal, Journal(near) as other:
        budget = Budget(tokens=100, journal=journal, name="team")
        budget.reserve(tokens=10).settle()
        proxy.refuse()
        cut(proxy, "answered", '"taken"')
        with pytest.raises(JournalError, match="the connection to the server was lost"):
            budget.reserve(tokens=20)
        assert other.budgets.list()[0].reserved.tokens == 20  # it took effect


@pytest.mark.parametrize("when", ("sent", "answered"))
def test_message_whose_connection_is_cut_is_remembered_once(
    far: str, near: str, proxy: Proxy, when: str
) -> None:
    with PostgresMemory(far) as memory, PostgresMemory(near) as other:
        memory.add_memory({"role": "user", "content": "one"})
        cut(proxy, when, "never sent")
        item = {"role": "user", "content": "never sent"}
        if when == "sent":
            with pytest.raises(MemoryFileError, match="the connection to the server was lost"):
                memory.add_once(item, "run", 0)
            assert len(other.get_memories()) == 1
        memory.add_once(item, "run", 0)
        assert [each["content"] for each in other.get_memories()] == ["one", "never sent"]
        assert memory.get_memories() == other.get_memories()


def test_reader_makes_a_new_connection_after_a_restart(fragile: Server, near: str) -> None:
    with Journal(near) as journal, PostgresMemory(near) as memory:
        memory.add_memory({"role": "user", "content": "one"})
        assert journal.runs() == []
        fragile.kill()
        fragile.start()
        assert journal.runs() == []
        assert memory.get_memories() == [{"role": "user", "content": "one"}]


def test_server_that_is_gone_is_told_clearly_and_the_run_goes_on_later(
    far: str, near: str, proxy: Proxy
) -> None:
    def act() -> str:
        """Act."""
        proxy.refuse()
        proxy.cut()
        return "done"

    with Journal(far, timeout=0.3) as journal:
        model = ScriptedModel([Call("c", "act", {}), "Yes."])
        agent = ReActAgent("a", model, actions=[act], journal=journal)
        reply = agent.reply_sync("go", run_id="R")
        assert reply.stop_reason == "error"
        assert "the server cannot be used" in str(reply.error)
    with Journal(near) as journal:
        assert [doubt.action for doubt in journal.in_doubt("R")] == ["act"]
        journal.decide("R", "skip")
        again = ReActAgent("a", ScriptedModel(["", "Yes."]), actions=[act], journal=journal)
        assert again.reply_sync("go", run_id="R").text == "Yes."


async def test_follower_is_told_of_what_another_process_writes(near: str) -> None:
    with Journal(near) as journal, Journal(near) as other:
        part = await journal.begin("R", "A", "a", "t")
        part.note("first", {})
        await part.commit()
        heard: list[float] = []
        came = asyncio.Event()

        async def follow() -> None:
            async for entry in other.follow("R"):
                heard.append(time.time() - entry.at)
                came.set()

        following = asyncio.create_task(follow())
        for number in range(1, 8):
            while len(heard) < number:
                came.clear()
                await came.wait()
            part.note("next", {})
            await part.commit()
        part.end("done")
        part.note("over", {"reason": "done", "text": ""})
        await part.commit()
        part.close()
        await following
        assert len(heard) == 9
        assert min(heard[2:8]) < 0.5  # without a notice it looks once a second


def secrets_of(server: Server) -> tuple[str, ...]:
    return (server.password, "wrong-9d1c")


@pytest.mark.parametrize(
    "change",
    (
        lambda url: url.replace("never-shown-7f3a", "wrong-9d1c"),
        lambda url: url.replace("127.0.0.1:", "127.0.0.1:1"),
        lambda url: url.replace("/postgres", "/nothing"),
        lambda url: url.replace(":never-shown-7f3a@", "@") + "&password=wrong-9d1c",
        lambda url: url + "&nonsense=never-shown-7f3a",
        lambda url: url + "&sslmode=never-shown-7f3a",
        lambda url: url.replace("@", "%zz@"),
    ),
)
def test_password_stands_in_no_error(
    fragile: Server, near: str, change: Callable[[str], str]
) -> None:
    for make in (Journal, PostgresMemory):
        made: Any = make
        with pytest.raises(MoothallError) as raised:
            made(change(near), timeout=0.1)
        error: BaseException | None = raised.value
        while error is not None:
            assert not any(each in f"{error!r} {error}" for each in secrets_of(fragile))
            error = error.__cause__


def test_password_stands_in_no_name_of_a_journal(fragile: Server, near: str) -> None:
    with Journal(near) as journal, PostgresMemory(near) as memory:
        for shown in (repr(journal), journal.path, repr(memory), memory.path):
            assert fragile.password not in shown
            assert f"{fragile.user}@127.0.0.1:{fragile.port}/postgres" in shown


def test_parameters_of_tls_are_those_of_the_url(
    near: str, authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with Journal(f"{near}&sslmode=verify-full&sslrootcert={tmp_path / 'ca.pem'}") as journal:
        assert journal.runs() == []
        assert "sslmode=verify-full" in journal.path
    with pytest.raises(JournalError, match="certificate verify failed"):
        Journal(f"{near}&sslmode=verify-full&sslrootcert={tmp_path / 'other.pem'}")


def test_url_that_is_none_is_refused() -> None:
    with pytest.raises(DefinitionError, match="is not the URL of a PostgreSQL database, such as"):
        Journal("postgresql://user@host/name?sslmode")
    with pytest.raises(DefinitionError, match="must be a text that begins with postgresql://"):
        PostgresMemory("runs.db")
    with pytest.raises(DefinitionError, match="durability= must be 'process' or 'power'"):
        Journal("postgresql://user@host/name", durability="none")


def rows_of_all_tables(near: str) -> list[Any]:
    """The columns and rows of each table in the schema."""
    with psycopg.connect(near) as server:
        names = server.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = current_schema() ORDER BY 1, 2"
        ).fetchall()
        tables = sorted({name for name, *_ in names})
        return [*names, *(server.execute(f"SELECT * FROM {name}").fetchall() for name in tables)]


@pytest.mark.parametrize("goes_on", (False, True), ids=("at once", "later"))
@pytest.mark.parametrize("lost", ("reply", "fork"))
def test_memory_ahead_of_a_restored_server_is_said(
    near: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: str, goes_on: bool
) -> None:
    memory = SQLiteMemory(tmp_path / "m")

    def say(text: str, thread: str, run_id: str | None = None) -> None:
        with Journal(near) as journal:
            agent = ReActAgent("a", ScriptedModel(["Yes."]), memory=memory, journal=journal)
            agent.reply_sync(text, thread=thread, run_id=run_id)

    say("I am Anna.", "anna", "kept")
    if lost == "fork":
        with Journal(near) as journal:
            journal.fork("kept", "lost", upto=1)
    say("I am Anna." if lost == "fork" else "I moved.", "anna", "lost")
    with psycopg.connect(near) as server:  # as an older copy is
        for table, column in (("runs", "number"), ("entries", "place >> 32"), ("texts", "run")):
            server.execute(f"DELETE FROM {table} WHERE {column} > 1")
        server.execute("SELECT setval(pg_get_serial_sequence('runs', 'number'), 1)")
    if goes_on:
        say("I am Bob.", "bob")
    assert not caplog.records
    say("Hello.", "anna")
    (warning,) = [each.getMessage() for each in caplog.records]
    assert "is an older copy" in warning
    assert "put the memory's copy of that time in its place" in warning


def test_memory_of_deleted_runs_and_of_another_journal_is_not_said_to_be_ahead(
    near: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = SQLiteMemory(tmp_path / "m")
    for path in (tmp_path / "small", near, tmp_path / "small"):
        with Journal(path) as journal:
            agent = ReActAgent("a", ScriptedModel(["Yes."] * 9), memory=memory, journal=journal)
            for thread in ("anna", "bob", "eva"):
                agent.reply_sync("Hello.", thread=thread)
                agent.reply_sync("Hello?", thread=thread, run_id=f"deleted {thread}")
            journal.delete(*(f"deleted {thread}" for thread in ("anna", "bob", "eva")))
            agent = ReActAgent("a", ScriptedModel(["Yes."] * 9), memory=memory, journal=journal)
            for thread in ("anna", "bob", "eva"):
                agent.reply_sync("Hello.", thread=thread)
    assert not caplog.records


@pytest.mark.parametrize("make", (Journal, PostgresMemory))
def test_tables_of_a_newer_moothall_are_left_alone(near: str, make: Callable[[str], Any]) -> None:
    make(near).close()
    with psycopg.connect(near) as server:
        server.execute("UPDATE formats SET version = 99")
    before = rows_of_all_tables(near)
    with pytest.raises(MoothallError, match="it has version 99, and this moothall knows up to 1"):
        make(near)
    assert rows_of_all_tables(near) == before


@pytest.mark.parametrize("kind", ("journal", "memory"))
@pytest.mark.parametrize("version", (1, 7))
@pytest.mark.parametrize("make", (Journal, PostgresMemory))
def test_schema_with_tables_of_before_0_1_0_is_refused_in_words_and_left(
    near: str, schema: str, make: Callable[[str], Any], version: int, kind: str
) -> None:
    with psycopg.connect(near) as server:
        server.execute(f"CREATE SCHEMA {schema}")
        server.execute("CREATE TABLE versions (kind TEXT PRIMARY KEY, version INT NOT NULL)")
        server.execute("INSERT INTO versions VALUES (%s, %s)", (kind, version))
        server.execute("CREATE TABLE writers (session TEXT PRIMARY KEY, last BIGINT NOT NULL)")
        server.execute("CREATE TABLE runs (id TEXT)")
        server.execute("INSERT INTO runs VALUES ('R')")
    before = rows_of_all_tables(near)
    told = (
        r"it was written before moothall 0\.1\.0, .* left as it is: keep it with the moothall that "
        r"wrote it, where `moothall runs export ID` writes a run as text; name another schema "
    )
    with pytest.raises(MoothallError, match=told):
        make(near)
    assert rows_of_all_tables(near) == before
    make(near.replace(schema, f"{schema}_new")).close()


def test_schema_with_a_table_of_versions_of_another_program_is_used(near: str, schema: str) -> None:
    with psycopg.connect(near) as server:
        server.execute(f"CREATE SCHEMA {schema}")
        server.execute("CREATE TABLE versions (kind INT, version TEXT)")
        server.execute("INSERT INTO versions VALUES (1, 'a')")
    with Journal(near) as journal:
        assert journal.runs() == []


def test_tables_are_migrated_to_the_next_format_once_by_processes_that_come_together(
    near: str,
) -> None:
    """The next one is made up here, and keeps what was there."""
    with Journal(near) as journal:
        ReActAgent("a", ScriptedModel(["Yes."]), journal=journal).reply_sync("go", run_id="R")
    second = (
        "ALTER TABLE runs ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",
        "UPDATE runs SET mood = 'glad' WHERE id = 'R'",
    )

    def open_next(_: int) -> None:
        with psycopg.connect(near, autocommit=True, cursor_factory=psycopg.RawCursor) as server:
            schema = server.execute("SELECT current_schema()").fetchone()
            assert schema is not None
            migrate(server, schema[0], "journal", (*SERVER_MIGRATIONS, second), RuntimeError)

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(open_next, range(3))] == [None] * 3
    with psycopg.connect(near) as server:
        assert server.execute("SELECT id, mood FROM runs").fetchall() == [("R", "glad")]
        assert server.execute("SELECT kind, version FROM formats").fetchall() == [("journal", 2)]
    with pytest.raises(JournalError, match="it has version 2, and this moothall knows up to 1"):
        Journal(near)


def test_backup_is_the_servers_own(near: str, schema: str, tmp_path: Path) -> None:
    with Journal(near) as journal, pytest.raises(JournalError, match=f"pg_dump --schema={schema}"):
        journal.backup(tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_journal_damaged_on_the_server_says_so(near: str) -> None:
    with Journal(near) as journal:
        agent = ReActAgent("a", ScriptedModel(["Yes."]), journal=journal)
        agent.reply_sync("go", run_id="R")
        with psycopg.connect(near) as server:
            server.execute("UPDATE entries SET data = replace(data, 'Yes', 'No')")
        with pytest.raises(JournalError, match=r"it is damaged .* its checksum is wrong"):
            journal.replay("R")
        with psycopg.connect(near) as server:
            server.execute("DROP TABLE entries")
        with pytest.raises(JournalError, match="it is damaged"):
            journal.entries("R")


@pytest.mark.long
def test_session_that_is_ended_as_soon_as_it_begins_is_tried_again(
    fragile: Server, near: str
) -> None:
    ended, over, told = 0, threading.Event(), []

    def end() -> None:
        nonlocal ended
        with psycopg.connect(fragile.url(), autocommit=True) as administrator:
            while not over.is_set():
                ended += len(
                    administrator.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name LIKE 'moothall%'"
                    ).fetchall()
                )

    with Journal(near) as journal:
        ending = threading.Thread(target=end)
        ending.start()
        try:
            while ended < 20:
                try:
                    journal.runs()
                except JournalError as error:  # as it was read
                    told.append(str(error))
        finally:
            over.set()
            ending.join()
        assert all("was lost" in each or "cannot be used" in each for each in told)
        with suppress(JournalError):  # the last one may be ended while it is used
            journal.runs()
        assert journal.runs() == []


def test_server_journal_written_anew_for_longer_than_the_timeout_has_replies_wait(
    fragile: Server, schema: str
) -> None:
    url, budgets = fragile.url(schema), []
    with Journal(url, timeout=60) as journal, Journal(url, timeout=0.1) as service:
        assert journal.compact()
        with psycopg.connect(url) as other:  # a reader, for which the table's turn waits
            other.execute("SELECT count(*) FROM runs")
            with ThreadPoolExecutor(4) as pool:
                compacted = pool.submit(journal.compact)
                waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                while not _asked(url, f"{waits} AND query LIKE 'VACUUM%'"):
                    pass
                budgets = [Budget(tokens=10**6, journal=service, name="all"), None]
                agents = [ReActAgent("a", ScriptedModel(["hi"]), journal=service) for _ in budgets]
                replies = [
                    pool.submit(agent.reply_sync, "x", run_id=f"r{n}", budget=budget)
                    for n, (agent, budget) in enumerate(zip(agents, budgets, strict=True))
                ]
                found = pool.submit(service.runs)
                threading.Event().wait(1)  # ten times the service's timeout
                assert not any(each.done() for each in (compacted, found, *replies))
                other.rollback()
                assert compacted.result(60)
                assert [each.result(60).stop_reason for each in replies] == ["done", "done"]
                found.result(60)
        assert [run.state for run in service.runs()] == ["done", "done"]


def test_server_journal_without_time_for_a_lock_says_that_it_is_locked(
    fragile: Server, schema: str
) -> None:
    url = fragile.url(schema)
    with Journal(url, timeout=0) as journal, ThreadPoolExecutor(1) as pool:
        assert journal.runs() == []
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
            found = pool.submit(journal.runs)
            with pytest.raises(JournalError, match="another process has held it locked"):
                found.result(20)


def _asked(url: str, sql: str) -> int:
    with psycopg.connect(url) as asking:
        row = asking.execute(sql).fetchone()  # type: ignore[call-overload]
    return int(row[0])
