"""Asks the cells of another version of a program: a job on standard input, a line for each."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from moothall import ConfigError
from moothall.build import error_text, side_by_side
from moothall.evals.cases import Case, Dataset
from moothall.evals.evaluation import Evaluation
from moothall.evals.other_programs import WRONG


async def ask(job: dict[str, Any]) -> None:
    """Ask the cells of a job."""
    cases = {each["name"]: Case(**each) for each in job["cases"]}
    evaluation = Evaluation(
        job["agent"],
        Dataset(cases.values(), journal=job["runs"]),
        [],
        seeds=job["seeds"],
        journal=job["journal"],
        world=job["world"],
        live=job["live"],
    )
    condition = (job["parts"], job["condition"])
    try:
        evaluation.check_condition(next(iter(cases.values())), job["parts"])
    except ConfigError as error:
        sys.exit(f"{WRONG}{error}")
    slots = asyncio.Semaphore(job["concurrency"])

    async def ask_cell(number: int, name: str, seed: int) -> None:
        answer: dict[str, Any] = {"number": number}
        async with slots:
            try:
                answer["run"] = await evaluation.reply_to(cases[name], seed, *condition)
            except Exception as error:
                answer["error"] = error_text(error)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    await side_by_side([ask_cell(*each) for each in job["cells"]])


if __name__ == "__main__":
    asyncio.run(ask(json.load(sys.stdin)))
