"""The process that reads documents for process.py: `python -m moothall.research.reading.worker`."""

from __future__ import annotations

import base64
import json
import os
import queue
import resource
import struct
import sys
import threading
from contextlib import suppress
from typing import Any, BinaryIO, Final

from moothall import UnreadableDocument
from moothall.research.reading.document_kinds import document_kinds, kind_label

_LARGE_KIB: Final = 300 * 2**10  # KiB; a process that was as large is not used again


def main() -> None:
    """Read one document after the other, until the parent closes the pipe or ends."""
    memory = int(sys.argv[1])
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with suppress(OSError, ValueError):  # macOS refuses some
            resource.setrlimit(limit, (value, value))
    documents: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
    threading.Thread(target=_read_documents, args=(documents,), daemon=True).start()
    while True:
        header, data = documents.get()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_limit = int(usage.ru_utime + usage.ru_stime) + 1 + int(header["cpu"])
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, resource.RLIM_INFINITY))
        answer = _answer_document(str(header["kind"]), data, memory)
        is_large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _LARGE_KIB
        answer["last"] = is_large or answer.get("last", False)
        content = json.dumps(answer).encode()
        os.write(1, struct.pack("<Q", len(content)))
        view = memoryview(content)
        while view:
            view = view[os.write(1, view) :]


def _read_documents(documents: queue.SimpleQueue[tuple[dict[str, Any], bytes]]) -> None:
    """Take documents in; end the process when its parent ends, also amid a document."""
    source: BinaryIO = sys.stdin.buffer
    while line := source.readline(1000):
        header = json.loads(line)
        data = source.read(int(header["size"]))
        if len(data) < header["size"]:
            break
        documents.put((header, data))
    os._exit(0)


def _answer_document(kind: str, data: bytes, memory: int) -> dict[str, Any]:
    try:
        document = document_kinds()[kind].read(data)
        sections = [(each.start, each.anchor, each.title) for each in document.sections]
        answer = {"title": document.title, "text": document.text, "sections": sections}
        attached = [(name, base64.b64encode(file).decode()) for name, file in document.attached]
        return answer | {"missing": document.missing, "attached": attached}
    except UnreadableDocument as error:
        return {"error": str(error)}
    except (MemoryError, RecursionError) as error:
        limit = f"{memory // 2**20} MiB of memory"
        reason = limit if isinstance(error, MemoryError) else "the depth that its parser allows"
        return {
            "error": f"the {kind_label(kind)} is not read: it takes more than {reason}",
            "last": True,
        }
    except Exception as error:  # a malicious file can make a parser raise anything
        return {"error": f"the {kind_label(kind)} is damaged: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
