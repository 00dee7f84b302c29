"""The names of `__init__.py` for type checkers and editors."""

from moothall.doors.application import asgi as asgi
