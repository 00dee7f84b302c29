"""The extractive form shows where an answer may be, and says so where it found none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.research.quotes import report_of, report_on, unmarked

from moothall import Researcher
from moothall.actions import Action
from moothall.research import Resource, search_folder

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


def test_report_says_which_of_its_objectives_it_did_not_answer() -> None:
    asked = "When was the lighthouse built?", "Who composed the Moonlight Sonata?"
    report = report_of(MANUAL, *asked)
    assert f"## {asked[0]}\n\n### Manual\n\n- “" in report.markdown
    assert f"## {asked[1]}" not in report.markdown
    assert f"“{asked[1]}”" in report.markdown.partition("\n\n## Not answered\n\n")[2]
    assert report.objectives[0].expertise > 0.5 > report.objectives[1].expertise


def test_answers_question_in_other_words_that_a_passage_has_enough_of_is_shown_as_unsure(
    tmp_path: Path,
) -> None:
    files = {f"{n}.md": f"# Day {n}\n\nInsulin of day {n}." for n in range(24)}
    files["rig.md"] = "# Faults\n\nIf the rig breaks, the pump works alone."
    question = "What happens to a sleeping child and its insulin if my rig breaks beside the pump?"
    report = report_on(tmp_path / "docs", files, question, results=24)
    assert "The answer may be here:" in report.markdown
    assert "the pump works alone" in unmarked(report.citations[0].sentence)
    assert report.objectives[0].expertise < 0.9


def test_answers_same_text_in_two_files_is_quoted_once(tmp_path: Path) -> None:
    said = "The beacon of Arna burns for 14 hours.\n\nThe beacon of Lund burns for 9 hours.\n"
    files = {"beacons.txt": said, "beacons.md": f"# Beacons\n\n{said}"}
    report = report_on(tmp_path / "docs", files, "How long does the beacon of Arna burn?")
    quoted = [each.sentence for each in report.citations]
    assert "14 hours" in quoted[0]
    assert sum("14 hours" in each for each in quoted) == 1


def test_answers_text_of_two_files_is_quoted_once_with_both(tmp_path: Path) -> None:
    text = (
        "# Rules\n\nThe quay is closed from 22 to 6 o'clock. Who wants to moor there at night "
        "rings the bell of the harbour master.\n"
    )
    files = {"rules.md": text, "copy.md": text}
    report = report_on(tmp_path / "docs", files, "When is the quay closed?")
    assert report.markdown.count("The quay is closed") == 1
    (source,) = [line for line in report.markdown.split("\n") if line.startswith("[^")]
    assert all(f"{name}#rules>" in source for name in files)


def test_answers_report_has_ten_quotes_of_an_objective_at_most(tmp_path: Path) -> None:
    files = {
        f"{n}.txt": f"Harbour {n} has {n + 2} cranes of kind {chr(65 + n % 26) * 3}."
        for n in range(30)
    }
    report = report_on(tmp_path / "docs", files, "How many cranes has a harbour?", results=30)
    assert 1 <= len(report.citations) <= 10


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
