"""The extractive form answers first, and says so where it found no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from moothall import Researcher
from moothall.actions import Action
from moothall.research import Report, Resource, search_folder
from moothall.research.extractive.question import kind_of

MANUAL = """\
# The lighthouse

## History

The lighthouse was planned for years. Ada Stone built it in 1871 for the harbour board. It was
painted white at first. These colours faded soon.

## Light

The lamp turns. It flashes every 12 seconds, and is seen from 19 miles.

## Options of the keeper's program

--dim

Lowers the lamp at night.

--horn

Sounds the horn in fog. It needs a quiet sea.

## Starting

To start the lamp, run:

```sh
lampctl start
```

## Fees

| Ship | Fee |
| --- | --- |
| Ferry | 40 crowns |
| Yacht | 15 crowns |

Because salt eats iron, the stairs are oiled each May. A visitor may not climb them without a guide.
"""


def report_of(text: str, *questions: str, title: str = "Manual") -> Report:
    def look(query: str) -> Resource:
        """Look into a text.

        Args:
            query: words
        """
        return Resource("https://manual.test/", title, True, text)

    return Researcher("r", None, questions, [Action.of(look)]).report_sync()


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("When was the lighthouse built?", "in 1871"),
        ("Who built the lighthouse?", "Ada Stone"),
        ("How often does the lamp flash?", "every 12 seconds"),
        ("Which option sounds the horn?", "--horn … Sounds the horn"),
        ("What is the fee of a yacht?", "Yacht | 15 crowns"),
        ("Why are the stairs oiled?", "salt eats iron"),
        ("May a visitor climb the stairs alone?", "may not climb"),
        ("How do I start the lamp?", "`lampctl start`"),
    ),
)
def test_the_first_quote_answers_what_the_question_asks_for(question: str, first: str) -> None:
    assert first in report_of(MANUAL, question).citations[0].sentence


@pytest.mark.parametrize(
    ("question", "kind"),
    (
        ("How many lamps are there?", "number"),
        ("What is the default port?", "number"),
        ("When was it founded?", "date"),
        ("Since which version is it there?", "version"),
        ("Which option of ls sorts?", "option"),
        ("Where are the logs kept?", "place"),
        ("In which file are the settings?", "path"),
        ("Which function opens a file?", "code"),
        ("Who wrote it?", "name"),
        ("Why does it fail?", "reason"),
        ("When does a test fail?", "condition"),
        ("What is a space?", "meaning"),
        ("How do I stop it?", "method"),
        ("Is it free?", "judgement"),
        ("Tell me of owls.", "any"),
    ),
)
def test_a_question_asks_for_a_kind_of_answer(question: str, kind: str) -> None:
    assert kind_of(question).name == kind


@pytest.mark.parametrize(
    "question",
    (
        "Which port does Kubernetes use?",
        "How many penguins live in Antarctica?",
        "Who composed the Moonlight Sonata?",
    ),
)
def test_question_without_an_answer_is_said_and_nothing_is_cited(question: str) -> None:
    report = report_of(MANUAL, question)
    assert not report.citations
    assert report.objectives[0].expertise < 0.5
    assert f"for “{question}”." in report.markdown or f"to “{question}” was" in report.markdown


@pytest.mark.parametrize(
    ("question", "without", "answer"),
    (
        (
            "Which port does PostgreSQL use by default?",
            "PostgreSQL is a server. The port of its library to Windows uses threads by default.",
            "By default PostgreSQL listens on port 5432.",
        ),
        (
            "When was RabbitMQ first released?",
            "RabbitMQ keeps messages. What was first released of RabbitMQ may be read elsewhere.",
            "RabbitMQ was first released in 2007.",
        ),
        (
            "How many valves does the pump have?",
            "Release 3.11 of the pump is supported. The pump of version 2.0 has no valves.",
            "The pump has three valves.",
        ),
        (
            "Who designed the pump?",
            "The pump was designed for the harbour. The pump was designed well and built to last.",
            "The pump was designed by Mara Quill.",
        ),
        (
            "Which port does the gate use?",
            "The gate opens:\n\n```sh\nfor (( i=1; i < 9; i++ )); do gate use $i; done\n```\n",
            "\n\nThe gate uses port 4711.",
        ),
        (
            "Which option of the daemon sets its log?",
            "The daemon is installed by an administrator. The daemon sets its log by itself.",
            "The daemon sets its log by --log-file FILE.",
        ),
        (
            "How much does support for the pump cost?",
            "Support for the pump costs 3 times what it did. The pump has 9 valves to support it.",
            "Support for the pump costs 40 euros.",
        ),
    ),
)
def test_what_lacks_the_kind_of_thing_that_is_asked_for_is_no_answer(
    question: str, without: str, answer: str
) -> None:
    assert report_of(without, question).citations == []
    assert answer.strip() in report_of(f"{without} {answer}", question).citations[0].sentence


def test_a_report_says_which_of_its_objectives_it_did_not_answer() -> None:
    asked = "When was the lighthouse built?", "Who composed the Moonlight Sonata?"
    report = report_of(MANUAL, *asked)
    assert f"## {asked[0]}\n\n- “" in report.markdown
    assert f"## {asked[1]}" not in report.markdown
    assert f"“{asked[1]}”" in report.markdown.partition("\n\n## Not answered\n\n")[2]
    assert report.objectives[0].expertise > 0.5 > report.objectives[1].expertise


GUIDE = {
    "budgets.md": "# Budgets\n\nA `Budget` limits what a run may spend: tokens, money and calls. "
    "Before spending, a caller reserves what it needs.\n",
    "reports.md": "# Reports\n\n## Limits\n\n`report(budget=…)` limits one run. A call that does "
    "not fit into the budget is not started, and a limit of the budget ends the plan.\n\n"
    "## Locks\n\nA report that waits for a lease of another may be cut. The lease may be lost.\n",
    "terms.md": "# Terms\n\n| term | means |\n| --- | --- |\n| call chain | requests, each made "
    "while the one before was handled |\n| lease | the lock that gives a run one writer |\n",
    "chains.md": "# Limits\n\nA call chain may be 32 calls long.\n",
    "vsl.md": "# Logging\n\nIt logs to a segment of shared memory, called the VSL.\n\n"
    "The VSL has a size. The buffer of the VSL is full.\n",
}


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("What may a budget limit?", "limits what a run may spend"),
        ("What is a budget?", "limits what a run may spend"),
        ("What is a lease?", "the lock that gives a run one writer"),
        ("What is a call chain?", "each made while the one before was handled"),
        ("What is the VSL?", "a segment of shared memory"),
    ),
)
def test_answers_definition_of_what_is_asked_for_is_quoted_first(
    question: str, first: str, tmp_path: Path
) -> None:
    for name, text in GUIDE.items():
        (tmp_path / name).write_text(text)
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, question, tools).report_sync()
    assert first in report.citations[0].sentence


def test_a_question_that_seems_unanswered_names_the_nearest_passages() -> None:
    text = "The keeper of the lighthouse has a boat.\n\nHe rows to the town on Mondays."
    report = report_of(text, "Which wine does the keeper of the lighthouse prefer?")
    assert not report.citations
    assert "No answer to" in report.markdown
    assert "- Manual, `https://manual.test/`" in report.markdown


def test_code_is_quoted_as_code_after_the_sentence_that_leads_to_it() -> None:
    (first, *_) = report_of(MANUAL, "How do I start the lamp?").citations
    assert first.sentence == "“To start the lamp, run:” `lampctl start`"


def test_a_demonstrative_is_quoted_with_the_sentence_before_it() -> None:
    text = "The pump has a valve of bronze. This valve opens at 7 bar.\n\nOther pumps leak."
    (first, *_) = report_of(text, "At what pressure does the valve open?").citations
    assert first.sentence == "“The pump has a valve of bronze. This valve opens at 7 bar.”"


def test_the_same_text_in_two_files_is_quoted_once(tmp_path: Path) -> None:
    said = "The beacon of Arna burns for 14 hours.\n\nThe beacon of Lund burns for 9 hours.\n"
    (tmp_path / "beacons.txt").write_text(said)
    (tmp_path / "beacons.md").write_text(f"# Beacons\n\n{said}")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "How long does the beacon of Arna burn?", tools).report_sync()
    quoted = [each.sentence for each in report.citations]
    assert "14 hours" in quoted[0]
    assert sum("14 hours" in each for each in quoted) == 1


def test_a_report_has_eight_quotes_at_most(tmp_path: Path) -> None:
    for number in range(30):
        text = f"Harbour {number} has {number + 2} cranes of kind {chr(65 + number % 26) * 3}."
        (tmp_path / f"{number}.txt").write_text(text)
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db", results=30)]
    report = Researcher("r", None, "How many cranes has a harbour?", tools).report_sync()
    assert 1 <= len(report.citations) <= 8


def test_a_page_and_its_section_share_one_title(tmp_path: Path) -> None:
    (tmp_path / "saws.md").write_text("# 6. Saws\n\n## 6.1. Teeth\n\nA saw has 80 teeth.\n")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "How many teeth has a saw?", tools).report_sync()
    assert report.citations[0].passage.title == "6. Saws – 6.1. Teeth"


def test_a_later_search_uses_words_of_what_is_nearest() -> None:
    asked: list[str] = []

    def look(query: str) -> list[Resource]:
        """Search.

        Args:
            query: words
        """
        asked.append(query)
        if "gasket" in query:
            page = "The gasket of the pump that leaks is replaced every 900 hours."
            return [Resource("https://a.test/gasket", "Gaskets", True, page)]
        text = "A pump leaks where its gasket is worn. The gasket of a pump seals it."
        return [Resource("https://a.test/pump", "Pumps", True, text)]

    question = "After how many hours is a pump that leaks repaired?"
    report = Researcher("r", None, question, [Action.of(look)]).report_sync()
    assert any("gasket" in query for query in asked)
    assert "900 hours" in report.citations[0].sentence


def test_what_something_is_is_searched_for_by_how_a_text_would_say_it(tmp_path: Path) -> None:
    for number in range(40):  # each with the word more often than the text that says what it is
        text = f"Part {number} has a sluice, opens a sluice and shuts the sluice. Sluice, sluice."
        (tmp_path / f"{number}.md").write_text(text)
    said = "Water has to be held back somewhere. A sluice is a gate that lets water through."
    (tmp_path / "z.md").write_text(f"{said} {'Mills, locks and ponds need much of it. ' * 20}")
    tools = [search_folder(tmp_path, index=tmp_path / "index.db", results=5)]
    report = Researcher("r", None, "What is a sluice?", tools).report_sync()
    assert "A sluice is a gate" in report.citations[0].sentence


def test_a_heading_right_above_a_sentence_is_no_part_of_its_quote() -> None:
    text = "# Keel\nThe keel of the boat is of oak.\n## Mast\nThe mast of the boat is 9 m high.\n"
    report = report_of(text, "How high is the mast of the boat?")
    assert report.citations[0].sentence == "“The mast of the boat is 9 m high.”"


SHELL = """\
# The Tern shell

## What it is

Tern is a shell. Its name is a pun on Anna Tern, the author of the older shell kit. Tern 2 has been
available since 2009. Kit was released in 1987 with SQL:1986.

## Limits

A job of Tern may open 64 files. Tern reads its settings from /etc/ternrc.

## Authors

Mika Holm, University of Turku

## Free documentation licence

If there is no section entitled History in the document, create one stating the title, the author
and the publisher of Tern. Copyright (c) 1999 Some Foundation. Who wrote Tern may change it.
"""


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("Who is the author of Tern?", "Mika Holm"),
        ("Since when has Tern 2 been available?", "available since 2009"),
        ("How many files may a job open?", "64 files"),
    ),
)
def test_research_answers_who_when_and_how_many_by_a_person_a_date_and_a_number(
    question: str, first: str
) -> None:
    assert first in report_of(SHELL, question, title="The Tern manual").citations[0].sentence


@pytest.mark.parametrize(
    "question",
    (
        "When was Tern first released?",
        "How many jobs may Tern run?",
        "Where does Kit keep its settings?",
        "Who founded the University of Turku?",
    ),
)
def test_a_date_a_number_or_a_name_of_something_else_is_no_answer(question: str) -> None:
    assert not report_of(SHELL, question, title="The Tern manual").citations


def test_sentence_with_an_address_or_a_name_in_angle_brackets_is_quoted() -> None:
    text = (
        "# tern(1)\n\nTern starts jobs.\n\n## Serving\n\n-l, --log <FILE> | file to write to\n\n"
        "-p, --port <PORT> | port to listen on (default: 8000)\n\n## Author\n\n"
        "Tern was written by Mika Holm <mika@example.org>.\n\nUse <b>care</b> with Tern's jobs.\n"
    )
    port = report_of(text, "What is the default port?", title="The Tern manual")
    assert "--port" in port.citations[0].sentence
    assert "default: 8000" in port.citations[0].sentence
    assert "--port \\<PORT>" in port.markdown
    author = report_of(text, "Who wrote Tern?")
    assert "Mika Holm" in author.citations[0].sentence
    assert "<mika@" not in author.markdown
    assert "<b>" not in report_of(text, "What does one use with Tern's jobs?").markdown


@pytest.mark.parametrize("licence", ("licence", "license"))
def test_british_and_american_spelling_are_one_word(licence: str) -> None:
    text = f"# Tern\n\nTern starts jobs.\n\n## {licence.title()}\n\nThe {licence} of Tern is ISC.\n"
    for asked in ("licence", "license"):
        report = report_of(text, f"Which {asked} does Tern use?")
        assert "is ISC" in report.citations[0].sentence


def test_licence_and_contents_answer_nothing_but_what_asks_for_them() -> None:
    text = (
        "# Tern\n\nStarting Tern ......... 3\n\nStopping Tern ......... 5\n\n## Licence\n\n"
        "Copyright 1999 by the authors of Tern. Permission is hereby granted to start Tern "
        "without warranty.\n"
    )
    assert not report_of(text, "How is Tern started?").citations
    asked = report_of(text, "Is there a warranty for Tern, and permission to start it?").citations
    assert "hereby granted" in asked[0].sentence


def test_a_version_is_the_same_with_a_v_and_has_the_day_beside_it() -> None:
    text = (
        "# Changes\n\n2021-03-04: v1.0.9\n\n- The release of a lock is faster.\n\n"
        "2022-04-10: v1.0.26\n\n- Leaks are mended.\n"
    )
    cited = report_of(text, "When was version 1.0.26 released?").citations
    assert "2022-04-10" in cited[0].sentence
    assert not report_of(text, "When was version 1.0.27 released?").citations


def test_when_something_was_created_is_a_year_and_no_command_of_that_name(tmp_path: Path) -> None:
    for number in range(40):
        text = (
            f"# Job {number}\n\nRun `tern create job-{number}`: tern create makes job {number}.\n"
        )
        (tmp_path / f"{number}.md").write_text(text)
    (tmp_path / "faq.md").write_text(
        "# Questions\n\n## Why another one?\n\nTern was created in May 2015, as others were slow "
        "to take changes and to answer people who had asked for them for years.\n"
    )

    def first(question: str) -> list[str]:
        searched = [search_folder(tmp_path)]
        report = Researcher("r", None, [question], searched).report_sync()
        return [each.sentence for each in report.citations[:1]]

    assert "May 2015" in "".join(first("When was Tern created?"))
    assert first("When was Tern forked?") == []


def test_what_something_is_not_does_not_define_it() -> None:
    text = (
        "# Pages\n\nStray pages are not in the printed book!\n\n## Lists\n\nEach list names pages. "
        "A page that no list names, but that others may lead to, is called a stray page.\n"
    )
    cited = report_of(text, "What is a stray page?").citations
    assert "no list names" in cited[0].sentence


def test_a_signature_answers_only_how_and_which_function() -> None:
    text = (
        "# Ferry\n\n## Sailing\n\nint ferry_sail(struct ferry * ferry, int knots)\n\n"
        "Lets a ferry sail. Returns 0 on success, a negative number if ferry_sail found no water.\n"
    )
    cited = report_of(text, "What does ferry_sail return on success?").citations
    assert "Returns 0" in cited[0].sentence
    assert not any(each.sentence.startswith("`int ferry_sail") for each in cited)
    cited = report_of(text, "Which function lets a ferry sail?").citations
    assert any("int ferry_sail(" in each.sentence for each in cited)


CHANGES = (
    "Tern, changes\n\nThe default compression of tern is none since version 0.25.\n\n"
    "The default compression of tern is zlib in version 0.24.\n"
)


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("What is the default compression of tern?", "lz4"),
        ("Since which version is the default compression none?", "0.25"),
    ),
)
def test_what_holds_now_is_not_answered_by_old_changes(
    question: str, first: str, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "changes.txt").write_text(CHANGES)
    (folder / "manual.txt").write_text(
        "How tern packs\n\nTern packs each letter before it flies.\n\n"
        "If nothing else is said, the default compression is lz4, which is fast.\n"
    )
    search = search_folder(folder, index=tmp_path / "index.db", results=24)
    report = Researcher("r", None, [question], [search], 1).report_sync()
    assert first in report.citations[0].sentence


BEFORE = """\
# Stairs

The stairs stand near the sea. Salt eats bare iron within a year.

For this reason the stairs are oiled each May. Nobody may climb them then.

The oil is black.
"""
AFTER = """\
# Stairs

The stairs stand near the sea.

The stairs are oiled each May.

Otherwise salt would eat the iron. The oil is black.
"""


@pytest.mark.parametrize(
    ("text", "quote"),
    (
        (BEFORE, "Salt eats bare iron within a year. … For this reason the stairs are oiled"),
        (AFTER, "The stairs are oiled each May. … Otherwise salt would eat the iron."),
    ),
)
def test_a_reason_in_the_paragraph_before_or_after_is_quoted_with_what_it_is_for(
    text: str, quote: str
) -> None:
    report = report_of(text, "Why are the stairs oiled each May?")
    assert quote in report.citations[0].sentence
