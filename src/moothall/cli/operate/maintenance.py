"""Maintenance of a journal: the commands `moothall runs delete`, `prune`, `compact` and others."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from moothall import ConfigError, Journal, JournalError
from moothall.build import counted, escaped
from moothall.cli import completing
from moothall.cli.operate.control import cancel, go_on, pause, tell
from moothall.cli.operate.deployment import check_program
from moothall.cli.operate.erasing import (
    EXISTING_FILE,
    OLD_STATE_TEXT,
    MemoryPath,
    delete,
    print_deleted,
)
from moothall.cli.operate.waiting import user_name
from moothall.cli.option_types import Age, FileToWrite, WholeNumberType
from moothall.cli.recorded_runs import filter_options, full_run_id, run_filters
from moothall.cli.shared_options import (
    as_usage_error,
    journal_option,
    json_data_option,
    make_journal,
    open_journal,
)
from moothall.journal import REASONS, RecordedMessages


@click.command(short_help="Delete old runs.")
@journal_option("The journal.")
@click.option(
    "--older",
    metavar="AGE",
    type=Age(),
    required=True,
    help="Runs that were last worked on longer ago, such as 30d (s, m, h, d, w).",
)
@click.option(
    "--keep",
    metavar="N",
    type=WholeNumberType(min=0),
    default=0,
    help="Leave the newest N runs, of any age.",
)
@filter_options
@json_data_option
def prune(journal: str | None, older: float, keep: int, as_json: bool, **filters: Any) -> int:
    """Delete old runs, all or some, beside processes that use the journal.

    A run stays if a process works on it, if it waits for a person (calls in doubt), if it has a
    fork that has not ended, or if it is the last firing of a schedule; the output says so. Others
    wait for some milliseconds at a time.

    \b
    Examples:
      moothall runs prune --older 30d
      moothall runs prune --older 12h --keep 1000 --journal runs.db
      moothall runs prune --older 7d --agent clerk --state done
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store:
        pruned = store.prune(older, keep=keep, **run_filters(filters))
        print_deleted(pruned, store, as_json)
    return 0


@click.command(short_help="Write the journal anew, without what was deleted.")
@journal_option("The journal.")
def compact(journal: str | None) -> int:
    """Write the journal anew: smaller, and with nothing of what was deleted.

    Processes that write to it wait meanwhile, about a second for 100 MB, and fail after 10 seconds.
    It takes as much room on the disk again.

    \b
    Example:
      moothall runs compact --journal runs.db
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store:
        old_size = store.size()
        is_complete = store.compact()
        click.echo(f"{old_size:,} bytes before, {store.size():,} now")
    if not is_complete:
        click.echo(f"moothall: {OLD_STATE_TEXT}", err=True)
    return 0 if is_complete else 1


@click.command(short_help="Write a run to a file.")
@click.argument("run_id", metavar="ID", shell_complete=completing.runs)
@journal_option("The journal.")
@click.option(
    "--jsonl", metavar="PATH", type=FileToWrite(), required=True, help="The file to write."
)
@click.option("--move", is_flag=True, help="It goes on from the file; here it is `elsewhere`.")
def export(run_id: str, journal: str | None, jsonl: str, move: bool) -> int:
    """Write the run with this ID to a file of JSON lines.

    The first line is about the run; then come its large values and its entries.

    \b
    Example:
      moothall runs export 79a0b5265e6033b5 \\
        --jsonl run.jsonl
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store:
        with as_usage_error():
            state = store.run(run_id).state
            store.export(run_id, jsonl, move=move)
        if not move and state not in REASONS.final:
            click.echo(
                f"run {escaped(run_id)} is not over, and goes on here: where the file is "
                "imported, only after `moothall runs adopt`; --move ends it here",
                err=True,
            )
    return 0


@click.command("import", short_help="Add a run from a file.")
@click.argument("path", metavar="PATH", type=EXISTING_FILE)
@journal_option("The journal; created if it does not exist.")
@click.option("--run-id", metavar="ID", help="Another id for the run.")
def import_(path: str, journal: str | None, run_id: str | None) -> int:
    """Add a run that `moothall runs export` wrote.

    The file is checked like any that somebody may have made up. Resume only a run that you trust:
    it states what was permitted and what took effect.

    \b
    Example:
      moothall runs import run.jsonl --journal other.db
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with make_journal(journal) as store:
        try:
            new_id = store.import_run(path, run_id)
        except (ConfigError, ValueError) as error:
            raise click.UsageError(str(error)) from error
        click.echo(escaped(new_id))
    return 0


@click.command(short_help="Let a copy of a run go on here.")
@click.argument("run_id", metavar="ID", shell_complete=completing.runs)
@journal_option("The journal.")
def adopt(run_id: str, journal: str | None) -> int:
    """Let the run with this ID go on here: it was imported as a copy, or is being moved away.

    Make sure that it does not go on in the other journal: each would act.

    \b
    Example:
      moothall runs adopt 79a0b5265e6033b5 --journal other.db
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store, as_usage_error():
        store.adopt(run_id)
    return 0


@click.command(short_help="Say whether a run was good.")
@click.argument("run_id", metavar="ID", shell_complete=completing.runs)
@journal_option("The journal.")
@click.option("--good/--bad", default=None, help="Whether it was good.")
@click.option("--note", metavar="TEXT", default="", help="What else there is to say.")
@click.option("--as", "by", metavar="NAME", help="Who says it; by default the user of this system.")
def feedback(run_id: str, journal: str | None, good: bool | None, note: str, by: str | None) -> int:
    """Note of the run with this ID whether it was good, and why; evaluations choose runs by it.

    \b
    Example:
      moothall runs feedback 79a0b5265e6033b5 --bad --note "The price is last year's."
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store, as_usage_error():
        run_id = full_run_id(store, run_id)
        store.feedback(run_id, good=good, note=note, by=user_name(by))
    return 0


@click.command(short_help="Copy the journal while it is written.")
@click.argument("path", metavar="PATH", type=FileToWrite())
@journal_option("The journal.")
def backup(path: str, journal: str | None) -> int:
    """Copy the journal to PATH, as it is at one moment, while it is written.

    Values of 1 MiB and more are copied to the folder PATH-kept. `moothall runs restore` puts a
    copy in the journal's place.

    \b
    Example:
      moothall runs backup runs-2026-11-24.db --journal runs.db
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store, as_usage_error():
        store.backup(path)
    return 0


@click.command(short_help="Put a backup in the journal's place.")
@click.argument("path", metavar="PATH", type=EXISTING_FILE)
@journal_option("The journal.")
@click.option(
    "--memory",
    "memories",
    metavar="PATH",
    type=MemoryPath(),
    multiple=True,
    help="Set aside what this memory has and the runs of the backup do not. May be repeated.",
)
def restore(path: str, journal: str | None, memories: tuple[str, ...]) -> int:
    """Put a copy of the backup PATH in the journal's place.

    The backup is checked first. The journal that was there is kept beside it, under another name.
    Stop the processes that use the journal before.

    A memory is a store of its own, and has what the runs said after the backup. With --memory, this
    is set aside in it: no agent reads it any more. It is a file, or a URL of a PostgreSQL server.
    If PATH is the journal itself, since a copy was put there by hand, only this is done.

    \b
    Examples:
      moothall runs restore runs-2026-11-24.db --journal runs.db
      moothall runs restore runs-2026-11-24.db --memory clerk.memory
      moothall runs restore runs.db --journal runs.db --memory clerk.memory
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if journal is None:
        raise click.UsageError("no journal was named: give --journal PATH")
    if Journal.is_url(journal):
        raise click.UsageError("a server's journal is restored by its own program: psql")
    old = None
    if not (memories and Path(journal).exists() and Path(journal).samefile(path)):
        old = Journal.restore(path, journal)
        click.echo(escaped(f"restored from {path}"))
    if old is not None:
        click.echo(escaped(f"what was there is {old}"))
    for each in memories:
        _set_aside_later(each, journal, old)
    return 0


def _set_aside_later(path: str, journal: str, former: Path | None) -> None:
    """Set aside what a memory has and the runs of a restored journal do not, and print it."""
    from moothall.memory import memory_at  # the memories take long to import

    with ExitStack() as opened:
        store = opened.enter_context(Journal(journal))
        former_file = None
        if former is not None:
            try:
                former_file = opened.enter_context(Journal(former)).file
            except JournalError as error:  # which may be why a backup was put in its place
                click.echo(
                    f"moothall: {escaped(str(error))}; its later runs are not known", err=True
                )
        memory = opened.enter_context(memory_at(path))
        recorded = RecordedMessages(store.file, former_file)
        for thread in memory.threads():
            if count := memory.thread(thread).set_aside_later(recorded):
                text = f"{path}, thread {thread!r}: {counted(count, 'message')} set aside"
                click.echo(escaped(text))


@click.command(short_help="Look whether the journal is whole, or fits a program.")
@journal_option("The journal.")
@click.option(
    "--agent",
    "agents",
    metavar="MODULE:NAME",
    multiple=True,
    help="Which runs this agent, or a company's FILE.yaml, would take. May be repeated.",
)
def check(journal: str | None, agents: tuple[str, ...]) -> int:
    """Read everything in the journal, and name what is damaged, beside processes that use it.

    With --agent, name the runs that wait or were cut off and that this program would not take, each
    with what differs, and exit with 1 if there are any: before a deployment. No model is asked, no
    action executed and nothing written; the program itself is imported, and its MCP servers are
    asked for their actions.

    \b
    Examples:
      moothall runs check --journal runs.db
      moothall runs check --agent my_agents:Clerk
      moothall runs check --agent company.yaml
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if agents:
        return check_program(journal, agents)
    with open_journal(journal) as store:
        run_count, faults = store.sums().runs, store.check()
    for each in faults:
        click.echo(f"moothall: {escaped(each)}", err=True)
    if not faults:
        click.echo(f"{counted(run_count, 'run')}, all whole")
    return 1 if faults else 0


COMMANDS: Final = {
    "delete": delete,
    "prune": prune,
    "compact": compact,
    "export": export,
    "import": import_,
    "adopt": adopt,
    "cancel": cancel,
    "pause": pause,
    "go-on": go_on,
    "tell": tell,
    "feedback": feedback,
    "backup": backup,
    "restore": restore,
    "check": check,
}
"""The commands of `moothall runs`, by name."""
