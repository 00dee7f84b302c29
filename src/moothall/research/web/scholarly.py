"""The tools that search for scholarly works: arXiv, and Crossref, which registers DOIs."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import quote

from moothall import Action, MissingExtra, SearchError
from moothall.build import Language, SearchWords, WorkSpan, check_integer, one_line
from moothall.research.findings import Publication, Resource
from moothall.research.reading.encodings import plain_text
from moothall.research.reading.flow import mark_script_number
from moothall.research.scope import DAY_PATTERN, DOI_PATTERN, Scope
from moothall.research.web.fetching import SearchService

ARXIV: Final = "https://export.arxiv.org/api/query"
CROSSREF: Final = "https://api.crossref.org/works"
_MAX_QUERY_WORDS: Final = 12  # of a query
_LINE_CHARS: Final = 500
_ABSTRACT_CHARS: Final = 20_000
_MAX_AUTHORS: Final = 100
_INLINE_TAGS: Final = frozenset(
    ("sub", "sup", "i", "b", "em", "strong", "italic", "bold", "scp", "sc")
)
_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_ARXIV_ID = re.compile(r"https?://arxiv\.org/abs/([\w./-]{4,40})")


def search_arxiv(
    *,
    url: str = ARXIV,
    results: int = 10,
    since: date | str | None = None,
    delay_s: float = 3.0,
    timeout_s: float = 30.0,
) -> Action:
    """Return a tool that searches arXiv; what it finds is read by its abstract.

    Each work is a resource with title and abstract, its authors and date, and beside it its PDF,
    which `visit_page` and `read_pdf` read.

    Args:
        url: the address of arXiv's interface; one on this machine or network is allowed
        results: how many works are returned at most
        since: a day, month or year, such as `2024-05`: earlier works are left out
        delay_s: seconds from one request to the next; arXiv asks for three
        timeout_s: seconds that an answer may take

    Raises:
        ConfigError: a setting is invalid; `DefinitionError`: `url` is not an address
        MissingExtra: the extra `research` is not installed
    """
    MissingExtra.unless("search_arxiv", "research", "aiohttp", "lxml")
    scope = Scope(since=since, prefix="search_arxiv: ")
    check_integer("search_arxiv: results", results)
    service = SearchService("search_arxiv", "arXiv", url, timeout_s, delay_s)

    @WorkSpan.searches("arxiv")
    async def search(query: str) -> list[Resource]:
        """Search arXiv for preprints of physics, mathematics, computer science and more.

        Args:
            query: words of the title, the abstract or the authors' names
        """
        words = _query_words(query, "search_arxiv")
        resources: list[Resource] = []
        for operator in (" AND ", " OR ") if len(words) > 1 else (" AND ",):
            text = operator.join(f"all:{each}" for each in words)
            if scope.since:
                first_day = (scope.since.replace("-", "") + "0101")[:8]
                text = f"({text}) AND submittedDate:[{first_day}0000 TO 299912312359]"
            params = {"search_query": text, "max_results": str(results), "sortBy": "relevance"}
            resources = _preprint_resources(await service.ask(params), service.label)
            if resources:
                break
        return [each for each in resources if scope.includes(each)][: 2 * results]

    return Action("search_arxiv", search, outside=True, idempotent=True)


def search_crossref(
    *,
    url: str = CROSSREF,
    results: int = 10,
    since: date | str | None = None,
    mailto: str | None = None,
    timeout_s: float = 30.0,
) -> Action:
    """Return a tool that searches Crossref, where publishers register their works.

    A work whose abstract is there is read by it; the others become resources to visit, by DOI.

    Args:
        url: the address of Crossref's interface; one on this machine or network is allowed
        results: how many works are returned at most
        since: a day, month or year, such as `2024-05`: earlier works are left out
        mailto: an address of yours that Crossref may write to; it serves you faster then
        timeout_s: seconds that an answer may take

    Raises:
        ConfigError: a setting is invalid; `DefinitionError`: `url` is not an address
        MissingExtra: the extra `research` is not installed
    """
    MissingExtra.unless("search_crossref", "research", "aiohttp", "lxml")
    scope = Scope(since=since, prefix="search_crossref: ")
    check_integer("search_crossref: results", results)
    service = SearchService("search_crossref", "Crossref", url, timeout_s)

    @WorkSpan.searches("crossref")
    async def search(query: str) -> list[Resource]:
        """Search Crossref for articles, books and conference papers.

        Args:
            query: words of the title, the authors' names or the journal
        """
        params = {"query": " ".join(_query_words(query, "search_crossref")), "rows": str(results)}
        if scope.since:
            params["filter"] = f"from-pub-date:{scope.since}"
        if mailto:
            params["mailto"] = mailto
        try:
            answer = json.loads(await service.ask(params))
            items = answer["message"]["items"]
            resources = [_work_resource(each) for each in items if isinstance(each, dict)]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise SearchError(f"{service.label} answered without a list of works") from None
        return [each for each in resources if each is not None and scope.includes(each)][:results]

    return Action("search_crossref", search, outside=True, idempotent=True)


def _query_words(query: str, tool: str) -> list[str]:
    query_terms = [
        each for each in SearchWords.of_text(plain_text(query)[:10_000]) if each.isalnum()
    ]
    words = [e for e in query_terms if not Language().is_stop_word(e)] or query_terms
    if not words:
        raise SearchError(f"{tool}: the query is empty")
    return SearchWords(words, _MAX_QUERY_WORDS)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _plain_line(text: Any) -> str:
    return one_line(plain_text(str(text or "")), _LINE_CHARS)


def _preprint_resources(answer: bytes, label: str) -> list[Resource]:
    """Return the works of arXiv's answer, an Atom feed."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        feed = etree.fromstring(answer, parser)
    except etree.XMLSyntaxError:
        raise SearchError(f"{label} did not answer with a feed") from None
    if feed.tag != f"{_ATOM}feed":
        raise SearchError(f"{label} did not answer with a feed")
    resources: list[Resource] = []
    for entry in feed.iter(f"{_ATOM}entry"):
        title = _plain_line(entry.findtext(f"{_ATOM}title"))
        id_match = _ARXIV_ID.fullmatch((entry.findtext(f"{_ATOM}id") or "").strip())
        abstract = " ".join(plain_text(entry.findtext(f"{_ATOM}summary") or "").split())[
            :_ABSTRACT_CHARS
        ]
        if id_match is None:
            if "api/errors" in (entry.findtext(f"{_ATOM}id") or ""):
                raise SearchError(f"{label} refused the query: {abstract[:_LINE_CHARS]}")
            continue
        authors = [_plain_line(each.text) for each in entry.iterfind(f"{_ATOM}author/{_ATOM}name")]
        day_match = DAY_PATTERN.match(entry.findtext(f"{_ATOM}published") or "")
        namespace = "{http://arxiv.org/schemas/atom}"
        doi_match = DOI_PATTERN.search(entry.findtext(f"{namespace}doi") or "")
        journal = _plain_line(entry.findtext(f"{namespace}journal_ref"))
        publication = Publication(
            tuple(filter(None, authors[:_MAX_AUTHORS])),
            day_match[0] if day_match else "",
            doi_match[0] if doi_match else "",
            journal,
        )
        text = f"{title}\n\n{abstract}"
        url = f"https://arxiv.org/abs/{id_match[1]}"
        resources.append(Resource(url, title, True, text, [], _now(), publication))
        pdf = f"https://arxiv.org/pdf/{id_match[1]}"
        resources.append(Resource(pdf, f"{title} (PDF)", publication=publication))
    return resources


def _work_resource(item: dict[str, Any]) -> Resource | None:
    """Return a work of Crossref's answer; None if it has no DOI or title."""
    doi_match = DOI_PATTERN.fullmatch(str(item.get("DOI") or ""))
    title = _plain_line(_text_of(str(_first_value(item.get("title")) or "")))
    if doi_match is None or not title:
        return None
    authors = [_author_name(each) for each in item.get("author") or () if isinstance(each, dict)]
    publication = Publication(
        tuple(filter(None, authors[:_MAX_AUTHORS])),
        _issue_date(item.get("issued")),
        doi_match[0],
        _plain_line(_text_of(str(_first_value(item.get("container-title")) or ""))),
    )
    url = f"https://doi.org/{quote(doi_match[0], safe='/()._-;:')}"
    abstract = _text_of(str(item.get("abstract") or ""))[:_ABSTRACT_CHARS]
    if not abstract:
        return Resource(url, title, publication=publication)
    return Resource(url, title, True, f"{title}\n\n{abstract}", [], _now(), publication)


def _first_value(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None


def _author_name(author: dict[str, Any]) -> str:
    family, first, name = (
        _plain_line(_text_of(str(author.get(each) or ""))) for each in ("family", "given", "name")
    )
    return f"{family}, {first}" if family and first else family or name


def _issue_date(issued: Any) -> str:
    parts = _first_value(issued.get("date-parts")) if isinstance(issued, dict) else None
    numbers = parts if isinstance(parts, list) else []
    day = "-".join(f"{n:02}" for n in numbers[:3] if type(n) is int and 0 < n < 10_000)
    return day if DAY_PATTERN.fullmatch(day) else ""


def _text_of(markup: str) -> str:
    """Return the text of a title, abstract or name, which may hold tags of JATS and entities."""
    if "<" in markup or "&" in markup:
        from lxml import etree, html

        try:
            tree = html.fragment_fromstring(markup[: 4 * _ABSTRACT_CHARS], create_parent="div")
            for each in [*tree.iterdescendants()]:
                if (name := str(each.tag).rpartition(":")[2]) == "sup":
                    mark_script_number(each)
                if name in _INLINE_TAGS:
                    each.drop_tag()
            markup = " ".join(tree.itertext())
        except (etree.LxmlError, ValueError):
            markup = re.sub(r"<[^>]*>", " ", markup)
    return " ".join(plain_text(markup).split())
