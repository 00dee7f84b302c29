"""`moothall chat`: talk with agents in a space at the terminal."""

from __future__ import annotations

import asyncio
import secrets
import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

import click

from moothall import Agent, NativeSpace
from moothall.build import Space, state_file
from moothall.cli.chat.console import Console, PlainConsole, TerminalConsole
from moothall.cli.chat.session import Session
from moothall.cli.interrupts import interruptible, on_interrupt
from moothall.cli.option_types import NonEmptyText
from moothall.cli.own_agents import ChatParticipants, participant_options
from moothall.cli.serving.broker_commands import BrokerOptions, broker_options
from moothall.cli.shared_options import journal_option, recording_agents


@click.command()
@participant_options
@journal_option("File in which the agents' replies are recorded.")
@click.option("--no-history", is_flag=True, help="Do not keep typed lines for the next time.")
@partial(broker_options, opt_in_arguments=("name",))
@click.option(
    "--name",
    metavar="ID",
    type=NonEmptyText(),
    help="Your id on the exchange; must be unique.  [default: USER-xxxx]",
)
def command(
    journal: str | None,
    no_history: bool,
    broker: BrokerOptions,
    name: str | None,
    **agent_options: Any,
) -> int:
    """Talk with agents at the terminal.

    Chatty answers with the model. FunctionAI's model may call the actions of the others. Host
    offers the files of a folder and shell commands, and asks you first. --agent adds your own.

    \b
    Hello                        say it to everybody
    /Chatty.say content:"Hello"  say it to one agent
    /Host.list_files             call an action
    /help or ?                   show what you can type
    /quit or /exit               leave

    The bundled model is too small to call actions. With it, FunctionAI hears only what you say to
    it by name, and the program itself answers first questions such as "what can you do?".

    --journal records the replies of FunctionAI and of your agents that can be recorded: `moothall
    runs` lists them, `moothall replay` shows one again.

    --amqp lets you talk with the agents of all processes of an exchange, under an id of your own.
    Each keeps a separate conversation with you. AMQP_HOST, AMQP_PORT, AMQP_USERNAME, AMQP_PASSWORD
    and AMQP_VHOST name the broker. Chatty and FunctionAI then come only with --model, Host only
    with --root.

    Tab completes, Ctrl-C stops waiting for an answer, Ctrl-D leaves. Without a terminal, the
    command reads lines from standard input and refuses what needs your permission; it exits with 1
    if a line was not a message or failed.

    \b
    Examples:
      moothall chat
      moothall chat --model openai:gpt-4o-mini
      moothall chat --agent my_agents:Calculator
      moothall chat --amqp --name Ann
      echo '/*.help' | moothall chat

    Defaults come from MOOTHALL_MODEL, MOOTHALL_ROOT and MOOTHALL_AGENTS, then from moothall.toml in
    the current folder (model, root, key, agents; at the top level or in [chat]).
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    person_id = name or (f"USER-{secrets.token_hex(2).upper()}" if broker.is_chosen else "You")
    participants = ChatParticipants.of(person_id, broker.is_chosen, **agent_options)
    chat = Session(participants.has_small_model, person_id)
    chat.notes += participants.notes
    try:
        with recording_agents(participants.members, journal, "everybody whom you bring"):
            return interruptible(_run_session(chat, participants.members, not no_history, broker))
    finally:
        participants.close()


async def _run_session(
    chat: Session, members: list[Agent], keeps_history: bool, broker: BrokerOptions
) -> int:
    console: Console = PlainConsole()
    if _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
        history_path = None
        if keeps_history:
            try:
                history_path = state_file("chat-history")
            except RuntimeError as error:
                chat.notes.append(f"(no history: {error})")
        console = TerminalConsole(chat.complete, chat.interrupt, history_path)
    space: Space = (
        broker.space(approver=console.approver, on_connection=chat.on_connection)
        if broker.is_chosen
        else NativeSpace(approver=console.approver)
    )
    stop = partial(asyncio.get_running_loop().call_soon_threadsafe, chat.interrupt)
    # Without a person at the terminal, Ctrl-C ends the chat.
    ctrl_c = on_interrupt(stop, every_time=True) if console.is_interactive else nullcontext()
    async with space:
        with ctrl_c:
            return await chat.run(console, space, members)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
