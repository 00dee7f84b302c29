"""Strangers at the studio's port: programs without the token, and pages from elsewhere."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any
from urllib.parse import quote_plus

import pytest
from starlette.routing import Mount

from attacks.studio.conftest import (
    KNOWN,
    PASSWORD,
    TOKEN,
    Answer,
    Port,
    answered,
    key_in,
    served,
)
from moothall.studio import Studio

OPEN = {
    ("GET", "/"),
    ("GET", "/styleguide"),
    *(
        ("GET", f"/{tab}{rest}")
        for tab in ("space", "act", "research", "society", "runs", "doors")
        for rest in ("", "/x")
    ),
}
"""The addresses of the page, which is empty until its scripts have the key."""


# -- the token -------------------------------------------------------------------------------------


def every_route(studio: Studio) -> list[tuple[str, str]]:
    """Each route of the studio, with a word for each gap."""
    found = {("GET", "/studio/static/studio.js")}

    def walk(routes: Any) -> None:
        for route in routes:
            inner = getattr(route, "original_router", None) or (
                route.app if isinstance(route, Mount) else None
            )
            if getattr(inner, "routes", None):
                walk(inner.routes)
            for method in getattr(route, "methods", None) or ():
                found.add((method, re.sub(r"{[^}]*}", "x", route.path)))

    async def guarded() -> Any:
        from moothall.studio.page_guard import Front
        from moothall.studio.server import application  # it loads FastAPI

        return application(studio, TOKEN, "127.0.0.1", Front(), is_password=False)

    walk(asyncio.run(guarded()).app.routes)
    return sorted(found)


@pytest.fixture(scope="module")
def routes(port: Port) -> list[tuple[str, str]]:
    found = every_route(port.studio)
    assert len(found) > 40
    assert set(found) >= OPEN
    return found


def test_studio_routes_without_the_token_answer_401(
    port: Port, routes: list[tuple[str, str]]
) -> None:
    """Nor one that is not there: a stranger learns nothing."""
    for method, path in [*routes, ("GET", "/nothing"), ("DELETE", "/"), ("TRACE", "/")]:
        assert port.send(path, method=method).status == 401, (method, path)


def test_studio_with_the_token_opens_its_own_routes_alone(port: Port) -> None:
    """No schema of its routes, no upload, no file, no proxy: nothing that a framework brings."""
    framework = ("/docs", "/redoc", "/openapi.json", "/gradio_api/upload", "/config", "/file=/etc")
    for method in ("GET", "POST", "PUT", "DELETE"):
        for path in (
            *framework,
            "/static/x",
            "/assets/x",
            "/queue/join",
            "/x",
            "/spaces",
            "/space.x",
        ):
            assert port.send(path, KNOWN, method=method).status == 404, (method, path)


@pytest.mark.parametrize("word", ("", "%2e%2e/", "../", "/", "x/../../"))
def test_path_spellings_lead_to_no_closed_route(port: Port, word: str) -> None:
    for base in ("/", "/studio/", "/runs/", "/studio/static/"):
        told = port.send(f"{base}{word}file=/etc/passwd", KNOWN)
        assert told.status in (403, 404) or (base == "/runs/" and "data-told" in told.text)
        assert "root:" not in told.text


def test_static_files_are_those_of_their_folder(port: Port) -> None:
    up = "%2e%2e%2f"
    for path in (
        "%2e%2e/studio.py",
        "..%2fstudio.py",
        "../studio.py",
        f"{up * 12}etc/passwd",
        "%2fetc%2fpasswd",
        "//etc/passwd",
        "..%5cstudio.py",
        "studio.js%00.css",
        "",
        ".",
    ):
        told = port.send(f"/studio/static/{path}", KNOWN)
        assert told.status in (400, 403, 404), path
        assert "root:" not in told.text
        assert "import" not in told.text


@pytest.mark.parametrize(
    ("path", "headers"),
    (
        ("/", [("Authorization", "Bearer wrong")]),
        ("/", [("Authorization", TOKEN)]),
        ("/", [("Authorization", f"Basic {TOKEN}")]),
        ("/", [("Cookie", f"moothall_studio={TOKEN}")]),
        ("/", [("Cookie", f"token={TOKEN}")]),
        ("/", [("X-Token", TOKEN), ("Referer", f"http://127.0.0.1/?token={TOKEN}")]),
        ("/?token=wrong", []),
        (f"/?token={TOKEN[:-1]}", []),
        (f"/?TOKEN={TOKEN}", []),
        (f"/studio/cards?token={TOKEN}", []),
        (f"/studio/static/studio.js?token={TOKEN}", []),
        (f"/login?secret={TOKEN}", []),
        ("/?token=%ff%00%ed%a0%80", []),
        ("/", [("Authorization", "Bearer \udcff\udce9")]),
    ),
)
def test_token_in_any_other_place_or_form_is_refused(
    port: Port, path: str, headers: list[tuple[str, str]]
) -> None:
    """A wrong one nowhere; the right one in the address of the page, or as a bearer's."""
    sent = [
        (name, value.encode("utf-8", "surrogateescape").decode("latin-1"))
        for name, value in headers
    ]
    assert port.send(path, *sent).status == 401


def test_token_is_asked_of_a_browser_which_is_told_when_it_was_wrong(port: Port) -> None:
    """Not before it has given one."""
    html = ("Accept", "text/html")
    asked, wrong = port.send("/", html).text, port.send("/?token=x", html).text
    assert "The token of this studio" in asked
    assert "The program that serves this page has printed it." in asked
    assert "This is not the token." not in asked
    assert "This is not the token." in wrong


def test_cookie_of_the_login_is_the_browsers_and_this_studios_alone(
    port: Port, cookie: tuple[str, str], key: tuple[str, str], tmp_path: Any
) -> None:
    """Scripts cannot read it, other sites cannot have it sent, and it does not tell the token.

    It is good after a restart with the same token; another studio at the same host has its own.
    """
    told = port.send(f"/?token={TOKEN}").headers["set-cookie"]
    assert set(told.split("; ")[1:]) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    assert TOKEN not in told
    assert port.send("/studio/cards", cookie, key).status == 200
    assert port.send("/studio/cards", (cookie[0], f"{cookie[1][:-1]}x"), key).status == 401
    assert port.send("/studio/cards", ("Cookie", f"a=b; {cookie[1]}; c"), key).status == 200
    with Studio() as studio:
        again = served(studio, tmp_path / "runs.db", token=TOKEN)
        assert again.send("/studio/cards", cookie, key).status == 200
    with Studio() as studio:
        other = served(studio, tmp_path / "runs.db", token="u" * 20)
        assert other.send("/studio/cards", cookie, key).status == 401
        theirs = other.send("/?token=" + "u" * 20).headers["set-cookie"]
        assert theirs.partition("=")[0] != cookie[1].partition("=")[0]


def test_cookie_without_its_key_opens_the_empty_page_alone(
    port: Port,
    cookie: tuple[str, str],
    key: tuple[str, str],
    routes: list[tuple[str, str]],
) -> None:
    """Browsers send it to the programs at all other ports of the host, which send it here.

    They are not told the key, neither by the page nor by the login.
    """
    for method, path in [*routes, ("GET", "/studio/events"), ("POST", "/")]:
        told = port.send(path, cookie, ("X-Moothall-Key", "x" * 64), method=method)
        is_shell = (method, path) in OPEN or path.startswith("/studio/static/")
        assert told.status == 401 or (is_shell and method in ("GET", "HEAD")), (method, path)
        assert key[1] not in told.text
    for path in ("/login", "/?token=x", f"/?key={cookie[1]}"):
        assert key[1] not in port.send(path, cookie, ("Accept", "text/html")).text
    for wrong in ("", "&key=", "&key=x", f"&key={cookie[1].partition('=')[2]}"):
        assert port.send(f"/studio/runs/run?run=x{wrong}", cookie).status == 401
    assert port.send(f"/studio/runs/run?run=x&key={key[1]}", cookie).status == 404
    assert port.send(f"/studio/runs/run?run=x&key={key[1]}").status == 401


def test_page_address_that_is_mistyped_is_missing_and_asks_for_no_token(
    port: Port, cookie: tuple[str, str], key: tuple[str, str]
) -> None:
    """Of a browser that is in; any other is asked, and learns nothing of what there is."""
    html = ("Accept", "text/html")
    for path in ("/reserach", "/x/y", "/studiox"):
        told = port.send(path, cookie, html)
        assert (told.status, '<a href="/">' in told.text) == (404, True)
        assert key[1] not in told.text
        assert "password" not in told.text
        for known in ((), ((cookie[0], f"{cookie[1][:-1]}x"),)):
            assert port.send(path, *known, html).status == 401
    assert port.send("/reserach", cookie).status == 401
    assert port.send("/studio/cards", cookie, html).status == 401


def test_token_does_not_stay_in_the_address(port: Port, cookie: tuple[str, str]) -> None:
    """Who has the cookie and opens the printed address, or an old one, is led to the page."""
    for told in (port.send(f"/?token={TOKEN}", cookie), port.send("/?token=old", cookie)):
        assert (told.status, 'content="0; url=/"' in told.text) == (200, True)


# -- Host and Origin -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    (
        "evil.example",
        "evil.example:{port}",
        "localhost.evil.example:{port}",
        "evil.example@127.0.0.1:{port}",
        "127.0.0.1@evil.example:{port}",
        "127.0.0.1:{port}@evil.example",
        "127.0.0.1.:{port}",
        "localhost.:{port}",
        "127.0.0.1:{port}:80",
        "127.0.0.1:evil",
        "127.0.0.1:",
        ":{port}",
        "::1",
        "[::1",
        "::1]:{port}",
        "[::1]evil:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "[evil.example]:{port}",
        "0.0.0.0:{port}",
        "192.168.1.9:{port}",
        "2130706433:{port}",
        "127.0.0.1/evil",
    ),
)
def test_host_header_of_a_foreign_name_is_refused(port: Port, host: str) -> None:
    """So that a name made to point here (DNS rebinding) gives a page nothing, token or not."""
    for path in ("/", "/studio/static/studio.js", "/studio/cards", "/login", "/x"):
        told = port.send(path, KNOWN, hosts=[host.format(port=port.number)])
        assert told.status == 403
        assert "is not a host of this studio" in told.text
        assert "forwarded to it with --public-url" in told.text


def test_host_header_of_loopback_is_let_in_at_any_port(port: Port) -> None:
    """In any case of letters, at any port: a forwarded port has another number."""
    for host in ("127.0.0.1", "localhost", "LOCALHOST:1", "[::1]", f"[::1]:{port.number}"):
        assert port.send("/studio/cards", KNOWN, hosts=[host]).status == 200, host


def test_host_header_that_is_missing_or_doubled_is_refused(port: Port) -> None:
    for hosts in ((), (port.host, "evil.example"), (port.host, port.host)):
        assert port.send("/studio/cards", KNOWN, hosts=hosts).status in (400, 403)
    with port.connect() as connection:
        connection.sendall(f"GET / HTTP/1.0\r\n{KNOWN[0]}: {KNOWN[1]}\r\n\r\n".encode())
        assert answered(connection).status == 403
    told = port.send("http://evil.example/studio/cards", KNOWN)
    assert told.status == 404


FOREIGN = (
    "http://evil.example",
    "null",
    "",
    "http://localhost:3000",
    "http://127.0.0.1:3000",
    "http://127.0.0.1",
    "https://127.0.0.1:{port}",
    "ftp://127.0.0.1:{port}",
    "chrome-extension://127.0.0.1:{port}",
    "http://localhost:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}/",
    "http://evil@127.0.0.1:{port}",
)


@pytest.mark.parametrize("origin", FOREIGN)
def test_origin_of_another_site_is_refused(
    port: Port, cookie: tuple[str, str], origin: str
) -> None:
    """By every method, of static files and the login too; no header of CORS is given."""
    sent = ("Origin", origin.format(port=port.number))
    for method in ("GET", "HEAD", "POST", "OPTIONS", "PUT"):
        for path in ("/", "/studio/static/studio.js", "/studio/cards/1", "/runs/x", "/login"):
            asks = ("Access-Control-Request-Method", "POST")
            told = port.send(path, cookie, sent, asks, method=method)
            assert told.status == 403, (method, path)
            assert not [name for name in told.headers if name.startswith("access-control")]


def test_origin_of_the_page_itself_is_let_in(
    port: Port, cookie: tuple[str, str], key: tuple[str, str]
) -> None:
    assert port.send("/studio/cards", cookie, key, ("Origin", port.origin)).status == 200
    doubled = (("Origin", port.origin), ("Origin", "http://evil.example"))
    assert port.send("/studio/cards", cookie, key, *doubled).status == 403


@pytest.mark.parametrize("site", ("cross-site", "same-site"))
def test_pages_from_elsewhere_embed_and_read_nothing(
    port: Port, cookie: tuple[str, str], site: str
) -> None:
    """Of a page at another port of this host too, to which a browser lends the cookie.

    It can only open the page itself, by a link; what a GET answers it cannot have opened.
    """

    def fetched(path: str, mode: str, dest: str, method: str = "GET") -> int:
        names = ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest")
        sent = zip(names, (site, mode, dest), strict=True)
        return port.send(path, cookie, *sent, method=method).status

    assert fetched("/", "navigate", "document") == fetched("/runs/x", "navigate", "document") == 200
    for path in ("/", "/studio/static/studio.js", "/studio/cards", "/runs/x"):
        for mode, dest in (("no-cors", "script"), ("no-cors", "image"), ("cors", "empty")):
            assert fetched(path, mode, dest) == 403
        assert fetched(path, "navigate", "iframe") == 403
        assert fetched(path, "navigate", "document", "POST") == 403
    assert fetched("/studio/space/help?id=Clerk", "navigate", "document") == 403


HEADERS: dict[str, str | tuple[str, ...]] = {
    "content-security-policy": "default-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": ("no-referrer", "same-origin"),  # the login needs its Origin
    "x-frame-options": "SAMEORIGIN",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def test_answers_all_have_the_headers_that_protect(port: Port) -> None:
    """Errors, refusals and the login too; what is not a file of the program is not kept."""
    html = ("Accept", "text/html")
    for status, path, method, headers in (
        (200, "/", "GET", [KNOWN]),
        (200, "/studio/static/studio.js", "GET", [KNOWN]),
        (200, "/studio/cards", "GET", [KNOWN]),
        (401, "/", "GET", [html]),
        (401, "/", "HEAD", []),
        (403, "/", "GET", [("Origin", "null")]),
        (404, "/upload", "POST", [KNOWN]),
        (404, "/studio/nothing", "GET", [KNOWN]),
        (404, "/studio/static/nothing.js", "GET", [KNOWN]),
        (405, "/studio/static/studio.js", "DELETE", [KNOWN]),
        (413, "/studio/space/line", "POST", [KNOWN, ("Content-Length", "9" * 9)]),
        (422, "/studio/cards/x", "POST", [KNOWN]),
    ):
        told = port.send(path, *headers, method=method)
        assert told.status == status, path
        for name, value in HEADERS.items():
            assert told.headers.get_all(name, [""])[0].startswith(value), (path, name)
        policy = told.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "http" not in policy
        assert told.headers["cache-control"] == "no-store", path
        assert "server" not in told.headers


# -- the password ----------------------------------------------------------------------------------


def entered(
    port: Port, secret: str, *headers: tuple[str, str], path: str = "/login", **sent: Any
) -> Answer:
    form = f"secret={quote_plus(secret)}".encode()
    kind = ("Content-Type", "application/x-www-form-urlencoded")
    return port.send(path, kind, *headers, method="POST", body=form, **sent)


def test_login_leads_to_the_address_that_was_asked_for(public: Port) -> None:
    """One of the page's, and no other."""
    asked = public.send("/runs/a%22b", ("Accept", "text/html")).text
    assert 'name="to" value="/runs/a%22b"' in asked
    asked = public.send("/login?to=%2Fruns%2Fx", ("Accept", "text/html")).text
    assert 'name="to" value="/runs/x"' in asked
    for to, led in (("/runs/a%2522b", "/runs/a%22b"), ("//evil.example", "/"), ("/x", "/")):
        form = f"secret={quote_plus(PASSWORD)}&to={to}".encode()
        assert f'content="0; url={led}"' in public.send("/login", method="POST", body=form).text


def test_password_alone_opens_the_public_studio(public: Port) -> None:
    """As written, in any letters; not in an address, which others read."""
    assert entered(public, PASSWORD).status == 200
    assert public.send("/", ("Authorization", f"Bearer {PASSWORD}")).status == 200
    for wrong in ("", "pass", PASSWORD.upper(), f"{PASSWORD} ", PASSWORD.encode().hex()):
        assert entered(public, wrong).status == 401
    assert public.send(f"/?token={quote_plus(PASSWORD)}").status == 401
    assert entered(public, PASSWORD, ("Origin", "http://evil.example")).status == 403
    opened = entered(public, PASSWORD)
    cookie = opened.headers["set-cookie"].partition(";")[0]
    assert PASSWORD not in cookie
    assert public.send("/studio/cards", ("Cookie", cookie), key_in(opened)).status == 200


def test_password_of_any_characters_can_be_entered(tmp_path: Any) -> None:
    password = "  pässwörter 密码 a&b=c+d%20e;  "
    with Studio() as studio:
        port = served(studio, tmp_path / "runs.db", password=password)
        assert entered(port, password).status == 200
        assert entered(port, password.strip()).status == 401


def test_wrong_passwords_are_limited_by_address(public: Port) -> None:
    """Who guesses is not listened to for a minute, even with the right one; others get in."""
    for number in range(20):
        assert entered(public, f"guess {number}").status == 401
    html = ("Accept", "text/html")
    assert "Too many wrong attempts: wait a minute." in entered(public, PASSWORD, html).text
    assert public.send("/", ("Authorization", f"Bearer {PASSWORD}")).status == 401
    other = ("127.0.0.2", 0)
    with socket.create_connection(("127.0.0.1", public.number), 20, other) as connection:
        sent = f"GET / HTTP/1.1\r\nHost: {public.host}\r\nAuthorization: Bearer {PASSWORD}\r\n"
        connection.sendall(f"{sent}Connection: close\r\n\r\n".encode())
        assert answered(connection).status == 200


def test_wrong_passwords_of_many_addresses_are_limited_together(public: Port) -> None:
    """A stranger's is not checked any more; who has come in before, or has the cookie, gets in."""
    right = ("Authorization", f"Bearer {PASSWORD}")
    cookie = ("Cookie", entered(public, PASSWORD).headers["set-cookie"].partition(";")[0])
    for number in range(600):
        wrong = ("Authorization", f"Bearer guess {number}")
        assert (
            public.send("/", wrong, source=f"127.1.{number // 200}.{number % 200 + 1}").status
            == 401
        )
    assert public.send("/", right, source="127.2.0.1").status == 401
    assert public.send("/", right, cookie, source="127.2.0.1").status == 200
    assert public.send("/", right).status == 200


def test_forwarded_for_header_of_a_client_is_not_believed(public: Port) -> None:
    """X-Forwarded-For and its like neither evade the limit nor name a host."""
    for number in range(20):
        entered(public, "guess", ("X-Forwarded-For", f"10.0.0.{number}"))
    assert entered(public, PASSWORD, ("X-Forwarded-For", "10.9.9.9")).status == 401


def test_behind_a_proxy_its_own_address_and_base_path_count(tmp_path: Any) -> None:
    """And what the proxy states of a client, not what others state; everything else is refused."""
    address = {"public_url": "https://agents.example/hall/", "proxies": ["127.0.0.2"]}
    with Studio() as studio:
        studio.launch(
            0, journal=tmp_path / "runs.db", prevent_thread_lock=True, quiet=True,
            password=PASSWORD, **address,
        )  # fmt: skip
        assert studio.url == "https://agents.example/hall/"
        assert studio._server is not None
        number = studio._server.port
        port = Port.at(studio, number)
        front = ["agents.example"]
        opened = entered(port, PASSWORD, path="/hall/login", hosts=front)
        cookie = opened.headers["set-cookie"]
        assert {"Secure", "Path=/hall/"} <= set(cookie.split("; "))
        assert 'url=/hall/"' in opened.text
        known = (("Cookie", cookie.partition(";")[0]), key_in(opened))
        origin = ("Origin", "https://agents.example")
        for hosts in (front, None):  # a proxy may pass on its own
            told = port.send("/hall/studio/cards", *known, origin, hosts=hosts)
            assert (told.status, told.text) == (200, "[]")
        assert 'data-base="/hall/"' in port.send("/hall/runs/x", *known, hosts=front).text
        assert port.send("/studio/cards", *known, hosts=front).status == 404
        assert port.send("/hallway/studio/cards", *known, hosts=front).status == 404
        for wrong in ("http://agents.example", "https://agents.example.evil.example", "null"):
            said = ("Origin", wrong)
            assert port.send("/hall/studio/cards", *known, said, hosts=front).status == 403
        for n in range(20):  # of a stranger behind the proxy; others behind it are let in
            source = ("X-Forwarded-For", "203.0.113.9")
            entered(port, f"guess {n}", source, path="/hall/login", source="127.0.0.2")
        for at, status in (("203.0.113.9", 401), ("203.0.113.8", 200)):
            said = ("X-Forwarded-For", at)
            told = entered(port, PASSWORD, said, path="/hall/login", source="127.0.0.2")
            assert told.status == status


def test_public_studio_answers_to_its_own_names_alone(public: Port) -> None:
    """Names are refused, addresses are not: nobody can make one point here."""
    bearer = ("Authorization", f"Bearer {PASSWORD}")
    named = socket.gethostname()
    own = ("192.168.1.9", f"[fe80::1]:{public.number}", "localhost", named, f"{named}.local")
    for host in own:
        assert public.send("/studio/cards", bearer, hosts=[host]).status == 200, host
    for host in ("evil.example", "192.168.1.9.evil.example", "[evil.example]", "a@192.168.1.9", ""):
        assert public.send("/studio/cards", bearer, hosts=[host]).status in (400, 403), host
    for host in ("0x7f.1", "1.2.3", "192.168.1.9.", "fe80::1"):
        assert public.send("/studio/cards", bearer, hosts=[host]).status == 403, host
