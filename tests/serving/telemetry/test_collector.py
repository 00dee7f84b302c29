"""The page on tracing: its program and its variables, with a collector on loopback."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from test_docs import ROOT, blocks

PAGE = (ROOT / "docs/howto/log-and-trace.md").read_text()
KEYS = {"LANGFUSE_PUBLIC_KEY": "pk-1", "LANGFUSE_SECRET_KEY": "sk-2", "LOGFIRE_TOKEN": "t-3"}


class Collector:
    """Takes spans by OTLP over HTTP, at whatever path."""

    def __init__(self) -> None:
        taken: list[tuple[str, str | None, ExportTraceServiceRequest]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                found = ExportTraceServiceRequest()
                found.ParseFromString(body)
                taken.append((self.path, self.headers["Authorization"], found))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.taken = taken
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("host", "path", "authorization"),
    (
        ("http://127.0.0.1:4318", "/v1/traces", None),
        (
            "https://cloud.langfuse.com",
            "/api/public/otel/v1/traces",
            f"Basic {base64.b64encode(b'pk-1:sk-2').decode()}",
        ),
        ("https://logfire-api.pydantic.dev", "/v1/traces", "t-3"),
    ),
)
def test_variables_of_the_page_bring_the_spans_to_each_tool(
    collector: Collector, tmp_path: Path, host: str, path: str, authorization: str | None
) -> None:
    found = blocks(PAGE)
    (program,) = [block.text for block in found if "OTLPSpanExporter" in block.text]
    (variables,) = [each.text for each in found if f"OTLP_ENDPOINT={host}" in each.text]
    (tmp_path / "desk.py").write_text(program)
    script = variables.replace(host, collector.url, 1) + f"exec '{sys.executable}' desk.py\n"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=tmp_path,
        env={**clean, **KEYS},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("Good morning.\n", "")
    ((at, by, given),) = collector.taken
    assert (at, by) == (path, authorization)
    (resource,) = given.resource_spans
    service = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert service["service.name"] == "desk"
    (scope,) = resource.scope_spans
    assert scope.scope.name == "moothall"
    assert [span.name for span in scope.spans] == ["chat scripted", "invoke_agent desk"]
