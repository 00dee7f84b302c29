"""`moothall serve`: agents behind a message broker, an HTTP server, or standard streams."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from moothall import ConfigError, MissingExtra
from moothall.budget import RUN_LIMITS, Budget, Per
from moothall.cli.exit_codes import NotBegun
from moothall.cli.interrupts import interruptible, stop_on_signals
from moothall.cli.option_types import FileToWrite, NumberType, OneOf, WholeNumberType
from moothall.cli.own_agents import named_agent
from moothall.cli.serving.broker_commands import (
    GRACE_S,
    BrokerOptions,
    broker_options,
    serve_over_broker,
)
from moothall.cli.serving.logs import log_options, log_to_stderr
from moothall.cli.serving.serve_company import is_company, serve_company
from moothall.cli.shared_options import (
    as_usage_error,
    is_on_command_line,
    journal_option,
    limit_options,
    make_journal,
    recording_agents,
)

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.journal import Journal
    from moothall.serving.doors import HTTPServer

_RUN_LIMITS: Final = {name: limit for name, limit in RUN_LIMITS.items() if limit.bounds_asking}
_LIMIT_OPTIONS: Final = [f"--{name.replace('_', '-')}" for name in _RUN_LIMITS]


@click.command()
@click.argument("agents", metavar="MODULE:AGENT...|FILE.yaml", nargs=-1, required=True)
@click.option("--id", metavar="ID", help="The agent's id.  [default: the class's name]")
@click.option(
    "--description",
    metavar="TEXT",
    help="What the agent is good for: in its card, and for models that may ask it.",
)
@click.option(
    "--http", metavar="HOST:PORT", help="Serve over HTTP: MCP at /mcp, OpenAI's interface at /v1."
)
@click.option("--mcp-stdio", is_flag=True, help="Speak MCP on standard input and output.")
@click.option(
    "--token",
    metavar="TOKEN",
    envvar="MOOTHALL_TOKEN",
    help="Secret that callers state over HTTP.  [default: MOOTHALL_TOKEN]",
)
@click.option(
    "--callers",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="In place of --token: file with a caller in each line: name, token and, for who may permit"
    " calls, `approves`.",
)
@limit_options(lambda limit: f"Limit of {limit.unit} of each caller.", _RUN_LIMITS)
@click.option(
    "--per",
    type=OneOf(get_args(Per)),
    help=f"Renew these limits each {' or '.join(get_args(Per))}.",
)
@click.option(
    "--rate", type=WholeNumberType(min=1), help="Requests that each caller may make in a minute."
)
@click.option(
    "--max-replies",
    type=WholeNumberType(min=1),
    help="Replies at a time, to all callers together; more are refused as busy.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Address by which callers reach it through a proxy, such as https://agents.example/.",
)
@click.option(
    "--trusted-proxy",
    "proxies",
    metavar="ADDRESS",
    multiple=True,
    help="Address or network of a proxy whose X-Forwarded-For is believed; may be repeated.",
)
@click.option(
    "--origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="Origin of web pages that may call it, such as https://app.example; may be repeated.",
)
@broker_options
@click.option(
    "--inbox",
    metavar="PATH",
    type=FileToWrite(),
    help="File in which this process remembers messages.  [default: in memory]",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Let other processes serve the same id: each message goes to one of them.",
)
@journal_option("File in which replies are recorded, so that they continue after a crash.")
@click.option(
    "--grace",
    metavar="SECONDS",
    type=NumberType("seconds", min=0, max=1e6),
    default=GRACE_S,
    show_default=True,
    help="Seconds for running actions to finish at shutdown.",
)
@log_options
def command(
    agents: tuple[str, ...],
    id: str | None,
    description: str | None,
    http: str | None,
    mcp_stdio: bool,
    token: str | None,
    callers: str | None,
    per: Per | None,
    rate: int | None,
    max_replies: int | None,
    public_url: str | None,
    proxies: tuple[str, ...],
    origins: tuple[str, ...],
    broker: BrokerOptions,
    inbox: str | None,
    shared: bool,
    journal: str | None,
    grace: float,
    **limits: float | None,
) -> int:
    """Serve agents over RabbitMQ, over HTTP, or at standard streams, until Ctrl-C.

    AGENT is an agent, an agent class, or a function that returns an agent. MODULE is searched in
    the current folder first.

    FILE.yaml is a company: agents that are supervised, schedules, health and metrics, with all
    settings in the file; docs/supervision.md has them.

    Over RabbitMQ, all processes of the same broker and exchange reach the agent by its id;
    `moothall chat --amqp` is one of them. With --inbox, a message that was being handled when the
    process died is not handled twice. With --shared, several processes serve one id, each with an
    inbox of its own: each message is handled by one of them.

    With --http, programs that speak MCP call the agents' actions as tools, at /mcp, and those that
    speak OpenAI's interface take agents that reply as models, at /v1. Without --token, only
    programs of this machine may. --callers gives each of several callers a token of its own;
    --max-tokens, --max-usd and --rate are for each of them, and --journal keeps what each has
    spent. With --mcp-stdio, the program that starts this
    command does so at its standard input and output, as editors and chat clients do.

    An agent that replies has a separate conversation with each sender, or, made with shared=True,
    one with all. With --journal, a ReActAgent, DualActAgent or Conversation continues the reply
    that it was giving; `moothall runs` lists these replies. If calls of it are in doubt, decide by
    `moothall resume` without --agent: over RabbitMQ, this process goes on then, and sends the reply
    to its sender.

    SIGINT (Ctrl-C) or SIGTERM stops it: it begins nothing new and finishes what it is handling;
    waiting messages stay at the broker. A second signal stops it at once.

    AMQP_HOST, AMQP_PORT, AMQP_USERNAME, AMQP_PASSWORD and AMQP_VHOST name the broker; AMQP_HOST may
    name several nodes of a cluster, separated by commas.

    \b
    Examples:
      moothall serve my_agents:Calculator
      moothall serve my_agents:Calculator --id sums --inbox sums.inbox
      moothall serve my_agents:Calculator --shared --inbox sums-1.inbox
      moothall serve my_agents:Clerk --inbox clerk.inbox --journal runs.db
      moothall serve my_agents:Calculator my_agents:Clerk --http 127.0.0.1:8100
      moothall serve my_agents:Clerk --mcp-stdio
      moothall serve company.yaml

    Exit codes: 0 stopped, 1 failed, 2 wrong usage,
    130 ended at once.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    if is_company(agents):
        general = {"agents", "log_level", "log_format"}
        names = [each.name for each in command.params if each.name and each.name not in general]
        if any(map(is_on_command_line, names)):
            raise click.UsageError(
                "a company's settings are in its file: give no options but those of the log"
            )
        return serve_company(agents)
    bounds = _CallerLimits(limits, per, rate, max_replies, callers)
    front_options = {"public_url": public_url, "proxies": proxies, "origins": origins}
    if http is None and any(front_options.values()):
        raise click.UsageError("--public-url, --trusted-proxy and --origin are for --http")
    if http is None and not mcp_stdio:
        bounds.check_none()
        MissingExtra.unless("moothall serve without --http", "amqp", "pika")
        return serve_over_broker(agents, id, description, broker, inbox, shared, journal, grace)
    if http is not None and mcp_stdio:
        raise click.UsageError("give either --http or --mcp-stdio")
    broker.check(False, "RabbitMQ", {"--inbox": inbox is not None, "--shared": shared})
    MissingExtra.unless("moothall serve --http", "mcp", "mcp", "mcp_types", "starlette", "uvicorn")
    if len(agents) > 1 and (id or description) is not None:
        raise click.UsageError("--id and --description are for one agent")
    param_hint = "MODULE:AGENT"
    with ExitStack() as stack:
        if mcp_stdio:
            # What a module prints as it is imported is no message of the protocol.
            with redirect_stdout(sys.stderr):
                served = [named_agent(each, id, param_hint, description) for each in agents]
        else:
            served = [named_agent(each, id, param_hint, description) for each in agents]
        ids = [str(each.id) for each in served]
        if repeated := [each for each in ids if ids.count(each) > 1]:
            raise click.UsageError(
                f"two of the agents have the id {repeated[0]!r}, and ids are unique"
            )
        for name, each in zip(agents, served, strict=True):
            own_journal = getattr(each, "journal", None)
            if (
                journal is not None
                and hasattr(each, "journal")
                and not (own_journal and bounds.has_limits)
            ):
                stack.enter_context(recording_agents((each,), journal, name))
        log_to_stderr()
        store = (
            stack.enter_context(make_journal(journal)) if journal and bounds.has_limits else None
        )
        if mcp_stdio:
            return interruptible(_serve_streams(served, bounds, store))
        assert http is not None
        return _serve_http(served, http, token, bounds, store, front_options)


@dataclass(frozen=True)
class _CallerLimits:
    """What a command line says that each caller may do."""

    limits: Mapping[str, float | None]
    per: Per | None
    rate: int | None
    max_replies: int | None
    callers: str | None
    rights: dict[str, list[str]] = field(default_factory=dict)  # once they were read

    @property
    def has_limits(self) -> bool:
        """Whether it limits what callers spend."""
        return any(each is not None for each in self.limits.values())

    def check_none(self) -> None:
        """Refuse the options where they say nothing to a door."""
        if self.is_of_http or self.has_limits or self.per:
            options = ", ".join(("--callers", *_LIMIT_OPTIONS, "--max-replies", "--per", "--rate"))
            raise click.UsageError(f"{options} and --token are for --http")

    @property
    def is_of_http(self) -> bool:
        """Whether it says what only callers over HTTP have."""
        limits = (self.rate, self.max_replies, self.callers)
        return any(each is not None for each in limits) or is_on_command_line("token")

    def tokens(self, token: str | None) -> str | dict[str, list[str]] | None:
        """Return the token, or those of the file of callers."""
        if self.callers is None:
            return token
        if is_on_command_line("token"):
            raise click.UsageError("give either --token or --callers")
        from moothall.serving.doors import Callers

        try:
            tokens, rights = Callers.read(Path(self.callers).read_text("utf-8-sig"))
        except UnicodeDecodeError:
            raise click.UsageError(f"{self.callers} must be text in UTF-8") from None
        except ConfigError as error:
            raise click.UsageError(f"{self.callers}, {error}") from None
        self.rights.update(rights)
        return tokens

    def budget(self, store: Journal | None) -> Callable[[str], Budget] | None:
        """Return what makes the budget of a caller."""
        if not self.has_limits:
            if self.per is not None:
                raise click.UsageError(f"--per is for {' and '.join(_LIMIT_OPTIONS)}")
            return None
        shared_budget = Budget(name="callers", journal=store)

        def budget_of(caller: str) -> Budget:
            limits: Any = {_RUN_LIMITS[name].name: each for name, each in self.limits.items()}
            return shared_budget.child(name=caller, per=self.per, **limits)

        return budget_of


async def _serve_streams(
    agents: Sequence[Agent], limits: _CallerLimits, store: Journal | None
) -> int:
    """Serve MCP at the standard streams until the client closes them."""
    from moothall.serving.doors import Callers, MCPDoor, Served

    if limits.is_of_http:
        raise click.UsageError("--callers, --max-replies, --rate and --token are for --http")
    served = Served(agents, Callers(budget=limits.budget(store)))
    try:
        await MCPDoor(served, "moothall").over_standard_streams()
    finally:
        await served.close()
    return 0


def _serve_http(
    agents: Sequence[Agent],
    host_port: str,
    token: str | None,
    limits: _CallerLimits,
    store: Journal | None,
    front_options: Mapping[str, Any],
) -> int:
    """Serve HTTP until SIGINT or SIGTERM."""
    from moothall.serving import asgi
    from moothall.serving.doors import HTTPServer

    with as_usage_error():
        host, port = HTTPServer.place_of(host_port, "--http")
    tokens = limits.tokens(token)
    public_url = front_options["public_url"]
    if tokens is None and (public_url or HTTPServer.needs_token(host)):
        address = public_url or host
        raise NotBegun(
            f"{address} can be reached from elsewhere: give --token TOKEN, or set MOOTHALL_TOKEN"
        )
    from moothall.serving.doors import Front

    with as_usage_error():
        Front.of(**front_options)
    budget = limits.budget(store)
    with as_usage_error("--token" if limits.callers is None else "--callers"):
        options: Any = {**limits.rights, **front_options, "max_replies": limits.max_replies}
        app = asgi(agents, token=tokens, budget=budget, rate=limits.rate, **options)
    with as_usage_error("--http"):
        server = HTTPServer(app, host, port)
    address = (public_url or f"http://{host_port}").rstrip("/")
    return asyncio.run(_until_stopped(server, address))


async def _until_stopped(server: HTTPServer, address: str) -> int:
    def stop() -> bool:
        server.stop()
        return True

    stop_on_signals(stop)
    from moothall.serving.doors import DOORS

    first, *later = DOORS
    other_doors = "".join(f", {door.title} at {door.path}" for door in later)
    click.echo(f"{first.title} is served at {address}{first.path}{other_doors}. Ctrl-C ends it.")
    server.start()
    return 0 if await asyncio.to_thread(server.join) else 1
