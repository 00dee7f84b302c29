"""`moothall studio`: the page in the browser, with agents to talk to."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from moothall import MissingExtra, MoothallError, NativeSpace
from moothall.build import is_journal_file
from moothall.cli.interrupts import raise_on_interrupt
from moothall.cli.option_types import WholeNumberType
from moothall.cli.own_agents import ChatParticipants, add_agent, participant_options
from moothall.cli.serving.broker_commands import BrokerOptions, broker_options
from moothall.cli.shared_options import as_usage_error, journal_option
from moothall.studio import PORT, Studio
from moothall.studio.orders import order_of_tables

_PASSWORD = "MOOTHALL_STUDIO_PASSWORD"
_MAX_LOOKED_AT: Final = 1_000
"""So many names of a folder are looked at: it may be somebody's home."""
_MAX_TOLD: Final = 3


@click.command()
@click.option("--port", type=WholeNumberType(0, 65535), default=PORT, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help=f"Address to listen at. Other than loopback needs a password in {_PASSWORD}.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Address by which people reach the studio through a proxy, such as "
    f"https://agents.example/hall/. It needs a password in {_PASSWORD}.",
)
@click.option(
    "--trusted-proxy",
    "--proxy",
    "proxies",
    metavar="ADDRESS",
    multiple=True,
    help="Address or network of a proxy whose X-Forwarded-For is believed; may be repeated.",
)
@participant_options
@journal_option("Journal that runs are recorded in and read from.")
@click.option(
    "--town",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Open with the town of `moothall simulate --out DIR`, and have it live again.",
)
@partial(broker_options, opt_in_arguments=())
@click.option("--name", metavar="ID", default="User", show_default=True, help="Your id there.")
def command(
    port: int,
    host: str,
    public_url: str | None,
    proxies: tuple[str, ...],
    journal: str | None,
    town: str | None,
    broker: BrokerOptions,
    name: str,
    **agent_options: Any,
) -> int:
    """Serve a web page to chat, review and watch.

    Open the page with the printed address, which contains a token; only this machine can reach it.
    On the page you talk with Chatty, Host (whose actions ask you first) and your own agents; with a
    larger model than the bundled one also with FunctionAI. You start work on a folder, research and
    societies there, and see all runs of the journal, also those of other commands. Without the
    weights of the bundled one it says what to fetch, and all else is there.

    \b
    Examples:
      moothall studio
      moothall studio --port 9000 --journal runs.db
      moothall studio --town town
      moothall studio --agent my_agents:Calculator
      moothall studio --amqp --name Ann

    Runs are recorded in --journal, MOOTHALL_JOURNAL, or studio.db in your state folder
    (~/.local/state/moothall). Closing the page stops nothing. Ctrl-C stops the studio and its runs,
    which can be resumed later. MOOTHALL_STUDIO_TOKEN sets a token of your own.

    Exit codes: 0 ended by Ctrl-C, 1 failed, 2 wrong usage.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    MissingExtra.unless("moothall studio", "studio", "fastapi", "uvicorn", "websockets")
    logging.getLogger("moothall").addHandler(logging.NullHandler())
    with as_usage_error():
        order = None if town is None else order_of_tables(town)
    hints = [*_what_lies_here(with_journals=journal is None, with_towns=town is None)]
    participants = ChatParticipants.of(name, broker.is_chosen, **agent_options)
    hidden_id = "FunctionAI" if participants.has_small_model else None
    members = [each for each in participants.members if each.id != hidden_id]
    studio = Studio(name)
    if order is not None:
        studio.opens = studio.society.name
    try:
        with broker.space() if broker.is_chosen else NativeSpace() as space:
            space.add(studio.user)
            with as_usage_error():
                address = studio.launch(
                    port,
                    host,
                    journal=journal,
                    public_url=public_url,
                    proxies=proxies,
                    password=os.environ.get(_PASSWORD),
                    prevent_thread_lock=True,
                    quiet=True,
                )
            if order is not None:
                with as_usage_error():
                    studio.society.set_up(order)
            for each in members:
                if getattr(each, "journal", studio) is None:  # it can record, without a journal
                    each.journal = studio.journal  # type: ignore[attr-defined]
                add_agent(space, each)
            with raise_on_interrupt():
                for text in (*studio.faults, *hints):
                    print(f"moothall studio: {text}", file=sys.stderr)
                studio.wait(f"moothall studio: {address}")
    finally:
        studio.close()
        participants.close()
    return 0


def _what_lies_here(*, with_journals: bool, with_towns: bool) -> Iterator[str]:
    """Return in a line each which options open what lies in this folder, and is not open."""
    journals, towns = [], []
    with suppress(OSError):  # a folder without rights has nothing to tell
        for each in islice(Path().iterdir(), _MAX_LOOKED_AT):
            if with_journals and each.is_file() and is_journal_file(each):
                journals.append(each.name)
            elif with_towns and (each / "manifest.json").is_file():
                with suppress(MoothallError):
                    order_of_tables(each)
                    towns.append(each.name)
    for option, kind, names in (("journal", "a journal", journals), ("town", "a town", towns)):
        for name in sorted(names)[:_MAX_TOLD]:
            yield f"{name!r} is {kind} in this folder: --{option} {shlex.quote(name)} opens it"
