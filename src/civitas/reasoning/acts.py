"""The calls of one answer, as they are recorded before and after they are executed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from civitas.action import ACCESS_PERMITTED
from civitas.reasoning.prompts import cut, json_text

if TYPE_CHECKING:
    from civitas.reasoning.parsing import Wanted
    from civitas.reasoning.recording import Recording

__all__ = ["Act", "Acts"]

_SKIPPED: Final = (
    "skipped: the process ended while it was executed, and a person has decided not to execute it "
    "again; whether it had an effect is not known"
)


class Act:
    """One call.

    Attributes:
        call: it
    """

    __slots__ = ("_acts", "_begun_with", "_ended", "_place", "_started", "call")

    def __init__(self, acts: Acts, place: int, call: Wanted) -> None:
        self._acts = acts
        self._place = place
        self._begun_with: dict[str, Any] | None = None
        self._started = False
        self._ended = False
        self.call = call

    def be_as_begun(self) -> None:
        """Have the arguments that it had begun with before, whatever hooks make of them now."""
        if self._begun_with is not None:
            self.set_args(self._begun_with)

    def set_args(self, args: dict[str, Any]) -> None:
        """Have arguments that were recorded: a hook may have changed the model's."""
        if args != self.call.args:
            assert self.call.action is not None
            self.call.args = args
            self.call.kwargs = self.call.action.check(args)

    def note_start(self) -> None:
        """Note that it is executed."""
        if not self._started:
            self._started = True
            self._acts.recording.started(self._acts.iteration, self._place, self.call)

    async def begin(self) -> None:
        """Write down that it is executed, unless that was done with the other calls.

        Raises:
            JournalError: it cannot be written, so it must not be executed
        """
        if not self._started:
            self.note_start()
            await self._acts.recording.commit()

    def note_end(self, result: dict[str, Any], error: str | None) -> None:
        """Note what came of it, once."""
        if not self._ended:
            self._ended = True
            acts = self._acts
            acts.recording.ended(acts.iteration, self._place, self.call, result, error)

    async def ended(self, result: dict[str, Any], error: str | None, alone: bool) -> None:
        """Write down what came of it, before others of the answer have ended.

        Args:
            result: what came of it
            error: what went wrong, or None
            alone: whether there are no others; then it is written with what comes next
        """
        self.note_end(result, error)
        if not alone:
            await self._acts.recording.commit()

    def has(self, fingerprint: str) -> bool:
        """Whether exactly this was permitted in the process before, for this very call."""
        past = self._acts.recording.past.calls.get(self._place)
        return past is not None and past.permitted == (self._acts.iteration, fingerprint)

    def keep(self, fingerprint: str) -> None:
        """Note that it was permitted; written before it is executed."""
        self._acts.recording.permitted(self._acts.iteration, self._place, fingerprint)


class Acts:
    """The calls of one answer.

    Attributes:
        recording: where they are recorded
        iteration: which answer of the model it is
        skipped: the places of those that a person has decided to skip
    """

    def __init__(self, recording: Recording, iteration: int, calls: Sequence[Wanted]) -> None:
        self.recording = recording
        self.iteration = iteration
        self.skipped: list[int] = []
        self._acts = [Act(self, place, call) for place, call in enumerate(calls)]

    def act(self, place: int) -> Act:
        """The call at a place."""
        return self._acts[place]

    def take_up(self, results: list[dict[str, Any] | None]) -> str:
        """Take what was recorded of them; what has a result is not executed again.

        Args:
            results: where the results go

        Returns:
            Which of them are in doubt, in words; empty if none is.
        """
        doubted = []
        for place, past in self.recording.past.calls.items():
            if place >= len(self._acts):
                continue
            act = self._acts[place]
            if past.state == "ended":
                assert past.step is not None
                act.set_args(past.args)
                results[place] = past.step.result
                act._ended = True
            elif past.state == "skip":
                act.set_args(past.args)
                results[place] = {"tool_executed": False, "error": _SKIPPED}
                self.skipped.append(place)
            elif past.state == "done":
                act.set_args(past.args)
                results[place] = {"tool_executed": True, "result": past.decided}
                self.skipped.append(place)
            elif past.state == "started" and not past.idempotent:
                doubted.append(f'"{act.call.name}" {cut(json_text(past.args), 200)}')
            elif past.state:
                act._begun_with = past.args
        if not doubted:
            return ""
        return (
            f"{', '.join(doubted)} had begun when the process ended, and whether it took effect is "
            f"not known: say whether to repeat it, `civitas resume {self.recording.run_id} "
            "--repeat`, or not, --skip (journal.decide)"
        )

    async def begin(self, places: Iterable[int], certain: bool) -> None:
        """Write down the model's answer, and that those are executed which nobody has to permit.

        Args:
            places: which are to be executed
            certain: whether they are executed as they are: no hook may change them

        Raises:
            JournalError: it cannot be written
        """
        for place in places if certain else ():
            act = self._acts[place]
            assert act.call.action is not None
            if act.call.action.access_policy == ACCESS_PERMITTED:
                act.note_start()
        await self.recording.commit()
