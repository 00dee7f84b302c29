"""Cells of another version of a program, whose modules have the same names: in another process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from moothall import ConfigError, MoothallError

WRONG: Final = "this program cannot be asked: "
"""With what the process says in its last line that nothing was asked, and why."""


async def run_elsewhere(job: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Have another process ask the cells of a job; yield each one's `number`, `run` and `errors`.

    Raises:
        ConfigError: the program is not there, or is no agent that can reply so
        MoothallError: the process has failed
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moothall.evals"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    try:
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        async for line in process.stdout:
            if line.startswith(b'{"number"'):  # else the program has printed it
                yield json.loads(line)
        lines = (await errors).decode(errors="replace").strip().splitlines()
        if await process.wait():
            fault = lines[-1] if lines else "no reason given"
            if fault.startswith(WRONG):
                raise ConfigError(fault.removeprefix(WRONG))
            raise MoothallError(f"the program {job['agent']!r} has failed: {fault}")
    finally:
        with suppress(ProcessLookupError):  # it has ended
            process.kill()
        await process.wait()
        errors.cancel()
