"""What a caller says of a run is a row of attributes; journals, exports, spans and pages have it.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ROW = (
    ("    tags: Tags | None\n", "    title: str | None\n"),
    ("    tags: dict[str, str] = field(default_factory=dict)\n", "    title: str = ''\n"),
    (
        "        _tags_of_option,\n    )",
        ',\n    "title": _RunAttribute(str, _wanted_title, str,'
        ' "--title", "TEXT", "By title.", _one),\n',
    ),
    (
        "    return texts\n",
        "\n\ndef _wanted_title(given: Any) -> Iterator[tuple[str, str | None]]:\n"
        '    yield "", str(given)\n'
        "\n\ndef _one(texts: Iterable[str]) -> str | None:\n"
        "    return next(iter(texts), None)\n",
    ),
)
USES = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from moothall import Journal, ReActAgent, ScriptedModel
from moothall.serving.telemetry import instrument
from moothall.studio.run_view import outline_row

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
instrument(provider)
agent = ReActAgent("a", ScriptedModel(["Yes."] * 2), journal="runs.db")
agent.reply_sync("go", run_id="one", title="Order 7", tags=["urgent"])
agent.reply_sync("go", run_id="two")
journal = Journal("runs.db")
assert [run.id for run in journal.runs(title="Order 7", tags="urgent")] == ["one"]
journal.export("one", "one.jsonl")
journal.delete("one")
journal.import_run("one.jsonl")
journal.fork("one", "copy")
assert outline_row(journal.run("one"), journal)["attributes"] == "urgent, Order 7"
assert [run.title for run in journal.runs()] == ["", "Order 7", "Order 7"]
titles = [span.attributes.get("moothall.run.title") for span in exporter.get_finished_spans()]
assert titles.count("Order 7") == 1
"""


def test_run_attribute_added_in_one_file_is_kept_found_exported_on_spans_and_pages(
    added: Added,
) -> None:
    run = added({"journal/attributes.py": ROW})
    run("-c", USES)
    found = run("-m", "moothall", "runs", "--journal", "runs.db", "--title", "Order 7")
    assert found.splitlines()[-1].startswith("2 runs: ")
    assert "[Order 7] go" in found
