"""A run of many MCP calls with a journal, in a process that a test kills."""

from __future__ import annotations

import sys
from typing import Any

from moothall import ACCESS_PERMITTED, Call, Journal, Memory, ReActAgent, ScriptedModel
from moothall.serving import MCPAgent
from serving.mcp_servers.conftest import command


def main(journal: str, log: str, calls: int) -> None:
    def answer(messages: list[dict[str, Any]], actions: Any) -> Any:
        made = sum(message["role"] == "tool" for message in messages)
        print("asks", made, flush=True)
        return Call(f"c{made}", "odd_echo", {"text": f"n{made}"}) if made < calls else "done"

    odd = MCPAgent("odd", command(), env={"LOG": log}, access=ACCESS_PERMITTED)
    with odd, Journal(journal) as kept:
        agent = ReActAgent(
            "a",
            ScriptedModel(answer),
            actions=[odd],
            memory=Memory(),  # unbounded, since the script counts the results that it is shown
            journal=kept,
            outside_policy=ACCESS_PERMITTED,  # what it calls next follows from the last result
            max_iterations=3 * calls,
        )
        for each in kept.runs():
            if kept.in_doubt(each.id):
                for doubt in kept.in_doubt(each.id):
                    print("doubt", doubt.args["text"], flush=True)
                kept.decide(each.id, "skip")
        reply = agent.reply_sync("go", run_id="r")
        print("ended", reply.stop_reason, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
