"""The public names of this package: `__init__.py` loads them from here."""

from moothall.serving.doors import checks as checks
from moothall.serving.doors.asks import Caller as Caller
from moothall.serving.doors.callers import Callers as Callers
from moothall.serving.doors.callers import caller_of as caller_of
from moothall.serving.doors.callers import sender_of as sender_of
from moothall.serving.doors.door_guard import DoorGuard as DoorGuard
from moothall.serving.doors.front import Front as Front
from moothall.serving.doors.mcp import MCPDoor as MCPDoor
from moothall.serving.doors.protocols import DOORS as DOORS
from moothall.serving.doors.protocols import TooOften as TooOften
from moothall.serving.doors.served_agents import Served as Served
from moothall.serving.doors.server import HTTPServer as HTTPServer
