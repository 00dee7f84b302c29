"""Notes that an agent keeps: Markdown files, each with the origin of its text."""

from moothall.agents.notes.folders import forget_thread as forget_thread
from moothall.agents.notes.notes import Notes as Notes
