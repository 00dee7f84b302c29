"""A chat agent in a process of its own: agents of other processes, and you, can talk to it.

    python examples/amqp/chatty.py [MODEL]

MODEL is a name that `moothall models` lists; left out, it is the model in the box. host.py says
what it needs, and how to talk to it.
"""

import sys
import threading

from moothall import AMQPSpace, ChattyAI, MoothallError

if __name__ == "__main__":
    model = sys.argv[1] if len(sys.argv) > 1 else "local"
    try:
        with AMQPSpace() as space:
            space.add(ChattyAI("Chatty", model=model))
            print("Chatty is here. Ctrl-C ends it.", flush=True)
            threading.Event().wait()
    except MoothallError as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        print("Chatty has left.")
