"""A turn of an MCP client: it says the question in its thread, and orders what that asks about.

The first `say` begins a thread, which its result names. `connect` returns a function that calls a
tool and returns `(value, meta)`; a session that has ended is begun anew, as the protocol demands.
"""

from __future__ import annotations

import re


def say_and_order(connect, sessions: bool):
    known = {}

    async def called(name, **args):
        if "call" not in known:
            known["call"] = await connect()
        try:
            return await known["call"](name, args)
        except Exception as error:
            if not (sessions and "session" in str(error).lower()):
                raise
            known["call"] = await connect()
            return await known["call"](name, args)

    async def turn(question):
        thread = {"thread": known["thread"]} if "thread" in known else {}
        text, meta = await called("say", content=question, **thread)
        if (meta or {}).get("thread"):
            known["thread"] = meta["thread"]
        if item := re.search(r"(\w+) cost", question):
            ordered, _ = await called("order", item=item[1])
            assert ordered == f"ordered {item[1]}", ordered
        return text

    return turn
