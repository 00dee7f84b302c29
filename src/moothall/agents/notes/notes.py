"""The notes of an agent: an index in its prompt, and four actions."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moothall import Action, Block, ConfigError, Context, FileError, Guidance, NoSuchFile
from moothall.agents.notes import folders
from moothall.agents.notes.folders import NoteFolder
from moothall.agents.notes.note import MAX_CHARS, Note, checked_name
from moothall.build import (
    WORKERS,
    check_boolean,
    check_function,
    check_path,
    counted,
    cut,
    json_text,
    names_checked,
)

NotesBy = str | Callable[[Context[Any]], str]
OWN_THREAD: Final = "default"
"""The key of the agent's own thread, as in a memory that is a file."""
_MAX_INDEX_BYTES: Final = 900
"""The most bytes of the index's lines: some 350 tokens."""
_MAX_HITS: Final = 10
_EXCERPT_CHARS: Final = 200


@names_checked
class Notes(Block):
    """Notes that an agent keeps from one conversation to the next, for `blocks=[…]`.

    Its model writes them by `note(name, text)`, reads them by `read_note(name)`, searches them by
    `find_notes(words)` and deletes them by `forget_note(name)`. The prompt lists the notes that
    were written last, one a line. They are Markdown files, which people and git can read.

    A note keeps where its text comes from. One that was written after something was read from
    outside is from outside in every later conversation; so is one of another conversation, whose
    user may be somebody else, where all share one folder (docs/provenance.md).

    Args:
        folder: where the notes are; it is made with the first one
        by: who shares them: `thread`, a folder for each conversation; `shared`, one for all; or a
            function of the `Context` that returns the name of the folder, such as the id of a user
        trusted: whether a note counts as the program's that the agent did not write, that was
            changed since, or that another conversation shares; else it counts as from outside,
            since nobody knows who wrote it

    Raises:
        ConfigError: an argument is not valid
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, by: NotesBy = "thread", trusted: bool = False
    ) -> None:
        super().__init__()
        check_path("Notes: folder=", folder, "folder")
        if os.path.isfile(folder):
            raise ConfigError(
                f"Notes: folder= must be the path of a folder, got {folder!r:.80} (a file)"
            )
        if callable(by):
            check_function("Notes: by=", by, "context")
        elif by not in ("thread", "shared"):
            raise ConfigError(
                'Notes: by= must be "thread", "shared" or a function of the Context, '
                f"got {by!r:.80}"
            )
        check_boolean("Notes: trusted=", trusted)
        self.folder: str = os.path.abspath(folder)
        self.by: NotesBy = by
        self.trusted: bool = trusted
        actions = (
            Action("note", self._note, idempotent=True, addresses=()),
            Action("read_note", self._read_note, idempotent=True),
            Action("find_notes", self._find, idempotent=True),
            Action("forget_note", self._forget, idempotent=True),
        )
        self.offers: dict[str, Action] = {each.name: each for each in actions}
        descriptions = ((name, each.description) for name, each in self.offers.items())
        self.actions: dict[str, str] = dict(descriptions)
        self.keeps_in: str = self.folder

    def __repr__(self) -> str:
        return f"<Notes in {self.folder}>"

    def forget_thread(self, thread: str) -> int:
        """Delete the notes of a conversation, and of those below it; return how many.

        Raises:
            FileError: a note cannot be deleted
        """
        return folders.forget_thread(self.folder, thread)

    # -- the index ---------------------------------------------------------------------------------

    async def guidance(self, context: Context[Any]) -> Guidance:
        """Return the index: a line for each note, those that were written last first."""
        return await WORKERS.run(asyncio.get_running_loop(), self._index, context)

    def _index(self, context: Context[Any]) -> Guidance:
        folder = self._folder_of(context)
        lines = [
            "# Notes",
            "By note you keep what will matter in a later conversation; by read_note and "
            "find_notes you read it.",
        ]
        # Of a note from outside only the name is shown: nobody else writes into the prompt.
        outside: list[tuple[str, str]] = []
        lines_of_others: list[tuple[str, str]] = []
        bytes_left, listed = _MAX_INDEX_BYTES, 0
        for each in folder.notes():
            line = f"- {each.name}: {each.line}" if each.is_own else f"- {each.name}"
            if (bytes_left := bytes_left - len(line.encode()) - 1) < 0:
                break
            listed += 1
            if each.sources:
                (lines_of_others if each.is_own else outside).append((each.sources[0], line))
            else:
                lines.append(line)
        if outside:
            outside.insert(0, ("notes", "Notes that were written after reading from outside:"))
        if lines_of_others:
            outside += [("notes", "Notes of other conversations:"), *lines_of_others]
        if (unlisted := len(folder.names()) - listed) > 0:
            lines.insert(
                2, f"The newest of them are listed; {counted(unlisted, 'more note')} can be found."
            )
        return Guidance("\n".join(lines), outside)

    # -- the actions -------------------------------------------------------------------------------

    def _folder_of(self, context: Context[Any]) -> NoteFolder:
        reader = _thread_of(context) if self.by == "shared" else None
        return NoteFolder(Path(self.folder), self._key(context), self.trusted, reader)

    def _key(self, context: Context[Any]) -> str | None:
        if self.by == "shared":
            return None
        if not callable(self.by):
            return _thread_of(context)
        key: Any = self.by(context)
        if not isinstance(key, str) or not key:
            raise ConfigError(f"Notes: by= must return a text, got {key!r:.80}")
        return key

    def _note(self, name: str, text: str, context: Context[Any]) -> str:
        """Keep a note for later conversations; it replaces one of the same name.

        Args:
            name: A short name, such as annas-address
            text: What to keep, as Markdown
        """
        name = checked_name(name)
        if not text.strip():
            raise FileError("the text of a note must not be empty; forget_note deletes one")
        if len(text) > MAX_CHARS:
            raise FileError(
                f"the text of a note has at most {MAX_CHARS:,} characters, got {len(text):,}"
            )
        text, thread = json_text(text), _thread_of(context)
        replaced = self._folder_of(context).write(name, text, context.sources, thread)
        return f"{'replaced' if replaced else 'noted'}: {name}"

    def _read_note(self, name: str, context: Context[Any]) -> str:
        """Read a note.

        Args:
            name: Name of the note
        """
        name = checked_name(name)
        entry = self._folder_of(context).read(name)
        if entry is None:
            raise NoSuchFile(f"there is no note {name!r}; find_notes searches them by words")
        context.note_sources(entry.sources, entry.text)
        return entry.text

    def _find(self, words: str, context: Context[Any]) -> list[dict[str, str]]:
        """Find notes by words; the best come first.

        Args:
            words: What to look for
        """
        from moothall.build import Ranking, Words

        notes = list(self._folder_of(context).notes())
        ranking = Ranking(Counter(Words(f"{each.name} {each.text}").terms()) for each in notes)
        weights = {term: ranking.weight(term) for term in Words(words).terms()}
        hits = [notes[each.place] for each in ranking.best(weights)[:_MAX_HITS]]
        results = [{"name": each.name, "line": _excerpt(each, weights)} for each in hits]
        for each, result in zip(hits, results, strict=True):
            context.note_sources(each.sources, result)
        return results

    def _forget(self, name: str, context: Context[Any]) -> str:
        """Delete a note.

        Args:
            name: Name of the note
        """
        name = checked_name(name)
        return (
            f"forgotten: {name}" if self._folder_of(context).forget(name) else f"no note {name!r}"
        )


def _thread_of(context: Context[Any]) -> str:
    return context.kept_thread or OWN_THREAD


def _excerpt(note: Note, weights: dict[str, float]) -> str:
    """Return the line of a note that says the most of what was looked for."""
    from moothall.build import Words

    lines = [each.strip() for each in note.text.splitlines() if each.strip()]
    best = max(
        lines,
        key=lambda each: sum(weights.get(term, 0) for term in {*Words(each).terms()}),
        default="",
    )
    return cut(best, _EXCERPT_CHARS)
