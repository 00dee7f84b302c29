"""The extractive form shows where an answer may be, and says so where it found none."""

from __future__ import annotations

from pathlib import Path

import pytest

from moothall import Researcher
from moothall.actions import Action
from moothall.research import Report, Resource, search_folder

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


def unmarked(quote: str) -> str:
    return quote.replace("**", "")


@pytest.mark.parametrize(
    ("question", "first"),
    (
        ("When was the lighthouse built?", "in 1871"),
        ("Who built the lighthouse?", "Ada Stone"),
        ("How often does the lamp flash?", "every 12 seconds"),
        ("Which option sounds the horn?", "--horn Sounds the horn in fog."),
        ("What is the fee of a yacht?", "Yacht | 15 crowns"),
        ("Why are the stairs oiled?", "salt eats iron"),
        ("May a visitor climb the stairs alone?", "may not climb"),
        ("How do I start the lamp?", "lampctl start"),
    ),
)
def test_answers_first_quote_is_what_the_question_asks_for(question: str, first: str) -> None:
    assert first in unmarked(report_of(MANUAL, question).citations[0].sentence)


@pytest.mark.parametrize(
    ("text", "question", "quote"),
    (
        (
            "会费每年为100欧元。退会须提前三个月通知。",
            "会费每年多少欧元?",
            "“**会费每年为100欧元**。退会须提前三个月通知。”",
        ),
        (
            "休暇は年に20日です。申請は二週間前に行います。",
            "休暇は年に何日ですか?",
            "“**休暇は年に20日です**。申請は二週間前に行います。”",
        ),
        (
            "The stairs are _oiled_ each May.",
            "When are the stairs oiled?",
            "“The stairs are _oiled_ each May.”",
        ),
        (
            "The stairs are oiled each May [1]_.\n\n.. [1] See the plan.",
            "When are the stairs oiled?",
            "“**The stairs are oiled each May [1]_.** .. [1] See the plan.”",
        ),
    ),
)
def test_answer_is_quoted_with_the_sentence_behind_it_whatever_its_script_and_markup(
    text: str, question: str, quote: str
) -> None:
    assert report_of(text, question).citations[0].sentence == quote


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    (
        ("会费每年120元。图书可以借四周。", "会费是多少?", "120"),
        ("会长是王丽。图书可以借四周。", "谁是会长?", "王丽"),
        ("会費は年間3000円です。会長は田中花子です。", "会費はいくらですか?", "3000"),
        ("プールは九時に開き、八時に閉まります。", "プールは何時に閉まりますか?", "九時"),
        ("会费每年120元。图书可以借四周。", "停车费是多少?", None),
        ("データーは毎日保存されます。", "カレーの値段はいくらですか?", None),
    ),
)
def test_answer_of_a_short_chinese_or_japanese_question_needs_its_noun_alone(
    text: str, question: str, answer: str | None
) -> None:
    citations = report_of(text, question).citations
    assert any(answer in each.sentence for each in citations) if answer else not citations


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


def test_report_says_which_of_its_objectives_it_did_not_answer() -> None:
    asked = "When was the lighthouse built?", "Who composed the Moonlight Sonata?"
    report = report_of(MANUAL, *asked)
    assert f"## {asked[0]}\n\n### Manual\n\n- “" in report.markdown
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
    ("question", "said"),
    (
        ("What may a budget limit?", "limits what a run may spend"),
        ("What is a budget?", "limits what a run may spend"),
        ("What is a lease?", "the lock that gives a run one writer"),
        ("What is a call chain?", "each made while the one before was handled"),
        ("What is the VSL?", "a segment of shared memory"),
    ),
)
def test_answers_definition_of_what_is_asked_for_is_quoted(
    question: str, said: str, tmp_path: Path
) -> None:
    for name, text in GUIDE.items():
        (tmp_path / name).write_text(text)
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, question, tools).report_sync()
    assert any(said in unmarked(each.sentence) for each in report.citations)


def test_answers_question_that_seems_unanswered_shows_the_nearest_passages_and_cites_none() -> None:
    text = "The keeper of the lighthouse has a boat.\n\nHe rows to the town on Mondays."
    report = report_of(
        text, "Which wine and which cheese does the keeper of the lighthouse prefer?"
    )
    assert not report.citations
    assert "was not found in what was read" in report.markdown
    said, _, shown = report.markdown.partition("and may answer it in other words:\n\n")
    assert said.endswith(
        "None of the passages below has “wine”, “cheese”, “prefer”. These passages come nearest, "
    )
    boat = "“**The keeper of the lighthouse has a boat.** He rows to the town on Mondays.”"
    assert shown.startswith(f"- {boat} – Manual, `https://manual.test/`\n\n")
    assert "supported by a source" not in report.markdown


def test_answers_question_in_other_words_that_a_passage_has_enough_of_is_shown_as_unsure(
    tmp_path: Path,
) -> None:
    for number in range(24):
        (tmp_path / f"{number}.md").write_text(f"# Day {number}\n\nInsulin of day {number}.")
    (tmp_path / "rig.md").write_text("# Faults\n\nIf the rig breaks, the pump works alone.")
    index = tmp_path.parent / f"{tmp_path.name}.db"
    tools = [search_folder(tmp_path, index=index, results=24)]
    question = "What happens to a sleeping child and its insulin if my rig breaks beside the pump?"
    report = Researcher("r", None, question, tools).report_sync()
    assert "The answer may be here:" in report.markdown
    assert "the pump works alone" in unmarked(report.citations[0].sentence)
    assert report.objectives[0].expertise < 0.9


def test_answers_nearest_passage_that_cannot_be_quoted_is_named() -> None:
    text = "The keeper of the lighthouse has ![a boat](https://a.test/b.png)."
    report = report_of(
        text, "Which wine and which cheese does the keeper of the lighthouse prefer?"
    )
    assert "\n\n- Manual, `https://manual.test/`\n\n" in report.markdown


def test_answers_one_quote_alone_counts_for_less_than_several() -> None:
    alone = report_of("The mast is 9 m high.", "How high is the mast?")
    several = report_of(
        "# A\n\nThe mast is 9 m high.\n\n# B\n\nIts mast is 8 m high.", "How high is the mast?"
    )
    assert alone.objectives[0].expertise < several.objectives[0].expertise


def test_answers_same_text_in_two_files_is_quoted_once(tmp_path: Path) -> None:
    said = "The beacon of Arna burns for 14 hours.\n\nThe beacon of Lund burns for 9 hours.\n"
    (tmp_path / "beacons.txt").write_text(said)
    (tmp_path / "beacons.md").write_text(f"# Beacons\n\n{said}")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "How long does the beacon of Arna burn?", tools).report_sync()
    quoted = [each.sentence for each in report.citations]
    assert "14 hours" in quoted[0]
    assert sum("14 hours" in each for each in quoted) == 1


def test_answers_same_sentence_with_other_signs_is_quoted_once(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Crew\n\nThe crew elects a mate, and a cook, each May.\n")
    (tmp_path / "b.txt").write_text("▸ THE CREW elects a mate and a cook each May\n")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "When does the crew elect a mate?", tools).report_sync()
    assert len(report.citations) == 1


def test_answers_report_has_ten_quotes_of_an_objective_at_most(tmp_path: Path) -> None:
    for number in range(30):
        text = f"Harbour {number} has {number + 2} cranes of kind {chr(65 + number % 26) * 3}."
        (tmp_path / f"{number}.txt").write_text(text)
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db", results=30)]
    report = Researcher("r", None, "How many cranes has a harbour?", tools).report_sync()
    assert 1 <= len(report.citations) <= 10


def test_answers_page_and_its_section_share_one_title(tmp_path: Path) -> None:
    (tmp_path / "saws.md").write_text("# 6. Saws\n\n## 6.1. Teeth\n\nA saw has 80 teeth.\n")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "How many teeth has a saw?", tools).report_sync()
    assert report.citations[0].passage.title == "6. Saws – 6.1. Teeth"


def test_answers_later_search_uses_words_of_what_is_nearest() -> None:
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

    question = "After how many hours is a pump that leaks replaced?"
    report = Researcher("r", None, question, [Action.of(look)]).report_sync()
    assert any("gasket" in query for query in asked)
    assert "900 hours" in report.citations[0].sentence


def test_quote_names_the_heading_of_its_part_and_shows_no_other() -> None:
    text = "# Keel\nThe keel of the boat is of oak.\n## Mast\nThe mast of the boat is 9 m high.\n"
    report = report_of(text, "How high is the mast of the boat?")
    assert report.citations[0].sentence == "“Mast … **The mast of the boat is 9 m high.**”"


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
        ("Since when has Tern 2 been available?", "available since 2009"),
        ("How many files may a job open?", "64 files"),
    ),
)
def test_answers_sentence_with_most_words_of_the_question_is_quoted_first(
    question: str, first: str
) -> None:
    assert first in report_of(SHELL, question, title="The Tern manual").citations[0].sentence


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
    ("text", "why"),
    ((BEFORE, "Salt eats bare iron within a year."), (AFTER, "Otherwise salt would eat the iron.")),
)
def test_quote_shows_the_paragraphs_around_its_sentence(text: str, why: str) -> None:
    report = report_of(text, "Why are the stairs oiled each May?")
    assert why in report.citations[0].sentence
    assert "stairs are oiled each May.**" in report.citations[0].sentence
    assert "**" not in report.citations[0].window
    assert "oiled each May." in report.citations[0].window


@pytest.mark.parametrize(
    ("files", "question"),
    (
        (
            {
                "sickness.md": "# Absence\n\nIf your absence exceeds 15 days, we meet.",
                "teams.md": "# Teams\n\nWhen teams are running for a long time, it is good to have "
                "new people.\n\n# Hours\n\nFrom time to time an employee works longer hours.",
            },
            "What happens when an employee is ill for a long time?",
        ),
        (
            {"pay.md": "# Pay\n\nThe price of a long ticket is paid at the time of the journey."},
            "What is the price of a parrot?",
        ),
        (
            {
                f"{n}.md": f"# Boat {n}\n\nBoat {n} keeps its log in cabin {n} by default."
                for n in range(24)
            },
            "Where does the submarine keep its log by default?",
        ),
    ),
)
def test_answers_common_words_without_the_rarest_are_not_found(
    files: dict[str, str], question: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    index = tmp_path.parent / f"{tmp_path.name}.db"
    tools = [search_folder(tmp_path, index=index, results=24)]
    report = Researcher("r", None, question, tools).report_sync()
    assert not report.citations
    assert f"for “{question}”." in report.markdown or "was not found" in report.markdown


def test_answers_passage_that_repeats_the_question_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "start.md").write_text(
        '# Start\n\n```console\n$ tern ask "How are letters lost?" --all\n```\n\n'
        "- How are letters lost?\n"
    )
    (tmp_path / "faq.md").write_text(
        "# Questions\n\n## How are letters lost?\n\nA storm drops them into the sea.\n"
    )
    (tmp_path / "keep.md").write_text("# Storms\n\nLetters are lost where a tern has no box.\n")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "How are letters lost?", tools).report_sync()
    said = unmarked(" ".join(each.sentence for each in report.citations[:2]))
    assert "A storm drops them into the sea." in said
    assert "no box" in said
    assert "tern ask" not in said


@pytest.mark.parametrize(
    ("said", "title"),
    (
        (
            "The ferry of Alba carries 300 people.",
            "- Stone, A. (2019). How many people does a ferry carry? Ferry 12(3), pp. 4-9.",
        ),
        ("The ferry of Alba carries 300 people.", "People | Ferry | Carry\nnone | none | none"),
        (
            "The ferry of Alba carries 300 people.",
            "How many people a ferry may carry:\n\nPeople | Ferry | Carry\nnone | none | none",
        ),
    ),
)
def test_answers_literature_and_heads_of_tables_come_last(said: str, title: str) -> None:
    report = report_of(
        f"# Ferries\n\n{said}\n\n{'Word. ' * 120}\n\n# List\n\n{title}\n",
        "How many people does the ferry carry?",
    )
    assert "300" in report.citations[0].sentence


LITERATURE = (
    "Stone, A., & Holm, M. (2019). How does tea affect sleep? Sleep Research, 12(3), 4-9.\n\n"
    "Bird, C. (2001). Tea and sleep. Oxford: OUP.",
    '[1] A. Stone, "How tea affects sleep," J. Sleep Res., vol. 12, no. 3, pp. 4–9, 2019.\n'
    "[2] C. Bird, Tea and Sleep. London, 2001.",
    "- Stone A. How tea affects sleep. 2019.\n- Bird C. Tea and sleep: effects. 2001.",
    "* Ada Stone: *How tea affects sleep*. Lund, 2019, ISBN 3-16-148410-X.\n"
    "* Carl Bird: *Tea*. 2001.",
    'Stone, Ada. "How Tea Affects Sleep." Sleep Monthly, 4 May 2019, https://sleep.test/tea.\n\n'
    'Bird, Carl. "Tea, Effects and Sleep." Tea Daily, 2001.',
)


@pytest.mark.parametrize("listed", LITERATURE)
def test_answers_titles_of_literature_come_after_a_sentence_with_fewer_words(listed: str) -> None:
    report = report_of(
        "# Tea\n\nTea kept 40 people from sleep.\n\n"
        f"{'The pot stands in the yard. ' * 30}\n\n# References\n\n{listed}\n",
        "How does tea affect sleep?",
    )
    assert "40 people" in report.citations[0].sentence


@pytest.mark.parametrize(
    ("name", "text"),
    (
        (
            "ferry.py",
            "def send_again(letters, ferry):\n"
            '    """Send the letters again that the ferry lost."""\n',
        ),
        ("talk.vtt", "WEBVTT\n\n00:01.000 --> 00:04.000\nletters the ferry lost sent again\n"),
        (
            "ferry.txt",
            "".join(f"2024-05-0{n} 12:01:1{n} letters ferry lost, sent again\n" for n in range(9)),
        ),
        (
            "NEWS.md",
            "# News\n\n## 1.2.0 - 2024-05-01\n\n- Letters that the ferry lost, sent again\n",
        ),
    ),
)
def test_answers_programs_logs_and_changes_come_after_prose(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    said = "Letters that the ferry loses are sent again after an hour."
    (tmp_path / "guide.md").write_text(f"# Ferry\n\n{said}\n")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "When are letters that the ferry lost sent again?", tools)
    assert said in report.report_sync().citations[0].sentence


def test_answers_text_of_two_files_is_quoted_once_with_both(tmp_path: Path) -> None:
    for name in ("rules.md", "copy.md"):
        (tmp_path / name).write_text(
            "# Rules\n\nThe quay is closed from 22 to 6 o'clock. Who wants to moor there at night "
            "rings the bell of the harbour master.\n"
        )
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "When is the quay closed?", tools).report_sync()
    assert report.markdown.count("The quay is closed") == 1
    (source,) = [line for line in report.markdown.split("\n") if line.startswith("[^")]
    assert all(f"{name}#rules>" in source for name in ("rules.md", "copy.md"))


@pytest.mark.parametrize(
    ("name", "text", "question", "said"),
    (
        (
            "towns.csv",
            "city,people\nAlba,70000\nBern,100\n",
            "How many people live in Alba?",
            "70000",
        ),
        ("kings.csv", "king,crowned\nAda,1871\nBo,1902\n", "When was king Bo crowned?", "1902"),
        (
            "example2023.txt",
            "The tower is 42 metres tall.",
            "How tall is the tower according to example2023?",
            "42 metres",
        ),
        (
            "survey2024.md",
            "# A study\n\nThe mast is 7 metres tall.\n",
            "How tall is the mast according to survey2024?",
            "7 metres",
        ),
        ("rent.txt", "Die Miete betrug 2024 700 Euro.", "Wie hoch war die Miete 2024?", "700"),
        ("bau.txt", "Der Umbau dauerte drei Jahre.", "Wie lange hat der Umbau gedauert?", "drei"),
        ("paix.txt", "La paix fut signée à Lund.", "Où la paix était-elle signée ?", "Lund"),
        ("puente.txt", "El puente se abrió en 1934.", "¿Cuándo se abría el puente?", "1934"),
    ),
)
def test_answers_row_file_name_and_past_tense_are_found(
    name: str, text: str, question: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "other.txt").write_text("Nothing of all this stands in here, as it is empty.")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, question, tools).report_sync()
    assert said in report.citations[0].sentence
    assert "**" not in report.citations[0].sentence or said in report.citations[0].window


def test_report_without_a_model_is_grouped_by_page_and_says_where_it_is_unsure(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.md").write_text(
        "# Boats\n\n## Oak\n\nThe keel of the boat is of oak.\n\n"
        "## Pine\n\nA mast of the boat is of pine.\n"
    )
    (tmp_path / "b.md").write_text("# Ships\n\nThe boat has a keel and a mast.\n")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    asked = [
        "Of what is the keel of the boat?",
        "Which ships have the keel and the rudder of a boat?",
    ]
    report = Researcher("r", None, asked, tools).report_sync()
    sure, _, unsure = report.markdown.partition(f"## {asked[1]}")
    assert "### Boats\n\n- “" in sure
    assert "may be" not in sure
    lacking = "None of the passages below has “rudder”."
    assert unsure.startswith(f"\n\n{lacking} The answer may be here:\n\n### ")
    assert report.markdown.count("### Boats") == 2


@pytest.mark.parametrize(
    ("asked", "text", "other", "headings"),
    (
        (
            "Wie hoch ist der Turm von Alba?",
            "Der Turm von Alba ist 42 Meter hoch.",
            "Wer kocht den Kaffee?",
            ("## Quellen", "Nichts Einschlägiges gefunden zu „Wer kocht den Kaffee?“."),
        ),
        (
            "Quelle est la hauteur de la tour ?",
            "La tour a une hauteur de 42 mètres.",
            "Qui prépare le café ?",
            ("## Sources", "Rien de pertinent n’a été trouvé pour « Qui prépare le café ? »."),
        ),
        (
            "¿Cuál es la altura de la torre?",
            "La altura de la torre es de 42 metros.",
            "¿Quién prepara el café?",
            ("## Fuentes", "No se encontró nada pertinente sobre «¿Quién prepara el café?»."),
        ),
    ),
)
def test_answers_report_has_headings_in_the_language_of_the_question(
    asked: str, text: str, other: str, headings: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tower.txt").write_text(text)
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, [asked, other], tools).report_sync()
    assert report.citations
    for each in headings:
        assert each in report.markdown
