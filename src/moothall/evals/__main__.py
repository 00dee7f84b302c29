"""Asks the cells of another version of a program: a job on standard input, a line for each."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from moothall import ConfigError
from moothall.evals.cases import Case, Dataset
from moothall.evals.evaluation import Evaluation
from moothall.evals.other_programs import WRONG
from moothall.evals.results import CellResult


async def ask(job: dict[str, Any]) -> None:
    """Ask the cells of a job."""
    data = Dataset([Case(**each) for each in job["cases"]], journal=job["runs"])
    name, parts = job["condition"], job["parts"]
    options = {key: job[key] for key in ("journal", "world", "live", "concurrency")}
    evaluation = Evaluation(job["agent"], data, [], {name: parts}, job["seeds"], **options)
    try:
        evaluation.check_condition(data.cases[0], parts)
    except ConfigError as error:
        sys.exit(f"{WRONG}{error}")
    cases = {each.name: each for each in data}
    cells = [CellResult(name, cases[case], seed) for case, seed in job["cells"]]
    numbers = {id(each): number for number, each in enumerate(cells)}

    def tell(cell: CellResult) -> None:
        answer = {"number": numbers[id(cell)], "run": cell.run, "errors": cell.errors}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    await evaluation.ask_cells(cells, tell)


if __name__ == "__main__":
    asyncio.run(ask(json.load(sys.stdin)))
