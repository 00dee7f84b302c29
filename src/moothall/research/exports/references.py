"""The sources of a report as lists of references, for programs that keep or print these."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

from moothall.build import one_line
from moothall.research.findings import Publication
from moothall.research.reading.encodings import plain_text
from moothall.research.scope import DAY_PATTERN, DOI_PATTERN

if TYPE_CHECKING:
    from moothall.research.findings import Passage

_FIELD_CHARS: Final = 1000
_LATEX: Final = {
    **{sign: f"\\{sign}" for sign in "&%$#_"},
    "{": r"\textbraceleft{}",  # BibTeX counts braces that are escaped, too
    "}": r"\textbraceright{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}
_SAFE_CHARS: Final = "!$&'()*+,;=:@/~-._?%#[]"


def bibtex(report: Any) -> str:
    """Return the sources of a `Report` as BibTeX, an entry for each."""
    return "\n".join(
        _bibtex_entry(id, passage, publication) for id, passage, publication in _sources(report)
    )


def csl_json(report: Any) -> str:
    """Return the sources of a `Report` as CSL-JSON, an item for each."""
    items = [_csl_item(id, passage, publication) for id, passage, publication in _sources(report)]
    return json.dumps(items, ensure_ascii=False, indent=2) + "\n"


def _sources(report: Any) -> list[tuple[str, Passage, Publication]]:
    """Return each source once, with an id such as `stone1998alpha`."""
    by_work: dict[str, tuple[str, Passage, Publication]] = {}
    ids: set[str] = set()
    for citation in sorted(report.citations, key=lambda each: each.number):
        passage = citation.passage
        url = passage.url.partition("#")[0]
        publication = passage.publication or Publication()
        is_doi = urlsplit(url).hostname in ("doi.org", "dx.doi.org")
        doi = publication.doi or (doi[0] if is_doi and (doi := DOI_PATTERN.search(url)) else "")
        publication = replace(publication, doi=unquote(doi))
        # A publisher's page, a preprint and doi.org may have the same work.
        work = publication.doi.lower() or re.sub(r"^https?://(?:www\.)?", "", url)
        if work in by_work:
            continue
        base = _entry_id(url, passage, publication)
        number = next(n for n in range(1, len(ids) + 2) if f"{base}{n if n > 1 else ''}" not in ids)
        id = f"{base}{number if number > 1 else ''}"
        ids.add(id)
        by_work[work] = (id, passage, publication)
    return [*by_work.values()]


def _entry_id(url: str, passage: Passage, publication: Publication) -> str:
    name = publication.authors[0] if publication.authors else urlsplit(url).hostname or "source"
    family = name.partition(",")[0] if "," in name else name.split()[-1] if name.split() else name
    year = publication.published[:4] or passage.fetched_at[:4]
    words = re.findall(r"[A-Za-z]{4,}", passage.title) or [""]
    id = re.sub(r"[^a-z0-9]", "", f"{family}{year}{words[0]}".lower())
    return id[:40] or "source"


def _title(passage: Passage) -> str:
    return one_line(plain_text(passage.page or passage.url), _FIELD_CHARS)


def _bibtex_entry(id: str, passage: Passage, publication: Publication) -> str:
    url = quote(plain_text(passage.url.partition("#")[0]), safe=_SAFE_CHARS)
    day = passage.fetched_at[:10]
    year, month, _ = (
        match.groups("") if (match := DAY_PATTERN.match(publication.published)) else ("", "", "")
    )
    fields = {
        "title": f"{{{_latex(_title(passage))}}}",
        "author": " and ".join(map(_bibtex_name, publication.authors)),
        "journal": _latex(publication.journal),
        "year": year,
        "month": month.lstrip("0"),
        "doi": quote(publication.doi, safe="/()._-;:"),
        "url": url,
        "urldate": day,
        "note": f"Accessed {day}" if day else "",
    }
    kind = "article" if publication.journal and publication.doi else "misc"
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{id},", *lines, "}", ""])


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in one_line(plain_text(text), _FIELD_CHARS))


def _bibtex_name(author: str) -> str:
    """Return an author for BibTeX, which splits names at `and` and commas."""
    name = _latex(author)
    needs_no_braces = name.count(",") <= 1 and not re.search(r"\band\b|\\", name, re.IGNORECASE)
    return name if needs_no_braces else f"{{{name}}}"


def _csl_item(id: str, passage: Passage, publication: Publication) -> dict[str, Any]:
    url = passage.url.partition("#")[0]
    is_on_web = url.startswith(("http://", "https://"))
    kind = (
        "article-journal"
        if publication.journal and publication.doi
        else "webpage"
        if is_on_web
        else "document"
    )
    item: dict[str, Any] = {
        "id": id,
        "type": "article" if kind == "webpage" and publication.doi else kind,
        "title": _title(passage),
        "URL": url,
    }
    if publication.authors:
        item["author"] = [_csl_name(each) for each in publication.authors]
    for name, day in (("issued", publication.published), ("accessed", passage.fetched_at[:10])):
        if match := DAY_PATTERN.match(day):
            item[name] = {"date-parts": [[int(each) for each in match.groups() if each]]}
    if publication.doi:
        item["DOI"] = publication.doi
    if publication.journal:
        item["container-title"] = one_line(plain_text(publication.journal), _FIELD_CHARS)
    return item


def _csl_name(author: str) -> dict[str, str]:
    name = one_line(plain_text(author), _FIELD_CHARS)
    family, comma, given_name = name.partition(", ")
    return {"family": family, "given": given_name} if comma and given_name else {"literal": name}
