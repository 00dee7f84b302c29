"""Notes that an agent keeps: Markdown files, each with the origin of its text."""

from moothall.agents.notes.notes import Notes as Notes
