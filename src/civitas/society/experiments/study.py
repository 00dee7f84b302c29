"""`Experiment`: made from YAML or in Python, run, and told in a report."""

from __future__ import annotations

import asyncio
import json
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from civitas.errors import ConfigError
from civitas.society.experiments.design import Design
from civitas.society.experiments.results import Results
from civitas.society.experiments.sweep import Progress, sweep
from civitas.society.experiments.workflow import FieldError, field_path
from civitas.society.experiments.yaml_file import read_yaml


class Experiment(Design):
    """A question, asked of a society in several conditions, with several seeds and parameters.

    It is data: what YAML says, with functions where one likes.

    Attributes:
        name: what it is called
        question: what it is to answer
        society: the society: `model` of `civitas.society.experiments.models` (`town` if left out)
            or `make` of your own, `step`, and the parameters of that function
        metrics: what is measured: columns of `Society.metrics`, or functions of a society
        every: after how many steps something is measured
        workflow: what is done: `run`, `step`, `interview`, `survey`, `intervene`, `save`, `branch`
        conditions: by name, other parameters or another workflow; one, `base`, if left out
        seeds: how many, from 0 on, or which
        parameters: values of parameters of the society, or of `$name`s in the workflow, each with
            each
        maps: whether each condition has a map of its first seed's end
        published: published figures, beside which the report tells ours
        source: where those are published
        notes: what readers of the report should know
        folder: where the file is, below which functions are looked for

    Raises:
        ConfigError: a field is wrong; the text names it, and of YAML the line
    """

    @classmethod
    def from_yaml(cls, path: str | Path, **instead: Any) -> Self:
        """The experiment of a YAML file.

        Args:
            path: the file
            instead: fields in the place of those of the file, such as `seeds=30`

        Raises:
            ConfigError: it cannot be read, or a field is wrong
            MissingExtra: PyYAML is not installed
        """
        path = Path(path)
        data, lines = read_yaml(path)
        if not isinstance(data, dict):
            raise ConfigError(f"{path} must be a mapping of fields, such as name and workflow")
        try:
            made = cls(**{**data, **instead, "folder": path.parent})
            made._command = _command(path, instead, data.get("parameters") or {})
            return made
        except FieldError as error:
            told = []
            for where, what in error.faults:
                inner = (where[:end] for end in range(len(where), -1, -1))
                line = next((f":{lines[each]}" for each in inner if each in lines), "")
                told.append(f"{path}{line}: {field_path(where)}: {what}")
            raise ConfigError("\n".join(told)) from None

    async def run(
        self,
        *,
        jobs: int = 1,
        out: str | Path | None = None,
        progress: Callable[[Progress], Any] | None = None,
        report: bool = True,
    ) -> Results:
        """Live every condition with every seed and all parameters, and join what was measured.

        With `out`, the same call goes on where a killed one stopped, and cells that have ended are
        not lived again.

        Args:
            jobs: how many processes at a time; 0 lives all in this process, for a notebook
            out: the folder of `results.parquet`, `experiment.json`, the report and its pictures
            progress: told how far it is
            report: whether the report is written; it needs matplotlib

        Raises:
            ConfigError: the folder has other results, or a cell cannot be lived; the text names it
            FileError: something cannot be written; nothing is left half-written
            StateError: the process of a cell was killed, twice
            MissingExtra: pyarrow or matplotlib is not installed
        """
        if out is None:
            with tempfile.TemporaryDirectory(prefix="civitas-") as folder:
                path = await sweep(self, Path(folder), jobs=jobs, progress=progress)
                return Results(path)
        folder_ = Path(out)
        results = Results(await sweep(self, folder_, jobs=jobs, progress=progress))
        if report:
            from civitas.society.experiments.report import write_report

            await asyncio.to_thread(write_report, self, results, folder_)
        return results


def _command(path: Path, instead: Mapping[str, Any], own: Mapping[str, Any]) -> str | None:
    """The command that runs a file with fields in the place of its own; None where none does."""
    words = ["civitas", "simulate", str(path)]
    for name, value in instead.items():
        if name == "seeds" and isinstance(value, int):
            words += ["--seeds", str(value)]
        elif name == "parameters" and own.keys() <= value.keys():
            for key, values in value.items():
                said = [_word(each) for each in values]
                if any("," in each for each in said):
                    return None
                if own.get(key) != values:
                    words += ["--sweep", f"{key}={','.join(said)}"]
        else:
            return None
    return shlex.join(words)


def _word(value: Any) -> str:
    """A value as `--sweep` takes it: a plain word as it is, all else as JSON."""
    is_word = isinstance(value, str) and value.isidentifier()
    return value if is_word and value not in ("true", "false", "null") else json.dumps(value)
