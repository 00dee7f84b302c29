"""What is noted of a run at rest: what people say of it, and which files have it as a case."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NotRequired

from typing_extensions import TypedDict

from moothall.foundation.arguments import check_boolean, check_name, check_path
from moothall.foundation.errors import ConfigError
from moothall.journal.kinds.entry_kinds import EntryKind, NotesBeside, register

_MAX_NOTE_CHARS: Final = 10_000


class Feedback(NamedTuple):
    """What somebody has said of a run.

    Attributes:
        good: whether it was good; None if that is not said
        note: what else is said, in words; empty for nothing
        by: who says it; None if that is not known
        at: when, in seconds since 1970
    """

    good: bool | None
    note: str
    by: str | None
    at: float

    @classmethod
    def read(cls, data: FeedbackData, at: float) -> Feedback:
        """Return what an entry of that time says."""
        return cls(data["good"], data.get("note", ""), data.get("by"), at)


class FeedbackData(TypedDict):
    """The data of its entry."""

    good: bool | None
    note: NotRequired[str]
    by: NotRequired[str]


def _line(data: dict[str, Any]) -> str:
    verdict = {True: "good", False: "not good", None: "noted"}[data["good"]]
    by = f" by {data['by']}" if "by" in data else ""
    return f"called {verdict}{by}" + (f": {data['note']}" if "note" in data else "")


FEEDBACK: Final = register(EntryKind("feedback", FeedbackData, _line))
"""The kind of its entries."""


class CaseFileData(TypedDict):
    """The data of an entry that says which files of cases have the run."""

    files: list[str]


CASE_FILE: Final = register(
    EntryKind("case", CaseFileData, lambda data: f"a case in {', '.join(data['files'])}")
)
"""The kind of the entries by which a deletion knows the files."""


class TakesFeedback:
    """A journal that people may give feedback to, and whose runs may be cases in files."""

    held_runs: NotesBeside

    def feedback(
        self, run_id: str, *, good: bool | None = None, note: str = "", by: str | None = None
    ) -> None:
        """Note what somebody says of a run at rest: its state stays. `RunView.feedback` has it.

        Args:
            run_id: the run's id
            good: whether it was good
            note: what else there is to say, in at most 10,000 characters
            by: the name of who says it

        Raises:
            ConfigError: neither `good` nor a note is given, or one is not valid
            NoSuchRun: there is no run of that id
            RunHeld: a process works on it
            JournalError: the file cannot be written, or is damaged
        """
        if good is not None:
            check_boolean("good=", good)
        check_name("by=", by, optional=True)
        if not isinstance(note, str) or len(note) > _MAX_NOTE_CHARS:
            limit = f"a text of at most {_MAX_NOTE_CHARS:,} characters"
            raise ConfigError(f"feedback: note= must be {limit}, got {note!r:.80}")
        if good is None and not note:
            raise ConfigError("feedback: give good=True, good=False or a note=")
        data: dict[str, Any] = {"good": good}
        data |= {name: each for name, each in (("note", note), ("by", by)) if each}
        self.held_runs.note_beside(run_id, FEEDBACK, data)

    def note_case_file(self, run_id: str, path: str) -> None:
        """Note that a file has the run as a case: `Deleted.files` names it once the run is deleted.

        Raises:
            NoSuchRun: there is no run of that id
            RunHeld: a process works on it
            JournalError: the file cannot be written, or is damaged
        """
        check_path("note_case_file: path=", path)
        self.held_runs.note_beside(run_id, CASE_FILE, {"files": [path]})
