"""How many of the words that office files hold are read, and in what time.

    python -m benchmarks.office FOLDER

FOLDER has any DOCX, PPTX, XLSX, ODT, ODS and ODP files, such as the unpacked source distributions
of python-docx, python-pptx, mammoth, odfpy, pyexcel-ods3 and xlsx2csv. The words of a file are
those of the text elements of its own XML; what the reader leaves out because nobody sees it counts
as lost. Files of the same bytes count once. Those that are refused are listed on standard error; so
are those of which the reader says what is left out, such as hidden rows, and they are not counted.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
import xml.etree.ElementTree as ElementTree
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.measure import emit
from moothall.foundation.errors import UnreadableDocument
from moothall.research.reading.document_kinds import document_kinds
from moothall.research.reading.documents import kind_of

KINDS = (".docx", ".pptx", ".xlsx", ".odt", ".ods", ".odp")
_PARTS = re.compile(
    r"word/(?:document|footnotes|endnotes)\d*\.xml|ppt/(?:slides|notesSlides)/[^/]+\.xml"
    r"|xl/sharedStrings\.xml|content\.xml"
)
_PARAGRAPHS = ("p", "h", "si", "br", "tab")
_WORD = re.compile(r"\w+")


def own_words(file: zipfile.ZipFile) -> Counter[str]:
    """The words of the text elements of a file's own XML."""
    words: Counter[str] = Counter()
    for name in file.namelist():
        if _PARTS.fullmatch(name):
            is_open = name == "content.xml"
            pieces = []
            for element in ElementTree.fromstring(file.read(name)).iter():
                tag = element.tag.rpartition("}")[2]
                if tag in _PARAGRAPHS:
                    pieces.append("\n")
                if is_open and element.tag.endswith((":text:1.0}p", ":text:1.0}h")):
                    pieces.append("".join(element.itertext()))
                elif not is_open and tag == "t":
                    pieces.append(element.text or "")
            words.update(_WORD.findall("".join(pieces).casefold()))
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the files")
    found: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    seen: set[str] = set()
    for path in sorted(parser.parse_args().folder.rglob("*")):
        if path.suffix.lower() not in KINDS or not path.is_file():
            continue
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest in seen or not zipfile.is_zipfile(path):
            continue
        seen.add(digest)
        try:
            with zipfile.ZipFile(path) as file:
                words = own_words(file)
        except ElementTree.ParseError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        start = time.process_time()
        try:
            document = document_kinds()[kind_of(path.name) or ""].read(data)
            text = document.text
            if document.missing:
                print(f"{path.name} is not counted: {document.missing}", file=sys.stderr)
                continue
        except UnreadableDocument as error:
            if words:
                print(f"{path.name}: {error}", file=sys.stderr)
            text = ""
        seconds = time.process_time() - start
        read = Counter(_WORD.findall(text.casefold()))
        found[path.suffix.lower()].append(
            ((words & read).total(), words.total(), seconds),
        )
    for kind, files in found.items():
        arrived, total, seconds = (sum(each) for each in zip(*files, strict=True))
        emit("office: words", kind, arrived / (total or 1), "share", files=len(files), words=total)
        emit("office: time", kind, 1000 * seconds / len(files), "CPU ms a file")


if __name__ == "__main__":
    main()
