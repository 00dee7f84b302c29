"""Files of cases: ours, Inspect's samples, and Pydantic Evals' datasets, as data."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from moothall import ConfigError
from moothall.build import as_json, error_text, json_text, read_yaml

logger: logging.Logger = logging.getLogger("moothall.evals")

_MAX_BYTES: Final = 200_000_000
_NAMES: Final = ("name", "id")
_INPUTS: Final = ("inputs", "input")
_EXPECTED: Final = ("expected", "expected_output", "target")
_OTHER: Final = ("metadata", "run")


def read_cases(path: Path) -> list[dict[str, Any]]:
    """Return the fields of the cases in a file, in order; ConfigError if it has no such form."""
    readers: dict[str, Callable[[Path], list[Any]]] = {
        ".jsonl": _read_lines,
        ".json": _read_document,
        ".csv": _read_csv,
        ".yaml": _read_document,
        ".yml": _read_document,
    }
    if (read := readers.get(path.suffix.lower())) is None:
        suffixes = ", ".join(readers)
        raise ConfigError(f"cases are read from {suffixes} files, got {str(path)!r:.200}")
    try:
        rows = read(path)
    except ConfigError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return [case_fields(row, f"{path}, case {number}") for number, row in enumerate(rows, 1)]


def _text(path: Path) -> str:
    if path.stat().st_size > _MAX_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_BYTES:,} bytes")
    return path.read_text(encoding="utf-8-sig")


def _read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in _text(path).split("\n") if line.strip()]


def _document(path: Path) -> Any:
    """Return the data of a JSON or YAML file."""
    is_json = path.suffix.lower() == ".json"
    return json.loads(_text(path)) if is_json else read_yaml(path, "cases in YAML", "skills")[0]


def _read_document(path: Path) -> list[Any]:
    """Return the list of cases that a file is, or has as `cases`."""
    data = _document(path)
    cases = data.get("cases") if isinstance(data, dict) else data
    if not isinstance(cases, list):
        raise ConfigError(f"{path} must be a list of cases, or have one as `cases`")
    return cases


def _read_csv(path: Path) -> list[Any]:
    rows = csv.DictReader(io.StringIO(_text(path), newline=""))
    names = (*_NAMES, *_INPUTS, *_EXPECTED, "run")
    cases = list[Any]()
    for row in rows:
        fields = {key: each for key, each in row.items() if key in names and each}
        metadata = {key: each for key, each in row.items() if key and key not in names and each}
        cases.append({**fields, "metadata": metadata})
    return cases


def read_evaluators(path: Path) -> dict[str, list[Any]]:
    """Return the evaluators that a file of Pydantic Evals names, by the names of their cases.

    Those of an empty name are for all cases. Without Pydantic Evals there is none.
    """
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return {}
    data = _document(path)
    rows = data.get("cases", ()) if isinstance(data, dict) else ()
    if not any("evaluators" in each for each in (data, *rows) if isinstance(each, dict)):
        return {}
    if find_spec("pydantic_evals") is None:
        logger.warning(
            "%s names evaluators, which are not used: they need the package pydantic-evals, "
            "`pip install moothall[pydantic-evals]`",
            path,
        )
        return {}
    from pydantic_evals import Dataset

    try:
        theirs = Dataset[Any, Any, Any].from_file(path)
    except Exception as error:
        raise ConfigError(f"Pydantic Evals cannot read {path}: {error_text(error)}") from error
    evaluators = {"": list(theirs.evaluators)}
    for number, case in enumerate(theirs.cases, 1):
        evaluators.setdefault(case.name or f"case-{number}", []).extend(case.evaluators)
    return evaluators


def case_fields(row: Any, place: str) -> dict[str, Any]:
    """Return the fields of a case from its row, whichever names they have there."""
    if not isinstance(row, Mapping):
        raise ConfigError(f"{place} must be an object with `inputs`, got {row!r:.80}")
    inputs = next((row[name] for name in _INPUTS if name in row), None)
    if inputs is None:
        found_names = ", ".join(map(str, row)) or "nothing"
        raise ConfigError(f"{place} has no `inputs`, but {found_names}")
    known_names = ("evaluators", *_NAMES, *_INPUTS, *_EXPECTED, *_OTHER)
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"{place}: metadata must be an object, got {metadata!r:.80}")
    run = row.get("run") or ""
    if not isinstance(run, str):
        raise ConfigError(f"{place}: run must be the id of a run, got {run!r:.80}")
    name = next((row[key] for key in _NAMES if row.get(key) is not None), "")
    return {
        "name": json_text(as_json(name)),
        "inputs": inputs,
        "expected": next((row[key] for key in _EXPECTED if key in row), None),
        "metadata": {**{key: row[key] for key in row if key not in known_names}, **metadata},
        "run": run,
    }
