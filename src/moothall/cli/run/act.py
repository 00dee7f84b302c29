"""`moothall act`: an agent that works on the files of a folder, while a person looks on."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from moothall.agents import Shell
from moothall.agents.ready import person
from moothall.cli.interrupts import interruptible
from moothall.cli.option_types import WholeNumberType
from moothall.cli.recorded_runs import RecordedRun, execute_order
from moothall.cli.run.outcome import exit_code
from moothall.cli.run.run_display import RunDisplay
from moothall.cli.run.watch import JSONLines, Permission, carry_out, forget_keys, keyboard
from moothall.cli.shared_options import (
    SETTINGS_FILE,
    as_usage_error,
    check_all,
    json_option,
    model_option,
    read_settings,
    recording_options,
    root_option,
    run_limits,
    source_of,
)
from moothall.models import ModelName, chosen_model
from moothall.studio.orders import (
    ITERATIONS,
    ActOrder,
    act_agent,
    actions_of,
    check_journal_apart,
    check_reviewer,
    model_keys,
)

if TYPE_CHECKING:
    from moothall import Reply
    from moothall.agents import ReplyRequest

_NOT_CONFINED: Final = (
    "(not confined: bubblewrap is not installed, or does not work here, so the command can do what "
    "you can)"
)


@click.command()
@click.argument("task")
@root_option(help="The folder.  [default: .]")
@model_option(
    envvar="MOOTHALL_MODEL",
    help="Name of the model; `moothall models` lists names.  [default: local]",
)
@click.option(
    "--max-iterations",
    type=WholeNumberType(min=1),
    help=f"Limit of answers of the model.  [default: {ITERATIONS}; 1 for local]",
)
@run_limits
@click.option(
    "--yes-read/--ask-read",
    default=None,
    help="Read the folder's files without asking, or ask.  [default: without asking, unless "
    f"{SETTINGS_FILE} sets the model or the root]",
)
@click.option("--review", metavar="MODEL|me", help="Who reviews the work: a model, or you.")
@click.option("--network", is_flag=True, help="Let commands in the sandbox use the network.")
@recording_options
@json_option
def command(
    root: str | None,
    model: str | None,
    yes_read: bool | None,
    journal: str | None,
    run_id: str | None,
    as_json: bool,
    **values: Any,
) -> int:
    """Have an agent do TASK with the files of a folder.

    The command shows each step as it happens. Before the agent writes or edits a file or runs a
    command, it shows you the exact call and asks. Only `y` permits the call; `always` also permits
    the same call again, and `run` all calls of this action, until the end. Without a terminal, such
    calls are refused.

    The agent may list, read and search files without asking. It asks first with --ask-read, or if
    moothall.toml chooses the model or the folder and you do not give --yes-read. The model is sent
    what the agent reads.

    Outside the folder, only commands that you permit can read or write. In bubblewrap, a command
    reads what you can read, writes below the folder only, and has the network only with --network.
    Without bubblewrap, a command can do what you can; the question says so.

    The bundled model follows one plain instruction with one action:

    \b
    Examples:
      moothall act 'Search for "Python" in README.md'
      moothall act "List the files" --root docs
      moothall act "Fix the typos" --model openai:gpt-4o
      moothall act "Fix the typos" --review me
      moothall act "List the files" --json
      moothall act "Fix the typos" --journal ~/runs.db

    --journal records the run in a file outside the folder, with all that the model was told and
    all that the actions returned. After Ctrl-C, a limit or a crash, `moothall resume` continues
    it.

    Defaults come from MOOTHALL_MODEL and MOOTHALL_ROOT, then from moothall.toml in the current
    folder (model, root, key; at the top level or in [act]).

    Exit codes: 0 done, 1 failed or stopped,
    2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if not values["task"].strip():
        raise click.UsageError("TASK is empty")
    configured = read_settings("act")
    if yes_read is None:
        # Somebody else may have written the file with the folder: it must not be able to send
        # files to a server of its choice.
        yes_read = not (
            ("model" in configured and not model) or ("root" in configured and not root)
        )
    name, _ = chosen_model(configured, model, None)
    order = ActOrder(
        root=root or configured.get("root", "."),
        model=name,
        model_of_file="model" in configured and not model,
        yes_read=yes_read,
        **values,
    )
    # The question of a command says that it is not confined; the log would say so before all else.
    logging.getLogger("moothall").addHandler(logging.NullHandler())
    check_all(
        (source_of("root", of_file="root" in configured), partial(actions_of, order)),
        (source_of("model", of_file=order.model_of_file), ModelName(order.model).check_spelling),
        ("--review", partial(check_reviewer, order)),
        ("", partial(check_journal_apart, order, journal)),
    )
    return execute_order(run_act, order, journal, run_id, as_json)


def run_act(order: ActOrder, as_json: bool, recorded: RecordedRun | None = None) -> int:
    """Carry out an order of `moothall act`; return the exit code."""
    key, own_key = model_keys(order, read_settings("act") if order.model_of_file else {})
    with as_usage_error(source_of("root")):
        actions = actions_of(order)
    is_confined = Shell(network=order.network).is_confined
    display = make_display(
        "DualActAgent" if order.review else "",
        as_json,
        recorded,
        (action.name for action in actions if action.terminal),
        is_for_person=order.review == "me",
        model=order.model.rpartition("#")[2],
    )
    permission = Permission(display, {} if is_confined else {"run_command": _NOT_CONFINED})
    with as_usage_error():
        # Referenced here until the loop has ended, which closes the model's connections.
        agent = act_agent(
            order,
            key=key,
            own_key=own_key,
            approver=permission,
            reviewer=_terminal_person() if order.review == "me" else None,
            journal=None if recorded is None else recorded.journal,
            actions=actions,
        )
    worker = agent if order.review is None else agent.config.reactives[0]
    display.is_loaded = lambda: getattr(worker.model, "loaded", True)
    return exit_code(interruptible(carry_out(agent, permission, order, recorded)))


def make_display(
    kind: str,
    as_json: bool,
    recorded: RecordedRun | None = None,
    uncut_actions: Iterable[str] = (),
    **options: Any,
) -> RunDisplay | JSONLines:
    """Return the display for a kind of agent; results of `uncut_actions` are not cut."""
    if as_json:
        return JSONLines(recorded)
    if kind == "Researcher":
        from moothall.cli.run.research import ResearchDisplay

        return ResearchDisplay(recorded=recorded, whole_report=True)
    return RunDisplay(uncut_actions, reviews=kind == "DualActAgent", recorded=recorded, **options)


class Person(person.Person):
    """The person at the terminal; records of earlier runs have this name."""

    async def respond(self, request: ReplyRequest) -> Reply:
        """Answer a request."""
        forget_keys()
        return await super().respond(request)


def _terminal_person() -> Any:
    reader = keyboard()
    if reader is None:
        raise click.UsageError(
            "--review me: standard input is not a terminal, so nobody can be asked"
        )
    return Person("you", stdin=reader, stdout=sys.stderr)
