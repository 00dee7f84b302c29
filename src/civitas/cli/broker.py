"""What the commands that need a message broker have in common."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import click

from civitas.errors import ConfigError, MissingExtra
from civitas.spaces.amqp.options import AMQPOptions

if TYPE_CHECKING:
    from civitas.spaces.amqp.dead_letters import DeadLetters
    from civitas.spaces.amqp.space import AMQPSpace

__all__ = ["EXCHANGE", "broker_space", "dead_letters", "exchange_option"]

EXCHANGE: Final = "civitas"

exchange_option = click.option(
    "--exchange", metavar="E", help=f"Which exchange of the broker.  [default: {EXCHANGE}]"
)


def dead_letters(exchange: str | None) -> DeadLetters:
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

    _hush()
    try:
        return DeadLetters(AMQPOptions.from_environment(), exchange or EXCHANGE)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def broker_space(exchange: str | None, **options: Any) -> AMQPSpace:
    """A space on an exchange of the environment's broker.

    Raises:
        MissingExtra: pika is not installed
        click.UsageError: a variable, the exchange's name or an option is not what it has to be
    """
    from civitas.spaces.amqp.space import AMQPSpace

    _hush()
    try:
        return AMQPSpace(exchange=exchange or EXCHANGE, **options)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _hush() -> None:
    """What pika has to say of a failure, civitas says in one line."""
    logging.getLogger("pika").setLevel(logging.CRITICAL + 1)
