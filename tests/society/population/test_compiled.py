"""Large populations come to the same bytes whether numba is installed or not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DAY = """
import asyncio, hashlib, sys
if "numba" in sys.argv[1:]:
    sys.modules["numba"] = None  # as if it were not installed
from moothall import Society
from moothall.society import City, Feed, LocalEngine, Population, all_blocks, compiled, make_economy

async def main():
    city = City.generate(seed=1, citizens=50_000)
    population = Population(50_000, city, all_blocks(), 1)
    services = [*make_economy(city, seed=1), Feed()]
    engine = LocalEngine(threads=2)
    given = {"services": services, "engine": engine, "start": "2026-01-05T08:00"}
    async with Society(population, **given) as society:
        await society.run(steps=3)
    values = hashlib.sha256()
    for name in sorted(population.arrays):
        values.update(name.encode() + population.arrays[name].tobytes())
    print(compiled.ACTIVE, values.hexdigest())

asyncio.run(main())
"""


MADE = """
from examples.models.wealth import wealth
from moothall.society import compiled

print(len(wealth(1, citizens=50_000)), compiled.ACTIVE)
"""


def a_morning(*missing: str) -> list[str]:
    """Return whether loops were compiled, and the hash of all columns at a quarter to nine."""
    done = subprocess.run(
        [sys.executable, "-c", DAY, *missing], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_compiled_loops_come_to_the_same_bytes_as_numpy() -> None:
    is_compiled, with_numba = a_morning()
    was_compiled, without = a_morning("numba")
    assert (is_compiled, was_compiled) == ("True", "False")
    assert with_numba == without


def test_a_numba_that_cannot_be_loaded_is_named_and_left_out(tmp_path: Path) -> None:
    """Installed beside a package that it does not fit, numba raises anything."""
    (tmp_path / "numba.py").write_text("raise AttributeError('coverage has no types')")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", MADE],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout) == (0, "50000 False\n"), done.stderr
    assert "numba cannot be loaded (AttributeError: coverage has no types)" in done.stderr
