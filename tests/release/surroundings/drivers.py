"""Runs a program of `programs.py` as others' processes, threads and loops do.

    python drivers.py SURROUNDINGS PROGRAM FOLDER

Prints the program's name if it ran; a refusal in words if it did not.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import programs


def pool(method: str, name: str, folder: str) -> str:
    """In a worker of a pool, of which `multiprocessing` makes the processes in this way."""
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as workers:
        return workers.submit(programs.run, name, folder).result()


def spawn(name: str, folder: str) -> str:
    """In a process that imports everything anew."""
    return pool("spawn", name, folder)


def fork(name: str, folder: str) -> str:
    """In a process that is a copy of one in which the program has run."""
    Path(folder, "before").mkdir()
    programs.run(name, f"{folder}/before")
    return pool("fork", name, folder)


def threads(name: str, folder: str) -> str:
    """In three threads at once, each with a loop of its own."""
    folders = [Path(folder, str(n)) for n in range(3)]
    for each in folders:
        each.mkdir()
    with ThreadPoolExecutor(3) as workers:
        ran = {*workers.map(programs.run, [name] * 3, map(str, folders))}
    return ran.pop()


def gevent(name: str, folder: str) -> str:
    """In a native thread of a process that gevent has patched, as its greenlets are told to."""
    from gevent import get_hub, monkey

    monkey.patch_all()
    return str(get_hub().threadpool.apply(programs.run, (name, folder)))


def uvloop(name: str, folder: str) -> str:
    """On the loop of uvloop."""
    import uvloop as package

    package.run(programs.PROGRAMS[name](Path(folder)))
    return name


def nest_asyncio(name: str, folder: str) -> str:
    """Within a loop that runs already."""
    import nest_asyncio as package

    package.apply()

    async def cell() -> None:
        asyncio.get_running_loop().run_until_complete(programs.PROGRAMS[name](Path(folder)))

    asyncio.run(cell())
    return name


def streamlit(name: str, folder: str) -> str:
    """In a script of Streamlit, which has a thread without a loop."""
    from streamlit.testing.v1 import AppTest

    here = str(Path(__file__).parent)
    script = (
        f"import sys; sys.path.insert(0, {here!r})\n"
        f"import programs, streamlit\nstreamlit.write(programs.run({name!r}, {folder!r}))\n"
    )
    page = AppTest.from_string(script, default_timeout=60).run()
    if page.exception:
        raise RuntimeError(page.exception[0].message)
    return str(page.markdown[0].value)


DRIVERS: dict[str, Callable[[str, str], str]] = {
    each.__name__: each for each in (spawn, fork, threads, gevent, uvloop, nest_asyncio, streamlit)
}

if __name__ == "__main__":
    print(DRIVERS[sys.argv[1]](*sys.argv[2:]))
