"""What pages, servers and URLs may try on the tools that read the web, each once."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from models.openai_server import HANG, Answer, http
from moothall.build import AllowedHosts
from moothall.foundation.errors import AddressRefused, PageError, UnreadableDocument
from moothall.research import Resource, ResourcePool, visit_page
from moothall.testing.model_suite import run
from research.web_server import PDF, TEXT, Web, html, pdf, redirect

PAGE = "<html><body><p>A page with words that anybody may read, if they like.</p></body></html>"


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have addresses refused for what they are, not because all others are."""
    monkeypatch.delenv("MOOTHALL_OFFLINE", raising=False)


def read(url: str, pool: ResourcePool | None = None, **more: Any) -> Resource:
    pool = ResourcePool() if pool is None else pool
    return run(visit_page(**more).execute(url=url, pool=pool))  # type: ignore[no-any-return]


# -- addresses -------------------------------------------------------------------------------------

ADDRESSES = {
    "loopback": "127.0.0.1 127.255.255.254 [::1] localhost LocalHost",
    "fullwidth": "１２７.0.0.1 ⑫7.0.0.1 127。0。0。1 ⓛocalhost",  # noqa: RUF001
    "unspecified": "0.0.0.0 [::]",
    "private": "10.0.0.1 172.16.0.1 192.168.0.1 [fc00::1] [fec0::1]",
    "link-local": "169.254.0.1 [fe80::1]",
    "metadata": "169.254.169.254 168.63.129.16 100.100.100.200 [fd00:ec2::254]",
    "shared": "100.64.0.1",
    "multicast": "224.0.0.1 [ff02::1]",
    "registries": "192.0.0.8 192.0.0.170 192.31.196.1 192.52.193.1 192.88.99.1 192.175.48.1 "
    "198.18.0.1 [3fff::1] [2001:2::1] [2001:20::1] [2620:4f:8000::1] [5f00::1] [100::1]",
    "reserved": "240.0.0.1 255.255.255.255 192.0.2.1 [2001:db8::1] [4000::1]",
    "mapped": "[::ffff:127.0.0.1] [::ffff:a9fe:a9fe]",
    "compatible": "[::127.0.0.1]",
    "6to4": "[2002:7f00:1::1]",
    "NAT64": "[64:ff9b::10.0.0.1] [64:ff9b:1::1]",
    "Teredo": "[2001:0:7f00:1::1]",
}


@pytest.mark.parametrize("spelled", ADDRESSES.values(), ids=ADDRESSES)
def test_web_address_that_is_not_public_is_not_connected_to(spelled: str) -> None:
    with Web({"/": html(PAGE)}) as web:
        for host in spelled.split():
            with pytest.raises(AddressRefused, match=r"pages are read from public addresses only"):
                read(f"http://{host}:{web.port}/")
        assert web.connections == 0


@pytest.mark.parametrize(
    "host",
    (
        *("127.1", "127.0.1", "0", "2130706433", "0177.0.0.1", "017700000001", "0x7f000001"),
        *("0x7f.1", "127.0.0.1.", "%31%32%37.0.0.1", "localhost.", "localhost%00.test"),
    ),
)
def test_web_address_spelled_oddly_is_not_connected_to(host: str) -> None:
    with Web({"/": html(PAGE)}) as web:
        # Refused for its spelling, for the address that it means, or as a name that is not there.
        with pytest.raises(PageError):
            read(f"http://{host}:{web.port}/")
        assert web.connections == 0


@pytest.mark.parametrize(
    "url",
    (
        *("file:///etc/passwd", "ftp://127.0.0.1/", "javascript:alert(1)", "data:text/plain,x"),
        *(
            "//127.0.0.1/",
            "/etc/passwd",
            "http://",
            "http:///etc",
            "http://[::1",
            "http://a:x/",
            "",
        ),
        *("http://user@127.0.0.1:{port}/", "http://127.0.0.1:{port}\\@localhost/"),
        *("http://local\thost:{port}/ x", "http://127.0.0.1:0/", "http://127.0.0.1 :{port}/"),
    ),
)
def test_web_url_that_is_not_plain_http_is_refused(url: str) -> None:
    with Web({"/": html(PAGE)}) as web:
        with pytest.raises(PageError):
            read(url.format(port=web.port), allow_hosts=["127.0.0.1", "user"])
        assert web.connections == 0


def test_allowed_host_is_allowed_by_its_name_and_port_alone() -> None:
    with Web({"/": html(PAGE)}) as web:
        for allowed in ("127.0.0.1", f"127.0.0.1:{web.port}", "127.0.0.1."):
            assert read(f"{web.base}/", allow_hosts=[allowed]).content
        upper = f"http://LocalHost:{web.port}/"
        assert read(upper, allow_hosts=["LOCALHOST."]).visited
        for other in ("localhost", f"127.0.0.1:{web.port - 1}", "127.1", "7.0.0.1"):
            with pytest.raises(AddressRefused, match=r"allow_hosts=\('127\.0\.0\.1',\)"):
                read(f"{web.base}/", allow_hosts=[other])
    for allowed in ("::1", "[::1]", "[::1]:80"):
        AllowedHosts([allowed]).check("::1", 80, "::1")
    with pytest.raises(AddressRefused, match=r"::1 is at ::1, a loopback address"):
        AllowedHosts(["[::1]:80"]).check("::1", 81, "::1")


@pytest.mark.parametrize("path", ("/", "/robots.txt"), ids=("page", "robots"))
def test_redirect_to_an_address_that_is_not_allowed_is_refused(path: str) -> None:
    with Web({}) as inner, Web({"/": html(PAGE)}) as web:
        web.pages[path] = redirect(inner.base.replace("127.0.0.1", "localhost"))
        with pytest.raises(AddressRefused, match=r"^localhost is at .*a loopback address"):
            web.visit("/")
        assert inner.connections == 0


async def test_http_connection_that_is_kept_serves_no_other_name() -> None:
    with Web({"/": html(PAGE)}) as web:
        action = visit_page(allow_hosts=["127.0.0.1"])
        await action.execute(url=f"{web.base}/", pool=ResourcePool())
        url = web.base.replace("127.0.0.1", "localhost")
        with pytest.raises(AddressRefused):
            await action.execute(url=url, pool=ResourcePool())
        assert web.asked == ["/"]


# -- redirects -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "why"),
    (
        ("file:///etc/passwd", "only http and https are read"),
        ("http://[bad", "is not a URL|cannot be read"),
        ("/a", "redirects in a circle"),
        ("//user:word@127.0.0.1/", "does not name a host that can be read"),
    ),
)
def test_redirect_that_leads_nowhere_is_refused(to: str, why: str) -> None:
    with Web({"/a": redirect(to)}) as web:
        with pytest.raises(PageError, match=why):
            web.visit("/a")
        assert web.asked == ["/a"]


def test_redirects_come_to_an_end() -> None:
    pages = {f"/{n}": redirect(f"/{n + 1}") for n in range(99)}
    with Web(pages) as web:
        with pytest.raises(PageError, match=r"/0 redirects more than 10 times$"):
            web.visit("/0")
        assert len(web.asked) == 11


# -- bodies ----------------------------------------------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BOMB = gzip.compress(b"<p>word " * 2**20, 9)
PACKED = {"Content-Type": "text/html", "Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("answer", "why"),
    (
        (http(BOMB, 200, PACKED), "the answer has more than 1000000 bytes"),
        (
            Answer(
                itertools.chain([CHUNKED], itertools.repeat(b"1000\r\n" + b"x" * 4096 + b"\r\n"))
            ),
            "the answer has more than 1000000 bytes",
        ),
        (HANG, "was not read within 0.5 s"),
        (
            Answer((OK + b"Content-Length: 10\r\n\r\n", b"x"), hang=True),
            "was not read within 0.5",
        ),
        (
            Answer((OK + b"Content-Length: 10\r\n\r\nx",), cut=True),
            "no answer from|was not read within",
        ),
        (http(b"no gzip", 200, PACKED), "no answer from|was not read within"),
        (Answer((b"\0\1\2 what is this\r\n\r\n",), cut=True), "no answer from|was not read within"),
        (
            Answer((b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",)),
            "no answer from|was not read within",
        ),
    ),
    ids=("bomb", "endless", "silent", "slow", "cut", "bad-gzip", "no-http", "large-head"),
)
def test_web_page_body_that_does_not_end_well_is_no_page(answer: Answer, why: str) -> None:
    with Web({"/a": answer}) as web, pytest.raises(PageError, match=why):
        web.visit("/a", max_bytes=1_000_000, timeout_s=0.5)


@pytest.mark.parametrize(
    "rules",
    (
        b"User-agent: *\nCrawl-delay: \xb2\nCrawl-delay: " + b"9" * 9000 + b"\nDisallow: /x",
        b"\0\xff\n" * 1000,
        b"User-agent: *\n" * 20_000 + b"Disallow: /x\n",
    ),
    ids=("numbers", "bytes", "many"),
)
def test_robots_txt_that_is_malformed_does_no_harm(rules: bytes) -> None:
    with Web({"/robots.txt": http(rules, 200, TEXT), "/": html(PAGE)}) as web:
        assert web.visit("/").content


def test_robots_txt_without_end_is_a_refusal() -> None:
    endless = Answer(
        itertools.chain([CHUNKED], itertools.repeat(b"1000\r\n" + b"#" * 4096 + b"\r\n"))
    )
    with (
        Web({"/robots.txt": endless, "/": html(PAGE)}) as web,
        pytest.raises(PageError, match=r"robots\.txt cannot be read"),
    ):
        web.visit("/")


# -- types and characters --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "body"),
    (
        ("text/html", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("text/plain", b"\x7fELF\2\1\1\0\0\0"),
        ("application/pdf", PAGE.encode()),
        ("application/octet-stream", b"PK\3\4"),
        ("", b"\0\1\2\3"),
        ("x" * 5000 + "/html", PAGE.encode()),
    ),
    ids=("picture", "program", "html", "archive", "nothing", "long"),
)
def test_web_page_of_another_type_than_stated_is_refused(kind: str, body: bytes) -> None:
    page = http(body, 200, {"Content-Type": kind})
    with Web({"/a": page}) as web, pytest.raises(PageError) as caught:
        web.visit("/a")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("charset", ("zip", "idna", "punycode", "unicode_escape", "x" * 999, "\\'"))
def test_charset_that_is_no_text_encoding_is_not_used(charset: str) -> None:
    page = PAGE.replace("words", "wörds \\u0041")
    with Web(
        {"/a": http(page.encode(), 200, {"Content-Type": f"text/html; charset={charset}"})}
    ) as web:
        assert "wörds \\u0041 that" in (web.visit("/a").content or "")


def test_characters_that_control_are_left_out() -> None:
    bad = "\x07\x1b[31m\x9b\u202e\u2066\ufeff"
    page = PAGE.replace("words", f"wo{bad}rds").replace(
        "<p>", f"<title>{bad}T</title><p>&#27;&#x202e;"
    )
    for kind in ("text/html", "text/plain"):
        answer = http(page.encode(), 200, {"Content-Type": f"{kind}; charset=utf-8"})
        with Web({"/a": answer}) as web:
            found = web.visit("/a")
        shown = f"{found.content}{found.description}"
        assert "words" in shown
        assert all(c.isprintable() or c in "\n\t" for c in shown)


# -- HTML ------------------------------------------------------------------------------------------

ENTITIES = (
    '<!DOCTYPE html [<!ENTITY a "aaaaaaaaaa">{}<!ENTITY x SYSTEM "file:///etc/passwd">]>'.format(
        "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in itertools.pairwise("abcdefghij"))
    )
)
MALFORMED = {
    "nested": "<div>" * 100_000 + "words " * 20,
    "unclosed": "<p><b><i><table><tr><td>words " * 2000,
    "cut": PAGE[:-40] + "<a href='",
    "entities": ENTITIES + PAGE.replace("words", "words &j; &x;"),
    "attributes": "<p " + "a=b " * 50_000 + ">words</p>",
    "comments": "<!--" * 10_000 + PAGE,
    "headings": "<h2>words</h2>" * 4000,
    "lists": "<ul><li>words</li></ul>" * 4000,
    "elements": "<b>x</b>" * 100_000,
    "base": PAGE.replace("<p>", "<base href='http://[x'><p><a href='y'>y</a>"),
    "huge word": PAGE.replace("words", "w" * 2**20),
}


@pytest.mark.parametrize("page", MALFORMED.values(), ids=MALFORMED)
def test_malformed_html_gives_its_text_or_says_why_not(page: str) -> None:
    pool = ResourcePool()
    with Web({"/a": html(page)}) as web:
        try:
            found = web.visit("/a", pool)
        except PageError:
            assert not any(each.visited for each in pool.get_all())
        else:
            content = found.content or ""
            assert "root:" not in content
            assert len(content) <= len(page) + 100
            assert all(0 <= each.start < len(content) for each in found.sections)


def test_links_of_a_page_of_many_are_taken_by_hundreds_those_of_the_main_part_first() -> None:
    many = "".join(
        f'<a href="/{n}?{"x" * 2000 if n % 9 == 0 else ""}">{"t" * 300}</a> ' for n in range(10_000)
    )
    pool = ResourcePool()
    with Web({"/a": html(f"<nav>{many}</nav><main>{PAGE}<a href='/last'>it</a></main>")}) as web:
        web.visit("/a", pool)
    unread = pool.get_unvisited()
    assert len(unread) == 300
    assert unread[0].url.endswith("/last")
    assert all(len(each.url) < 2000 and len(each.description or "") <= 200 for each in unread)


def test_links_lead_to_http_only_whatever_the_page_says_of_its_place() -> None:
    links = "".join(
        f'<a href="{to}">x</a>'
        for to in (
            "javascript:x",
            "file:///etc",
            " HTTPS://ok.test/ ",
            "http://[x",
            "data:,x",
            "\x01x",
        )
    )
    pool = ResourcePool()
    page = PAGE.replace("<p>", f'<base href="file:///etc/"><p>{links}')
    with Web({"/a": html(page)}) as web:
        web.visit("/a", pool)
    assert [each.url for each in pool.get_unvisited()] == ["https://ok.test/"]


# -- PDF -------------------------------------------------------------------------------------------

GOOD = pdf("one", "two")


def pdf_bomb() -> bytes:
    """A PDF of one page, of more than a hundred megabytes."""
    stream = zlib.compress(b"BT (x) Tj ET\n" * 2**23, 9)
    return pdf("one").replace(
        b"<< /Length 34 >>\nstream\nBT /F1 12 Tf 72 720 Td (one) Tj ET",
        b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s" % (len(stream), stream),
    )


@pytest.mark.parametrize(
    "document",
    (
        b"%PDF-1.4\njunk" * 100,
        GOOD[: len(GOOD) // 2],
        GOOD.replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [2 0 R 2 0 R]"),
        GOOD.replace(b"/Type /Catalog", b"/Type /Nothing").replace(b"/Root", b"/Boot"),
        pdf(""),
        pdf_bomb,
    ),
    ids=("junk", "cut", "circle", "rootless", "empty", "bomb"),
)
def test_pdf_that_is_malformed_is_no_source(document: bytes | Callable[[], bytes]) -> None:
    page = http(document if isinstance(document, bytes) else document(), 200, PDF)
    with Web({"/a": page}) as web, pytest.raises(UnreadableDocument, match="/a: the PDF "):
        web.visit("/a")


def test_pdf_text_of_control_characters_is_cleaned() -> None:
    with Web({"/a.pdf": http(pdf(r"a\033[31m\007b"), 200, PDF)}) as web:
        assert web.visit("/a.pdf").content == "ab"
