"""A server on loopback with the batches of OpenAI and Anthropic, as their documentation has them.

A batch is under way until `finish()`; then each request has what `answers` makes of its prompt: a
text; a status, which is an error of that request alone; or "expired". Results come in reverse.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class BatchServer:
    def __init__(self, answers: Callable[[str, int], Any] | None = None) -> None:
        self.answers = answers or (lambda prompt, tries: f"about {prompt}")
        self.batches: dict[str, dict[str, Any]] = {}
        self.cancelled: list[str] = []
        self.looks = threading.Semaphore(0)
        self.came = threading.Semaphore(0)
        self.status = "completed"
        self._files: dict[str, bytes] = {}
        self._tries: dict[str, int] = {}
        self._over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._say(*server._get(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._say(*server._post(self.path, body))

            def _say(self, status: int, given: Any) -> None:
                data = given if isinstance(given, bytes) else json.dumps(given).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> BatchServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def finish(self, status: str = "completed") -> None:
        self.status = status
        self._over.set()

    # -- OpenAI's ----------------------------------------------------------------------------------

    def _post(self, path: str, body: bytes) -> tuple[int, Any]:
        if path.endswith("/cancel"):
            self.cancelled.append(path.split("/")[-2])
            return 200, {"id": self.cancelled[-1], "status": "cancelling"}
        if path == "/v1/files":
            assert b'name="purpose"\r\n\r\nbatch\r\n' in body
            id = f"file-{len(self._files)}"
            found = re.search(rb"application/jsonl\r\n\r\n(.*)\r\n--", body, re.S)
            assert found is not None
            self._files[id] = found[1]
            return 200, {"id": id, "object": "file", "purpose": "batch"}
        given = json.loads(body)
        id = f"batch_{len(self.batches)}"
        if path == "/v1/batches":
            assert given["completion_window"] == "24h"
            lines = [json.loads(each) for each in self._files[given["input_file_id"]].splitlines()]
            for each in lines:
                assert (each["method"], each["url"]) == ("POST", given["endpoint"])
            self.batches[id] = {each["custom_id"]: each["body"] for each in lines}
        else:
            assert path == "/v1/messages/batches"
            self.batches[id] = {each["custom_id"]: each["params"] for each in given["requests"]}
        self.came.release()
        return 200, {"id": id, "object": "batch", "type": "message_batch"}

    def _get(self, path: str) -> tuple[int, Any]:
        kind, id = path.removesuffix("/content").removesuffix("/results").split("/")[-2:]
        over = self._over.is_set()
        if kind == "files":
            return 200, self._files[id]
        if id not in self.batches:
            return 404, {"error": {"message": "no such batch"}}
        if path.endswith("/results"):
            lines = [{"custom_id": at, "result": each} for at, each in self._results(id).items()]
            return 200, _jsonl(lines)
        self.looks.release()
        if path.startswith("/v1/messages"):
            state = "ended" if over else "in_progress"
            # An address of a stranger is not asked.
            return 200, {"id": id, "processing_status": state, "results_url": "http://192.0.2.1/"}
        return 200, self._openai(id) if over else {"id": id, "status": "in_progress"}

    def _openai(self, id: str) -> dict[str, Any]:
        about: dict[str, Any] = {"id": id, "object": "batch", "status": self.status}
        about |= {"completion_window": "24h", "created_at": 1, "endpoint": "/", "input_file_id": ""}
        if self.status == "failed":
            wrong = {"code": "model_not_found", "message": "The model is not known", "line": 1}
            about["errors"] = {"object": "list", "data": [wrong]}
        elif self.status == "completed":
            good, bad = [], []
            for at, result in self._results(id).items():
                line: dict[str, Any] = {"id": "x", "custom_id": at, "response": None, "error": None}
                if result["type"] == "expired":
                    line["error"] = {"code": "batch_expired", "message": "not in time"}
                elif result["type"] == "errored":
                    body = {"error": result["error"]["error"]}
                    line["response"] = {"status_code": result["status"], "body": body}
                else:
                    text = result["message"]["content"][0]["text"]
                    choice = {"message": {"role": "assistant", "content": text}}
                    body = {"choices": [choice | {"finish_reason": "stop"}]}
                    body |= {"usage": {"prompt_tokens": 1000, "completion_tokens": 100}}
                    line["response"] = {"status_code": 200, "body": body}
                (good if result["type"] == "succeeded" else bad).append(line)
            for name, lines in (("output_file_id", good), ("error_file_id", bad)):
                if lines:
                    self._files[f"{name}-{id}"] = _jsonl(lines)
                    about[name] = f"{name}-{id}"
        return about

    def _results(self, id: str) -> dict[str, dict[str, Any]]:
        made: dict[str, dict[str, Any]] = {}
        for at, request in reversed(self.batches[id].items()):
            content: Any = request["messages"][-1]["content"]
            prompt = content if isinstance(content, str) else content[0]["text"]
            tries = self._tries[prompt] = self._tries.get(prompt, 0) + 1
            said = self.answers(prompt, tries)
            if said == "expired":
                made[at] = {"type": "expired"}
            elif isinstance(said, int):
                kind = "invalid_request_error" if said == 400 else "api_error"
                error = {"type": kind, "message": f"wrong: {prompt}"}
                made[at] = {"type": "errored", "error": {"type": "error", "error": error}}
                made[at]["status"] = said
            else:
                message: dict[str, Any] = {"id": "msg_1", "type": "message", "model": "m"}
                message |= {"role": "assistant", "content": [{"type": "text", "text": said}]}
                message |= {"stop_reason": "end_turn", "stop_sequence": None}
                message["usage"] = {"input_tokens": 1000, "output_tokens": 100}
                made[at] = {"type": "succeeded", "message": message}
        return made


def _jsonl(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in lines)
