"""Whether a passage supports a sentence: the label, the reason and the sentences it rests on."""

from __future__ import annotations

import time

import pytest

from moothall.errors import DefinitionError
from moothall.research import support

TRIAL = (
    "In the trial, 4744 patients received 10 mg of dapagliflozin once daily or placebo. All had an "
    "ejection fraction of 40% or less. The median follow-up was 18.2 months. Death or worsening "
    "heart failure occurred in 386 patients in the dapagliflozin group and in 502 in the placebo "
    "group. The frequency of adverse events did not differ between the groups."
)
COMPANY = (
    "Norsund reported revenue of €3.42 billion for 2023, a third of it from turbines. Chief "
    "executive Ingrid Halvorsen said that the order book was full. Finance chief Peter Lang will "
    "leave in June. The dividend was kept at €1.10 a share. Backups of all plants run every 72 "
    "hours, unless a plant is closed."
)
TREATY = (
    "France and Germany signed the treaty on 22 January 1963. The Bundestag ratified it on 15 May "
    "1963. Spain refused to sign. Voyager 2 was launched on August 20, 1977, and Voyager 1 on "
    "September 5, 1977."
)


BARNS = (
    "Of the 72 barns visited last spring, 9 had broken roofs and 18 had cracked walls. Repairs "
    "cost €240,000, of which the town paid €80,000. The number of guests rose from 1,200 in 2019 "
    "to 3,600 in 2023."
)


@pytest.mark.parametrize(
    ("sentence", "is_kept"),
    (
        ("One in eight of the barns had broken roofs.", True),
        ("A quarter of the barns had cracked walls.", True),
        ("The town paid a third of the repairs.", True),
        ("The number of guests tripled between 2019 and 2023.", True),
        ("Twice as many barns had cracked walls as broken roofs.", True),
        ("One in nine of the barns had broken roofs.", False),
        # The ratio is that of numbers of something else.
        ("A third of the barns had cracked walls.", False),
        ("The number of guests doubled between 2019 and 2023.", False),
        ("Three times as many barns had cracked walls as broken roofs.", False),
    ),
)
def test_support_of_a_figure_that_follows_from_figures_of_the_same_matter(
    sentence: str, is_kept: bool
) -> None:
    assert (support(sentence, BARNS).label == "supported") is is_kept


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("Patients received 10 g of dapagliflozin once daily.", TRIAL),
        ("The median follow-up was 18.2 years.", TRIAL),
        ("All patients had an ejection fraction above 40%.", TRIAL),
        ("Norsund reported revenue of $3.42 billion for 2023.", COMPANY),
        ("Norsund reported revenue of €3.42 million for 2023.", COMPANY),
        ("Chief executive Peter Lang said that the order book was full.", COMPANY),
        ("Ingrid Halvorsen will leave in June.", COMPANY),
        ("The dividend was cut to €1.10 a share.", COMPANY),
        ("France and Spain signed the treaty.", TREATY),
        ("The treaty was signed on 15 May 1963.", TREATY),
        ("Voyager 1 was launched on August 20, 1977.", TREATY),
        ("Spain signed the treaty.", TREATY),
    ),
)
def test_support_of_a_sentence_that_says_something_else_is_not_full(
    sentence: str, passage: str
) -> None:
    found = support(sentence, passage)

    assert found.label != "supported"
    assert found.why


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("Patients received 10 mg of dapagliflozin once daily.", TRIAL),
        ("The median follow-up was 18.2 months.", TRIAL),
        ("All patients had an ejection fraction of at most 40%.", TRIAL),
        ("Norsund's revenue was €3.42 billion in 2023.", COMPANY),
        ("Peter Lang, the finance chief, will leave in June.", COMPANY),
        ("The dividend was kept at €1.10 a share.", COMPANY),
        ("Backups run every three days.", COMPANY),
        ("About 33% of the revenue of Norsund was from turbines.", COMPANY),
        ("France and Germany signed the treaty on 22 January 1963.", TREATY),
        ("Voyager 2 was launched on August 20, 1977.", TREATY),
    ),
)
def test_support_of_a_sentence_in_other_words_or_units_is_full(sentence: str, passage: str) -> None:
    found = support(sentence, passage)

    assert found.label == "supported", found
    assert not found.why


PROBE = (
    "Two of the four reaction wheels of the probe failed in 2019. A decision on a new probe is "
    "expected no earlier than March 2031. The dividend of its maker was kept at €0.40 per share. "
    "The change will take place over the coming 2028-2029 academic year."
)
DRUG = (
    "In the trial, 612 adults received either 140 mg of the antibody or placebo once a month for "
    "twelve weeks. Migraine days fell by 6.6 in the treatment group and by 4.2 in the placebo "
    "group. Serious adverse events were rare and did not differ between the groups."
)


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("The adults received the antibody or placebo for three months.", DRUG),
        ("The dividend was kept at 40 cents per share.", PROBE),
        ("The change will take place over the 2028–29 academic year.", PROBE),
        ("Migraine days fell by 6.6 in the treatment group.", DRUG),
    ),
)
def test_support_of_weeks_as_months_cents_as_a_part_of_a_euro_and_a_range_of_years_is_full(
    sentence: str, passage: str
) -> None:
    assert support(sentence, passage).label == "supported"


@pytest.mark.parametrize(
    ("sentence", "passage", "why"),
    (
        ("The adults received the antibody or placebo for two months.", DRUG, "two"),
        ("The dividend was kept at 45 cents per share.", PROBE, "45"),
        ("A decision on a new probe is expected by March 2031.", PROBE, ""),
        ("All four reaction wheels of the probe failed in 2019.", PROBE, "of all what"),
        (
            "Serious adverse events were more frequent with the antibody than with placebo.",
            DRUG,
            "what the passage says is equal",
        ),
        ("Migraine days fell by 6.6 in the placebo group.", DRUG, "of something else"),
    ),
)
def test_support_of_a_deadline_all_of_four_a_difference_and_a_number_of_another_group_is_not_full(
    sentence: str, passage: str, why: str
) -> None:
    found = support(sentence, passage)

    assert found.label != "supported", found
    assert why in found.why


def test_window_has_the_sentences_that_a_sentence_rests_on() -> None:
    found = support("Peter Lang, the finance chief, will leave in June.", COMPANY)

    assert found.window == "Finance chief Peter Lang will leave in June."
    assert 0 <= found.probability <= 1


def test_support_of_a_sentence_of_the_passage_itself_is_full_and_of_a_false_quotation_none() -> (
    None
):
    assert support("Spain refused to sign.", TREATY).probability > 0.95
    false = support("The text says “Spain was glad to sign the treaty at once”.", TREATY)
    assert (false.label, false.why.startswith("quotes")) == ("unsupported", True)


@pytest.mark.parametrize("empty", ("", " \n", "…", "```\ncode\n```"))
def test_support_by_a_passage_without_a_sentence_is_none(empty: str) -> None:
    assert support("Spain refused to sign.", empty).label == "unsupported"
    assert support(empty, TREATY).window in TREATY


def test_support_of_what_is_no_text_is_refused() -> None:
    with pytest.raises(DefinitionError, match="passage= must be a text, got None"):
        support("Spain refused to sign.", None)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize(
    "piece", ("[^", "1 ", "5 mg ", "not ", "A B ", "9", "(", "1999 ", "before after ", "May 5, ")
)
def test_support_takes_a_bounded_time_whatever_the_text(piece: str) -> None:
    start = time.process_time()
    support(piece * 3000, piece * 3000)
    assert time.process_time() - start < 5


MILL = (
    "Anna Brandt sold the mill to Oskar Lind, who leases it to a baker. Ingrid Moe praised Lind "
    "for the new wheel. Rye fills 40 sacks a day, barley 25. The roof leaked in 1921, eleven "
    "years after the mill was built. Nobody works there on Sundays. A sack holds 20 kg of flour."
)


@pytest.mark.parametrize(
    ("sentence", "why"),
    (
        ("Oskar Lind sold the mill to Anna Brandt.", "turns round who did it to whom"),
        ("Oskar Lind praised Ingrid Moe for the new wheel.", "turns round who did it to whom"),
        ("Rye fills 40 sacks a month.", "month"),
        ("The roof leaked because a baker works there.", ""),
        ("The mill was built in 1915.", "1915"),
    ),
)
def test_support_of_exchanged_doers_other_rates_and_added_causes_is_not_full(
    sentence: str, why: str
) -> None:
    found = support(sentence, MILL)

    assert found.label != "supported"
    assert why in found.why


@pytest.mark.parametrize(
    "sentence",
    (
        "Oskar Lind bought the mill from Anna Brandt.",
        "Lind was praised by Ingrid Moe for the new wheel.",
        "Rye fills 40 sacks every day.",
        "The mill was built in 1910, and its roof leaked in 1921.",
    ),
)
def test_support_of_a_buyer_a_passive_a_rate_and_a_year_that_follows_is_full(sentence: str) -> None:
    assert support(sentence, MILL).label == "supported"


RESTIC = """To remove old snapshots, run:

```
restic forget --keep-last 5 --prune
```

Then check the repository."""


@pytest.mark.parametrize(
    ("sentence", "label"),
    (
        ("“restic forget --keep-last 5 --prune”", "supported"),
        ("To remove old snapshots, run `restic forget --keep-last 5 --prune`.", "supported"),
        ("“restic forget --keep-last 7 --prune”", "unsupported"),
        ("To remove old snapshots, run `restic purge --keep-last 5`.", "unsupported"),
    ),
)
def test_support_reads_the_code_of_a_passage(sentence: str, label: str) -> None:
    assert support(sentence, RESTIC).label == label
