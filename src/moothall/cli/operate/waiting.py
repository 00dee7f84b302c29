"""`moothall waiting` and `answer`: what runs wait for, and the answers to that."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

import click

from moothall import ChangedArgs, ConfigError
from moothall.actions import DECISION_KINDS
from moothall.build import UnreadableText, escaped, json_line, read_json
from moothall.cli import completing
from moothall.cli.recorded_runs import next_lines
from moothall.cli.screen import typed_command
from moothall.cli.shared_options import (
    as_usage_error,
    chosen_journal,
    is_on_command_line,
    journal_option,
    json_data_option,
    open_journal,
    print_json,
)
from moothall.journal import Journal, Wait, Waits
from moothall.studio.orders import has_resume

_HASH_CHARS: Final = 12
"""So many characters of a hash are shown in a list; as few as tell it apart name it."""

_OTHER_DECISIONS: Final = """, or skip, or '{"done": RESULT}'"""
"""The other answers to a call in doubt, in the place of `repeat`."""

user_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--as", "by", metavar="NAME", help="Who answers; by default the user of this system."
)


def _for_option(permits: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of a decision that holds for more, as JSON data; empty without it."""
    kinds = [each for each in DECISION_KINDS if each.for_callers and each.permits is permits]
    by_word = {each.word: each.write(each.type()) for each in kinds}
    words = ", ".join(f"{each.word} ({each.label})" for each in kinds)
    return click.option(
        "--for",
        "for_run",
        type=click.Choice([*by_word]),
        callback=lambda context, option, word: by_word.get(word, {}),
        help=f"{'Permit' if permits else 'Refuse'} more: {words}.",
    )


@click.group(invoke_without_command=True)
@journal_option("The journal.")
@click.option(
    "--agent",
    metavar="ID",
    shell_complete=completing.agents,
    help="Only what runs of this agent wait for.",
)
@click.option("--kind", metavar="KIND", help=f"Only one kind: {', '.join(Waits.kinds)}.")
@click.option("--people", is_flag=True, help="Only what a person answers.")
@json_data_option
@click.pass_context
def waiting(
    ctx: click.Context,
    journal: str | None,
    agent: str | None,
    kind: str | None,
    people: bool,
    as_json: bool,
) -> None:
    """List what runs wait for, the longest first; show, permit and refuse what waits for you.

    Each line has the key by which `moothall answer` answers it. Without --kind, it also lists runs
    for which a program asks a person itself, who answers there, and runs that were cut off. For
    show, permit and refuse, the beginning of a hash is enough, if it is the only one that begins
    so, and so is the id of a run, if one thing waits in it.

    \b
    Examples:
      moothall waiting --journal runs.db
      moothall waiting --kind result --json
      moothall waiting show 48f3c461
      moothall waiting permit 48f3c461 --as eva --reason "checked by phone"
      moothall waiting refuse 48f3c461 --reason "too expensive"
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    ctx.obj = journal
    if ctx.invoked_subcommand is not None:
        _refuse_options_of_list(ctx)
        return
    if people and kind is not None:
        raise click.UsageError("--people and --kind exclude each other")
    kinds = Waits.of_a_person if people else kind
    with open_journal(journal) as store, as_usage_error():
        waits = store.waiting(agent=agent, kind=kinds)
        asking_runs = _asking_runs(store, agent) if kind is None else []
        stopped = [] if kinds else [*store.runs(needs_person=True, state="stopped")]
        listed_runs = {each.run for each in waits}
        results = [each for each in waits if each.kind == "result"]
        asked_runs = {e.key for e in results if e.key in store.waits.open_below(e.run)}
        stopped = [
            each for each in stopped if agent in (None, each.agent) and each.id not in listed_runs
        ]
    if as_json:
        print_json(waiting=waits, asking=asking_runs, stopped=[each.id for each in stopped])
        return
    _print_list(waits, asking_runs, store, asked_runs)
    for run in stopped:
        reason, verb = "was cut off, since its process ended", "goes on with"
        if not run.entries:  # a firing that somebody wants, while no process serves its company
            reason, verb = "has not begun", "begins"
        click.echo(f"{escaped(run.id)}\n  {escaped(run.agent)} {reason}:")
        resume = f"{typed_command('moothall', 'resume', run.id)}{_option(store)}"
        or_resume = f", or `{resume}`," if run.is_ours or has_resume(run) else ""
        click.echo(f"  its program{or_resume} {verb} it")
    if not waits and not asking_runs and not stopped:
        click.echo(f"Nothing waits{' for a person' if people else ''}.")


def _refuse_options_of_list(ctx: click.Context) -> None:
    """Raise if an option of the list stands before one of its commands, which takes none."""
    for name in ("agent", "kind", "people", "as_json"):
        if ctx.params[name]:
            option = "--json" if name == "as_json" else f"--{name}"
            raise click.UsageError(f"waiting {ctx.invoked_subcommand} takes no {option}")


def _option(journal: Journal) -> str:
    """Return the option by which a shown command names the journal as this one did."""
    if not is_on_command_line("journal"):
        return ""
    return f" {typed_command('--journal', journal.path)}"  # without the password of a URL


def _print_list(
    waits: Sequence[Wait],
    asking_runs: Sequence[dict[str, str]],
    journal: Journal,
    asked_runs: Collection[str],
) -> None:
    """Print what waits, and how each is answered; last, what a program asks a person itself."""
    for each in waits:
        option = _option(journal)
        if each.who and user_name(None) not in each.who:
            option += f" {typed_command('--as', each.who[0])}"
        is_approval = each.kind == "approval"
        key = escaped(each.key[:_HASH_CHARS] if is_approval else each.key)
        click.echo(f"{escaped(each.run)}  {key}")
        # What an asked run waits for now stands in its own line.
        shown_wait = replace(each, text="") if each.key in asked_runs else each
        click.echo(f"  {escaped(each.agent)} waits for {shown_wait}")
        if is_approval:
            click.echo(f"  moothall waiting permit {key}{option}, or refuse {key}{option}")
            continue
        if each.kind == "agents":
            continue  # it goes on once they are up
        if each.kind == "paused":
            click.echo(f"  {typed_command('moothall', 'runs', 'go-on', each.run)}{option}")
            continue
        if each.key in asked_runs:
            command = typed_command("moothall", "runs", each.key)
            click.echo(f"  it goes on once that run has ended: {command}{option}")
            continue
        value, *other_choices = each.choices or ("VALUE",)
        other_values = "".join(f", or {word}" for word in other_choices)
        if each.kind == "doubt":
            value, other_values = "repeat", _OTHER_DECISIONS
        command = typed_command("moothall", "answer", each.run, each.key)
        click.echo(f"  {command} {value}{option}{other_values}")
    for wait in asking_runs:
        run, agent, process = map(escaped, wait.values())
        click.echo(f"{run}\n  {agent} asks a person in {process}: answer it there, by its")
        click.echo("  approver, its card or its caller; the program shows it")


def _asking_runs(journal: Journal, agent: str | None) -> list[dict[str, str]]:
    """Return the runs for which a program asks a person: no command can answer that."""
    names = ("run", "agent", "process")
    rows = [dict(zip(names, each, strict=True)) for each in journal.waits.asking_processes()]
    return [each for each in rows if agent in (None, each["agent"])]


@click.command()
@click.argument("run_id", metavar="RUN", shell_complete=completing.waiting_runs)
@click.argument("key", shell_complete=completing.waiting_keys)
@click.argument("value", required=False)
@journal_option("The journal.")
@user_option
def answer(run_id: str, key: str, value: str | None, journal: str | None, by: str | None) -> None:
    """Give RUN what it waits for under KEY, as `moothall waiting` lists it.

    The beginning of an approval's key is enough. VALUE is JSON, or a text that does not begin with
    {, [ or ". An approval takes true, false or {"refused": "why"}; a question any text; a moment
    nothing; a call in doubt repeat, skip or {"done": RESULT}; a changed program fork; a run whose
    process ended each time resume or cancel. The first answer counts. The program or server that
    has the agent goes on with it, or `moothall resume`.

    \b
    Examples:
      moothall answer 79a0b5265e6033b5 batch-17 '{"rows": 12}'
      moothall answer 79a0b5265e6033b5 doubt:2.0 repeat --as eva
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    with open_journal(journal) as store:
        waits = {each.key: each.kind for each in store.waiting(run_id)}
        # Also what is answered: the same answer again is read as the first was.
        kinds = {each.key: each.kind for each in store.waits.decided(run_id=run_id)} | waits
        hashes = [each for each in kinds if kinds[each] == "approval" and each.startswith(key)]
        key = hashes[0] if key not in kinds and len(hashes) == 1 else key
        if value is None and kinds.get(key) != "moment":
            raise click.UsageError(f"VALUE is missing: give the answer to {key!r:.80}, or null")
        answer_value: Any = value
        if value is not None and not (key in kinds and Waits.kinds[kinds[key]].is_text):
            try:
                answer_value = read_json(value)
            except UnreadableText as error:
                # The first answer counts, so a slip of the pen must not be one.
                if value.lstrip()[:1] in ("{", "[", '"'):
                    raise click.UsageError(f"VALUE is no JSON, but begins so: {error}") from None
        store.answer(run_id, key, answer_value, by=user_name(by))
        lines = next_lines(store, run_id)
    outcome = "answered" if key in waits else "kept until the run asks for it, or known already"
    click.echo("\n".join([f"{outcome}: {escaped(key)} of run {escaped(run_id)}", *lines]))


@waiting.command(short_help="Show one in full.")
@click.argument("hash", shell_complete=completing.approvals)
@journal_option("The journal.")
@click.pass_obj
def show(group_journal: str | None, hash: str, journal: str | None) -> None:
    """Show the call that waits under HASH: its arguments, and where their values come from."""
    with open_journal(chosen_journal(group_journal, journal)) as store:
        wait = _wait_of(store, hash)
    click.echo(f"{escaped(wait.key)}\n  {wait}")
    fields = {"run": wait.run, "agent": wait.agent, "thread": wait.thread, "step": wait.step}
    for name, each in {**fields, "action": wait.action}.items():
        click.echo(f"  {name}: {'–' if each is None else escaped(str(each))}")
    for name, each in wait.args.items():
        click.echo(f"  {escaped(name)} = {json_line(each, escapes=True)}")
        for origin in wait.origins.get(name, ()):
            click.echo(f"    from {json_line(origin, escapes=True)}")


@waiting.command(short_help="Permit a call.")
@click.argument("hash", shell_complete=completing.approvals)
@click.option(
    "--args", "changed_args", metavar="JSON", help="Permit it with these arguments instead."
)
@_for_option(permits=True)
@click.option("--reason", metavar="TEXT", help="Why; the journal keeps it.")
@user_option
@journal_option("The journal.")
@click.pass_obj
def permit(
    group_journal: str | None,
    hash: str,
    changed_args: str | None,
    for_run: dict[str, Any],
    reason: str | None,
    by: str | None,
    journal: str | None,
) -> None:
    """Permit the call that waits under HASH."""
    if changed_args is not None and for_run:
        raise click.UsageError("--args is for this call alone: leave out --for")
    decision: Any = {} if reason is None else {"permitted": reason}
    if changed_args is not None:
        try:
            decision |= DECISION_KINDS.to_json(ChangedArgs(read_json(changed_args)))
        except (UnreadableText, ConfigError) as error:
            raise click.UsageError(f"--args must be a JSON object: {error}") from None
    _decide(chosen_journal(group_journal, journal), hash, decision | for_run or True, by)


@waiting.command(short_help="Refuse a call.")
@click.argument("hash", shell_complete=completing.approvals)
@_for_option(permits=False)
@click.option("--reason", metavar="TEXT", default="", help="Why; the model is told.")
@user_option
@journal_option("The journal.")
@click.pass_obj
def refuse(
    group_journal: str | None,
    hash: str,
    for_run: dict[str, Any],
    reason: str,
    by: str | None,
    journal: str | None,
) -> None:
    """Refuse the call that waits under HASH."""
    if reason and for_run:
        raise click.UsageError("--reason is for this call alone: leave out --for")
    decision = {"refused": reason} if reason else False
    _decide(chosen_journal(group_journal, journal), hash, for_run or decision, by)


def _decide(journal: str | None, hash: str, decision_json: Any, by: str | None) -> None:
    decision = DECISION_KINDS.read(decision_json)
    kind = DECISION_KINDS.kind_of(decision)
    with open_journal(journal) as store:
        wait = _wait_of(store, hash, store.waits.decided())
        if wait.kind != "approval":
            raise click.UsageError(
                f"{wait.key} is {wait}: give `moothall answer {wait.run} {wait.key} VALUE`"
            )
        if kind and kind.word and wait.text:
            problem = f"--for {kind.word} is for a call without warnings, unlike {wait}"
            raise click.UsageError(problem)
        store.answer(wait.run, wait.key, decision_json, by=user_name(by))
        lines = next_lines(store, wait.run)
        if wait.answered is not None:
            lines.insert(0, f"{wait.by or 'somebody'} had answered so before")
    click.echo("\n".join([f"{DECISION_KINDS.outcome_of(decision)}: {wait}", *lines]))


def _wait_of(journal: Journal, hash: str, decided_waits: Sequence[Wait] = ()) -> Wait:
    """Return what waits under the beginning of a hash, or else waited: it says who answered.

    The id of a run stands for what waits in it.
    """

    def matching(waits: Sequence[Wait]) -> list[Wait]:
        by_run = [each for each in waits if each.run == hash]
        return by_run or [each for each in waits if each.key.startswith(hash)]

    waits = matching(journal.waiting(kind=Waits.of_a_person)) or matching(decided_waits)
    if len(waits) != 1:
        problem = f"{len(waits):,} of them begin so" if waits else "nothing waits under it"
        raise click.UsageError(f"HASH {hash!r:.80}: {problem}; `moothall waiting` lists what waits")
    return waits[0]


def user_name(name: str | None) -> str:
    """Return a name that was given, or that of the user of this system."""
    if name is not None:
        return name
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return "operator"
