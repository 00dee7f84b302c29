"""The pool of resources, and the passages of what was read."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall import Call, ModelReply, ReActAgent, ScriptedModel
from moothall.foundation.errors import InvalidArguments
from moothall.research import Passage, Resource, ResourcePool, Section
from moothall.research.resource_pool import MAX_PASSAGE_CHARS, passages_of


@pytest.mark.parametrize(
    ("one", "other"),
    (
        ("http://web.test/a", "HTTP://WEB.test:80/a#part"),
        ("https://web.test", "https://web.test:443/"),
        ("http://web.test/a?x=1", "http://web.test/a?utm_source=mail&x=1&fbclid=5"),
        ("http://web.test/a/b", "http://web.test/a/c/../b"),
        ("http://web.test/~me", "http://web.test/%7Eme"),
        ("http://web.test/a b", "http://web.test/a%20b"),
        ("https://exämple.test/", "https://xn--exmple-cua.test"),
        ("file:///a/b.md", "file:///a/b.md#part"),
        ("file:///a/b.md", "FILE:///a/./b.md"),
        ("http://web.test/a/", "http://web.test/a/b/.."),
        ("http://web.test/a/", "http://web.test/a/."),
        ("http://web.test/a", "http://web.test/../../a"),
        ("http://web.test/a%2fb", "http://web.test/a%2Fb"),
        ("http://web.test/50%", "http://web.test/50%25"),
        ("http://web.test./", "http://web.test/"),
    ),
)
def test_pool_page_is_one_resource_however_its_url_is_spelled(one: str, other: str) -> None:
    pool = ResourcePool()
    pool.add(one, "first")
    pool.add(Resource(other, "second"))
    (kept,) = pool.get_all()
    assert kept.description == "first"
    assert pool.find(other) is kept
    assert len(pool) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    (
        ("http://web.test/a", "https://web.test/a"),
        ("http://web.test/a", "http://web.test/A"),
        ("http://web.test/a?x=1", "http://web.test/a?x=2"),
        ("http://web.test/a%2Fb", "http://web.test/a/b"),
        ("http://web.test:8080/", "http://web.test/"),
        ("http://web.test/a/", "http://web.test/a"),
        ("file:///a/b.md", "file:///a/c.md"),
    ),
)
def test_pages_that_are_different_stay_apart(one: str, other: str) -> None:
    assert len(ResourcePool([Resource(one), Resource(other)])) == 2


def test_pool_visited_resource_is_marked_and_keeps_its_description() -> None:
    pool = ResourcePool()
    pool.add("http://web.test/a", "about a")
    pool.add("http://web.test/b")
    pool.visit("http://web.test/a", "its text")
    pool.add(Resource("http://web.test/a", visited=False))
    found = pool.find("http://web.test/a")
    assert found is not None
    assert (found.visited, found.content, found.description) == (True, "its text", "about a")
    assert [each.url for each in pool.get_unvisited()] == ["http://web.test/b"]
    # What a page calls itself goes before what a search engine says of it.
    pool.add(Resource("http://web.test/a", "A", visited=True))
    pool.add("http://web.test/a", "about a, again")
    assert found.description == "A"
    assert pool.visit("http://web.test/new").visited
    for day in ("2026-01-01", "2026-02-02"):
        pool.add(Resource("http://web.test/a", visited=True, fetched_at=day))
    assert found.fetched_at == "2026-01-01"  # its text is of that day


def test_pool_finds_what_is_beyond_it_but_keeps_its_own_changes() -> None:
    beyond = ResourcePool([Resource("http://web.test/a", "about a"), Resource("http://web.test/b")])
    pool = ResourcePool(beyond=beyond)
    found = pool.find("http://web.test/a#part")
    assert found is not None
    assert found.description == "about a"
    pool.visit("http://web.test/a", "its text")
    pool.add("http://web.test/c")
    urls = [f"http://web.test/{each}" for each in "abc"]
    assert [(each.url, each.visited) for each in pool.get_all()] == [
        *((urls[0], True), (urls[1], False), (urls[2], False))
    ]
    assert [each.url for each in pool.changes()] == [urls[0], urls[2]]
    assert [each.visited for each in beyond.get_all()] == [False, False]


def test_parts_of_a_page_that_are_read_one_after_the_other_are_put_together() -> None:
    pool = ResourcePool()
    for anchor, text in (("one", "First part."), ("two", "Second part."), ("one", "First part.")):
        pool.add(
            Resource("file:///a.md", "A", True, text, [Section(0, anchor, anchor)], "2026-01-01")
        )
    (kept,) = pool.get_all()
    assert [(each.url, each.text) for each in passages_of(kept)] == [
        ("file:///a.md#one", "First part."),
        ("file:///a.md#two", "Second part."),
    ]


def test_part_of_a_page_with_which_another_begins_is_added() -> None:
    pool = ResourcePool()
    for row, text in (("1", "washer; stock: 70"), ("2", "washer; stock: 7")):
        section = Section(0, f"row-{row}", f"row {row}")
        pool.add(Resource("file:///a.csv", "A", True, text, [section], "2026-01-01"))
    (kept,) = pool.get_all()
    assert [each.text for each in passages_of(kept)] == ["washer; stock: 70", "washer; stock: 7"]


def test_page_that_changed_has_what_now_stands_before_its_first_section() -> None:
    pool = ResourcePool()
    for text in ("Old.\n\nTides are low.", "New.\n\nTides are low."):
        section = Section(text.index("Tides"), "tides", "Tides")
        pool.add(Resource("http://a.test/", "A", True, text, [section], "2026-01-01"))
    (kept,) = pool.get_all()
    assert [each.text for each in passages_of(kept)] == ["Old.", "Tides are low.", "New."]


def test_pool_is_added_to_by_many_threads() -> None:
    pool = ResourcePool()

    def fill() -> None:
        for number in range(200):
            pool.add(f"http://web.test/{number}")

    threads = [threading.Thread(target=fill) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(pool) == 200


@given(st.text(alphabet="ab. \n\u3042", max_size=4000))
def test_passages_are_the_text_word_for_word_and_none_is_too_long(text: str) -> None:
    made = passages_of(Resource("http://web.test/", "T", True, text, fetched_at="2026-01-01"))
    place = 0
    for each in made:
        place = text.index(each.text, place)
        assert len(each.text) <= MAX_PASSAGE_CHARS
        assert each == Passage.of(each.url, each.text, "2026-01-01", "T")
    assert "".join("".join(each.text for each in made).split()) == "".join(text.split())


def test_short_paragraphs_stand_together_and_long_ones_are_cut_after_a_sentence() -> None:
    def lengths(*parts: str) -> list[int]:
        made = passages_of(Resource("http://web.test/", "T", True, "\n\n".join(parts)))
        return [len(each.text) for each in made]

    assert lengths("a" * 300, "b" * 90, "c" * 90) == [300 + 2 + 90 + 2 + 90]
    assert lengths("a" * 1390, "b" * 609) == [1390, 609]  # together they were 2,001
    assert lengths("a" * 1390, "b" * 608) == [2000]
    sentence = f"{'word ' * 30}end. "  # 155 characters
    for mark in ".;:":
        assert lengths(sentence.replace(".", mark) * 20) == [12 * 155 - 1, 8 * 155 - 1]
    assert lengths("three " * 500) == [1997, 1001]
    assert lengths("a" * 4100) == [2000, 2000, 100]


def test_research_tool_works_for_any_agent() -> None:
    def note(url: str, pool: ResourcePool) -> int:
        """Note a page.

        Args:
            url: where it is
        """
        pool.add(url)
        return len(pool)

    agent = ReActAgent(
        "a",
        ScriptedModel(
            [ModelReply(calls=(Call("1", "note", {"url": "http://web.test/"}),)), "Done."]
        ),
        actions=[note],
    )
    assert agent.reply_sync("Note it.").steps[0].result["result"] == 1


def test_passages_after_a_long_block_of_code_are_not_hidden() -> None:
    code = "\n\n".join(f"value = {n}" for n in range(400))
    text = f"Before.\n\n```python\n{code}\n```\n\nAfter."
    passages = [each.text for each in passages_of(Resource("http://a.test/", content=text))]
    assert passages[-1] == "After."


@pytest.mark.parametrize("url", ("", " ", "#part", "\n"))
def test_pool_resource_without_an_address_is_refused(url: str) -> None:
    pool = ResourcePool()
    with pytest.raises(InvalidArguments, match="url must not be empty"):
        pool.add(Resource(url))
    with pytest.raises(InvalidArguments, match="url must not be empty"):
        pool.add(url)
