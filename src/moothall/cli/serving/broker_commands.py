"""Commands over a message broker: serving over RabbitMQ, and `moothall dead-letters`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import click

from moothall import Agent, AMQPOptions, MissingExtra, Waiting
from moothall.build import counted, escaped
from moothall.cli.interrupts import stop_on_signals
from moothall.cli.option_types import NonEmptyText
from moothall.cli.own_agents import add_agent, named_agent
from moothall.cli.serving.logs import log_to_stderr
from moothall.cli.shared_options import as_usage_error, print_text, recording_agents

if TYPE_CHECKING:
    from moothall import AMQPSpace
    from moothall.spaces import DeadLetter, DeadLetters

EXCHANGE: Final = "moothall"
GRACE_S: Final = 30.0
_POLL_INTERVAL_S: Final = 1.0


def _broker_option(setting: Field[Any]) -> Callable[..., Any]:
    """Return the option that says a field of `AMQPOptions`: a flag, or a file."""
    kind: dict[str, Any] = {"metavar": "PEM", "type": click.Path(dir_okay=False)}
    if setting.default is False:
        kind = {"is_flag": True}
    name = f"--{setting.name.replace('_', '-')}"
    return click.option(name, help=setting.metadata["help"], **kind)


_OPTIONS: Final = {
    "exchange": click.option(
        "--exchange",
        metavar="E",
        type=NonEmptyText(),
        help=f"Exchange of the broker.  [default: {EXCHANGE}]",
    ),
    **{each.name: _broker_option(each) for each in fields(AMQPOptions) if each.metadata["help"]},
}
"""The options by their arguments: the exchange, and arguments of `AMQPOptions`."""
_BROKER_OPTION_NAMES: Final = "--quorum, --use-ssl and the certificates"
_AMQP_FLAG = click.option(
    "--amqp", is_flag=True, help="Talk with agents of other processes over RabbitMQ."
)
_QUORUM_FLAG = click.option("--quorum", is_flag=True, help="Replicate the queues in a cluster.")


@dataclass(frozen=True)
class BrokerOptions:
    """What a command line says about the broker and the exchange; the environment says the rest."""

    exchange: str | None
    quorum: bool
    amqp_arguments: dict[str, Any]  # arguments of `AMQPOptions`
    is_chosen: bool = True  # whether a command that needs no broker goes over one

    @property
    def name(self) -> str:
        """The name of the exchange."""
        return self.exchange or EXCHANGE

    def options(self) -> AMQPOptions:
        """Return how to reach the broker."""
        with as_usage_error():
            return AMQPOptions.from_environment(**self.amqp_arguments)

    def within(self, group: BrokerOptions) -> BrokerOptions:
        """Return this, where it says nothing, as the group before the command says."""
        exchange = self.exchange or group.exchange
        return BrokerOptions(
            exchange, self.quorum or group.quorum, group.amqp_arguments | self.amqp_arguments
        )

    def check(self, over_broker: bool, option: str, other_options: dict[str, bool]) -> None:
        """Refuse options of a broker where the command goes over none: they need `option`.

        `other_options` are further such options of the command, each with whether it is given.
        """
        has_options = self.exchange is not None or self.quorum or bool(self.amqp_arguments)
        if not over_broker and (has_options or any(other_options.values())):
            options = ", ".join(("--exchange", *other_options, _BROKER_OPTION_NAMES))
            raise click.UsageError(f"{options} are for {option}")

    def space(self, **options: Any) -> AMQPSpace:
        """Return a space there."""
        from moothall.spaces import space_over_broker

        place = {"exchange": self.name, "quorum": self.quorum}
        with as_usage_error():
            return space_over_broker(self.amqp_arguments, **place, **options)


def broker_options(
    function: Callable[..., Any],
    *,
    quorum: bool = True,
    opt_in_arguments: tuple[str, ...] | None = None,
) -> Callable[..., Any]:
    """Add the options that name the broker, and pass them as one, `broker`.

    With `opt_in_arguments`, those of the command that are for a broker, too, it goes over a broker
    only if a person says so, by an option that is added as well.
    """

    @wraps(function)
    def command(*args: Any, exchange: str | None, quorum: bool = False, **kwargs: Any) -> Any:
        options = {name: kwargs.pop(name) for name in _OPTIONS if name != "exchange"}
        options_set = {name: value for name, value in options.items() if value not in (None, False)}
        is_chosen = opt_in_arguments is None or kwargs.pop("amqp")
        broker = BrokerOptions(exchange, quorum, options_set, is_chosen)
        other_options = {f"--{name}": kwargs[name] is not None for name in opt_in_arguments or ()}
        broker.check(is_chosen, "--amqp", other_options)
        return function(*args, broker=broker, **kwargs)

    opt_in = () if opt_in_arguments is None else (_AMQP_FLAG,)
    decorated: Callable[..., Any] = command
    for option in reversed((*opt_in, *_OPTIONS.values(), *((_QUORUM_FLAG,) if quorum else ()))):
        decorated = option(decorated)
    return decorated


def serve_over_broker(
    agents: Sequence[str],
    id: str | None,
    description: str | None,
    broker: BrokerOptions,
    inbox: str | None,
    shared: bool,
    journal: str | None,
    grace: float,
) -> int:
    """Serve an agent over RabbitMQ, until Ctrl-C."""
    if len(agents) > 1:
        raise click.UsageError(
            "one process serves one agent over RabbitMQ: start one for each, or serve a company "
            "(FILE.yaml) of several; --http serves several, too"
        )
    agent = named_agent(agents[0], id, "MODULE:AGENT", description)
    with recording_agents((agent,), journal, agents[0]):
        log_to_stderr()
        # What nobody decides here waits in the journal, if there is one.
        approver = None if getattr(agent, "journal", None) is None else Waiting()
        space = broker.space(inbox=inbox, grace=grace, approver=approver)
        return asyncio.run(_serve(agent, space, broker, grace, shared))


async def _serve(
    agent: Agent, space: AMQPSpace, broker: BrokerOptions, grace: float, shared: bool
) -> int:
    from moothall.agents import ResumeHost, Resumer

    stopped = asyncio.Event()
    is_serving = False

    def stop() -> bool:
        # An exit at once waits for no action in a thread, and not for the broker, which sees the
        # connection end, and gives the id and the messages to the next process.
        if is_serving:
            stopped.set()
        return is_serving

    stop_on_signals(stop)
    try:
        await asyncio.to_thread(add_agent, space, agent, shared=shared)
        is_serving = True
        id = escaped(str(agent.id))
        address = broker.options().address
        print_served(f"{id} is served at {address}, exchange {broker.name}. Ctrl-C ends it.")
        async with Resumer(ResumeHost(agent)):
            # No event tells that the agent has left, or that another process has taken its id.
            while not stopped.is_set() and space.ids():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_INTERVAL_S):
                        await stopped.wait()
        if not stopped.is_set():
            click.echo(f"moothall: {id} is in its space no longer", err=True)
            return 1
        busy = space.statistics()["agents"].get(str(agent.id), {}).get("handling")
        if busy:
            actions = escaped(", ".join(sorted(busy)))
            print_served(f"{id} finishes {actions}, within {grace:g} s. Ctrl-C ends it at once.")
    finally:
        await asyncio.to_thread(space.close)
    print_served(f"{id} has stopped.")
    return 0


def print_served(text: str) -> None:
    """Print what a server does."""
    with suppress(OSError):  # a closed output is no reason to end
        print(text, flush=True)


# -- dead letters ----------------------------------------------------------------------------------


@click.group(invoke_without_command=True)
@partial(broker_options, quorum=False)
@click.pass_context
def dead_letters(ctx: click.Context, broker: BrokerOptions) -> None:
    """Inspect and resend dead-lettered messages.

    A message is dead-lettered if it waited too long for its agent, if its outcome is unknown
    because its agent's process died, or if it could not be read. Without a command, list them, the
    oldest first, a thousand at most.

    AMQP_HOST, AMQP_PORT, AMQP_USERNAME, AMQP_PASSWORD and AMQP_VHOST name the broker. To remove
    messages, purge the queue EXCHANGE.dead-letters with the broker's own tools.

    \b
    Examples:
      moothall dead-letters
      moothall dead-letters resend --all
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    ctx.obj = broker
    if ctx.invoked_subcommand is not None:
        return
    with _dead_letters_of(broker) as store:
        letters, later_count = store.look()
    for letter in letters:
        _print_letter(letter)
    if later_count:
        click.echo(f"and {later_count:,} later ones")
    elif not letters:
        click.echo("There are no dead letters.")


@dead_letters.command(short_help="Resend a dead letter, or all.")
@click.argument("key", required=False)
@click.option("--all", "all_", is_flag=True, help="Resend all dead letters.")
@partial(broker_options, quorum=False)
@click.pass_obj
def resend(group: BrokerOptions, key: str | None, all_: bool, broker: BrokerOptions) -> int:
    """Resend the dead letter KEY, or all, to the agents they were sent to.

    A resent letter is a new message and is handled even if the outcome of the first is unknown:
    check first whether that took effect. A request is answered by a message. Letters that cannot be
    sent stay.
    """
    if (key is None) is not all_:
        raise click.UsageError("give either a KEY or --all")
    sent_count = kept_count = 0
    with _dead_letters_of(broker.within(group)) as store:
        for letter, reason in store.resend(key):
            if reason is None:
                sent_count += 1
                click.echo(f"{letter.key} is sent to {escaped(letter.agent)}")
            else:
                kept_count += 1
                click.echo(f"moothall: {letter.key} stays: {escaped(str(reason))}", err=True)
    if key is not None and not sent_count and not kept_count:
        click.echo(
            f"moothall: there is no dead letter {escaped(key)}: `moothall dead-letters` lists them",
            err=True,
        )
        return 1
    if not sent_count and not kept_count:
        click.echo("There are no dead letters.")
    return int(kept_count > 0)


def _dead_letters_of(broker: BrokerOptions) -> DeadLetters:
    MissingExtra.unless("moothall dead-letters", "amqp", "pika")
    from moothall.spaces import DeadLetters

    logging.getLogger("pika").setLevel(logging.CRITICAL + 1)  # it logs a traceback
    options = broker.options()
    with as_usage_error():
        return DeadLetters(options, broker.name)


def _print_letter(letter: DeadLetter) -> None:
    message = letter.message if isinstance(letter.message, dict) else {}
    action = message.get("action")
    name = action.get("name") if isinstance(action, dict) else None
    size = counted(len(letter.body), "byte")
    description = f'"{name}", {size}' if isinstance(name, str) else size
    click.echo(letter.key)
    print_text(
        f"{letter.kind or 'message'} to {letter.agent or '?'} from {message.get('from', '?')}"
    )
    print_text(description)
    print_text(f"{letter.time or 'some time'}: {letter.reason or 'reason unknown'}")
