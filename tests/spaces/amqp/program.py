"""A process with a space, told what to do in lines of JSON: `[what, {its arguments}]`."""

from __future__ import annotations

import json
import sys
from typing import Any

from moothall import AMQPOptions, AMQPSpace
from spaces.amqp.worker import Approving, Notes, Worker


def main(options: dict[str, Any]) -> None:
    """Do what each line says, and tell how it went."""
    notes = Notes(options.pop("notes"))
    says = options.pop("says", None)
    if says is not None:
        options["approver"] = Approving(notes, says)
    space = AMQPSpace(
        amqp_options=AMQPOptions("127.0.0.1", options.pop("port")), **{"grace": 0, **options}
    )

    def do(what: str, given: dict[str, Any]) -> Any:
        if what == "add":
            shared = given.pop("shared", False)
            space.add(Worker(notes=notes, **given), shared=shared)
        elif what == "remove":
            space.remove(given["id"])
        elif what == "busy":
            return space.statistics()["agents"][given["id"]]
        elif what == "close":
            space.close()
        return None

    for line in sys.stdin:
        try:
            said: Any = {"value": do(*json.loads(line))}
        except Exception as error:
            said = {"type": type(error).__name__, "text": str(error)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
