"""A narrative with images, HTML and links: what a report makes of it is safe to open anywhere."""

from __future__ import annotations

import time

import pytest
from markdown_it import MarkdownIt

from moothall.research.writing.safe_markdown import safe_markdown

SOURCE = "https://docs.example/a?b=1#part"
HOSTILE = (
    *(
        "![[a]](https://evil.example)",
        "![a\\]](https://evil.example)",
        "!\\[a](https://evil.example)",
    ),
    *("[![a](https://evil.example/i)](https://docs.example/a)", "[a]( <https://evil.example> 't')"),
    *(
        "[a]\n\n[a]:\nhttps://evil.example",
        "> [a]: https://evil.example\n\n[a]",
        "`\n\n<img src=x>`",
    ),
    *("```\n```\n<img src=x>", "~~~\n```\n~~~\n<img src=x>", "- ```\n<img src=x>", "<\nimg src=x>"),
    *(
        "[a](https://evil.example/(b)(c))",
        "[a](https://evil.example/((b)))",
        "[x\\](https://evil.example)",
    ),
    *("``` `\n<img src=x>\n```", "    `\n<img src=x>`", "[a](https://docs.example/a@evil.example)"),
    *("&lt;img&gt; &#60;b&#62;", "[a](https://docs.example@evil.example/)", "<img\nsrc=x\n>"),
    *(
        "[a](//evil.example)",
        "[a](/x)",
        "[a](#x)",
        "[a](mailto:a@b.c)",
        "[a]()",
        "[a](data:text/html,x)",
    ),
    *(
        "a\n<div>\n\n![b](https://evil.example)\n\n</div>",
        "\\![a](https://evil.example)",
        "<a@b.c>",
    ),
    *("\\\\[a](https://evil.example)", "\\`<img src=x>`", "[^1^]: <https://evil.example>"),
)


def dangers(markdown: str) -> list[str]:
    """What a renderer that allows everything would make of it, but links to the source."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    found = []
    for block in parser.parse(markdown):
        for token in (block, *(block.children or ())):
            if token.type in ("html_block", "html_inline", "image"):
                found.append(token.content)
            if token.type == "link_open" and not str(token.attrs["href"]).startswith(
                ("https://docs.example/a?b=1",)
            ):
                found.append(str(token.attrs["href"]))
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_of_a_report_loads_nothing(text: str) -> None:
    for around in (
        "{}",
        "A sentence. {} [^1^]",
        "# {}\n\n- x\n",
        "- a\n\n  {}",
        "| a |\n|--|\n| {} |",
    ):
        assert dangers(safe_markdown(around.format(text), [SOURCE])) == []


def test_markdown_of_any_repetition_takes_no_long_time() -> None:
    for each in ("[", "![", "`", "<", "[a](", "((", "[a]: ", "~~~\n", "``` `", "[^"):
        start = time.process_time()
        safe_markdown(each * 20_000, [SOURCE])
        assert time.process_time() - start < 5
