"""`moothall runs delete`: runs, and what is stored of a conversation or of a person."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from moothall.build import counted, escaped
from moothall.cli import completing
from moothall.cli.shared_options import journal_option, json_data_option, open_journal, print_json
from moothall.journal import Deleted, Journal

if TYPE_CHECKING:
    from moothall.memory import StoredMemory
    from moothall.spaces import Inbox

EXISTING_FILE: Final = click.Path(dir_okay=False, exists=True)
OLD_STATE_TEXT: Final = (
    "another process reads an older state, which SQLite keeps beside the file, in -wal: try again "
    "when that has ended"
)


class MemoryPath(click.Path):
    """The path of a memory that exists, or the URL of a server's."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, exists=True)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return it as it was given."""
        return str(value if Journal.is_url(value) else super().convert(value, param, ctx))


@dataclass(frozen=True)
class _DataOwner:
    """Whose data are deleted: those of a conversation, with those below it, or of a person."""

    thread: str | None
    person: str | None

    def check(self, has_runs: bool, has_files: bool) -> None:
        """Refuse what names nobody, or both; files go only with somebody's data."""
        if self.thread is not None and self.person is not None:
            raise click.UsageError("give --thread or --person")
        if self.person == "":
            raise click.UsageError("--person must be a name")
        if self.thread is None and self.person is None:
            if not has_runs:
                raise click.UsageError("give the IDs of runs, --thread T or --person NAME")
            if has_files:
                raise click.UsageError("--memory and --inbox are for --thread and --person")

    @property
    def senders(self) -> list[str]:
        """The ids by which a person sends messages."""
        from moothall.serving.doors import DOORS  # takes long to import

        return [str(self.person), *(f"{door.sender}-{self.person}" for door in DOORS)]

    def owns_message(self, sender: str, conversation: str | None) -> bool:
        """Return whether a message is theirs, which its sender sent in a conversation of its own.

        An agent sends on behalf of many: of a conversation, only what belongs to it is meant.
        """
        from moothall.build import Thread  # takes long to import

        if self.person is None:
            return self.owns_thread(Thread.id_for(sender, conversation))
        return any(each == sender or Thread.is_below(sender, each) for each in self.senders)

    def owns_thread(self, thread: str) -> bool:
        """Return whether a conversation is theirs, or one on their behalf."""
        from moothall.build import Thread  # takes long to import

        ids = [self.thread] if self.person is None else self.senders
        if any(thread == each or thread.startswith(f"{each}/") for each in ids):
            return True  # as a program names it, which quotes nothing
        if self.person is None:
            root_thread, rest, _ = str(self.thread).partition("/")
            return not rest and Thread.is_below(
                thread.partition("/")[0], Thread.sender_of(root_thread)
            )
        return any(Thread.is_below(thread, each) for each in self.senders)

    def budgets(self, journal: Journal) -> list[str]:
        """Return the names of a person's budgets, parts before the whole."""
        stored_budgets = [] if self.person is None else journal.budgets.list()
        return [
            each.name for each in reversed(stored_budgets) if self.person in each.name.split("/")
        ]


@click.command(short_help="Delete runs, or what is stored of a person.")
@click.argument("run_ids", metavar="[ID]...", nargs=-1, shell_complete=completing.runs)
@journal_option("The journal.")
@click.option(
    "--thread", metavar="T", help="All runs of this conversation, and of those below it, T/…."
)
@click.option(
    "--person", metavar="NAME", help="All of this person: with every agent, by every door."
)
@click.option(
    "--memory",
    metavar="PATH",
    type=MemoryPath(),
    multiple=True,
    help="Memory, a file or a URL, in which the conversations are forgotten too.",
)
@click.option(
    "--inbox",
    metavar="PATH",
    type=EXISTING_FILE,
    multiple=True,
    help="Inbox file in which what they sent and got is deleted too.",
)
@json_data_option
def delete(
    run_ids: tuple[str, ...],
    journal: str | None,
    thread: str | None,
    person: str | None,
    memory: tuple[str, ...],
    inbox: tuple[str, ...],
    as_json: bool,
) -> int:
    """Delete the runs with these IDs, of a conversation, or all that is stored of a person.

    The runs' entries go, and the values that no other run has. They are overwritten in the file.
    Nothing is deleted if a process works on one of the runs. An agent that replies to others has a
    conversation with each of them, named by its id. --thread deletes such a conversation. --person
    deletes those of NAME with each agent, those that agents had on behalf of NAME, those by each
    door (openai-NAME, mcp-NAME and so on), what waits in them, and the budgets of NAME; it lists
    what was found where. The notes that agents kept go with the runs, which name their folders.
    Stop the process that uses an inbox first.

    \b
    Examples:
      moothall runs delete 79a0b5265e6033b5
      moothall runs delete --thread anna --memory clerk.memory --inbox clerk.inbox
      moothall runs delete --person anna --memory clerk.memory

    \b
    Exit codes: 0 done, 1 failed, or a process
    works on a run, 2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    owner = _DataOwner(thread, person)
    owner.check(bool(run_ids), bool(memory or inbox))
    from moothall import Notes  # the agents take long to import
    from moothall.memory import memory_at

    with open_journal(journal) as store, ExitStack() as open_files:
        # A file of another kind is an error before anything is deleted.
        memories = [open_files.enter_context(memory_at(path)) for path in memory]
        inboxes = {path: open_files.enter_context(closing(_open_inbox(path))) for path in inbox}
        has_owner = thread is not None or person is not None
        found_threads = [each for each in store.threads() if has_owner and owner.owns_thread(each)]
        person_threads = found_threads if thread is None else []
        waits = [w for w in store.waiting() if w.thread in person_threads] if person_threads else []
        budgets = owner.budgets(store)
        deleted = store.delete(
            *run_ids, thread=found_threads if thread is None else [thread, *found_threads]
        )
        for each in budgets:
            store.budgets.delete(each)
        forgotten = {each.path: _forget_threads(each, owner) for each in memories}
        messages = {path: each.delete(owner.owns_message) for path, each in inboxes.items()}
        all_threads = person_threads or [str(thread), *found_threads]
        notes = {
            path: sum(map(Notes(path).forget_thread, all_threads))
            for path in deleted.folders
            if not os.path.isfile(path)
        }
        decided_runs = [] if person is None else [run.id for run in store.runs(decided_by=person)]
        extra_fields: dict[str, Any] = {"memory": forgotten, "inbox": messages, "notes": notes}
        if person is not None:
            summary = {"threads": person_threads, "waiting": len(waits), "budgets": budgets}
            extra_fields |= {**summary, "decided": decided_runs}
        print_deleted(deleted, store, as_json, extra_fields)
    if as_json:
        return 0
    if person_threads:
        click.echo(f"  of the conversations {escaped(', '.join(person_threads))}")
    if waits:
        click.echo(f"  {counted(len(waits), 'call')} waited in them")
    for each in budgets:
        click.echo(f"budget {escaped(each)} deleted")
    for counts, noun, outcome in (
        (forgotten, "conversation", "forgotten"),
        (messages, "message", "deleted"),
        (notes, "note", "deleted"),
    ):
        for path, count in counts.items():
            click.echo(f"{escaped(path)}: {counted(count, noun)} {outcome}")
    if decided_runs:
        names = escaped(", ".join(decided_runs))
        click.echo(f"left: who decided in these runs of others is {escaped(str(person))}: {names}")
    return 0


def _open_inbox(path: str) -> Inbox:
    from moothall.spaces import Inbox

    return Inbox(path)


def _forget_threads(memory: StoredMemory, owner: _DataOwner) -> int:
    """Forget conversations in a memory; return how many."""
    threads = [each for each in memory.threads() if owner.owns_thread(each)]
    for each in threads:
        memory.thread(each).forget()
    compact_memory(memory)
    return len(threads)


def compact_memory(memory: StoredMemory) -> None:
    """Write a memory anew, and say so if something is left."""
    if not memory.compact():
        click.echo(f"moothall: {escaped(memory.path)}: {OLD_STATE_TEXT}", err=True)


def print_deleted(
    deleted: Deleted, journal: Journal, as_json: bool, extra_fields: dict[str, object] | None = None
) -> None:
    """Print what was deleted."""
    if as_json:
        print_json(**asdict(deleted), **(extra_fields or {}))
        return
    for id, reason in deleted.left.items():
        click.echo(f"left: {escaped(id)}: {escaped(reason)}")
    click.echo(f"{counted(len(deleted.runs), 'run')} deleted")
    for path in deleted.files:
        click.echo(f"left: {escaped(path)} was written with a case of them: write it anew")
    if not deleted.overwritten:
        reason = "the file is large or in use, so it was not written anew: copies"
        if Journal.is_url(journal.path):
            reason = "the server keeps its files as they are: copies"
        click.echo(
            f"moothall: {reason} of some rows may be left in it until `moothall runs compact`",
            err=True,
        )
