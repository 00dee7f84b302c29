"""A process that wants an id: `python -m faults.rival PORT EXCHANGE ID`.

It says `ready`, claims the id when it is told anything, and says whether that is its own or taken.
It keeps it until its input ends.
"""

from __future__ import annotations

import os
import sys

from moothall import Agent, AMQPOptions, AMQPSpace, DuplicateAgent


def main() -> None:
    port, exchange, id = sys.argv[1:]
    options = AMQPOptions("127.0.0.1", int(port))
    with AMQPSpace(amqp_options=options, exchange=exchange) as space:
        space.add(Agent(f"rival {os.getpid()}"))  # so that it is connected
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            space.add(Agent(id))
            print("mine", flush=True)
        except DuplicateAgent:
            print("taken", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
