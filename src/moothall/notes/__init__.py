"""Notes that an agent keeps: Markdown files, each with the origin of its text."""

from moothall.notes.folders import forget_thread as forget_thread
from moothall.notes.notes import Notes as Notes
