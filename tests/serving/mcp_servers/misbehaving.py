"""An MCP server without the SDK, which starts fast, and misbehaves where a test asks for that.

Its tools are in the file that its first argument names, each time that it lists them; by default
those of `TOOLS`. With `silent` as its second argument it answers nothing;
`list:JSON` is a list; with `promises` it says that it has resources and prompts; with `dies:PIPE`
it ends when it lists them again, once somebody writes to the pipe. With `grows` it has resources
and prompts, one more of each after each call of `grow`. `answers:JSON` has what it answers by
method: for each cursor, `first` without one and `*` for any other, a result, an error or null for
nothing. A `nextCursor` of `+` is another one each time. `form:JSON` is what `ask` asks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "echo", "description": "Say it again.", "inputSchema": TEXT},
    {
        "name": "add",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
    *(
        {"name": name, "description": f"Does {name}.", "inputSchema": NOTHING}
        for name in (
            *(
                "fail",
                "wait",
                "stuck",
                "die",
                "noise",
                "babble",
                "chatter",
                "long",
                "image",
                "ask",
                "sample",
                "open",
                "login",
                "blocks",
            ),
            *(
                "bad",
                "refuse",
                "children",
                "environment",
                "deep",
                "help",
                "count",
                "close",
                "ask_next",
                "ask_twice",
                "grow",
            ),
        )
    ),
]


class Server:
    def __init__(self, path: str, mode: str) -> None:
        self.path = path
        self.mode = mode
        self.lock = threading.Lock()
        self.asked: dict[Any, Any] = {}
        self.opening = set[Any]()  # the calls that ask for an address to be opened
        self.log = os.environ.get("LOG", "")
        self.count = 0
        self.lists = 0
        self.said: list[Any] = []  # to the questions of `ask_twice`
        self.answers = json.loads(mode[8:]) if mode.startswith("answers:") else {}

    def send(self, **message: Any) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def note(self, text: str) -> None:
        if self.log:
            with open(self.log, "a") as file:
                file.write(text + "\n")

    def tools(self) -> Any:
        if self.mode.startswith("list:"):
            return json.loads(self.mode[5:])
        if self.path and os.path.exists(self.path):
            with open(self.path) as file:
                return json.load(file)
        return TOOLS

    def run(self) -> None:
        self.note(f"started {os.getpid()}")
        for line in sys.stdin:
            message = json.loads(line)
            if self.mode == "silent":
                continue
            method, id = message.get("method"), message.get("id")
            if method is None:
                asked = self.asked.pop(id)
                said = message.get("result", message.get("error"))
                if id in ("q3", "q4"):
                    self.said.append(said)
                    said = self.said
                    if len(self.said) < 2:
                        continue
                refused = asked in self.opening and said.get("action") != "accept"
                self.text(asked, json.dumps(said), isError=refused)
            elif method in self.answers:
                self.page(id, self.answers[method], message.get("params") or {})
            elif method == "initialize":
                self.send(
                    id=id,
                    result={
                        "protocolVersion": message["params"]["protocolVersion"],
                        "capabilities": {
                            "tools": {"listChanged": True},
                            **(
                                {"resources": {}, "prompts": {}}
                                if self.mode in ("promises", "grows") or self.answers
                                else {}
                            ),
                        },
                        "serverInfo": {"name": "misbehaving", "version": "1"},
                    },
                )
            elif method == "tools/list":
                self.lists += 1
                if self.mode.startswith("dies:") and self.lists == 2:
                    with open(self.mode[5:]) as pipe:
                        pipe.read()
                    os._exit(3)
                self.send(id=id, result={"tools": self.tools()})
            elif method == "resources/list" and self.mode == "grows":
                listed = [{"uri": f"file:///{n}", "name": str(n)} for n in range(self.count)]
                self.send(id=id, result={"resources": listed})
            elif method == "prompts/list" and self.mode == "grows":
                self.send(id=id, result={"prompts": [{"name": f"p{n}"} for n in range(self.count)]})
            elif method == "tools/call":
                self.call(id, message["params"]["name"], message["params"].get("arguments") or {})
            elif method == "notifications/cancelled":
                self.note(f"cancelled {message['params']['requestId']}")
            elif id is not None:
                self.send(id=id, error={"code": -32601, "message": "Method not found"})
        self.note("input closed")
        if self.mode == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            threading.Event().wait()

    def page(self, id: Any, pages: dict[str, Any], params: dict[str, Any]) -> None:
        cursor = params.get("cursor")
        answer = pages.get("first" if cursor is None else cursor, pages.get("*"))
        if answer is None:
            return
        if answer.get("result", {}).get("nextCursor") == "+":
            self.count += 1
            answer["result"] = {**answer["result"], "nextCursor": f"page {self.count}"}
            pages["*"] = {"result": {**answer["result"], "nextCursor": "+"}}
        self.send(id=id, **answer)

    def text(self, id: Any, text: str, **more: Any) -> None:
        self.send(id=id, result={"content": [{"type": "text", "text": text}], **more})

    def call(self, id: Any, name: str, args: dict[str, Any]) -> None:
        self.note(f"called {name} {json.dumps(args)}")
        if name == "echo":
            self.text(id, args["text"])
        elif name == "add":
            self.text(id, "a sum", structuredContent={"sum": args["a"] + args.get("b", 1)})
        elif name == "structured":
            self.text(id, "a value", structuredContent=args["value"])
        elif name == "fail":
            self.text(id, "the disk is full", isError=True)
        elif name == "ask_next":  # when the next call arrives
            self.asked["q2"] = id
        elif name == "wait":
            if "q2" in self.asked:
                form = {"type": "object", "properties": {"size": {"type": "integer"}}}
                asks = {"message": "Which one?", "requestedSchema": form}
                self.send(id="q2", method="elicitation/create", params=asks)
        elif name == "stuck":
            print("no disk", file=sys.stderr, flush=True)
        elif name == "die":
            print("out of paper", file=sys.stderr, flush=True)
            os._exit(3)
        elif name == "close":
            sys.stdout.close()
            os.close(1)
        elif name == "noise":
            print("Loading the model ...\n[not JSON\n{}", flush=True)
            self.text(id, "after the noise")
        elif name == "babble":
            while True:
                print("I am a log line", flush=True)
        elif name == "chatter":
            note = {"method": "notifications/message", "params": {"level": "info", "data": "hm"}}
            lines = (json.dumps({"jsonrpc": "2.0", **note}) + "\n") * 1000
            while True:
                sys.stdout.write(lines)
        elif name == "logs":
            for n in range(args["count"]):
                self.send(method="notifications/message", params={"level": "info", "data": n})
            self.text(id, "after the logs")
        elif name == "changes":
            for _ in range(args["count"]):
                self.send(method="notifications/tools/list_changed")
            self.text(id, "after the changes")
        elif name == "parts":
            part = {"type": "text", "text": "x"}
            self.send(id=id, result={"content": [part] * args["count"]})
        elif name == "blocks":
            self.send(id=id, result={"content": args["blocks"]})
        elif name == "long":
            sys.stdout.write("x" * (40 << 20))
            sys.stdout.flush()
        elif name == "image":
            text, image = {"type": "text", "text": "a dot"}, {"type": "image", "data": "AAAA"}
            blocks = [text, {**image, "mimeType": "image/png"}]
            self.send(id=id, result={"content": blocks})
        elif name in ("ask", "sample"):
            self.asked["q1"] = id
            form = {
                "type": "object",
                "properties": {"size": {"type": "integer"}, "color": {"enum": ["red", "blue"]}},
                "required": ["size"],
            }
            if self.mode.startswith("form:"):
                form = json.loads(self.mode[5:])
            asks = {"message": "Which one?", "requestedSchema": form}
            says = {"messages": [], "maxTokens": 5}
            if name == "ask":
                self.send(id="q1", method="elicitation/create", params=asks)
            else:
                self.send(id="q1", method="sampling/createMessage", params=says)
        elif name == "ask_twice":  # at once
            form = {"type": "object", "properties": {"size": {"type": "integer"}}}
            for question in ("q3", "q4"):
                self.asked[question] = id
                asks = {"message": question, "requestedSchema": form}
                self.send(id=question, method="elicitation/create", params=asks)
        elif name == "grow":
            self.count += 1
            for each in ("resources", "prompts"):
                self.send(method=f"notifications/{each}/list_changed")
            self.text(id, "grown")
        elif name == "open":
            self.asked["q1"] = id
            self.opening.add(id)
            asks = {"mode": "url", "message": "Log in.", "elicitationId": "e1", **args}
            self.send(id="q1", method="elicitation/create", params=asks)
        elif name == "login" and self.count < args.get("times", 1):
            self.count += 1
            asks = {"mode": "url", "message": "Log in.", "elicitationId": "e1"}
            wanted = {"elicitations": args.get("wanted", [{**asks, "url": args.get("url")}])}
            told = {"code": -32042, "message": "This request requires more information."}
            self.send(id=id, error={**told, "data": wanted})
        elif name == "bad":
            self.send(id=id, result={"content": 5})
        elif name == "deep":
            sys.stdout.write("[" * 100_000 + "\n")
            sys.stdout.flush()
            self.text(id, "deep")
        elif name == "refuse":
            self.send(id=id, error={"code": -32000, "message": "not on\na Tuesday"})
        elif name == "children":
            child = subprocess.Popen(["sleep", "1000"])
            self.text(id, str(child.pid))
        elif name == "environment":
            self.text(id, json.dumps(dict(os.environ)))
        elif name == "count":
            self.count += 1
            self.text(id, str(self.count))
        elif name == "change":
            os.replace(args["text"], self.path)
            self.send(method="notifications/tools/list_changed")
            self.text(id, "changed")
        else:
            self.text(id, f"called {name}")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], "", ""]
    Server(arguments[0], arguments[1]).run()
