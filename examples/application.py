"""Agents, the files of this folder and you, in one space. Lines are said to everyone:

    python examples/application.py
    python examples/application.py http://127.0.0.1:8080/v1#qwen3

The argument names the model of FunctionAI, which can call what the others offer. Without one it is
gpt-4o-mini if OPENAI_API_KEY is set, and else the model in the box, which is too small to do it
well. Ctrl-D ends it.
"""

import contextlib
import logging
import os
import sys

from moothall import (
    ChattyAI,
    Host,
    MoothallError,
    NativeSpace,
    OpenAIFunctionAgent,
    Rule,
    RuleApprover,
    User,
)

# What fails is told to whoever asked; here it need not be shown twice.
logging.getLogger("moothall").setLevel(logging.CRITICAL)

key = os.getenv("OPENAI_API_KEY")
model = sys.argv[1] if len(sys.argv) > 1 else "gpt-4o-mini" if key else "local"
reading = RuleApprover([Rule(action="list_files"), Rule(action="read_file")])

try:
    function_ai = OpenAIFunctionAgent(
        "FunctionAI",
        model=model,
        openai_api_key=key,
        # Who is the user in the chat: what the others say is marked with their ids.
        user_id="User",
    )
except MoothallError as error:
    sys.exit(f"{error}")

with contextlib.suppress(KeyboardInterrupt), NativeSpace() as space:
    space.add(ChattyAI("Chatty", model="local"))
    space.add(Host("Host", approver=reading))
    space.add(function_ai)
    user = space.add(User("User"))
    print(f"Here are {', '.join(space.ids())}. Say something; Ctrl-D ends it.", flush=True)
    user.run_sync()
