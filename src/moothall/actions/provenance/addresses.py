"""The addresses within a text: of web and mail, accounts, telephones and files."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from moothall.actions.provenance.value_places import texts_in
from moothall.foundation.text.values import narrow

MAX_ADDRESSES: Final = 200
"""How many different addresses of one value are looked at; one more is traced to nothing."""

_ADDRESS_REST: Final = r"[^\s<>\"'`|\\^{}\[\]“”«»]{0,2000}"
_SCHEMES: Final = "data|file|intent|javascript|magnet|mailto|skype|sms|tel|tg|vbscript|whatsapp"
# Programs make links of names that end so, even without `www.`; endings of files are left out.
_TOP_LEVEL_DOMAINS: Final = (
    "com|org|net|edu|gov|mil|int|info|biz|io|ai|app|dev|co|uk|de|fr|ch|at|eu|us|ca|au|jp|cn|ru|"
    "nl|es|it|se|no|fi|dk|be|cz|me|tv|cc|ws|top|xyz|site|online|club|shop|store|live|link|click|"
    "icu|tk|ml|ga|cf|gq|test|example|invalid"
)
_HOST: Final = r"(?:[\w-]{1,63}\.){1,8}"

_WEB: Final = re.compile(
    rf"(?<![\w@])(?:[a-z][a-z0-9+.-]{{1,15}}://|(?:{_SCHEMES}):(?=\S)|www\.){_ADDRESS_REST}", re.I
)
_MAIL: Final = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_BARE_HOST: Final = re.compile(
    # `Thanks.It` is no name of a host, and EVIL.COM is one.
    rf"(?<![\w@.-])(?<![\w@.:-]/)"
    rf"(?:{_HOST}(?:{_TOP_LEVEL_DOMAINS}|{_TOP_LEVEL_DOMAINS.upper()}|xn--[\w-]{{1,59}})(?![\w@-])"
    rf"(?:(?=[/:?#]){_ADDRESS_REST})?"
    rf"|{_HOST}[^\W\d_]{{2,24}}(?::\d{{1,5}})?/(?=\w){_ADDRESS_REST}"
    rf"|\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d{{1,5}}|/){_ADDRESS_REST})"
)
_FILE: Final = re.compile(
    r"(?<![\w/:.<~-])(?:~|(?=/\w))(?:/[\w.@%+-]{1,255}){2,40}|(?<!\w)[a-zA-Z]:\\[^\s\"<>|]{1,500}"
    r"|(?<![\\\w])\\\\[\w.-]{1,63}\\[^\s\"<>|]{1,500}"
)
_IBAN: Final = re.compile(
    r"(?<!\w)(?:[A-Za-z]{2}\d{2}(?=[A-Za-z]{0,6}\d)[A-Za-z0-9]{10,30}"
    r"|[A-Z]{2}\d{2}(?:[ -][A-Z0-9]{4}){2,7}(?:[ -][A-Z0-9]{1,4})?)(?!\w)"
)
_WALLET: Final = re.compile(
    r"(?<!\w)(?:0x[0-9a-fA-F]{40}|(?:bc|tb|ltc)1[a-z0-9]{25,87}"
    r"|(?=\w{0,33}\d)(?=\w{0,33}[A-Z])[13LT][1-9A-HJ-NP-Za-km-z]{25,33})(?!\w)"
)
"""An account of a currency without a bank."""
_ACCOUNT_NUMBER: Final = re.compile(
    r"(?<![\w.,+/-])(?:\d{9,30}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5})"
    r"(?![\w]|[.,]\d)"
)
_PHONE: Final = re.compile(
    r"(?<![\w.,/-])(?:(?:\+|00)[1-9]\d{0,3}(?:[ ./()-]{1,2}\d{1,12}){1,6}|\+\d{7,15}"
    r"|\(0?\d{2,5}\)[ -]?\d{3,5}(?:[ -]?\d{2,5}){0,3}|\d{3}([ .-])\d{3}\1\d{4})(?!\w|[.,]\d)"
)


_SCHEME: Final = re.compile(rf"(?:{_SCHEMES}):")
_POINT: Final = re.compile(r"\.\w")
_DIGITS: Final = re.compile(r"\d\d")


class Address(NamedTuple):
    """An address as it stands in a text, and whether it is the number of an account or a card."""

    text: str
    is_account: bool


def addresses_in(value: Any) -> list[Address]:
    """Return the addresses within the texts of a value, each once; at most one over the limit."""
    addresses: dict[Address, None] = {}
    for text in map(narrow, texts_in(value)):
        for pattern in _patterns_for(text):
            is_account, has_match = pattern in (_WALLET, _IBAN, _ACCOUNT_NUMBER), False
            for each in pattern.finditer(text):
                addresses[Address(_without_sentence_end(each[0]), is_account)] = None
                has_match = True
                if len(addresses) > MAX_ADDRESSES:
                    return [*addresses]
            # What is within it is no other address.
            if has_match and (is_account or pattern is _WEB):
                text = pattern.sub(" ", text)
    return [*addresses]


def _patterns_for(text: str) -> list[re.Pattern[str]]:
    """Return the patterns that may match in a text, in order: most texts have few signs of any."""
    lower = text.lower()
    patterns = []
    if "://" in lower or "www." in lower or _SCHEME.search(lower):
        patterns.append(_WEB)
    if "@" in lower:
        patterns.append(_MAIL)
    if _POINT.search(lower):
        patterns.append(_BARE_HOST)
    if "/" in lower or "\\" in lower:
        patterns.append(_FILE)
    if _DIGITS.search(lower):
        patterns += [_IBAN, _ACCOUNT_NUMBER, _PHONE]
    if _WALLET.search(text):
        patterns.append(_WALLET)
    return patterns


def _without_sentence_end(text: str) -> str:
    """Return a link without what ends the sentence around it."""
    while text and text[-1] in ".,;:!?*_)’”":
        if text[-1] == ")" and text.count("(") >= text.count(")"):
            break
        text = text[:-1]
    return text
