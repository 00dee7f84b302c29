"""A host in a process of its own: it offers the files of a folder to the agents of other processes.

    python examples/amqp/host.py [FOLDER]

It needs a RabbitMQ, by default at localhost:5672; AMQP_HOST, AMQP_PORT, AMQP_USERNAME,
AMQP_PASSWORD and AMQP_VHOST say otherwise. Run chatty.py in a second terminal, and talk with both
in a third:

    moothall chat --amqp
    > /Host.list_files
    > /Chatty.say content:"Good morning"

Nobody sits at this process who could be asked, so a rule permits listing and reading, and all else
that asks first is refused.
"""

import sys
import threading

from moothall import AMQPSpace, Host, MoothallError, Rule, RuleApprover

if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    reading = RuleApprover([Rule(action="list_files"), Rule(action="read_file")])
    try:
        with AMQPSpace() as space:
            space.add(Host("Host", folder, approver=reading))
            print("Host is here. Ctrl-C ends it.", flush=True)
            threading.Event().wait()
    except MoothallError as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        print("Host has left.")
