"""Durable functions keep their signatures, as docs/howto/branches.md shows them."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Literal, assert_type

from moothall import Budget, DurableFunction, Journal, Retry, durable, step
from moothall.testing import check_durable


@step
async def classify(text: str) -> Literal["bill", "letter"]:
    return "bill" if text else "letter"


@step(retries=Retry(times=2))
def count(text: str, factor: int = 1) -> int:
    return len(text) * factor


@step(effect=True)
async def charge(card: str, cents: int) -> str:
    return f"{card}: {cents}"


@durable(Journal("runs.db"), budget=Budget(usd=1))
async def desk(text: str, copies: int = 1) -> str:
    assert_type(await classify(text), Literal["bill", "letter"])
    assert_type(await count(text, factor=2), int)
    await classify(3)  # error
    await charge("4711", "8")  # error
    count(text).upper()  # error
    assert_type(await durable.ask("Pay?", who=["eva"]), bool)
    assert_type(await durable.ask("What for?", of=str), str)
    await durable.sleep(timedelta(days=2))
    found = await durable.result("hook", until=timedelta(days=7), default=None)
    durable.emit({"found": found})
    return await charge("4711", 8 * copies)


@durable
async def bare(number: int) -> float:
    return number / 2


async def use(journal: Journal) -> None:
    assert_type(await desk("x"), str)
    assert_type(await desk("x", copies=2), str)
    assert_type(await desk.run("letter-1", "x"), str)
    await desk(3)  # error
    await desk("x", run_id="letter-1")  # error
    await desk.run("letter-1")  # error
    await desk.run("letter-1", "x", 2, 3)  # error
    for resumed in await desk.resume():
        print(resumed.run.id, resumed.outcome)
    assert_type(await bare.on(journal)(3), float)
    assert_type(await check_durable(bare, 3), float)


kept: Callable[[str], Coroutine[Any, Any, Literal["bill", "letter"]]] = classify
function: DurableFunction[[int], float] = bare
