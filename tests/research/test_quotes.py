"""What a report without a model quotes: whole sentences and rows, each once, never a bare title."""

from __future__ import annotations

from pathlib import Path

from tests.research.quotes import shows, unmarked

from moothall import Researcher
from moothall.actions import Action
from moothall.research import Report, Resource, search_folder


def report_of(text: str, *questions: str) -> Report:
    def look(query: str) -> Resource:
        """Look into a text.

        Args:
            query: words
        """
        return Resource("https://manual.test/", "Manual", True, text)

    return Researcher("r", None, questions, [Action.of(look)]).report_sync()


def quotes(text: str, question: str) -> list[str]:
    return [each.sentence for each in report_of(text, question).citations]


def test_quotes_are_no_titles_and_no_questions() -> None:
    text = (
        "# Kiln\n\n## Tuning the number of kiln shelves\n\nThe number of kiln shelves is set to 12 "
        "by the potter, and more do not fit.\n\n## Open\n\n- Who sets the number of kiln shelves?\n"
    )
    assert shows(
        quotes(text, "What is the number of kiln shelves?")[0],
        "“The number of kiln shelves is set to 12 by the potter, and more do not fit.”",
    )


def test_quote_of_a_row_has_the_head_of_its_table_and_no_other_row() -> None:
    text = (
        "Ships | Berth | Phone\nMorning Star | 14 | 555 0114\nEvening Star | 18 | 555 0118\n"
        "Old Tom | 20 | 555 0120\n"
    )
    assert shows(
        quotes(text, "What is the phone of the Evening Star?")[0],
        "“Ships | Berth | Phone … Evening Star | 18 | 555 0118”",
    )


def test_rows_that_begin_with_small_letters_are_rows_of_their_own() -> None:
    text = (
        "Settings of the ferry:\n\nsetting | means\nhold_size | the size of the hold\n"
        "mast_limit | the height of a mast\nhorn_count | how many horns\n"
    )
    assert shows(
        quotes(text, "Which setting is the height of a mast?")[0],
        "“setting | means … mast_limit | the height of a mast”",
    )


def test_quote_of_a_definition_has_its_term_once() -> None:
    text = (
        "Kinds of sluice:\n\nSluice-4\nKeeps the water of one gate for the whole mill.\n"
        "Sluice-5\nSluice-5 spreads the water over all of the gates.\n"
        "Sluice-6\nBoth gates are opened at noon.\n"
    )
    assert shows(
        quotes(text, "What does sluice-5 spread over the gates?")[0],
        "“Sluice-5 spreads the water over all of the gates.”",
    )
    assert shows(
        quotes(text, "When are the gates of Sluice-6 opened?")[0],
        "“Sluice-6 … Both gates are opened at noon.”",
    )
    assert shows(
        quotes(text, "What keeps the water of one gate for the mill?")[0],
        "“Sluice-4 … Keeps the water of one gate for the whole mill.”",
    )


def test_quote_of_half_a_sentence_has_the_half_before_it() -> None:
    text = (
        "Besides, a ship of the harbour\n\n- must not carry coal or peat below its deck,\n"
        "- is painted every year.\n"
    )
    assert shows(
        quotes(text, "Where must coal or peat not be carried?")[0],
        "“Besides, a ship of the harbour … must not carry coal or peat below its deck,”",
    )


def test_quote_of_a_manual_page_is_one_entry_without_its_title() -> None:
    text = (
        "DESCRIPTION\n       ferryd keeps the clock of the ferry right by clocks ashore.\n\n"
        "EXIT VALUES\n       The ferry ends with these exit codes:\n\n"
        "       0      Success\n       11     Error in the engine room\n"
        "       23     Partial crossing due to fog,\n              or to ice\n"
        "       24     Partial crossing due to vanished passengers\n"
    )
    assert shows(quotes(text, "What does ferryd keep right?")[0], "“ferryd keeps the clock")
    assert shows(
        quotes(text, "What does exit code 23 of the ferry mean?")[0],
        "“The ferry ends with these exit codes: … 23 Partial crossing due to fog, or to ice”",
    )


def test_quote_of_prose_with_a_semicolon_is_no_code() -> None:
    text = "It also changes scales such as Fathom to Metre;\nsee the chapter on Scales.\n"
    assert shows(
        quotes(text, "Which scales does it change to Metre?")[0], f"“{' '.join(text.split())}”"
    )


def test_quote_has_no_drawing() -> None:
    text = (
        "The kinds of mail that the queue keeps are shown in this drawing.\n\n"
        "The queue keeps mail that bounces for five days.\n"
        " | local | \\ | | v | mail -\\ -/ | queue | -> | keeps | / | ^ | | days\n"
    )
    assert shows(
        quotes(text, "For how many days does the queue keep mail that bounces?")[0],
        "“The queue keeps mail that bounces for five days.”",
    )


def test_comments_of_source_are_sentences_and_no_headings(tmp_path: Path) -> None:
    (tmp_path / "seq.sh").write_text(
        "#!/bin/sh\n# Count upwards by a step that\n# the caller may choose.\n#\n"
        "# Mia Holm wrote this counting program\n# in 1998.\nstep=1\n"
    )
    search = search_folder(tmp_path, index=tmp_path / "index.db")

    def first(question: str) -> str:
        return Researcher("r", None, question, [search]).report_sync().citations[0].sentence

    assert shows(
        first("Who wrote the counting program?"), "“Mia Holm wrote this counting program in 1998.”"
    )
    assert shows(
        first("By which step is it counted upwards?"),
        "“Count upwards by a step that the caller may choose.”",
    )


def test_text_below_a_title_that_tildes_underline_is_quoted() -> None:
    text = (
        "Harbour\n=======\n\nQuay depth\n~~~~~~~~~~\n\nThe quay is 14 metres deep at low tide.\n\n"
        "~~~~~~~~~~~~~\nLight ships\n~~~~~~~~~~~~~\n\nThe light ships burn 3 lamps.\n\n"
        "Crane load\n~~~~~~~~~~\n\nA crane of the quay lifts 40 tons.\n\n"
        "~~~~~~\ncrane --tons 99\nquay --deep 77\n~~~~~~\n\nThe tide comes twice a day.\n"
    )
    assert shows(
        quotes(text, "How deep is the quay?")[0], "“The quay is 14 metres deep at low tide.”"
    )
    assert shows(
        quotes(text, "How many lamps do the light ships burn?")[0],
        "“The light ships burn 3 lamps.”",
    )
    assert shows(
        quotes(text, "How many tons does a crane lift?")[0], "“A crane of the quay lifts 40 tons.”"
    )


def test_rows_whose_cells_are_signs_are_quoted() -> None:
    text = (
        "Keys of the ferry:\n\ncommand | key | meaning\nraise_sail | + | One more sail.\n"
        "lower_sail | - | One sail less.\nsound_horn | * | Sounds the horn.\n"
    )
    assert shows(
        quotes(text, "Which command sounds the horn?")[0], "sound_horn | * | Sounds the horn.”"
    )
    assert "lower_sail | - |" in quotes(text, "Which key is one sail less?")[0]


def test_sentences_that_name_elements_of_html_are_quoted_as_written(tmp_path: Path) -> None:
    said = "A ferry stands in a `<div>`, and each berth is set by <option>."
    for name in ("a.md", "a.txt"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(f"# Berths\n\n{said}\n\nUse <i>care</i> with berths.\n")
        question = "In what does a ferry stand?"
        made = Researcher("r", None, [question], [search_folder(folder)]).report_sync()
        assert shows(made.citations[0].sentence, f"“{said}”")
        assert "by \\<option>." in made.markdown
        assert "<i>" not in made.markdown


def test_quote_of_what_leads_to_code_has_the_code_with_its_numbers() -> None:
    text = (
        "# Moorings\n\nTo release old moorings, run:\n\n```\nferry release --keep-last 5\n```\n\n"
        "Then look at the quay.\n"
    )
    assert shows(
        quotes(text, "How do I release old moorings?")[0],
        "“To release old moorings, run:” `ferry release --keep-last 5`",
    )


def test_quote_of_a_block_quote_over_two_lines_is_without_its_marks() -> None:
    text = (
        "# Quay\n\n> [!NOTE]\n> The quay needs at least three cranes, as a rule keeps ships\n"
        "> apart. Additionally, barges alone are not let in.\n"
    )
    said = unmarked(quotes(text, "How many cranes does the quay need?")[0])
    assert "The quay needs at least three cranes, as a rule keeps ships apart." in said


def test_quote_names_its_section_unless_the_question_or_the_quote_does(tmp_path: Path) -> None:
    text = (
        "# Gate\n\n## max_ferry_wait (default: 90)\n\n"
        "How many minutes a ferry waits for the tide.\n\n"
        "## Tides\n\nA tide is a rise of the water.\n"
    )
    (tmp_path / "gate.md").write_text(text)

    def first(question: str) -> str:
        tools = [search_folder(tmp_path)]
        return Researcher("r", None, [question], tools).report_sync().citations[0].sentence

    assert unmarked(first("How many minutes does a ferry wait for the tide?")) == (
        "max_ferry_wait (default: 90) How many minutes a ferry waits for the tide."
    )
    assert unmarked(first("What is a tide?")) == "A tide is a rise of the water."


def test_quote_below_a_heading_with_stars_has_its_sentence_marked(tmp_path: Path) -> None:
    code, text = "const char ** nests (void)", "Returns all nests of birds. None is empty."
    (tmp_path / "n.html").write_text(f"<h1>Nests</h1><h2>{code}</h2><p>{text}</p>")
    report = Researcher(
        "r", None, "What returns all nests of birds?", [search_folder(tmp_path)]
    ).report_sync()
    assert "**Returns all nests of birds.**" in report.markdown


def test_quote_with_code_in_its_sentence_has_the_sentence_marked() -> None:
    text = (
        "The crane stands on the quay. `lift(load=4)` raises 4 tonnes of coal in a minute. "
        "Its driver is on duty at night."
    )
    assert "**`lift(load=4)` raises 4 tonnes of coal in a minute.**" in quotes(
        text, "How many tonnes of coal are raised in a minute?"
    )[0].replace("\\", "")


def test_quote_of_a_sentence_with_strong_words_has_the_words_without_stars(tmp_path: Path) -> None:
    (tmp_path / "dam.md").write_text(
        "# Dam\n\nTime of the works:\n\n- **May 2031**: The dam is opened.\n"
        "- **June 2032**: The old weir is taken down.\n\nAsk before **April 4, 2031**!\n"
    )
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "When is the old weir taken down?", tools).report_sync()
    assert shows(report.citations[0].sentence, "June 2032: The old weir is taken down.")


def test_quote_of_a_row_with_abbreviations_has_all_of_its_cells() -> None:
    text = (
        "Kind | Old rule | New rule\nSloop | Part 2, chap. 7.3 | Part 9, chap. 5.2\n"
        "Ketch | Part 2, chap. 8.1 | Part 9, chap. 6.4\n"
    )
    quote = quotes(text, "Which chapter of the new rule is for the kind Ketch?")[0]
    assert shows(quote, "Ketch | Part 2, chap. 8.1 | Part 9, chap. 6.4")


def test_section_whose_title_is_the_question_is_quoted_whole() -> None:
    filler = " ".join(f"Plank number {n} is nailed to the frame with care." for n in range(14))
    text = (
        f"# Yard\n\n## Caulking the hull\n\nCaulking needs oakum. {filler} At last tar follows.\n"
    )
    (quote,) = quotes(text, "How is the hull caulked?")
    assert quote.startswith("“")
    assert "tar follows." in quote


def test_passage_with_most_of_the_words_is_quoted_where_its_sentence_has_few() -> None:
    tables = "\n\n".join(
        f"## Working group {n}\n\nThe working group number {n} meets and meets again to work."
        for n in range(12)
    )
    text = (
        f"# Groups\n\n{tables}\n\n## Sail working group: when it meets\n\nEvery second Wednesday.\n"
    )
    found = quotes(text, "When does the sail working group meet?")
    assert any("Every second Wednesday" in each for each in found[:2])


def test_passage_that_has_the_question_itself_comes_after_those_that_answer(tmp_path: Path) -> None:
    (tmp_path / "start.md").write_text(
        "# Start\n\n```console\n$ tern ask 'How are letters lost at sea?'\n```\n\n"
        "Tern needs no key. It asks of letters, of the sea, and of what was lost.\n"
    )
    (tmp_path / "sea.md").write_text("# Sea\n\nAt sea letters are lost in a storm.\n")
    (tmp_path / "gulls.md").write_text("# Gulls\n\nGulls eat letters at sea; many are lost.\n")
    tools = [search_folder(tmp_path, index=tmp_path.parent / f"{tmp_path.name}.db")]
    report = Researcher("r", None, "How are letters lost at sea?", tools).report_sync()
    pages = [each.passage.url.rpartition("/")[2].partition(".")[0] for each in report.citations]
    assert sorted(pages[:2]) == ["gulls", "sea"]
