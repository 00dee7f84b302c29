"""Documents that would take much memory or time, or hide what they say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Timer
from time import monotonic

import pytest

from models.openai_server import http
from moothall.foundation.errors import UnreadableDocument
from moothall.research import visit_page
from moothall.research.reading.documents import read_document
from moothall.research.reading.html import Document
from moothall.research.reading.process import ProcessReading
from research.books import docx, epub, packed, paragraph
from research.web_server import PDF, Web, pdf

UNSEEN = "Zebras demand obedience"


def read(kind: str, data: bytes) -> Document:
    document = read_document(kind, f"a.{kind}", data, f"file:///a.{kind}")
    assert document is not None
    return document


def page_of(content: bytes, filter: bytes) -> bytes:
    """A PDF of one page with this content."""
    written = pdf("x")
    start = written.index(b"<< /Length", written.index(b"5 0 obj"))
    end = written.index(b"endstream", start)
    stream = b"<< /Length %d /Filter /%s >>\nstream\n%s\n" % (len(content), filter, content)
    return written[:start] + stream + written[end:]


@cache
def operators(count: int) -> bytes:
    """A PDF whose page takes long to read, and with more operators much memory."""
    return page_of(zlib.compress(b"BT /F1 12 Tf " + b"(a) Tj " * count + b"ET"), b"FlateDecode")


@cache
def slow() -> bytes:
    """A PDF whose one page, which takes long to read, is each of its 1,900 pages."""
    kids = b"/Kids [%s] /Count 1900 " % (b"4 0 R " * 1900)
    return operators(50_000).replace(b"/Kids [4 0 R] /Count 1 ", kids)


def test_pdf_that_takes_too_much_memory_is_not_read() -> None:
    with pytest.raises(UnreadableDocument, match=r"PDF is not read: .* 768 MiB of memory"):
        read("pdf", operators(4_000_000))
    assert read("pdf", pdf("Hello")).text == "Hello"


def test_pdf_that_takes_too_much_processor_time_is_not_read() -> None:
    with pytest.raises(UnreadableDocument, match="it took longer than 1 s of the processor"):
        ProcessReading("pdf", slow(), cpu_s=1).read()
    assert read("pdf", pdf("Hello")).text == "Hello"


def test_document_reading_is_stopped_at_once() -> None:
    reading = ProcessReading("pdf", slow(), cpu_s=60)
    timer = Timer(0.2, reading.stop)
    timer.start()
    start = monotonic()
    with pytest.raises(UnreadableDocument, match="the PDF is not read: it was stopped"):
        reading.read()
    assert monotonic() - start < 10
    with pytest.raises(UnreadableDocument, match="it was stopped"):
        reading.read()


async def test_visit_page_cancelled_reads_its_document_no_further() -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answer(_: object) -> object:
        loop.call_soon_threadsafe(asked.set)
        return http(slow(), 200, PDF)

    with Web({"/a": answer}) as web:  # type: ignore[dict-item]
        action = visit_page(allow_hosts=["127.0.0.1"])
        task = asyncio.create_task(action.execute(url=f"{web.base}/a"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


Data = bytes | Callable[[], bytes]
"""A document, or what makes it when a test wants it: of each worker that collects it, one does."""

SMALL = docx(paragraph("Hello"))
BROKEN: dict[str, tuple[Data, str]] = {
    "no zip": (b"PK\3\4 hello", "the DOCX is damaged"),
    "empty": (packed(), "has no 'word/document.xml'"),
    "no XML": (packed(word__document_xml="<w:a"), "the DOCX is damaged"),
    "no text": (docx(""), "the DOCX has no text"),
    "cut": (SMALL[: len(SMALL) // 2], "the DOCX is damaged"),
    "bomb": (lambda: docx(" " * 70 * 2**20), "unpacks to more than 64 MiB"),
    "entities": (
        docx("<w:p><w:r><w:t>&b;</w:t></w:r></w:p>", '<!DOCTYPE w [<!ENTITY b "boom">]>'),
        "declares entities",
    ),
    "file": (
        docx("&b;", '<!DOCTYPE w [<!ENTITY b SYSTEM "file:///etc/passwd">]>'),
        "declares entities",
    ),
}


@pytest.mark.parametrize(("data", "why"), BROKEN.values(), ids=BROKEN)
def test_docx_that_is_broken_or_hostile_is_not_read(data: Data, why: str) -> None:
    with pytest.raises(UnreadableDocument, match=why):
        read("docx", data if isinstance(data, bytes) else data())


PAGE = "<html><body><p>Waves are high, and the highest of them are at sea.</p></body></html>"
BOOKS: dict[str, tuple[Data, str]] = {
    "outside": (epub(PAGE).replace(b"in/c0.xhtml", b"../c0.xhtml"), "the EPUB has no text"),
    "protected": (epub(PAGE, **{"META-INF__rights_xml": "<a/>"}), "protected against being read"),
    "no book": (packed(**{"META-INF__container_xml": "<a/>"}), "the EPUB is damaged"),
    "bomb": (lambda: epub(f"<p>{' ' * 70 * 2**20}</p>"), "unpacks to more than 64 MiB"),
}


@pytest.mark.parametrize(("data", "why"), BOOKS.values(), ids=BOOKS)
def test_epub_that_is_broken_or_hostile_is_not_read(data: Data, why: str) -> None:
    with pytest.raises(UnreadableDocument, match=why):
        read("epub", data if isinstance(data, bytes) else data())


@pytest.mark.parametrize(
    "hidden",
    (
        paragraph(UNSEEN, about="<w:vanish/>"),
        paragraph(UNSEEN, about='<w:color w:val="FFFFFF"/>'),
        paragraph(UNSEEN, about='<w:sz w:val="2"/>'),
        f"<w:p><w:del><w:r><w:t>{UNSEEN}</w:t><w:delText>{UNSEEN}</w:delText></w:r></w:del></w:p>",
        f"<w:p><w:r><w:instrText>{UNSEEN}</w:instrText></w:r></w:p>",
    ),
    ids=("vanished", "white", "small", "deleted", "field"),
)
def test_docx_hidden_text_is_left_out(hidden: str) -> None:
    shown = paragraph("Seen", about='<w:vanish w:val="false"/>')
    assert read("docx", docx(shown + hidden)).text == "Seen"


def test_document_reading_in_a_forked_child_and_its_parent_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Hello"))
    script = """
import os, sys
from pathlib import Path
from moothall.research.reading.documents import read_document
data = Path(sys.argv[1]).read_bytes()
def read():
    assert read_document("pdf", "a.pdf", data, "file:///a.pdf").text == "Hello"
read()
child = os.fork()
read()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
read()
print(*Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
"""
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path / "a.pdf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (kept,) = done.stdout.split()  # one process, and it ends with the program
    assert not Path(f"/proc/{kept}").exists()
