"""What an operator may do with a run that works: pause it, let it go on, tell it something."""

from __future__ import annotations

from typing import Protocol

from moothall.actions.provenance.reading import current_reading
from moothall.foundation.arguments import check_name
from moothall.foundation.errors import ConfigError
from moothall.foundation.jsonvalue import readable
from moothall.journal.store.run_work import RunRequests


class _HeldRuns(Protocol):
    requests: RunRequests


class OperatedRuns:
    """The part of a journal by which somebody has a hand on the runs of any process."""

    held_runs: _HeldRuns

    def pause(self, run_id: str, *, by: str | None = None) -> bool:
        """Have a run stop before its next step, and wait until `go_on`.

        The step under way ends, and its result is recorded: an answer of the model, or a call. The
        run then waits in the journal, of the kind `paused`, whatever becomes of its process. The
        runs of the agents that it has asked wait with it; so does what it waits for.

        Args:
            run_id: the run's id
            by: the name of who pauses it

        Returns:
            Whether it stands still now; else its process is still in a step.

        Raises:
            NoSuchRun: there is no run of that id
            StateError: it has ended or stopped, or is of a kind that cannot be paused
            JournalError: the journal cannot be written
        """
        check_name("by=", by, optional=True)
        cause = "it was paused" if by is None else f"{by} has paused it"
        return self.held_runs.requests.pause(run_id, cause)

    def go_on(self, run_id: str, *, by: str | None = None) -> None:
        """Let a paused run go on; a process with its agent resumes it, as `resume` says.

        Raises:
            NoSuchRun: there is no run of that id
            StateError: it is not paused
            JournalError: the journal cannot be written
        """
        check_name("by=", by, optional=True)
        self.held_runs.requests.go_on(run_id, by)

    def tell(self, run_id: str, text: str, *, by: str | None = None) -> str:
        """Interrupt a run with a text, whichever process works on it, as an agent's `interrupt`.

        It hears the text within a second, once, with the name of who says it before each line. One
        that waits or was cut off hears it when it goes on.

        Args:
            run_id: the run's id
            text: the text, which counts as the user's
            by: the name of who says it; `operator` without one

        Returns:
            The key by which `held_runs.requests.is_heard` says whether it was heard.

        Raises:
            ConfigError: the text is not one, or is blank
            NoSuchRun: there is no run of that id
            StateError: it has ended, or is of a kind that hears nothing; or a hundred texts wait
            JournalError: the journal cannot be written
        """
        check_name("by=", by, optional=True)
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f"text= must be a text that is not blank, got {text!r:.80}")
        reading = current_reading()  # of an agent's action
        sources = () if reading is None else tuple(reading.read_sources)
        return self.held_runs.requests.tell(run_id, readable(text), by, sources)
