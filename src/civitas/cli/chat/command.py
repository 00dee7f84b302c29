"""`civitas chat`: talk with agents in a space at the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import click

from civitas.agent import Agent
from civitas.agents.chatty import ChattyAI
from civitas.agents.function import OpenAIFunctionAgent
from civitas.agents.host import Host
from civitas.approval import escaped
from civitas.cli.chat.console import Console, PlainConsole
from civitas.cli.chat.session import Session
from civitas.cli.completion import folders, models
from civitas.cli.named_agents import named_agent, permitted_agents
from civitas.cli.options import (
    FILE,
    broker_space,
    exchange_option,
    journal_option,
    recorded,
    settings,
    usage,
)
from civitas.journal.place import state_file
from civitas.orders.act import is_small
from civitas.orders.models import chosen_model, made_model
from civitas.spaces.native import NativeSpace
from civitas.spaces.space import Space


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--model",
    "model_name",
    metavar="MODEL",
    envvar="CIVITAS_MODEL",
    shell_complete=models,
    help="The agents' model; `civitas models` lists them.  [default: local]",
)
@click.option(
    "--root",
    metavar="DIR",
    envvar="CIVITAS_ROOT",
    shell_complete=folders,
    help="The folder that the host's files are in.  [default: .]",
)
@click.option(
    "--agent",
    "agents",
    metavar="MODULE:NAME",
    multiple=True,
    envvar="CIVITAS_AGENTS",
    help="An agent of yours: an agent, a class or a function that makes one. May be repeated.",
)
@journal_option("A file to record what agents reply in, and what they do for it.")
@click.option("--network", is_flag=True, help="Give the host's commands the network.")
@click.option("--no-history", is_flag=True, help="Keep no lines for the next time.")
@click.option("--amqp", is_flag=True, help="Join the agents of other processes, over a broker.")
@exchange_option
@click.option(
    "--name", metavar="ID", help="Who you are there: an id is of one alone.  [default: You]"
)
@click.pass_context
def command(
    ctx: click.Context,
    model_name: str | None,
    root: str | None,
    agents: tuple[str, ...],
    journal: str | None,
    network: bool,
    no_history: bool,
    amqp: bool,
    exchange: str | None,
    name: str | None,
) -> int:
    """Talk with agents at the terminal.

    There are Chatty, who answers with the model, FunctionAI, whose model may call what the others
    offer, Host, who offers the files below a folder and shell commands and asks you first, and the
    agents that you name. You are You.

    \b
    Hello                        said to all
    /Chatty.say content:"Hello"  to one
    /*.help                      what they can do
    /Host.list_files

    The small model in the box is not up to calling anything: with it, FunctionAI hears only what is
    said to it by name.

    With --journal the replies of FunctionAI and of your agents that may have a journal are
    recorded: `civitas runs` lists them, `civitas replay` repeats one.

    With --amqp you talk with the agents of every process of an exchange of the broker that
    AMQP_HOST, AMQP_PORT, AMQP_USERNAME, AMQP_PASSWORD and AMQP_VHOST say. You come alone, and bring
    only whom the command line names: Chatty and FunctionAI by --model, Host by --root, your own by
    --agent.

    Tab completes, Ctrl-C stops waiting for an answer, Ctrl-D ends. Without a terminal, lines are
    read from standard input, and what asks first is refused; the exit code is then 1 if a line was
    no message or failed.

    \b
    Examples:
      civitas chat
      civitas chat --model openai:gpt-4o-mini
      civitas chat --agent my_agents:Calculator
      civitas chat --amqp --name Ann
      echo '/*.help' | civitas chat

    What is left out is taken from CIVITAS_MODEL, CIVITAS_ROOT and CIVITAS_AGENTS, else from
    civitas.toml in the current folder (model, root, key, agents; at the top or in [chat]).

    Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if not amqp and (exchange is not None or name is not None):
        raise click.UsageError("--exchange and --name are for --amqp")
    me = name or "You"
    brought = _brought(ctx, amqp)
    said = settings("chat")
    chosen, key = chosen_model(said, model_name, os.environ.get("CIVITAS_KEY"))
    listed = list(agents) or permitted_agents(said.get("agents", [])) if "agents" in brought else []
    with usage():
        model = made_model(chosen, key) if "model_name" in brought else None
    small = is_small(chosen)
    own = [named_agent(each) for each in listed]
    if "root" in brought:
        with usage(f"--root, CIVITAS_ROOT or {FILE}"):
            own.insert(0, Host("Host", root or said.get("root", "."), network=network))
    chat = Session({"FunctionAI"} if small else set(), me, shared=amqp)
    members: list[Agent] = own
    if model is not None:
        # Chatty has nothing to call, and is busy whenever something is said to all.
        called = [str(each.id) for each in own]
        function = OpenAIFunctionAgent("FunctionAI", model, user_id=me, discover=called)
        members = [ChattyAI("Chatty", model), function, *own]
        if small:
            chat.notes.append(
                "FunctionAI wants a larger model than this one, and hears only what is said to it "
                "by name."
            )
        if not model_name and "model" in said:
            chat.notes.append(f"{FILE} says that the model is {escaped(chosen)}.")
    try:
        with recorded(members, journal, "everybody whom you bring"):
            return asyncio.run(_run(chat, members, not no_history, amqp, exchange))
    finally:
        close = getattr(model, "close", None)
        if callable(close):
            close()


def _brought(ctx: click.Context, amqp: bool) -> set[str]:
    """By which parameters the chat brings agents; to those of others, only by what was typed."""
    bringing = {"model_name", "root", "agents"}
    if not amqp:
        return bringing
    typed = click.core.ParameterSource.COMMANDLINE
    return {each for each in bringing if ctx.get_parameter_source(each) is typed}


async def _run(
    chat: Session, members: list[Agent], history: bool, amqp: bool, exchange: str | None
) -> int:
    console: Console = PlainConsole()
    if _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
        from civitas.cli.chat.terminal_console import TerminalConsole

        kept = None
        if history:
            try:
                kept = state_file("chat-history")
            except RuntimeError as error:
                chat.notes.append(f"(no history: {error})")
        console = TerminalConsole(chat.complete, chat.interrupt, kept)
    space: Space = (
        broker_space(exchange, approver=console.approver, on_connection=chat.told)
        if amqp
        else NativeSpace(approver=console.approver)
    )
    async with space:
        return await chat.run(console, space, members)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
