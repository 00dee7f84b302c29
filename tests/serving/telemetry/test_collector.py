"""The page on tracing: its program and its variables, with a collector on loopback."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from commands import run as moothall
from moothall import ConfigError, ReActAgent, ScriptedModel
from moothall.serving.telemetry import export_otlp
from serving.telemetry.conftest import Traced
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


def test_command_sends_the_spans_of_a_run_to_a_collector(
    collector: Collector, traced: Traced, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    ReActAgent("desk", ScriptedModel(["Good morning."]), journal=path).reply_sync("Hi", run_id="r")

    done = moothall("runs", "export", "r", "--journal", path, "--otlp", collector.url)

    assert (done.returncode, done.stdout, done.stderr) == (0, "2 spans sent\n", "")
    ((at, _, given),) = collector.taken
    assert at == "/v1/traces"
    sent = given.resource_spans[0].scope_spans[0].spans
    live = [span.context for span in traced.spans if span.context]
    assert [int.from_bytes(span.span_id, "big") for span in sent] == [one.span_id for one in live]
    assert {int.from_bytes(span.trace_id, "big") for span in sent} == {live[0].trace_id}


def test_export_to_an_address_that_is_none_says_so(tmp_path: Path) -> None:
    for url in (5, None, "", "http://[x"):
        with pytest.raises(ConfigError, match="the address of a collector must be an http URL"):
            export_otlp(tmp_path / "runs.db", "r", url)  # type: ignore[arg-type]


def test_command_without_a_collector_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    ReActAgent("desk", ScriptedModel(["Hello."]), journal=path).reply_sync("Hi", run_id="r")

    for url, said in (
        (
            "ftp://127.0.0.1",
            "the address of a collector must be an http URL, got 'ftp://127.0.0.1'",
        ),
        ("https://collector.example", "MOOTHALL_OFFLINE=1 forbids calls to collector.example"),
    ):
        done = moothall("runs", "export", "r", "--journal", path, "--otlp", url)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    done = moothall("runs", "export", "r", "--journal", path)
    assert done.returncode == 2
    assert "name what to make: --jsonl PATH, or --otlp URL" in done.stderr


def test_command_whose_collector_is_away_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    ReActAgent("desk", ScriptedModel(["Hello."]), journal=path).reply_sync("Hi", run_id="r")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        done = moothall(
            *("runs", "export", "r", "--journal", path, "--otlp", url),
            env={**os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"},
        )
    assert done.returncode == 1
    assert "the spans of run 'r' were not exported" in done.stderr
