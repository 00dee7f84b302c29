"""Public corpora that the benchmarks read: packages that `scripts/corpora` unpacks.

They bring what they do not need here, clients of models above all, so they are unpacked without
their dependencies, beside the environment rather than in it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "build" / "corpora"
MISSING = "scripts/corpora unpacks it"
SAMPLE = Path(__file__).resolve().parent / "data" / "injections.jsonl"


def package(name: str) -> Path | None:
    """The folder of a package that is unpacked or installed; None if it is neither."""
    if (FOLDER / name).is_dir():
        return FOLDER / name
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


# -- injections ------------------------------------------------------------------------------------


def injections() -> Iterator[tuple[str, str]]:
    """Each injection of the corpora that are there, after the corpus's name; else the sample."""
    found = False
    for name, (folder, read) in _READERS.items():
        where = package(folder)
        if where is not None:
            found = True
            yield from ((name, text) for text in dict.fromkeys(read(where)) if text.strip())
    if not found:
        yield from sample()


def sample() -> Iterator[tuple[str, str]]:
    """The injections that this repository has."""
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        yield given["corpus"], given["text"]


def _bench(where: Path) -> Iterator[str]:
    return (each["injected"] for each in _lines(where / "data" / "attacks.jsonl"))


def _bastion(where: Path) -> Iterator[str]:
    return (each["text"] for each in _lines(where / "corpus" / "injections.jsonl"))


def _evals(where: Path) -> Iterator[str]:
    """What agents read in two evaluations: mails and records, and a repository's files."""
    for path in sorted((where / "agent_threat_bench" / "data").glob("*.json")):
        for given in json.loads(path.read_text(encoding="utf-8")):
            yield from given.get("memory_store", {}).values()
            yield from (each["body"] for each in given.get("inbox", ()))
            yield from (each["issue"] for each in given.get("customer_db", ()))
    samples = where / "ipi_coding_agent" / "dataset" / "samples.json"
    for given in json.loads(samples.read_text(encoding="utf-8")):
        if given["is_benign"]:
            continue
        yield given["issue_text"]
        if given["injection_vector"] != "issue_text":
            yield from given["repo_files"].values()


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


_READERS = {
    "agent-injection-bench": ("aib", _bench),
    "bastioncorpus": ("bastioncorpus", _bastion),
    "inspect-evals": ("inspect_evals", _evals),
}
