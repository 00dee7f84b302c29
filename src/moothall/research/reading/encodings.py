"""Decode texts, whatever they say of their encoding, and leave out what no person sees."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from contextlib import suppress
from unicodedata import normalize

from moothall.research.reading.hidden_text import without_hidden

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
_ASCII_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# What gives texts of terminals their colours and links.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,100}[ -/]{0,9}[@-~]|\x1b\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"
)
_LETTERS = r"[^\W\d_]++"
_WORDS = re.compile(rf"{_LETTERS}(?:[-\u2010]{_LETTERS})*+")
# A word that the end of a line cuts, with the space before it and the hyphen behind it.
_CUT_WORD = re.compile(
    rf"((?<=\S)[ \t]++[^\w\s]*+)?(?<![\w\u2010-])({_WORDS.pattern})([-\u2010])(\n[ \t]*+)"
    rf"({_LETTERS})(?=([-\u2010](?!\n))?)"
)
_HALF_CHARS = 4  # of both words of a compound; shorter ones are parts of others, too
_LIGATURES = re.compile("[\ufb00-\ufb06]")
_SAMPLE_BYTES = 65_536  # bytes of a text, from its start, by which its encoding is guessed
_FOREIGN_BYTES = re.compile(rb"[\x80-\xff]{3,}")
_BINARY_TEST_BYTES = 8192  # bytes at the start of a text; with a NUL among them it is binary
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# The encodings that browsers use for these names.
_ALIASES = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
_JAPANESE, _KOI8 = ("cp932", "shift_jis"), re.compile(rb"[\0-\x7f\xa3\xb3\xc0-\xff]*")
# Slow, or not meant for pages.
_REFUSED_CODECS = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7")


def decode_text(data: bytes, *declarations: str | None) -> str:
    """Decode a text: by its BOM, as UTF-8, or by the first that fits of stated and guessed ones."""
    if data.startswith(_BOMS):
        return data.decode("utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-16", "replace")
    if b"\0" in data[:_BINARY_TEST_BYTES] and (utf_16 := _utf16_without_bom(data, declarations)):
        return data.decode(utf_16, "replace")
    if b"\x1b$" in data[:_SAMPLE_BYTES] and not any(declarations):
        return data.decode("iso2022_jp", "replace")
    if not data.isascii() and data.decode(errors="ignore").encode() == data:
        return data.decode()
    codecs_to_try = [
        *filter(None, (_page_codec(each) for each in (*declarations, "utf-8") if each))
    ]
    if {*codecs_to_try} == {"utf-8"} and not data.isascii():
        codecs_to_try += [*filter(None, (_guess_encoding(data), "cp1252"))]
    for each in codecs_to_try:
        with suppress(UnicodeError):
            return data.decode(each)
        text = data.decode(each, "replace")
        beyond_ascii = sum(map("\x7f".__lt__, text))
        if each == "utf-8" and beyond_ascii > 2 * text.count("\ufffd"):
            return text
    return data.decode(codecs_to_try[0], "replace")


def _guess_encoding(data: bytes) -> str | None:
    """Return the encoding that a text of another alphabet looks like; None for a Latin one."""
    sample = data[:_SAMPLE_BYTES]
    foreign_count = sum(map(len, _FOREIGN_BYTES.findall(sample)))
    if not foreign_count or 2 * foreign_count < sum(each > 0x7F for each in sample):
        return None
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    if best and best.encoding.startswith(_JAPANESE) and _KOI8.fullmatch(sample):
        return "koi8_r"  # short, it is taken for half-width katakana
    return None if best is None else best.encoding


def is_binary(data: bytes, *declarations: str | None) -> bool:
    """Return whether data is no text: it has a NUL, and is not of two bytes a character."""
    return (
        b"\0" in data[:_BINARY_TEST_BYTES]
        and not data.startswith(_BOMS)
        and _utf16_without_bom(data, declarations) is None
    )


def _utf16_without_bom(data: bytes, declarations: Sequence[str | None]) -> str | None:
    """Return the UTF-16 of a text without a BOM, if it is stated or is markup; else None."""
    for each in declarations:
        name = (each or "").strip("\"' ").lower().replace("_", "-")
        if name in ("utf-16", "utf-16le", "utf-16-le"):  # as browsers understand the first
            return "utf-16-le"
        if name in ("utf-16be", "utf-16-be"):
            return "utf-16-be"
    for name, at in (("utf-16-le", 1), ("utf-16-be", 0)):  # ASCII in it has a NUL on one side
        sample = data[: _SAMPLE_BYTES & ~1] if len(data) > _SAMPLE_BYTES else data
        if 0 in sample[at::2] and 0 not in sample[1 - at :: 2]:
            with suppress(UnicodeError):
                if not _ASCII_CONTROL.search(sample.decode(name).replace("\r", "")):
                    return name
    return None


def declared_encoding(data: bytes, pattern: re.Pattern[bytes]) -> str | None:
    """Return the encoding that a text itself declares, or None."""
    match = pattern.search(data)
    return match and match[1].decode("ascii", "replace")


def plain_text(text: str) -> str:
    """Return a text with plain ends of lines, ligatures spelled out, without what is not seen."""
    text = _ESCAPES.sub("", text) if "\x1b" in text else text
    for end in ("\r\n", "\r", "\f", "\v"):
        text = text.replace(end, "\n")
    if text.isascii():
        return _ASCII_CONTROL.sub("", text)
    text = text.replace("\x85", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = _LIGATURES.sub(lambda match: normalize("NFKC", match[0]), without_hidden(text))
    return CONTROL.sub("", text)


def whole_words(text: str, *, in_place: bool = True) -> str:
    """Return a text whose lines cut no word.

    A hyphen stays unless the word is there without it. U+2010, by which manual pages cut words,
    goes unless the word is there with it or has others. In place, everything else keeps its place
    and line, so a word at the begin of a line stays cut; else it ends on the line of its begin,
    and a hyphen stays between two words that the text has: worst-case.
    """
    words = {*_WORDS.findall(text.casefold())}
    uncut_text = "" if in_place else _CUT_WORD.sub(" ", text.casefold())
    uncut_words = {*_WORDS.findall(uncut_text)}

    def rejoin(match: re.Match[str]) -> str:
        space, start, mark, gap, end, next_mark = match.groups()
        if not end.islower() or (in_place and space is None):
            return match[0]
        with_mark = any(f"{start}{each}{end}".casefold() in words for each in "-\u2010")
        is_compound = next_mark is not None or not start.isalpha()
        if f"{start}{end}".casefold() in words:
            mark = ""
        elif not with_mark:
            if mark == "-":
                return match[0]
            halves = {start.casefold(), end.casefold()}
            are_words = halves <= uncut_words and min(map(len, halves)) >= _HALF_CHARS
            mark *= is_compound or are_words
        if in_place:
            return f"{space}{' ' * (not mark)}{gap}{start}{mark}{end}"
        return f"{space or ''}{start}{'-' * bool(mark)}{end}"

    return _CUT_WORD.sub(rejoin, text)


def _page_codec(charset: str) -> str | None:
    try:
        name = codecs.lookup(charset.strip("\"' ")).name.replace("_", "-")
        b" ".decode(name)  # some map bytes to bytes
    except (LookupError, UnicodeError, ValueError):
        return None
    if name in _REFUSED_CODECS:
        return None
    # A text whose declaration can be read is not UTF-16, and no text without a BOM is.
    return "utf-8" if name.startswith(("utf-16", "utf-32")) else _ALIASES.get(name, name)
