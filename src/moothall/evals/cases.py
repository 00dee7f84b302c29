"""Cases that an agent is evaluated on, from recorded runs, a list or a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from moothall import ConfigError, NoSuchRun
from moothall.build import check_text, counted, json_line, json_text, written_whole
from moothall.evals.case_files import case_fields, read_cases, read_evaluators
from moothall.evals.equality import json_key
from moothall.journal import REASONS, Journal, RunView


@dataclass(frozen=True, slots=True)
class Case:
    """What an agent is asked in an evaluation.

    Attributes:
        name: its name, different from that of others
        inputs: what the agent is asked, as `reply` takes it, or other JSON, which is asked as text
        expected: the right answer; a list means any of its items. None if nobody has said it: an
            answer is not right because it was recorded
        metadata: what else is said of it, by name
        run: the id of the recorded run in whose world it is asked; empty without one
    """

    name: str
    inputs: Any
    expected: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""

    @property
    def contents(self) -> str:
        """A text that is the same for cases that ask the same."""
        return json_key([self.inputs, self.run])

    @property
    def request(self) -> tuple[Any, list[Any]]:
        """What the agent is asked, and the chat messages before that."""
        inputs = self.inputs
        if not isinstance(inputs, list):
            return inputs if isinstance(inputs, str) else json_text(inputs), []
        if inputs and all(isinstance(each, dict) and "role" in each for each in inputs):
            *history, last = inputs
            return last.get("content"), history
        return inputs, []

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data, without what is empty."""
        fields = {"name": self.name, "inputs": self.inputs, "expected": self.expected}
        fields |= {"metadata": {**self.metadata}, "run": self.run}
        return {key: each for key, each in fields.items() if each not in (None, {}, "")}


class Dataset:
    """Cases, each with a name of its own.

    Args:
        cases: the cases, or samples of Inspect; one without a name gets one
        journal: the journal of the runs that they are of

    Attributes:
        cases: the cases
        journal: the journal of their runs, or None
        left_out: why runs are no cases, by their ids
        graders: what a file names besides: evaluators of Pydantic Evals, by the case that they are
            of; those of an empty name are for all

    Raises:
        ConfigError: two have one name, or a case has a run and no journal is named
    """

    def __init__(self, cases: Iterable[Any], *, journal: Journal | str | None = None) -> None:
        self.journal: Journal | None = (
            None if journal is None else Journal.from_argument(journal, "Dataset")
        )
        self.cases: list[Case] = []
        self.left_out: dict[str, str] = {}
        self.graders: dict[str, list[Any]] = {}
        case_names: set[str] = set()
        for number, case in enumerate(cases, 1):
            if hasattr(case, "model_dump"):  # a sample of Inspect
                sample = {key: each for key, each in case.model_dump().items() if each}
                case = Case(**case_fields(sample, f"sample {number}"))
            if not isinstance(case, Case):
                raise ConfigError(f"Dataset takes cases, got {case!r:.80}")
            if not case.name:
                case = Case(f"case-{number}", case.inputs, case.expected, case.metadata, case.run)
            check_text("Case: name=", case.name)
            if case.name in case_names:
                raise ConfigError(f"two cases have the name {case.name!r:.80}: give one another")
            if case.run and self.journal is None:
                raise ConfigError(
                    f"case {case.name!r:.80} is of the run {case.run!r:.80}: name its journal=, "
                    "or --runs"
                )
            case_names.add(case.name)
            self.cases.append(case)

    @classmethod
    def from_runs(
        cls,
        journal: Journal | str,
        *,
        good: bool | None = None,
        **filters: Any,
    ) -> Dataset:
        """Return the runs of a journal as cases, each in its own world.

        A run that is not over, or whose record no agent of moothall has made, is left out.

        Args:
            journal: the journal, or its path
            good: only runs of which `Journal.feedback` said so last; all if it is left out
            **filters: which runs, as `Journal.runs` takes them, such as `agent="desk"`

        Raises:
            JournalError: the journal cannot be read
        """
        store, cases, left_out = Journal.from_argument(journal, "Dataset"), list[Case](), {}
        for outline in store.runs(**filters):
            view = RunView(store, outline)
            if outline.state not in REASONS or outline.state in ("waiting", "in_doubt"):
                left_out[outline.id] = f"it is {outline.state}"
            elif view.request is None or not outline.is_ours:
                left_out[outline.id] = f"it is of a {outline.kind}"
            elif good in (None, _said_last(view)):
                cases.append(Case(outline.id, view.request.text, run=outline.id))
        data = cls(cases, journal=store)
        data.left_out = left_out
        return data

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], *, journal: Journal | str | None = None
    ) -> Dataset:
        """Return the cases in a file.

        Args:
            path: a `.jsonl` or `.json` file of cases, or of samples of Inspect; a `.csv` file; a
                `.yaml` file of Pydantic Evals, whose evaluators are used if it is installed
            journal: the journal of their runs; cases of runs that it no longer has are left out

        Raises:
            ConfigError: the file cannot be read, or is of no such form
        """
        file = Path(path)
        cases = [Case(**fields) for fields in read_cases(file)]
        store = None if journal is None else Journal.from_argument(journal, "Dataset")
        left_out: dict[str, str] = {}
        for case in cases:
            if case.run and store is not None:
                try:
                    store.run(case.run)
                except NoSuchRun:
                    left_out[case.run] = "its run was deleted"
        data = cls([each for each in cases if each.run not in left_out], journal=store)
        data.left_out, data.graders = left_out, read_evaluators(file)
        return data

    def to_file(self, path: str | PathLike[str]) -> None:
        """Write the cases to a `.jsonl` file, whole.

        The journal notes the file at the runs that have cases in it, so that who deletes such a run
        is told of it.

        Raises:
            ConfigError: it has another suffix
            RunHeld: a process works on one of the runs
            JournalError: the journal cannot be written
        """
        file = Path(path)
        if file.suffix != ".jsonl":
            raise ConfigError(f"cases are written to a .jsonl file, got {str(file)!r:.200}")
        place = str(file.absolute())
        text = "".join(json_line(each.to_json()) + "\n" for each in self.cases)
        with written_whole(file) as part:
            part.write_text(text, encoding="utf-8")
            # Before the file is there: what is deleted meanwhile is named all the same.
            for run_id in dict.fromkeys(each.run for each in self.cases if each.run):
                assert self.journal is not None
                if place not in RunView(self.journal, run_id).case_files:
                    self.journal.note_case_file(run_id, place)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    def __repr__(self) -> str:
        return f"<Dataset of {counted(len(self), 'case')}>"


def _said_last(view: RunView) -> bool | None:
    """Return whether a run was good, as was said last; None if nobody has said so."""
    return next((each.good for each in reversed(view.feedback) if each.good is not None), None)
