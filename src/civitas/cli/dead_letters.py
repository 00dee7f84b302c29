"""`civitas dead-letters`: the messages of an exchange that came to nothing."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from civitas.approval import escaped
from civitas.cli.options import EXCHANGE, exchange_option, hush_pika
from civitas.cli.run.show import one_or_more
from civitas.errors import ConfigError, MissingExtra
from civitas.spaces.amqp.options import AMQPOptions

if TYPE_CHECKING:
    from civitas.spaces.amqp.dead_letter import DeadLetter
    from civitas.spaces.amqp.dead_letters import DeadLetters

__all__ = ["command"]

_HELP = {"help_option_names": ["-h", "--help"]}


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        function
    )
    return exchange_option(function)


@click.group(invoke_without_command=True, context_settings=_HELP)
@_options
@click.pass_context
def command(ctx: click.Context, exchange: str | None, as_json: bool) -> int | None:
    """Look at the messages that came to nothing.

    They are those that waited for their agent for too long, that were in doubt after its process
    had died, or that could not be read. Without a command, they are listed.

    The broker is that of AMQP_HOST, AMQP_PORT, AMQP_USERNAME, AMQP_PASSWORD and AMQP_VHOST.

    \b
    Examples:
      civitas dead-letters
      civitas dead-letters show 0d9f2c41a07b
      civitas dead-letters resend --all
      civitas dead-letters drop 0d9f2c41a07b

    Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    ctx.obj = exchange, as_json
    if ctx.invoked_subcommand is None:
        return _list(exchange, as_json)
    return None


@command.command("list", context_settings=_HELP)
@_options
@click.pass_obj
def list_(above: tuple[str | None, bool], exchange: str | None, as_json: bool) -> int:
    """List them, the oldest first; a thousand at most."""
    return _list(exchange or above[0], as_json or above[1])


@command.command(context_settings=_HELP)
@click.argument("key")
@_options
@click.pass_obj
def show(above: tuple[str | None, bool], key: str, exchange: str | None, as_json: bool) -> int:
    """Show the one of that KEY whole."""
    with _opened(exchange or above[0]) as dead:
        letter = dead.find(key)
    if letter is None:
        return _unknown(key)
    if as_json or above[1]:
        found = _row(letter)
        if letter.message is None:
            found["body"] = letter.body.decode(errors="backslashreplace")
        click.echo(json.dumps(found, indent=2))
        return 0
    _tell_of(letter)
    if letter.message is None:
        lines = letter.body.decode(errors="backslashreplace").split("\n")
    else:
        lines = json.dumps(letter.message, indent=2, ensure_ascii=False).split("\n")
    for line in lines:
        click.echo(f"  {escaped(line)}")
    return 0


@command.command(context_settings=_HELP)
@click.argument("key", required=False)
@click.option("--all", "all_", is_flag=True, help="Each that is there now.")
@_options
@click.pass_obj
def resend(
    above: tuple[str | None, bool], key: str | None, all_: bool, exchange: str | None, as_json: bool
) -> int:
    """Send the one of that KEY, or all, to the agent it was for.

    It is a new message then, which is run even if the old one was in doubt: look first whether that
    took effect. What came as a request is answered by a message. What cannot be sent stays.
    """
    if (key is None) is not all_:
        raise click.UsageError("give either the KEY of one, or --all")
    sent: list[str] = []
    stay: dict[str, str] = {}
    as_json = as_json or above[1]
    with _opened(exchange or above[0]) as dead:
        for letter, why in dead.resend(key):
            if why is not None:
                stay[letter.key] = str(why)
                click.echo(f"civitas: {letter.key} stays: {escaped(str(why))}", err=True)
                continue
            sent.append(letter.key)
            if not as_json:
                click.echo(f"{letter.key} is sent to {escaped(letter.agent)}")
    if key is not None and not sent and not stay:
        return _unknown(key)
    if as_json:
        click.echo(json.dumps({"sent": sent, "stay": stay}, indent=2))
    elif not sent and not stay:
        click.echo("There are no dead letters.")
    return int(bool(stay))


@command.command(context_settings=_HELP)
@click.argument("key")
@_options
@click.pass_obj
def drop(above: tuple[str | None, bool], key: str, exchange: str | None, as_json: bool) -> int:
    """Remove the one of that KEY for ever."""
    with _opened(exchange or above[0]) as dead:
        found = dead.drop(key)
    if not found:
        return _unknown(key)
    click.echo(json.dumps({"dropped": key}) if as_json or above[1] else f"{key} is removed")
    return 0


def _opened(exchange: str | None) -> DeadLetters:
    """The dead letters of an exchange of the environment's broker.

    Raises:
        MissingExtra: pika is not installed
        click.UsageError: a variable or the exchange's name is not what it has to be
    """
    try:
        import pika  # noqa: F401
    except ImportError as error:
        raise MissingExtra("civitas dead-letters", "amqp") from error
    from civitas.spaces.amqp.dead_letters import DeadLetters

    hush_pika()
    try:
        return DeadLetters(AMQPOptions.from_environment(), exchange or EXCHANGE)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _list(exchange: str | None, as_json: bool) -> int:
    with _opened(exchange) as dead:
        found, more = dead.look()
    if as_json:
        rows = [_row(letter) for letter in found]
        click.echo(json.dumps({"letters": rows, "more": more}, indent=2))
        return 0
    for letter in found:
        _tell_of(letter)
    if more:
        click.echo(f"and {more:,} more, that came later")
    elif not found:
        click.echo("There are no dead letters.")
    return 0


def _unknown(key: str) -> int:
    click.echo(
        f"civitas: there is no dead letter {escaped(key)}: `civitas dead-letters` lists them",
        err=True,
    )
    return 1


def _row(letter: DeadLetter) -> dict[str, Any]:
    return {
        "key": letter.key,
        "agent": letter.agent,
        "time": letter.time,
        "reason": letter.reason,
        "type": letter.kind,
        "message_id": letter.message_id,
        "bytes": len(letter.body),
        "message": letter.message,
    }


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
