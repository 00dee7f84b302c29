"""`moothall mcp`: look at the tools of an MCP server, and accept their definitions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from moothall.build import counted, one_line
from moothall.cli.exit_codes import FAILED, NotBegun
from moothall.cli.shared_options import as_usage_error, json_data_option, print_json, print_text

# What follows the target's first word is the target's.
_CONTEXT_SETTINGS = {"allow_interspersed_args": False}


@click.group()
def command() -> None:
    """Look at the tools of an MCP server, and accept their definitions.

    A server is a command, which is started, or an address.

    \b
    Examples:
      moothall mcp tools uvx mcp-server-time
      moothall mcp tools --header "Authorization: Bearer KEY" https://example.com/mcp
      moothall mcp lock mcp.lock time uvx mcp-server-time
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are


def _target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a server."""
    for option in (
        click.option(
            "--timeout",
            metavar="SECONDS",
            type=float,
            default=60.0,
            show_default=True,
            help="Seconds for the server to start and answer.",
        ),
        click.option(
            "--header",
            metavar="NAME:VALUE",
            multiple=True,
            help="A header for the server's address; may be repeated.",
        ),
        click.option(
            "--env",
            metavar="NAME=VALUE",
            multiple=True,
            help="A variable for the server's process; may be repeated.",
        ),
        click.argument("target", nargs=-1, required=True, type=click.UNPROCESSED),
    ):
        function = option(function)
    return function


@command.command(context_settings=_CONTEXT_SETTINGS, short_help="List a server's tools.")
@json_data_option
@_target_options
def tools(
    as_json: bool,
    target: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    timeout: float,
) -> None:
    """List the tools of the server TARGET, a command or an address.

    \b
    Examples:
      moothall mcp tools uvx mcp-server-time
      moothall mcp tools --json https://example.com/mcp
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    offer = _read_server("server", target, env, header, timeout).offer
    if as_json:
        print_json(tools=[each.data for each in offer.tools.values()])
        return
    for name, each in offer.tools.items():
        arguments = each.schema.get("properties", {})
        required = each.schema.get("required", [])
        parameters = ", ".join(n if n in required else f"{n}?" for n in arguments)
        click.echo(one_line(f"{name}({parameters})", 500))
        print_text(one_line(each.description, 500) or "not described")
        if each.fault:
            print_text(f"cannot be called: {each.fault}")
    counts = [
        counted(len(items), kind)
        for kind, items in (("resource", offer.resources), ("prompt", offer.prompts))
        if items is not None
    ]
    contents = ", ".join([counted(len(offer.tools), "tool"), *counts])
    click.echo(f"{offer.server or 'The server'}: {contents}, protocol {offer.revision}")


@command.command(
    context_settings=_CONTEXT_SETTINGS, short_help="Accept the definitions of a server's tools."
)
@click.argument("path", type=click.Path(dir_okay=False))
@click.argument("id")
@click.option("--yes", is_flag=True, help="Accept without a question.")
@click.option("--check", is_flag=True, help="Accept nothing; fail if something has changed.")
@_target_options
def lock(
    path: str,
    id: str,
    yes: bool,
    check: bool,
    target: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    timeout: float,
) -> int:
    """Accept the definitions that the server TARGET has now, and note them in the lock file PATH.

    ID is that of the agent: MCPAgent(ID, TARGET, lock=PATH) then asks for each tool whose
    definition is not the one that you accept here. What is new or has changed is shown first.

    \b
    Examples:
      moothall mcp lock mcp.lock time uvx mcp-server-time
      moothall mcp lock --check mcp.lock time uvx mcp-server-time

    Exit codes: 0 done, 1 not accepted, or with --check changed, 2 wrong usage, 130 interrupted.
    """  # noqa: D301 - the \b is for click: it keeps the lines as they are
    agent = _read_server(id, target, env, header, timeout, lock=path)
    changes = agent.definition_changes()
    for name, difference in changes.items():
        click.echo(one_line(name, 255))
        print_text(difference)
    no_change = f"{path} has the {counted(len(agent.offer.lock_entries), 'definition')} of {id}."
    if not changes:
        click.echo(no_change)
        return 0
    if check:
        return FAILED
    with suppress(click.Abort):  # standard input has ended: nobody accepts
        yes = yes or click.confirm("Accept this?")
    if not yes:
        return FAILED
    agent.accept_definitions()  # those that were shown: its connection is closed
    click.echo(no_change)
    return 0


def _read_server(
    id: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    timeout: float,
    lock: str | None = None,
) -> Any:
    """Return the agent of a server, closed, with what the server offers."""
    from moothall.serving import MCPAgent

    options: dict[str, Any] = {}
    for name, texts, sign in (("env", env, "="), ("headers", header, ":")):
        pairs = [each.partition(sign) for each in texts]
        for key, separator, _ in pairs:
            if not separator or not key:
                raise click.UsageError(f"{name}: NAME{sign}VALUE is wanted, got {key!r:.80}")
        if pairs:
            options[name] = {key.strip(): value.strip() for key, _, value in pairs}
    server: Any = target[0] if len(target) == 1 else list(target)
    with as_usage_error():
        agent = MCPAgent(id, server, timeout_s=timeout, lock=lock, **options)
    with agent:
        _ = agent.offers
    if agent.offer is None:
        raise NotBegun(f"{id} does not say what it offers")
    return agent
