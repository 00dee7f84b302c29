"""What the servers of Python share: each is called with its mode, and a file or folder of its own.

Over HTTP it listens at the socket that is its standard input; over standard streams it writes the
id of its process in the file.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import uvicorn

MODE, WHERE = sys.argv[1], Path(sys.argv[2])
PRICES = {"lamp": 12, "chair": 40}
if MODE == "stdio":
    WHERE.write_text(str(os.getpid()))


def serve(app) -> None:
    config = uvicorn.Config(app, log_level="warning")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=0)])
