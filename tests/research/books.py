"""Word documents and books for tests, written from their parts."""

from __future__ import annotations

import io
import zipfile

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_STYLES = f"""<w:styles {_W}>
<w:style w:styleId="T"><w:name w:val="Title"/></w:style>
<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="H2"><w:name w:val="heading 2"/></w:style></w:styles>"""


def packed(**files: str | bytes) -> bytes:
    """A zip file with these files; `__` in a name stands for `/`, and `_` for a dot."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name.replace("__", "/").replace("_", "."), data)
    return written.getvalue()


def paragraph(text: str, style: str = "", about: str = "") -> str:
    """A paragraph of a Word document; `about` is what is said of its one run."""
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{named}<w:r><w:rPr>{about}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def docx(body: str, before: str = "", **more: str | bytes) -> bytes:
    """A Word document with this body; `before` stands before its root element."""
    document = f"{before}<w:document {_W}><w:body>{body}</w:body></w:document>"
    return packed(word__document_xml=document, word__styles_xml=_STYLES, **more)


def epub(*chapters: str, **more: str | bytes) -> bytes:
    """A book with these chapters."""
    names = [f"c{number}" for number, _ in enumerate(chapters)]
    items = "".join(
        f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in names
    )
    spine = "".join(f'<itemref idref="{each}"/>' for each in names)
    book = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata><dc:title>On seas</dc:title></metadata><manifest>{items}</manifest>"
        f"<spine>{spine}</spine></package>"
    )
    home = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="in/book.opf"/></rootfiles></container>'
    )
    pages = {f"in__{name}_xhtml": text for name, text in zip(names, chapters, strict=True)}
    return packed(**{"META-INF__container_xml": home, "in__book_opf": book, **pages, **more})
