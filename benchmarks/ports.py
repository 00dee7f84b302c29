"""Ports on loopback that a server can leave and take again."""

from __future__ import annotations

import random
import socket

# Below those that systems give to clients by themselves (Linux from 32768, macOS and BSD from
# 49152). A client that tries a port again and again while its server is down would in the end be
# given that port as its own, and be connected to itself.
FIRST, LAST = 20000, 32000


def free_port() -> int:
    """A port that nobody listens on."""
    chance = random.SystemRandom()  # a seeded generator would give two processes the same
    while True:
        port = chance.randrange(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
