"""The public names of this package: `__init__.py` loads them from here."""

from moothall.doors.application import asgi as asgi
