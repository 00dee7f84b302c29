"""The pool of resources: those that are known, those that were read, and their passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from string import printable
from typing import Self
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic_core import Url

from moothall import ConfigError, InvalidArguments
from moothall.build import guard
from moothall.research.findings import Passage, Resource, Section

MAX_PASSAGE_CHARS = 2000  # no passage has more characters, unless a single word has

_PARAGRAPH = re.compile(  # or a fenced block of code
    r"^[ \t]*```(?:(?!\n[ \t]*```)[^\0])*+\n[ \t]*```[^\n]*|[^\n]+(?:\n(?![^\S\n]*\n)[^\n]+)*", re.M
)
_BREAK = re.compile(r"(?<=[.!?;:])\s+|\n")
_END_DOT = re.compile(r"\.(?=:\d+$|$)")  # of a host
HEADING_NUMBER = re.compile(r"^(?:[\dA-Z]{1,3}\.)+\d*\s+")
_TRACKING_PARAMETER = re.compile(
    r"(?:utm_\w+|gclid|fbclid|msclkid|mc_[ce]id)(?:=|$)", re.IGNORECASE
)
_PERCENT_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_SAFE_CHARS = "!$&'()*+,;=:@/~-._?%"


def normalized_url(url: str) -> str:
    """Return a URL in normal form, without fragment and tracking, so that one page has one URL."""
    bare_url = url.strip().partition("#")[0]
    try:
        parts = urlsplit(str(Url(quote(bare_url, safe=printable, errors="surrogatepass"))))
    except ValueError:
        return bare_url or url.strip()
    if not parts.netloc and parts.scheme != "file":
        return bare_url
    host = _END_DOT.sub("", parts.netloc.rpartition("@")[2])
    query = "&".join(
        percent_encoded(each)
        for each in parts.query.split("&")
        if not _TRACKING_PARAMETER.match(each)
    )
    return urlunsplit((parts.scheme, host, percent_encoded(parts.path), query, ""))


def percent_encoded(text: str) -> str:
    """Percent-encode a path or query where it must be; keep the escapes that it needs."""
    escaped = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return _PERCENT_ESCAPE.sub(
        _needed_escape, quote(escaped, safe=_SAFE_CHARS, errors="surrogatepass")
    )


def _needed_escape(match: re.Match[str]) -> str:
    byte = bytes.fromhex(match[0][1:])
    return byte.decode() if byte.isalnum() or byte in b"-._~" else match[0].upper()


class ResourcePool:
    """Resources by normalized URL: one page is one resource.

    A tool with a parameter that is annotated with this class gets the pool of its run. Several
    threads may use a pool.

    Args:
        resources: the resources that it has at the start
        beyond: another pool, whose resources are found here too; additions stay in this pool
    """

    __moothall_injected__ = True

    def __init__(self, resources: Iterable[Resource] = (), *, beyond: Self | None = None) -> None:
        self._by_url: dict[str, Resource] = {}
        self._lock = guard()
        self._parent = beyond
        self.missing: list[str] = []
        """What a tool could not read, or not whole: the report says so."""
        if isinstance(resources, str) or not isinstance(resources, Iterable):
            raise ConfigError(f"resources= must be a list of resources, got {resources!r:.80}")
        for each in resources:
            self.add(each)

    def find(self, url: str) -> Resource | None:
        """Return the resource of a URL, however it is spelled, or None."""
        if not isinstance(url, str):
            raise InvalidArguments(f"a resource's url must be a text, got {url!r:.80}")
        resource = self._by_url.get(normalized_url(url))
        return self._parent.find(url) if resource is None and self._parent is not None else resource

    def add(self, resource: Resource | str, description: str | None = None) -> Resource:
        """Add a resource, or add what is new to the known one; return the one that is kept.

        Args:
            resource: a resource, or the URL of one
            description: what it is about, if a URL is given
        """
        new = Resource(resource, description) if isinstance(resource, str) else resource
        for name in ("url", "description", "content"):
            text = getattr(new, name, None)
            if not isinstance(text, str) and (name == "url" or text is not None):
                raise InvalidArguments(f"a resource's {name} must be a text, got {text!r:.80}")
        url = normalized_url(new.url)
        if not url.partition("#")[0]:
            raise InvalidArguments("a resource's url must not be empty, got ''")
        with self._lock:
            stored = self._by_url.get(url)
            if stored is None:
                stored = self._by_url[url] = replace(new, url=url, sections=list(new.sections))
                return stored
            if new.description and (new.visited or not stored.description):
                stored.description = new.description  # its own title, rather than a search engine's
            stored.visited = bool(stored.visited or new.visited)
            stored.fetched_at = stored.fetched_at or new.fetched_at
            stored.publication = stored.publication or new.publication
            _add_content(stored, new)
            return stored

    def visit(self, url: str, content: str | None = None) -> Resource:
        """Mark a resource as read, and add it if it is new.

        Args:
            url: its URL
            content: its text
        """
        return self.add(Resource(url, visited=True, content=content))

    def get_all(self) -> list[Resource]:
        """Return every resource, in the order in which they were added."""
        parent_resources = (
            {} if self._parent is None else {each.url: each for each in self._parent.get_all()}
        )
        return list({**parent_resources, **self._by_url}.values())

    def changes(self) -> list[Resource]:
        """Return the resources added to this pool itself, not to the one beyond it."""
        return list(self._by_url.values())

    def keep(self, is_in_scope: Callable[[Resource], bool]) -> None:
        """Remove the resources added to this pool itself that are not taken."""
        with self._lock:
            self._by_url = {url: each for url, each in self._by_url.items() if is_in_scope(each)}

    def get_unvisited(self) -> list[Resource]:
        """Return the resources that were not read yet."""
        return [each for each in self.get_all() if not each.visited]

    def __len__(self) -> int:
        return len(self.get_all())


def _add_content(stored: Resource, new: Resource) -> None:
    """Add the sections of a resource's content that are not there yet."""
    if not new.content:
        return
    if not stored.content:
        stored.content, stored.sections = new.content, list(new.sections)
        return
    for section, end in _section_ends(new.content, new.sections):
        text = new.content[section.start : end].strip()
        if text and not re.search(rf"(?<!\S){re.escape(text)}(?!\S)", stored.content):
            stored.sections = stored.sections or [Section(0)]
            at = section.fetched_at or new.fetched_at
            stored.sections.append(replace(section, start=len(stored.content) + 2, fetched_at=at))
            stored.content += f"\n\n{text}"


def _section_ends(content: str, sections: list[Section]) -> Iterator[tuple[Section, int]]:
    """Yield the parts of a text with their ends, also what stands before the first section."""
    starts = [*sections] if sections and sections[0].start == 0 else [Section(0), *sections]
    return zip(starts, [each.start for each in starts[1:]] + [len(content)], strict=True)


def passages_in(content: str, sections: list[Section]) -> Iterator[tuple[str, Section]]:
    """Yield the passages of a text, word for word, each with its section."""
    for section, end in _section_ends(content, sections):
        for begin, stop in _passage_spans(content, section.start, end):
            text = content[begin:stop].strip()
            if text:
                yield text, section


def passages_of(resource: Resource) -> list[Passage]:
    """Return the passages of a resource that was read."""
    title = resource.description or ""
    passages = []
    for text, section in passages_in(resource.content or "", resource.sections):
        url = f"{resource.url}#{section.anchor}" if section.anchor else resource.url
        full_title = _full_title(title, section.title)
        read_at = section.fetched_at or resource.fetched_at or ""
        passages.append(Passage.of(url, text, read_at, full_title, resource.publication, title))
    return passages


def _full_title(title: str, section: str) -> str:
    """Return the titles of a resource and of its part as one, each once."""
    # Of `Manual: Tools`, whose heading is `6. Tools`, also the second part.
    own_titles = (title, title.rpartition(": ")[2])
    parts = [
        each
        for each in section.split(" – ")
        if each and not title.startswith(each) and HEADING_NUMBER.sub("", each) not in own_titles
    ]
    return " – ".join(dict.fromkeys([title, *parts] if title else parts or [section]))


def _passage_spans(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of paragraphs: short ones joined, long ones cut between sentences."""
    begin = stop = start
    for match in _PARAGRAPH.finditer(content, start, end):
        for first, last in _sentence_spans(content, match.start(), match.end()):
            if stop > begin and last - begin > MAX_PASSAGE_CHARS:
                yield begin, stop
                begin = first
            elif stop == begin:
                begin = first
            stop = last
        if stop - match.start() > MAX_PASSAGE_CHARS:  # its end would open a block for what follows
            yield begin, stop
            begin = stop
    if stop > begin:
        yield begin, stop


def _sentence_spans(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_PASSAGE_CHARS:
        breaks = [
            match.end() for match in _BREAK.finditer(content, start, start + MAX_PASSAGE_CHARS)
        ]
        space = content.rfind(" ", start, start + MAX_PASSAGE_CHARS)
        at = breaks[-1] if breaks else space + 1 if space > start else start + MAX_PASSAGE_CHARS
        yield start, at
        start = at
    if end > start:
        yield start, end


def with_lines(
    full_text: str, passages: list[tuple[str, Section]]
) -> Iterator[tuple[str, Section]]:
    """Yield the passages of a text, each with the line where it begins."""
    line, at = 1, 0
    for text, section in passages:
        start = full_text.index(text, at)
        line, at = line + full_text.count("\n", at, start), start
        yield text, replace(section, anchor=f"L{line}", title=section.title or f"line {line}")
