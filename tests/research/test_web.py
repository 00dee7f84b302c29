"""Reading pages and documents of the web: their text, sections and links, and being polite."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import datetime
from email.message import EmailMessage
from typing import Any

import pytest

from models.openai_server import Answer, Request, http
from moothall.foundation.errors import ConfigError, PageError
from moothall.research import (
    Publication,
    ResourcePool,
    Section,
    read_pdf,
    search_web,
    visit_page,
)
from moothall.research.resource_pool import passages_of
from moothall.research.web.fetching import checked_url
from moothall.testing.model_suite import run
from research.web_server import PDF, TEXT, Web, html, pdf, redirect

PAGE = """<!DOCTYPE html><html><head><title>All about apples</title></head><body>
<nav><a href="/menu">Menu</a></nav>
<main><h1 id="top">Apples<a href="#top">¶</a></h1>
<p>Apples are <b>round</b>, and they grow on <a href="trees#oak">trees</a>.</p>
<h2>How to <code>share</code> them</h2>
<p>Run <code><em>cut</em>.exe</code> of <span class="menu">Start</span>: cut them in two.</p>
<ul><li><p>one half</p></li><li>another half</li></ul>
<pre>def cut(apple):
    return apple / 2</pre>
<table><tr><th>kind</th><th>grams</th></tr><tr><td><p>Boskoop</p></td><td><p>220</p></td></tr></table>
<dl><dt id="core">core(apple, *, deep=True)</dt><dd>What is left of an apple.</dd></dl>
</main></body></html>"""


def refused(web: Web, path: str, **more: Any) -> str:
    """Why a page is not read, with `BASE` for the web's address; nothing is marked as visited."""
    pool = ResourcePool()
    with pytest.raises(PageError) as caught:
        web.visit(path, pool, **more)
    assert not any(each.visited for each in pool.get_all())
    return str(caught.value).replace(web.base, "BASE")


# -- what a page says ------------------------------------------------------------------------------


def test_web_page_becomes_a_resource_with_its_text_and_sections() -> None:
    pool = ResourcePool()
    with Web({"/a": html(PAGE)}) as web:
        page = web.visit("/a#core", pool)
    assert (page.url, page.description, page.visited) == (f"{web.base}/a", "All about apples", True)
    assert page.content == (
        "Apples\n\nApples are round, and they grow on trees.\n\nHow to share them\n\n"
        "Run cut.exe of Start: cut them in two.\n\n- one half\n- another half\n\n"
        "def cut(apple):\n    return apple / 2\n\nkind | grams\nBoskoop | 220\n\n"
        "core(apple, *, deep=True)\nWhat is left of an apple."
    )
    parts = [(each.anchor, each.title, page.content[each.start :][:6]) for each in page.sections]
    assert parts == [
        ("top", "Apples", "Apples"),
        ("how-to-share-them", "How to share them", "How to"),
        ("core", "How to share them – core()", "core(a"),
    ]
    assert page.fetched_at is not None
    assert datetime.fromisoformat(page.fetched_at).utcoffset() is not None
    assert pool.find(f"{web.base}/a") == page


def test_visit_page_comments_and_boxes_beside_an_article_are_no_text() -> None:
    said = "".join(
        f"<p>The bridge over the Tay, as its {each} part, carries two tracks of the railway.</p>"
        for each in ("first", "second", "third")
    )
    box = "<div class=most-read><a href=/x>Tunnel under the Tay will cost 3 billion</a></div>"
    comments = "<section id=comments><p>fan99 says: It cost 12 pounds.</p></section>"
    page = f"<main><article><h1>The Tay Bridge</h1>{said}{box}{comments}</article></main>"
    with Web({"/a": html(page)}) as web:
        text = web.visit("/a").content or ""
    assert text.count("two tracks") == 3
    assert "billion" not in text
    assert "12 pounds" not in text


def test_page_of_news_without_headings_in_its_article_has_no_texts_of_boxes() -> None:
    said = "".join(
        f"<p>Paragraph {n} says what the council of Dundee decided on the ferry that day.</p>"
        for n in range(6)
    )
    box = "<div class=box><h3>Other news</h3><p>A tunnel will cost 3 billion pounds.</p></div>"
    page = f"<main><h1>The ferry</h1><div class=text>{said}</div>{box * 3}</main>"
    with Web({"/a": html(page)}) as web:
        text = web.visit("/a").content or ""
    assert "Paragraph 0 says" in text
    assert "Paragraph 5 says" in text
    assert "billion" not in text


def test_mail_of_the_web_is_read_with_what_is_attached_and_names_the_rest() -> None:
    mail = EmailMessage()
    mail["Subject"] = "Bids"
    mail.set_content("Two are attached.")
    for name, data in (("terms.md", b"Paid in 14 days."), ("logo.png", b"\x89PNG")):
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    pool = ResourcePool()
    of_mail = {"Content-Type": "message/rfc822"}
    with Web({"/mail": http(mail.as_bytes(), 200, of_mail)}) as web:
        read = web.visit("/mail", pool)
    assert (read.content or "").endswith("Two are attached.\n\nPaid in 14 days.")
    assert [each.partition(" has ")[2] for each in pool.missing] == [
        "1 attachment not read: logo.png"
    ]


def test_web_page_says_its_authors_and_date() -> None:
    about = (
        '<meta name=citation_author content="Stone, Ada"><meta name=author content="B  C">'
        '<meta property="article:published_time" content="2024-05-01T10:00:00Z">'
        '<meta name=DC.identifier content="doi:10.1000/182"><meta name=author content="http://x">'
    )
    with Web({"/a": html(PAGE.replace("<head>", f"<head>{about}")), "/b": html(PAGE)}) as web:
        found = web.visit("/a")
        assert found.publication == Publication(("Stone, Ada",), "2024-05-01", "10.1000/182", "")
        (passage, *_) = passages_of(found)
        assert passage.publication == found.publication
        assert web.visit("/b").publication is None


@pytest.mark.parametrize(
    ("written", "persons"),
    (
        ("Ada Stone, Bo Reed and Cy Hill", ("Ada Stone", "Bo Reed", "Cy Hill")),
        ("Stone, Ada", ("Stone, Ada",)),
        ("Sand and Sons", ("Sand and Sons",)),
    ),
)
def test_web_page_with_several_authors_in_one_text_has_each(
    written: str, persons: tuple[str, ...]
) -> None:
    cited = "van der Berg, Anna Maria"  # the family name first, as indexes of works want it
    page = PAGE.replace("<head>", f'<head><meta name=citation_author content="{cited}">')
    with Web({"/a": html(page)}) as web:
        publication = web.visit("/a").publication
    assert publication is not None
    assert publication.authors == (cited,)
    page = PAGE.replace("<head>", f'<head><meta name=author content="{written}">')
    with Web({"/a": html(page)}) as web:
        publication = web.visit("/a").publication
    assert publication is not None
    assert publication.authors == persons


def test_web_page_that_marks_no_main_part_keeps_its_headings() -> None:
    parts = "".join(
        f"<h2 id=n{n}>Part {n}</h2><p>This is what part {n} says.</p>" for n in range(20)
    )
    page = f"<html><body><div class=nav><a href=/a>Menu</a></div>{parts}<footer>End</footer>"
    with Web({"/a": html(page)}) as web:
        found = web.visit("/a")
    assert [each.anchor for each in found.sections] == [f"n{n}" for n in range(20)]
    assert [each.title for each in found.sections] == [f"Part {n}" for n in range(20)]
    assert (found.content or "").startswith("Part 0\n\nThis is what part 0 says.\n\nPart 1\n\n")
    assert "Menu" not in (found.content or "")


def test_code_in_colours_keeps_its_lines() -> None:
    code = "<pre><span>with</span> <b>open</b>(name):\n    <span>pass</span>\n</pre>"
    page = PAGE.replace("</main>", f"<dl><dt>f()</dt><dd><p>So:</p>{code}</dd></dl></main>")
    with Web({"/a": html(page)}) as web:
        assert "So:\n\nwith open(name):\n    pass" in (web.visit("/a").content or "")


def test_web_page_links_become_resources_to_visit() -> None:
    more = '<a href="x" rel="nofollow">X</a><a href="mailto:a@b.c">Mail</a><a href="#top">Up</a>'
    pool = ResourcePool()
    with Web({"/a/b": html(PAGE.replace("</main>", f"{more}</main>"))}) as web:
        web.visit("/a/b", pool)
    found = [(each.url.removeprefix(web.base), each.description) for each in pool.get_unvisited()]
    assert found == [("/a/trees", "trees"), ("/menu", "Menu")]


@pytest.mark.parametrize(
    ("rule", "links"), (("noindex, NOFOLLOW", 0), ("None", 0), ("noindex, follow", 2))
)
def test_web_page_may_forbid_following_its_links(rule: str, links: int) -> None:
    page = PAGE.replace("<head>", f'<head><meta name="Robots" content="{rule}">')
    pool = ResourcePool()
    with Web({"/a": html(page)}) as web:
        web.visit("/a", pool)
    assert len(pool.get_unvisited()) == links


@pytest.mark.parametrize(
    ("kind", "body"),
    (
        ("text/plain", "one\r\ntwo"),
        ("text/markdown", "# One\n\ntwo"),
        ("application/rss+xml", "<rss><title>one</title></rss>"),
        ("application/json; charset=utf-8", '{"one": "tẅo"}'),
        ("application/feed+json", '{"one": 2}'),
    ),
)
def test_text_is_taken_as_it_is(kind: str, body: str) -> None:
    with Web({"/a": http(body.encode(), 200, {"Content-Type": kind})}) as web:
        assert web.visit("/a").content == body.replace("\r\n", "\n")


def test_markdown_and_tables_of_the_web_are_read_as_in_a_folder() -> None:
    pages = {
        "/a": http(b"# One\n\nSee [two](b).\n", 200, {"Content-Type": "text/markdown"}),
        "/b": http("plan,euros\nTëam,29\n".encode("cp1252"), 200, {"Content-Type": "text/csv"}),
    }
    with Web(pages) as web:
        read = web.visit("/a")
        assert (read.content.strip(), read.description) == ("# One\n\nSee two.", "One")
        assert [each.anchor for each in read.sections] == ["one"]
        assert web.visit("/b").content.strip() == "plan: Tëam; euros: 29"


def test_web_page_that_leads_on_by_itself_is_read_where_it_leads() -> None:
    def moved(to: str, wrap: str = "{}") -> Answer:
        meta = wrap.format(f'<meta http-equiv="Refresh" content="0; url={to}">')
        return html(f"<html><head>{meta}</head><body><p>This page has moved.</p></body></html>")

    pages = {
        "/old": moved("'/a'"),
        "/round": moved("/about"),
        "/about": moved("/round"),
        "/plain": moved("/a", "<noscript>{}</noscript>"),
        "/a": html(PAGE),
    }
    pool = ResourcePool()
    with Web(pages) as web:
        read = web.visit("/old", pool)
        assert read.url == f"{web.base}/a"
        assert not any(each.url.endswith("/old") for each in pool.get_unvisited())
        assert "has moved" in web.visit("/plain").content
        with pytest.raises(PageError, match="leads on by itself more than 3 times"):
            web.visit("/round")


def test_text_in_two_bytes_a_character_is_no_binary() -> None:
    with Web({"/a": http("naïve €".encode("utf-16"), 200, TEXT)}) as web:
        assert web.visit("/a").content == "naïve €"


def test_text_in_two_bytes_a_character_is_read_as_the_server_declares_it() -> None:
    for charset, data in (("UTF-16LE", "utf-16-le"), ("utf-16be", "utf-16-be")):
        wide = {"Content-Type": f"text/plain; charset={charset}"}
        with Web({"/a": http("naïve €".encode(data), 200, wide)}) as web:
            assert web.visit("/a").content == "naïve €"


def test_web_page_that_needs_javascript_is_no_source() -> None:
    page = "<html><body><div id=app></div><script src=a.js></script></body></html>"
    with Web({"/a": html(page)}) as web:
        assert refused(web, "/a") == (
            "BASE/a needs JavaScript: scripts write its text, and they are not run, so it was not "
            "read"
        )


def test_latin_1_is_read_as_browsers_do_unless_the_text_is_utf_8() -> None:
    latin = {"Content-Type": "text/plain; charset=ISO-8859-1"}
    with Web({"/a": http("Größe: 5 €".encode(), 200, latin)}) as web:
        assert web.visit("/a").content == "Größe: 5 €"
    with Web({"/a": http("5 €".encode("cp1252"), 200, latin)}) as web:
        assert web.visit("/a").content == "5 €"


def test_web_document_without_a_type_is_known_by_its_beginning() -> None:
    unsaid = {"Content-Type": "application/octet-stream"}
    pages = {"/a": http(pdf("Hello"), 200, unsaid), "/b": http(PAGE.encode(), 200, unsaid)}
    with Web(pages) as web:
        assert web.visit("/a").content == "Hello"
        assert (web.visit("/b").content or "").startswith("Apples")


CAFE = "<html><head>{}</head><body><p>Un café crème pour la très belle forêt.</p></body></html>"
META = CAFE.format('<meta charset="iso-8859-15">')


@pytest.mark.parametrize(
    ("charset", "body"),
    (
        ("", CAFE.format("").encode()),
        ('; Charset="CP437"', CAFE.format("").encode("cp437")),
        ("", META.encode("iso-8859-15")),
        ("; charset=latin-1", b"\xef\xbb\xbf" + CAFE.format("").encode()),
        ("", CAFE.format("").encode("utf-16")),
        ("; charset=no-such-thing", CAFE.format("").encode()),
        ("; charset=us-ascii", CAFE.format("").encode("cp1252")),
        ("", CAFE.format("").encode("cp1252")),
        ("; charset=utf-8", META.encode("iso-8859-15")),
        ("", CAFE.format('<meta charset="utf-16le">').encode()),
        ("", CAFE.format("<!-- ÿ -->").encode().replace("ÿ".encode(), b"\xff")),
    ),
    ids=(
        *("none", "header", "meta", "bom", "utf-16", "unknown", "wrong", "unsaid"),
        *("header-wrong", "not-16", "one-wrong-byte"),
    ),
)
def test_characters_are_read_whatever_is_said_of_them(charset: str, body: bytes) -> None:
    with Web({"/a": http(body, 200, {"Content-Type": "text/html" + charset})}) as web:
        assert web.visit("/a").content == "Un café crème pour la très belle forêt."


# -- what is no source -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "why"),
    (
        (http(b"no", 404), "BASE/a answered 404 (Not Found)"),
        (http(b"no", 403), "BASE/a answered 403 (Forbidden)"),
        (http(b"no", 400, {"Location": "/b"}), "BASE/a answered 400 (Bad Request)"),
        (http(b"no", 399), "BASE/a answered 399"),
        (html("<html><body></body></html>"), "BASE/a has no text that can be read"),
        (
            http(b"GIF89a", 200, {"Content-Type": "image/gif"}),
            "BASE/a is of the type image/gif, and what is read is text, markdown, html, pdf, docx, "
            "odt, rtf, spreadsheet, presentation, mail, epub, table, source",
        ),
        (http(b"x" * 101, 200, TEXT), "BASE/a: the answer has more than 100 bytes"),
    ),
    ids=("missing", "forbidden", "wrong", "odd", "empty", "type", "large"),
)
def test_web_page_that_cannot_be_read_is_no_source(page: Answer, why: str) -> None:
    with Web({"/a": page}) as web:
        assert refused(web, "/a", max_bytes=100) == why


def test_web_page_whose_server_was_busy_is_asked_for_once_more() -> None:
    answers = [html(PAGE), http(b"", 503, {"Retry-After": "0"})]
    with Web({"/a": lambda _: answers.pop()}) as web:
        assert web.visit("/a").description == "All about apples"
        assert web.asked == ["/a", "/a"]


# -- redirects -------------------------------------------------------------------------------------


def test_visit_page_timeout_bounds_the_call_with_redirects_and_a_second_try() -> None:
    with Web({"/slow": Answer(hang=True), "/to": redirect("/slow")}) as web:
        why = refused(web, "/to", timeout_s=0.5)
        assert web.asked == ["/to", "/slow"]
    assert '/to" was not read within 0.5 s (timeout_s)' in why


def test_site_option_takes_only_pages_and_links_of_the_site() -> None:
    links = "".join(
        f"<a href=https://{host}/>x</a>" for host in ("a.127.0.0.1.", "evil127.0.0.1", "away.test")
    )
    pages = {"/a": html(f"<p>Apples are round. {links}</p>"), "/b": redirect("//localhost/a")}
    pool = ResourcePool()
    with Web(pages) as web:
        page = web.visit("/a", pool, site="127.0.0.1")
        assert [each.url for each in pool.get_all()] == ["https://a.127.0.0.1./", page.url]
        assert "http://localhost/a is not on 127.0.0.1" in refused(web, "/b", site="127.0.0.1")
        assert "BASE/a is not on example.org" in refused(web, "/a", site="example.org")


def test_redirect_leads_to_the_resource_that_was_read() -> None:
    pool = ResourcePool()
    with Web({"/a": redirect("/b"), "/b": redirect("c"), "/c": html(PAGE)}) as web:
        page = web.visit("/a", pool)
        assert page.url == f"{web.base}/c"
        known = pool.find(f"{web.base}/a")
        assert known is not None
        assert known.visited
        assert known.content is None


# -- politeness ------------------------------------------------------------------------------------


def robots(text: str) -> Answer:
    return http(text.encode(), 200, TEXT)


def test_page_that_wants_its_cookie_back_is_read_and_the_cookie_goes_nowhere_else() -> None:
    asked: list[str] = []

    def page(request: Request) -> Answer:
        cookie = {name.lower(): value for name, value in request.headers.items()}.get("cookie", "")
        asked.append(cookie)
        if "seen=1" in cookie:
            return html(PAGE)
        return http(b"", 302, {"Location": request.path, "Set-Cookie": "seen=1; Path=/"})

    with Web({"/a": page, "/to": redirect("/a")}) as web:
        assert "round" in (web.visit("/to").content or "")
        assert asked == ["", "seen=1"]
        web.visit("/a")
    assert asked == ["", "seen=1", "", "seen=1"]  # none is kept from one page to the next


def test_page_that_wants_a_cookie_in_vain_redirects_in_a_circle() -> None:
    with Web({"/a": http(b"", 302, {"Location": "/a", "Set-Cookie": "seen=1"})}) as web:
        assert refused(web, "/a") == "BASE/a redirects in a circle: BASE/a → BASE/a → BASE/a"


@pytest.mark.parametrize(
    ("asked", "landed", "is_named"),
    (
        ("/story", "/gdpr-consent?next=/story", True),
        ("/news/story.html", "/", True),
        ("/en/story", "/de/story", True),
        ("/story", "/2026/the-story/", False),
        ("/Story/", "/story", False),
        ("/", "/start", False),
    ),
)
def test_page_that_leads_to_another_one_is_named(asked: str, landed: str, is_named: bool) -> None:
    pool = ResourcePool()
    with Web({asked: redirect(landed), landed: html(PAGE)}) as web:
        web.visit(asked, pool)
    assert pool.missing == [f"{web.base}{asked} led to {web.base}{landed}"] * is_named


@pytest.mark.parametrize(
    "mark",
    (
        '<script type="application/ld+json">{"isAccessibleForFree": "False"}</script>',
        '<meta itemprop="isAccessibleForFree" content="false">',
    ),
)
def test_page_that_says_itself_that_it_is_not_free_is_marked_so(mark: str) -> None:
    pool = ResourcePool()
    with Web({"/a": html(PAGE.replace("</head>", f"{mark}</head>")), "/b": html(PAGE)}) as web:
        web.visit("/a", pool)
        web.visit("/b", pool)
    assert pool.missing == [f"{web.base}/a has parts that are not free, as it says"]


def test_robots_txt_is_obeyed_and_asked_for_once() -> None:
    rules = "User-agent: moothall\nDisallow: /private\n\nUser-agent: *\nDisallow: /\n"
    pages = {"/robots.txt": robots(rules), "/a": html(PAGE), "/private": html(PAGE)}
    with Web(pages) as web:
        action = visit_page(allow_hosts=["127.0.0.1"])

        async def read() -> None:
            await action.execute(url=f"{web.base}/a", pool=ResourcePool())
            with pytest.raises(PageError, match=r"the robots\.txt of its host forbids it$"):
                await action.execute(url=f"{web.base}/private", pool=ResourcePool())

        run(read())
        assert [each.path for each in web.requests] == ["/robots.txt", "/a"]
        assert refused(web, "/a", user_agent="other/1.0").endswith("forbids it")


@pytest.mark.parametrize(
    ("rules", "path", "may"),
    (
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf.html", True),
        ("User-agent: *\nDisallow: /*/old/*.html", "/a/old/b.html", False),
        ("User-agent: *\nDisallow: /*?print=", "/a?print=1", False),
        ("User-agent: *\nDisallow: /\nAllow: /open", "/open/a", True),
        ("User-agent: *\nAllow: /\nDisallow: /open/a", "/open/a", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        ("\ufeffUser-agent: *\nDisallow: /a", "/a", False),
        ("User-agent: *\n\nDisallow: /a", "/a", False),
        ("User-agent: x\nUser-agent: *\nDisallow: /a", "/a", False),
        ("User-agent: moothall\nUser-agent: x\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /gr\u00fcn", "/gr%C3%BCn", False),
        ("User-agent: Moothall\nDisallow:\n\nUser-agent: *\nDisallow: /", "/a", True),
    ),
)
def test_robots_txt_is_read_as_its_standard_says(rules: str, path: str, may: bool) -> None:
    with Web({"/robots.txt": robots(rules), path: html(PAGE)}) as web:
        if may:
            assert web.visit(path).visited
        else:
            assert refused(web, path).endswith("forbids it")


def test_robots_txt_is_not_evaded_by_a_redirect() -> None:
    rules = robots("User-agent: *\nDisallow: /private")
    with Web({"/robots.txt": rules, "/a": redirect("/private"), "/private": html(PAGE)}) as web:
        assert refused(web, "/a").endswith("forbids it")
        assert web.asked == ["/a"]


@pytest.mark.parametrize("status", ("500 (Internal Server Error)", "503 (Service Unavailable)"))
def test_robots_txt_that_fails_lets_nothing_be_read(status: str) -> None:
    with Web({"/robots.txt": http(b"", int(status[:3])), "/a": html(PAGE)}) as web:
        assert refused(web, "/a") == (
            f"BASE/a is not read: BASE/robots.txt answered {status}; try again in a minute"
        )
        assert web.asked == []


def test_robots_txt_that_is_missing_lets_all_be_read_under_the_user_agent() -> None:
    missing = http(b"User-agent: *\nDisallow: /", 404)
    with Web({"/robots.txt": missing, "/a": html(PAGE)}) as web:
        assert web.visit("/a", user_agent="cat/1.0").visited
        assert [each.headers["user-agent"] for each in web.requests] == ["cat/1.0"] * 2


def test_visit_page_asks_a_host_for_only_so_many_pages_at_once() -> None:
    open_now, most = 0, 0
    go_on, lock = threading.Event(), threading.Lock()

    def page(request: Request) -> Answer:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        return Answer(_ending(), hang=False)

    def _ending() -> Any:
        nonlocal open_now
        yield go_on  # so that all that may come at once are there
        with lock:
            open_now -= 1
        yield from html(PAGE).pieces

    async def read(web: Web) -> None:
        action = visit_page(allow_hosts=["127.0.0.1"], per_host=2)
        urls = [f"{web.base}/{n}" for n in range(5)]
        tasks = [asyncio.create_task(action.execute(url=u, pool=ResourcePool())) for u in urls]
        for _ in range(3):  # robots.txt and two pages
            await asyncio.to_thread(web.wait_for_request)
        go_on.set()
        await asyncio.gather(*tasks)

    with Web({f"/{n}": page for n in range(5)}) as web:
        run(read(web))
        assert len(web.asked) == 5
    assert most == 2


def test_page_that_waits_for_its_turn_at_a_host_has_its_whole_time() -> None:
    async def read(web: Web) -> None:
        action = visit_page(allow_hosts=["127.0.0.1"], delay_s=0.3, timeout_s=1, per_host=1)
        urls = [f"{web.base}/{n}" for n in range(6)]
        await asyncio.gather(*(action.execute(url=url, pool=ResourcePool()) for url in urls))

    with Web({f"/{n}": html(PAGE) for n in range(6)}) as web:
        run(read(web))


@pytest.mark.parametrize(
    ("delay_s", "rules"), ((0.4, ""), (0, "User-agent: *\nCrawl-delay: 1")), ids=("own", "robots")
)
def test_requests_to_a_host_begin_one_delay_after_the_other(delay_s: float, rules: str) -> None:
    async def read(web: Web) -> float:
        action = visit_page(allow_hosts=["127.0.0.1"], delay_s=delay_s)
        urls = [f"{web.base}/{n}" for n in range(2)]
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.gather(*(action.execute(url=url, pool=ResourcePool()) for url in urls))
        return loop.time() - begun

    pages: dict[str, Any] = {"/0": html(PAGE), "/1": html(PAGE), "/robots.txt": robots(rules)}
    with Web(pages) as web:
        assert run(read(web)) >= (delay_s or 1)


def test_url_has_at_most_4000_characters() -> None:
    longest = "http://web.test/".ljust(4000, "x")
    assert checked_url(longest) == longest
    with pytest.raises(PageError, match="at most 4000 characters, got 4001"):
        checked_url(f"{longest}x")
    with pytest.raises(PageError, match="does not name a host that can be read"):
        checked_url("http://web.test:0/")


# -- PDF -------------------------------------------------------------------------------------------

PAGES = [Section(0, "page=1", "page 1"), Section(11, "page=3", "page 3")]


def test_pdf_has_a_section_for_each_page_with_text() -> None:
    with Web({"/a.pdf": http(pdf("Hello one", "", "Page three"), 200, PDF)}) as web:
        action = read_pdf(allow_hosts=["127.0.0.1"])
        url = f"{web.base}/a.pdf"
        for page in (web.visit("/a.pdf"), run(action.execute(url=url, pool=ResourcePool()))):
            assert (page.content, page.sections) == ("Hello one\n\nPage three", PAGES)


def test_read_pdf_of_another_type_is_refused() -> None:
    with Web({"/a": html(PAGE)}) as web:
        action = read_pdf(allow_hosts=["127.0.0.1"])
        with pytest.raises(PageError, match=r"/a is not a PDF: read it with visit_page"):
            run(action.execute(url=f"{web.base}/a", pool=ResourcePool()))


def test_read_pdf_reads_no_file_of_this_machine() -> None:
    for url in ("deep/a.pdf", "/etc/hosts", "file:///etc/passwd"):
        with pytest.raises(PageError, match="only http and https are read"):
            run(read_pdf().execute(url=url, pool=ResourcePool()))


# -- settings and extras ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    (
        *({"per_host": 0}, {"user_agent": " /1"}, {"allow_hosts": "a.b"}, {"allow_hosts": 3}),
        *({"max_bytes": 0}, {"timeout_s": -1}, {"delay_s": "1"}, {"site": "a.b:80"}),
        *({"timeout_s": 0}, {"timeout_s": True}, {"delay_s": float("nan")}, {"per_host": 1.5}),
        *({"user_agent": "a\r\nHost: b"}, {"user_agent": "Größe/1.0"}),
    ),
)
def test_wrong_settings_are_said_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must "):
        visit_page(**wrong)


def test_web_tools_are_idempotent() -> None:
    for tool in (visit_page(), read_pdf(), search_web(searxng="http://localhost")):
        assert tool.idempotent


def test_package_that_is_missing_is_named_by_its_extra() -> None:
    script = """
import sys
from moothall.foundation.errors import MissingExtra
from moothall.research import read_pdf, search_web, visit_page
from moothall.research.reading.pdf.document import read_pdf_bytes
from moothall.research.reading.html import read_html
for package, call in (
    ("aiohttp", visit_page),
    ("trafilatura", visit_page),
    ("pypdfium2", read_pdf),
    ("ddgs", search_web),
    ("pypdfium2", lambda: read_pdf_bytes(b"")),
    ("trafilatura", lambda: read_html(b"<p>", None, "x")),
):
    sys.modules[package] = None
    try:
        call()
    except MissingExtra as error:
        print(error)
    del sys.modules[package]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.count("needs the extra 'research': pip install 'moothall[research]'") == 6
