"""Read mails and mailboxes, with what is attached: who says what to whom."""

from __future__ import annotations

import re
from contextlib import suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, Final

from moothall import UnreadableDocument
from moothall.build import counted
from moothall.research.reading.archives import SectionWriter
from moothall.research.reading.encodings import decode_text
from moothall.research.reading.html import AttachedFile, Document, read_html

_MAX_MAILS: Final = 10_000
_STUB_WORDS: Final = 100  # words of a mail's text, below which its page may say more
_MAIL_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")
_MAIL_START: Final = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\n]*\n(?=[\w-]+:)")
_PATCH_START: Final = re.compile(rb"From [0-9a-f]{40} ")  # of a mail that Git writes
_QUOTED_FROM: Final = re.compile(rb"^>(?=>*From )", re.MULTILINE)  # so a mailbox keeps it


def read_mail(data: bytes) -> Document:
    """Return a mail, or the mails of a mailbox, with what is attached: who says what to whom."""
    borders = [*_MAIL_START.finditer(data)] if data.startswith(b"From ") else []
    if not _PATCH_START.match(data):  # a patch in a mail is none of its own
        borders = [each for each in borders if not _PATCH_START.match(each[0])]
    ends = [*(each.start() for each in borders), len(data)][1:]
    mails = [
        _QUOTED_FROM.sub(b"", data[each.end() : end])
        for each, end in zip(borders[:_MAX_MAILS], ends, strict=False)
    ] or [data]
    writer, title = SectionWriter(), ""
    attached: list[AttachedFile] = []
    damaged_count = 0
    for number, each in enumerate(mails, 1):
        mail: EmailMessage = message_from_bytes(each, policy=default)
        subject = " ".join(_header(mail, "Subject").split())[:200]
        title = title or subject
        writer.begin_section(f"mail={number}", subject if len(mails) > 1 else "")
        try:
            _write_mail(mail, writer, attached)
        except Exception:  # the parser of mails raises anything
            damaged_count += 1
    unread_count = max(len(ends) - _MAX_MAILS, 0)
    kinds = (
        ("damaged mail", damaged_count),
        (f"mail beyond the first {_MAX_MAILS:,}", unread_count),
    )
    missing = "; ".join(counted(count, kind) for kind, count in kinds if count)
    return writer.document("mail", title if len(mails) == 1 else "", missing, attached)


def _header(mail: EmailMessage, name: str) -> str:
    """Return a header, as it is written if it cannot be parsed."""
    try:
        return str(mail.get(name, ""))
    except Exception:  # such as an address without an end
        return str(next(value for key, value in mail.raw_items() if key.lower() == name.lower()))


def _write_mail(mail: EmailMessage, writer: SectionWriter, attached: list[AttachedFile]) -> None:
    """Write a mail with those that it forwards, and collect what is attached."""
    headers = ((name, _header(mail, name)) for name in _MAIL_HEADERS)
    writer.write("\n".join(f"{name}: {value}" for name, value in headers if value))
    if (body := mail.get_body(("plain", "html"))) is not None:
        writer.write(_fuller_text(mail, _text_of(body)))
    elif mail.get_content_maintype() == "multipart" and not mail.is_multipart():
        writer.write(str(mail.get_payload()))  # its parts have no border
    elif not mail.is_multipart():
        attached.append((mail.get_filename() or "?", _bytes_of(mail)))
    for part in mail.iter_attachments():
        name = part.get_filename()
        if part.get_content_type() == "message/rfc822":
            _write_mail(part.get_content(), writer, attached)
        elif name is None and part.get_content_type() in ("text/plain", "text/html"):
            writer.write(_text_of(part))
        else:
            attached.append((name or "?", _bytes_of(part)))


def _fuller_text(mail: EmailMessage, text: str) -> str:
    """Return the text of a mail, or that of its page if the text is only a stub of it."""
    page, words = mail.get_body(("html",)), len(text.split())
    if page is not None and words < _STUB_WORDS:
        with suppress(UnreadableDocument):
            page_text = _text_of(page)
            return page_text if len(page_text.split()) > 2 * words else text
    return text


def _bytes_of(part: Any) -> bytes:
    return part.get_payload(decode=True) or b""


def _text_of(part: Any) -> str:
    data, charset = _bytes_of(part), part.get_content_charset()
    if part.get_content_type() == "text/html":
        return read_html(data, charset, "mail", is_local=True).text
    return decode_text(data, charset)
