"""`moothall serve FILE.yaml`: a company, until a signal or until it is given up."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Final

import click

from moothall import GivenUp
from moothall.build import escaped
from moothall.cli.interrupts import stop_on_signals
from moothall.cli.serving.broker_commands import print_served
from moothall.cli.serving.logs import log_to_stderr
from moothall.cli.shared_options import as_usage_error

_FORCED_EXIT_S: Final = 5.0
"""Seconds after the drain at which the process ends, whatever still runs."""
_ENDINGS = (".yaml", ".yml")


def is_company(names: tuple[str, ...]) -> bool:
    """Return whether what is to be served is a company's file."""
    return any(Path(each).suffix.lower() in _ENDINGS for each in names)


def serve_company(names: tuple[str, ...]) -> int:
    """Serve the company of a file; every setting is in that file."""
    if len(names) > 1:
        raise click.UsageError("one process serves one company: name one file")
    with as_usage_error():
        from moothall.serving import Company

        company = Company.from_yaml(names[0])
    log_to_stderr()
    return asyncio.run(_serve_until_end(company))


async def _serve_until_end(company: object) -> int:
    from moothall.serving import Company

    assert isinstance(company, Company)
    task = asyncio.current_task()
    is_started = is_stopping = False

    def stop() -> bool:
        nonlocal is_stopping
        is_stopping = True
        if not is_started and task is not None:
            task.cancel()
        else:
            print_served(f"{company.name} drains, within {company.settings.drain:g} s.")
            company.stop()
            # Even if an agent holds a loop: its runs have no end, and go on at the next start.
            timer = threading.Timer(company.settings.drain + _FORCED_EXIT_S, os._exit, (1,))
            timer.daemon = True
            timer.start()
        return True

    stop_on_signals(stop)
    try:
        with as_usage_error():
            await company.__aenter__()
        is_started = True
        address = "" if company.port is None else f", with HTTP at port {company.port}"
        agents = escaped(", ".join(company.settings.agents))
        print_served(f"{escaped(company.name)} serves {agents}{address}. Ctrl-C ends it.")
        await company.ended()
    except asyncio.CancelledError:
        if not is_stopping:
            raise
    except GivenUp as error:
        click.echo(f"moothall: {escaped(str(error))}", err=True)
        return 1
    finally:
        if is_started:
            await company.__aexit__()
    print_served(f"{escaped(company.name)} has stopped.")
    return 0
