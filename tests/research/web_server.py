"""A small web on loopback: pages by their path; what is not there is 404, robots.txt too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from models.openai_server import Answer, OpenAIServer, Request, http
from moothall.research import Resource, ResourcePool, visit_page
from moothall.testing.model_suite import run

PDF = {"Content-Type": "application/pdf"}
TEXT = {"Content-Type": "text/plain"}


def html(text: str, status: int = 200, **headers: str) -> Answer:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return http(text.encode(), status, {"Content-Type": "text/html; charset=utf-8"} | named)


def redirect(to: str) -> Answer:
    return http(b"", 302, {"Location": to})


class Web(OpenAIServer):
    """Serves pages; `asked` are the paths that were asked for, without robots.txt."""

    def __init__(self, pages: dict[str, Answer | Callable[[Request], Answer]]) -> None:
        super().__init__(self._page)
        self.pages = pages

    def _page(self, request: Request) -> Answer:
        page = self.pages.get(request.path, http(b"not here", 404))
        return page(request) if callable(page) else page

    @property
    def base(self) -> str:
        return self.url.removesuffix("/v1")

    @property
    def asked(self) -> list[str]:
        return [each.path for each in self.requests if each.path != "/robots.txt"]

    def visit(self, path: str, pool: ResourcePool | None = None, **more: Any) -> Resource:
        """What `visit_page` makes of a page of this web."""
        action = visit_page(**{"allow_hosts": ["127.0.0.1"], **more})
        pool = ResourcePool() if pool is None else pool
        return run(action.execute(url=self.base + path, pool=pool))  # type: ignore[no-any-return]


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        content = b"BT /F1 12 Tf 72 720 Td (%s) Tj ET" % text.encode("latin-1")
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * n),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        ]
    written, places = b"%PDF-1.4\n", []
    for n, each in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (n, each)
    size = len(objects) + 1
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return (
        written
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
        + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (size, len(written))
    )
