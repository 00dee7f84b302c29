"""What a report without a model quotes: each a line of `exchanges/quotes.jsonl`.

A line has its `case`, the `text` of one page, with its `title`, or the `files` of a folder, with
options of the `search`, and what it `asks`: a `question`, and what the first quote shows (`first`),
is without marks (`unmarked`) or `is`, what `one` quote shows, of the first ones `within` a number,
what the quotes together show (`each`), the titles of the `pages` of the first ones, how `many`
there are, that there is `none`, and what the report's text `has` and `lacks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.research.quotes import quotes_in, report_of, report_on, shows, unmarked

from exchanges import lines_of


@pytest.mark.parametrize("line", lines_of(__file__, "quotes"))
def test_quotes_are_what_the_line_says(line: dict[str, Any], tmp_path: Path) -> None:
    for ask in line["asks"]:
        question = ask["question"]
        if "files" in line:
            report = report_on(tmp_path / "docs", line["files"], question, **line.get("search", {}))
        else:
            report = report_of(line["text"], question, title=line.get("title", "Manual"))
        said = [each.sentence for each in report.citations]
        assert all(each in report.markdown for each in ask.get("has", ()))
        assert not any(each in report.markdown for each in ask.get("lacks", ()))
        if "none" in ask:
            assert not said
            assert report.objectives[0].expertise < 0.5
            assert f"“{question}”" in report.markdown or "was not found" in report.markdown
            continue
        assert shows(said[0], ask.get("first", ""))
        assert ask.get("is", said[0]) == said[0]
        assert ask.get("unmarked", unmarked(said[0])) == unmarked(said[0])
        assert any(shows(each, ask.get("one", "")) for each in said[: ask.get("within", 10)])
        assert all(unmarked(each) in quotes_in(report) for each in ask.get("each", ()))
        assert ask.get("many", len(said)) == len(said)
        pages = ask.get("pages", [])
        assert sorted(each.passage.title for each in report.citations[: len(pages)]) == pages
