"""What is read of the files of docling's own tests, as its own texts of them have it.

    python -m benchmarks.docling FOLDER [--verbose]

FOLDER is `tests/data` of a checkout of github.com/docling-project/docling (MIT). `words`: of all
words of its Markdown of a kind's files, without links, pictures and marks, those that arrive, each
as often as it is there. `cells`: of its tables in PDF files, the cells behind the one that names
their row, for which a line has the cell, the row's name and all names of the column. Its texts have
LaTeX, the names of glyphs, text that is struck out and, in one table of contents, two rows as one:
these count as lost.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import emit
from moothall.foundation.errors import UnreadableDocument
from moothall.research.reading.document_kinds import document_kinds
from moothall.research.reading.documents import kind_of
from moothall.research.reading.html import read_html

KINDS = {"docx": "docx", "odt": "odf", "odp": "odf", "ods": "odf", "pptx": "pptx"} | {
    each: each for each in ("xlsx", "html", "pdf")
}
_NO_WORDS = re.compile(
    r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)|(?<=\])\([^)\s]*\)|^\|[-| :]+\|$", re.DOTALL | re.MULTILINE
)
_WORD_OR_MARK = re.compile(r"[^\W_]+|[^\w\s.]")
_NAME_LETTERS = 3  # of a row's name, at least: a mark is none


def read(path: Path) -> str:
    """A file's title and text; none if it is refused."""
    kind, data = kind_of(path.name) or "", path.read_bytes()
    try:
        if kind == "html":
            document = read_html(data, None, path.as_uri(), is_local=True)
        else:
            document = document_kinds()[kind].read(data)
    except UnreadableDocument as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return ""
    return f"{document.title}\n{document.text}"


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", re.sub(r"\*\*|[_\\]", " ", text.lower())))


def own_words(path: Path) -> Counter[str]:
    """The words of docling's Markdown."""
    return words(html.unescape(html.unescape(_NO_WORDS.sub(" ", path.read_text("utf-8")))))


def sources(folder: Path, suffix: str) -> Iterator[tuple[Path, Path]]:
    """The files of a kind, each with docling's Markdown of it."""
    home = folder / KINDS[suffix]
    for path in sorted((home / "sources").glob(f"*.{suffix}")):
        name = path.stem if suffix == "pdf" else path.name
        if (truth := home / "groundtruth" / f"{name}.md").exists():
            yield path, truth


def even(text: str) -> str:
    """A text whose words and marks can be found in a line."""
    return f" {' '.join(_WORD_OR_MARK.findall(text.lower()))} "


def cells(table: dict[str, Any]) -> Iterator[list[str]]:
    """Each cell of a table, with the name of its row and those of its column."""
    names: dict[int, dict[str, None]] = {}
    for row in table["data"]["grid"]:
        texts = [each["text"] for each in row]
        if any(each["column_header"] for each in row):
            for at, text in enumerate(texts):
                names.setdefault(at, {})[text] = None
            continue
        are_names = [sum(map(str.isalnum, each)) > _NAME_LETTERS for each in texts]
        first = are_names.index(True) if any(are_names) else 0
        starts = {each["start_col_offset_idx"]: each["text"] for each in row[first + 1 :]}
        for at, text in starts.items():
            if text.strip():
                yield [text, texts[first], *names.get(at, ())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="docling's tests/data")
    parser.add_argument("--verbose", action="store_true", help="what is lost, on stderr")
    options = parser.parse_args()
    found_cells = all_cells = 0
    for suffix in KINDS:
        found = total = 0
        shares = []
        for path, truth in sources(options.folder, suffix):
            own = own_words(truth)
            text = read(path)
            if not own or (suffix == "pdf" and not text):
                continue
            lost = own - words(text)
            total += own.total()
            found += own.total() - lost.total()
            shares.append(1 - lost.total() / own.total())
            if options.verbose and lost:
                print(path.name, dict(lost.most_common(12)), file=sys.stderr)
            if suffix == "pdf":
                lines = [even(each) for each in text.split("\n")]
                told = json.loads(truth.with_suffix(".json").read_text("utf-8"))
                for each in (cell for table in told["tables"] for cell in cells(table)):
                    is_found = any(all(even(e) in line for e in each) for line in lines)
                    all_cells, found_cells = all_cells + 1, found_cells + is_found
                    if options.verbose and not is_found:
                        print(path.name, each, file=sys.stderr)
        if shares:
            mean = sum(shares) / len(shares)
            emit("docling: words", suffix, found / total, "share", of=total, mean=mean)
    if all_cells:
        emit("docling: cells", "pdf", found_cells / all_cells, "share", of=all_cells)


if __name__ == "__main__":
    main()
