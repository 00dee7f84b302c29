"""Searching the web: what a SearXNG finds, and what it answers where it does not."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from models.openai_server import Answer, Request, http
from moothall.foundation.errors import DefinitionError, RemoteForbidden, SearchError
from moothall.research import Resource, search_web, visit_page
from moothall.testing.model_suite import run
from research.web_server import Web, html, redirect

FOUND = {
    "results": [
        {"url": "https://a.example/x#y", "title": "A\npage", "content": "about  apples"},
        {"url": "https://b.example/", "title": "Another", "content": None, "score": 1},
        {"url": "https://a.example/x", "title": "The first once more"},
        {"url": "javascript:alert(1)", "title": "no page"},
        {"url": "file:///etc/passwd", "title": "no page"},
        {"title": "nowhere"},
        "junk",
    ]
}


def search(answer: Any, query: str = "apples", **more: Any) -> list[Resource]:
    """What a search finds in a SearXNG that answers so."""
    with Web({}) as web:
        web.answers[:] = [answer]
        action = search_web(searxng=web.base, **more)
        return run(action.execute(query=query))  # type: ignore[no-any-return]


def answer(value: Any) -> Answer:
    return http(json.dumps(value).encode())


def test_results_become_resources_that_were_not_visited() -> None:
    assert search(answer(FOUND)) == [
        Resource("https://a.example/x", "A page – about apples", False),
        Resource("https://b.example/", "Another", False),
    ]


def test_searxng_is_asked_in_its_json_format() -> None:
    def results(request: Request) -> Answer:
        asked = urlsplit(request.path)
        assert asked.path == "/at/search"
        told = {"q": ["ripe apples & pears"], "format": ["json"], "language": ["de-AT"]}
        assert parse_qs(asked.query) == told
        return answer(FOUND)

    with Web({}) as web:
        web.answers[:] = [results]
        action = search_web(searxng=f"{web.base}/at/", results=1, region="at-de")
        query = " ripe\napples & pears\0 "
        assert len(run(action.execute(query=query))) == 1


def test_search_asks_for_the_site_and_leaves_others_out() -> None:
    asked: list[str] = []

    def answered(request: Request) -> Answer:
        asked.extend(parse_qs(urlsplit(request.path).query)["q"])
        return answer(FOUND)

    found = search(answered, site="A.example")
    assert [each.url for each in found] == ["https://a.example/x"]
    assert asked == ["apples site:A.example"]


def test_search_result_that_is_left_out_takes_no_place_of_another() -> None:
    (found,) = search(answer(FOUND), exclude=["a.example"], results=1)
    assert found.url == "https://b.example/"


def test_search_result_does_not_allow_its_host() -> None:
    with Web({"/secret": html("<p>secret</p>")}) as web:
        found = search(answer({"results": [{"url": f"{web.base}/secret", "title": "Look"}]}))
        with pytest.raises(Exception, match=r"is at 127\.0\.0\.1, a loopback address"):
            run(visit_page().execute(url=found[0].url))
        assert web.requests == []


def test_searxng_may_not_send_elsewhere_on_this_machine() -> None:
    with Web({"/search": answer(FOUND)}) as web:
        with pytest.raises(Exception, match="localhost is at"):
            search(redirect(f"http://localhost:{web.port}/search"))
        assert web.requests == []


@pytest.mark.parametrize(
    ("given", "why"),
    (
        (http(b"<html>"), "did not answer in JSON: switch on its JSON format"),
        (http(b"[" * 100_000), "did not answer in JSON"),
        (http(b"\xff\xfe{"), "did not answer in JSON"),
        (answer([1]), "answered without a list of results"),
        (answer({"results": {"url": "x"}}), "answered without a list of results"),
        (
            answer({"results": [], "unresponsive_engines": [["google", "CAPTCHA"], ["b", "x"]]}),
            "found nothing, as its engines failed: google – CAPTCHA, b – x",
        ),
        (http(b"no", 403), r"answered 403 \(Forbidden\): switch on its JSON format"),
        (http(b"no", 404), r"answered 404 \(Not Found\)$"),
        (http(b" " * (4 * 2**20 + 1)), "the answer has more than 4194304 bytes"),
    ),
    ids=("html", "deep", "bytes", "list", "object", "engines", "403", "404", "large"),
)
def test_searxng_answer_that_cannot_be_used_says_why(given: Answer, why: str) -> None:
    with pytest.raises(SearchError, match=rf"search_web: the SearXNG at http://127[^ ]+:? {why}"):
        search(given)


def test_searxng_that_was_busy_is_asked_once_more() -> None:
    with Web({}) as web:
        web.answers[:] = [http(b"", 503, {"Retry-After": "0"}), answer(FOUND)]
        assert len(run(search_web(searxng=web.base).execute(query="x"))) == 2


def test_searxng_that_is_not_there_is_named() -> None:
    with Web({}) as web:
        at = web.base
    with pytest.raises(SearchError, match=f"the SearXNG at {at}: no answer from .*refused"):
        run(search_web(searxng=at).execute(query="x"))


def test_search_without_a_searxng_asks_other_machines_which_offline_forbids() -> None:
    with pytest.raises(RemoteForbidden, match="search_web: MOOTHALL_OFFLINE=1"):
        run(search_web().execute(query="apples"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    (
        ({"results": 0}, "results must be a whole number from 1 up, got 0"),
        ({"timeout_s": 0}, "timeout_s must be a number of seconds above 0, got 0"),
        ({"timeout_s": "x"}, "timeout_s must be a number of seconds above 0, got .x."),
        ({"region": 3}, "region must be one such as us-en, got 3"),
        ({"region": "en"}, "region must be one such as us-en, got 'en'"),
        ({"searxng": 3}, "only http and https are read, got"),
        ({"searxng": "localhost:8888"}, "only http and https are read"),
        ({"searxng": "http://"}, "does not name a host"),
        ({"searxng": "http://localhost", "allow_hosts": "localhost"}, "must be a list of hosts"),
        (
            {"searxng": "http://localhost", "allow_hosts": ["http://x"]},
            "allow_hosts: a host is like",
        ),
        ({"searxng": "http://localhost", "site": "http://a.org/"}, "site must be a host such as"),
        ({"searxng": "http://localhost", "site": "*.a.org"}, "site must be a host such as"),
    ),
)
def test_wrong_settings_are_said_at_once(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        search_web(**wrong)


def test_search_query_is_cut_to_a_thousand_characters() -> None:
    asked: list[str] = []

    def answered(request: Request) -> Answer:
        asked.extend(parse_qs(urlsplit(request.path).query)["q"])
        return answer(FOUND)

    search(answered, "x" * 1500)
    assert asked == ["x" * 1000]


def test_search_query_that_is_empty_is_refused() -> None:
    with pytest.raises(SearchError, match="the query is empty"):
        search(answer(FOUND), " \0\n")
