"""`civitas dead-letters`: list the dead letters of an exchange, and send them again."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

import click

from civitas.approval import escaped
from civitas.cli.options import EXCHANGE, exchange_option, hush_pika, usage
from civitas.cli.run.show import one_or_more
from civitas.errors import MissingExtra
from civitas.spaces.amqp.options import AMQPOptions

if TYPE_CHECKING:
    from civitas.spaces.amqp.dead_letters import DeadLetter, DeadLetters

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(invoke_without_command=True, context_settings=_HELP)
@exchange_option
@click.pass_context
def command(ctx: click.Context, exchange: str | None) -> int | None:
    """Inspect and resend dead-lettered messages.

    They are messages that waited for their agent for too long, whose outcome is unknown since their
    agent's process died, or that could not be read. Without a command, they are listed.

    The broker is that of AMQP_HOST, AMQP_PORT, AMQP_USERNAME, AMQP_PASSWORD and AMQP_VHOST. To
    remove messages, purge the queue EXCHANGE.dead-letters with the broker's own tools.

    \b
    Examples:
      civitas dead-letters
      civitas dead-letters resend --all

    Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    ctx.obj = exchange
    return _list(exchange) if ctx.invoked_subcommand is None else None


@command.command("list", context_settings=_HELP)
@exchange_option
@click.pass_obj
def list_(above: str | None, exchange: str | None) -> int:
    """List them, the oldest first; a thousand at most."""
    return _list(exchange or above)


@command.command(context_settings=_HELP)
@click.argument("key", required=False)
@click.option("--all", "all_", is_flag=True, help="Each that is there now.")
@exchange_option
@click.pass_obj
def resend(above: str | None, key: str | None, all_: bool, exchange: str | None) -> int:
    """Send the one of that KEY, or all, to the agent it was for.

    It is a new message then, which is run even if the outcome of the old one is unknown: look first
    whether that took effect. What came as a request is answered by a message. What cannot be sent
    stays.
    """
    if (key is None) is not all_:
        raise click.UsageError("give either the KEY of one, or --all")
    sent = stay = 0
    with _opened(exchange or above) as dead:
        for letter, why in dead.resend(key):
            if why is None:
                sent += 1
                click.echo(f"{letter.key} is sent to {escaped(letter.agent)}")
            else:
                stay += 1
                click.echo(f"civitas: {letter.key} stays: {escaped(str(why))}", err=True)
    if key is not None and not sent and not stay:
        click.echo(
            f"civitas: there is no dead letter {escaped(key)}: `civitas dead-letters` lists them",
            err=True,
        )
        return 1
    if not sent and not stay:
        click.echo("There are no dead letters.")
    return int(stay > 0)


def _opened(exchange: str | None) -> DeadLetters:
    """The dead letters of an exchange of the environment's broker."""
    try:
        import pika  # noqa: F401
    except ImportError as error:
        raise MissingExtra("civitas dead-letters", "amqp") from error
    from civitas.spaces.amqp.dead_letters import DeadLetters

    hush_pika()
    with usage():
        return DeadLetters(AMQPOptions.from_environment(), exchange or EXCHANGE)


def _list(exchange: str | None) -> int:
    with _opened(exchange) as dead:
        found, more = dead.look()
    for letter in found:
        _tell_of(letter)
    if more:
        click.echo(f"and {more:,} more, that came later")
    elif not found:
        click.echo("There are no dead letters.")
    return 0


def _tell_of(letter: DeadLetter) -> None:
    message = letter.message if isinstance(letter.message, dict) else {}
    action = message.get("action")
    name = action.get("name") if isinstance(action, dict) else None
    size = one_or_more(len(letter.body), "byte")
    what = f'"{name}", {size}' if isinstance(name, str) else size
    click.echo(letter.key)
    _tell(f"{letter.kind or 'message'} to {letter.agent or '?'} from {message.get('from', '?')}")
    _tell(what)
    _tell(f"{letter.time or 'some time'}: {letter.reason or 'nobody says why'}")


def _tell(text: str) -> None:
    width = max(20, shutil.get_terminal_size().columns)
    click.echo(textwrap.fill(escaped(text), width, initial_indent="  ", subsequent_indent="    "))
