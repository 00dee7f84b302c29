"""The label of a sentence and its passage, the reason, and the sentences it rests on."""

from __future__ import annotations

import json
import time

import pytest

from moothall import ScriptedModel
from moothall.foundation.errors import DefinitionError, ModelError
from moothall.research import support

TRIAL = (
    "In the trial, 4744 patients received 10 mg of dapagliflozin once daily or placebo. All had an "
    "ejection fraction of 40% or less. The median follow-up was 18.2 months. The plant covers 2.5 "
    "hectares and runs for 72 hours at 98.6 °F. A wall 12 to 15 km long was kept at €3.42 billion."
)
TREATY = (
    "France and Germany signed the treaty on 22 January 1963. The Bundestag ratified it on 15 May "
    "1963. Spain refused to sign. Voyager 2 was launched on August 20, 1977, and Voyager 1 on "
    "September 5, 1977."
)


@pytest.mark.parametrize(
    ("sentence", "passage", "why"),
    (
        ("Patients received 10 g of dapagliflozin once daily.", TRIAL, "says 10 g"),
        ("The median follow-up was 18.2 years.", TRIAL, "says 18.2 years"),
        ("The wall cost $3.42 billion.", TRIAL, "says $3420000000"),
        ("The wall cost €3.42 million.", TRIAL, "says €3420000"),
        ("The wall is 12 m long.", TRIAL, "says 12 m"),
        ("The treaty was signed by Italy.", TREATY, "names Italy"),
        ("The treaty was signed on 23 January 1963.", TREATY, "says 23 January 1963"),
        ("The treaty dates from 1960.", "The treaty was drafted in 1963.", "says 1960"),
        ("It opens at 9:00 and closes at 18:00.", "Open 9:00 to 17:00.", "says 18:00"),
        ("The dose is 5 \u00b5g.", "The dose is 5 mg.", "says 5"),
        ("Cuesta 5.000 millones.", "Cuesta 5 millones.", "says 5000000000"),
        ("Es kostet 1.250 Milliarden.", "Es kostet 1,25 Milliarden.", "says 1250000000000"),
        ("It has about 5,000 beds.", "It has 6,100 beds.", "says 5,000"),
        ("Hers is of type I there.", "Hers is of type II there.", "names type I"),
        ("She was Elizabeth I then.", "She was Elizabeth II then.", "names Elizabeth I"),
        ("Há 5 milhões lá.", "Tem 5 bilhões.", "says 5000000"),
        ("Ci sono 5 mila case.", "Ha 5 milioni di case.", "says 5000"),
        ("Er zijn 5 miljoen huizen.", "Het heeft 5 miljard huizen.", "says 5000000"),
        ("Там 5 млн домов.", "Есть 5 миллиардов домов.", "says 5000000"),
        ("Jest tam 5 milionów domów.", "Ma 5 miliardów domów.", "says 5000000"),
        ("Это было 3 мая 1998 года.", "Он открыт 3 июня 1998.", "says 3 May 1998"),
        ("Aprì il 3 maggio 1998.", "È del 3 giugno 1998.", "says 3 May 1998"),
        ("Abrió el 3 de mayo de 1998.", "Es del 3 de junio de 1998.", "says 3 May 1998"),
        ("Om 3 mei 1998 ging het open.", "Het is van 3 juni 1998.", "says 3 May 1998"),
        ("Ha cinque porte lì.", "Ha quattro porte.", "says 5"),
        ("Es hat dreiundzwanzig Türen.", "Es hat vierundzwanzig Türen.", "says 23"),
        ("The server listens on port 8080 there.", "It listens on port 8081 here.", "says 8080"),
        ("See page 150.", "See page 148.", "says 150"),
        ("Call localhost:8080.", "Call localhost:9090 now.", "says 8080"),
        ("Call 127.0.0.1:8080.", "Call 127.0.0.1:9090 now.", "says 8080"),
        ("The ratio is 16:9.", "A ratio of 4:3.", "says 16"),
        ("It cures hepatitis C.", "It heals hepatitis B.", "names C"),
        ("It has 0.5‰ there.", "It has 0.5%.", "says 0.5‰"),
        ("It costs C$5.", "The price is US$5.", "says c$5"),
        ("It has 106 parts.", "It has 10\u2076 parts.", "says 106"),
        ("It has 10\u2077 parts.", "It has 10\u2076 parts.", "says 10000000"),
        ("The fee is 5001 euros.", "The fee is 500\u00b9 euros.", "says 5001"),
        ("It has 3 parts.", "It has 500\u00b3 parts.", "says 3"),
        ("The mask is 1012.", "The mask is 101\u2082.", "says 1012"),
        ("It takes 11 hours.", "It takes 1\u00bd hours.", "says 11 hours"),
        ("Use 1 cup of milk.", "Use \u00bc cup of milk.", "says 1"),
        ("It draws 5 mW.", "It draws 5 MW.", "says 5 mW"),
        ("它于1998年发布\uff0c使用端口4712。", "1998年5月3日发布\uff0c端口4711。", "says 4712"),
        ("料金は500円です。", "料金は600円です。", "says 500"),
        ("ราคา500บาท", "ราคา600บาท", "says 500"),
        ("Half a million live there.", "600,000 people live there.", "says 500000"),
        ("It is 5 °C cold.", "It is minus 5 °C cold.", "says 5 °c"),
        ('He said "Spain will sign the treaty".', TREATY, "quotes “Spain will sign the treaty”"),
        ("The text says “Spain was glad to sign the treaty at once”.", TREATY, "quotes “Spain was"),
    ),
)
def test_support_of_a_value_name_or_quotation_that_the_passage_lacks_is_none(
    sentence: str, passage: str, why: str
) -> None:
    found = support(sentence, passage)

    assert (found.label, found.why.startswith(why)) == ("unsupported", True), found


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("“It costs [about] 900 euros.”", "It costs 900 euros."),
        ("“The plan is [not] approved.”", "The plan is approved."),
        ("“The plan is … not approved.”", "The plan is approved. It is not late."),
        ("“Kept … deleted after a day.”", "Kept for a year. Logs are deleted after a day."),
        ("“The plan is” “rejected”.", "The plan is approved. Another is rejected."),
        ("“Port 80.”", "The port is 443. It has 80 users."),
        ("`timeout = 30`", "timeout = 60\nretries = 30"),
        ("It costs 5 euros.", "It costs 5 euros? No, it is free."),
        ("“It costs 5 euros.”", "It costs 5 euros? No, it is free."),
    ),
)
def test_support_word_for_word_takes_no_words_in_brackets_and_no_question_for_a_statement(
    sentence: str, passage: str
) -> None:
    assert support(sentence, passage).label == "not checked"


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("“The fee is 1.”", "The fee is 1,200 euros."),
        ("“The fee is 1 …”", "The fee is 1,200 euros."),
        ("“… 5 mg daily.”", "The dose is 0.5 mg daily."),
        ("“… 5 °C in winter.”", "It has -5 °C in winter."),
        ("“The limit is 5 …”", "The limit is 5% of it."),
        ("“The limit is 5 …”", "The limit is 5‰ of it."),
        ("“Use version 3 …”", "Use version 3.11."),
        ("“… safe for children.”", "It is un-safe for children."),
        ("“Smoking is allowed.”", "Smoking is allowed nowhere."),
        ("“Data is never sold … to partners.”", "Data is never sold except to partners."),
        (".5 mg is the dose.", "5 mg is the dose."),
    ),
)
def test_support_word_for_word_takes_no_quotation_cut_amid_a_number_a_word_or_a_statement(
    sentence: str, passage: str
) -> None:
    assert support(sentence, passage).label != "supported"


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("“The fee is 5.”", "Whether the fee is 5 is unknown. The fee is 5!"),
        ("“The fee is 5. More.”", "The fee is 5. More."),
        ("“… 1,200 euros.”", "The fee is 1,200 euros. More."),
        ("“The fee is 5 … Cats sleep.”", "The fee is 5 euros. Dogs bark. Cats sleep."),
        ("“Write f(…, on=5) there.”", "Write f(…, on=5) there."),
        ("“5 eggs”", "Take:\n\n- 5 eggs\n- 2 pans\n"),
        ("“年会费为100欧元。”", "年会费为100欧元。退会须提前三个月通知。"),
        ("“It is oiled each May [1]_.”", "It is oiled each May [1]_. See there."),
    ),
)
def test_support_word_for_word_takes_whole_statements_and_those_whose_ellipsis_says_the_cut(
    sentence: str, passage: str
) -> None:
    assert support(sentence, passage).label == "supported"


@pytest.mark.parametrize(
    "sentence",
    (
        "The median follow-up was 18.2 months, not weeks.",
        "Patients got 0.01 g of dapagliflozin daily.",
        "The plant has 25,000 square metres.",
        "The plant ran for three days at 37 °C.",
        "The cost was 3.4 billion euros.",
        "The wall is 15,000 m long, and at least 12 km.",
        # Nothing but the meaning speaks against these.
        "Patients never received 10 mg of dapagliflozin.",
        "A fraction above 40% was seen in all.",
    ),
)
def test_support_of_a_sentence_in_other_words_or_units_is_not_checked(sentence: str) -> None:
    found = support(sentence, TRIAL)

    assert (found.label, found.why, found.probability) == ("not checked", "", None)


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("Its ISBN is 9783161484100.", "It has ISBN 978-3-16-148410-0."),
        ("Its ISBN is 978-3-16-148410-0.", "It has ISBN 9783161484100."),
        ("Prices grew by 3.5 %.", "Prices rose 3 ½ %."),
        ("25 % of them have it.", "One in four has it."),
        ("It affects 1 in 10 people.", "It affects 10 % of people."),
        ("A ticket is $0.50.", "It costs 50 cents."),
        ("A ticket is 20 pence.", "It costs £0.20."),
        ("You may drive 100 km/h there.", "The limit is 62 mph."),
        ("Die Firma verdiente 1,5 Milliarden Euro.", "Die Firma verdiente 1500 Millionen Euro."),
        ("Die Kosten betragen 3 Millionen Euro.", "Es kostet 3.000.000 Euro."),
        ("Sicherungen bleiben zwei Jahre.", "Eine Sicherung wird 24 Monate lang aufbewahrt."),
        ("Kopien laufen alle drei Tage.", "Alle 72 Stunden läuft eine Kopie."),
        ("Es leben 1.234.567 Menschen dort.", "Population 1,234,567."),
        ("Die Sitzung beginnt um 14.30 Uhr.", "Die Sitzung ist um 14:30 Uhr, bis 18:00 Uhr."),
        ("It opens at 9 am and closes at 6 pm.", "Open from 9:00 to 18:00."),
        ("It is minus five degrees Celsius.", "The temperature is -5 °C."),
        ("它于1998年5月3日发布\uff0c有12.5万人。", "发布\uff1a1998-05-03。125000人。"),
        ("1億2000万円です。", "120,000,000円。"),
        ("She was born on 1 May 1985.", "Geboren am 1.5.85."),
        ("It is -5 °C.", "The temperature is –5 °C."),
        ("The dose is 5 mcg.", "A dose has 5 \u00b5g."),
        ("Half a million people live there.", "There live 500,000 people."),
        ("It takes 2.5 hours or 150 minutes.", "Two and a half hours are needed."),
        ("Der Zug fährt um acht Uhr.", "Um 8:00 Uhr fährt der Zug."),
        ("La réunion commence à 14h30.", "La réunion est à 14:30."),
        ("The train leaves at 8 a.m.", "It leaves at 8:00."),
        ("The limit is 5 GB.", "It has a limit of 5000 MB."),
        ("The U.S. signed it.", "The United States signed it."),
        ("It holds 2 dozen eggs.", "It holds 24 eggs."),
        ("It has 1.5 million users.", "1.5M users have it."),
        ("The model has 7B parameters.", "7,000,000,000 parameters."),
        ("They met in San Jose.", "The meeting was in San José."),
        ("They met in San José.", "The meeting was in San Jose."),
        ("50% of the crew left.", "Half the crew left the ship."),
        ("Cuesta 5.000 millones de euros.", "It costs €5 billion."),
        ("About 5,000 people live there.", "4,873 people live there."),
        ("Rund 5.000 Menschen leben dort.", "Dort leben 4.873 Menschen."),
        ("It has more than 4,000 beds.", "It has about 5,000 beds."),
        ("Hers is of type I, and I know.", "Type I and type II are known."),
        ("It is what I think of it.", "It is what we think of it."),
        ("Tiene 5 mil millones.", "Hay 5000000000."),
        ("Het heeft drieëntwintig deuren.", "Er zijn 23 deuren."),
        ("Ils partent le 1er juin 1998 au soir.", "Le 1 juin 1998 ils partent."),
        ("The rebels seize power there.", "The rebels took power."),
        ("It has housed 150 people since.", "It housed 148 people."),
        ("The firm earned 3.4 billion then.", "It earned 3.42 billion."),
        ("The picture has 16:9.", "A ratio of 16:9."),
        ("It costs US$5.", "The price is $5."),
        ("It has 0.5‰ there.", "It has 0.05%."),
        ("They met John F. Smith.", "John Smith met them."),
        ("The C API is old.", "The API is old, they say."),
        ("The club takes 500 euros.", "The fee is 500\u00b9 euros."),
        ("There are 3200000 parts.", "It has 3.2 \u00d7 10\u2076 parts."),
        ("In 90 minutes it ends.", "It takes 1\u00bd hours."),
        ("\u2153 of them left.", "A third of them left."),
        ("They all use Windows there.", "They use Windows\u2122 or Windows\u00b9."),
        ("There are 5 m\u00b2.", "It has 5 m2."),
        ("It takes 90 minutes.", "It takes 1 h 30 min."),
        ("Its ISBN is 978-3-16-148410-0.", "ISBN 978-3-16-148410-0 is its."),
        ("It is open from 1 to 3 p.m.", "It is open from 13:00 to 15:00."),
        ("It costs 200 Kč.", "It costs 200 CZK."),
        ("始于1998年5月。", "It began in May 1998."),
        ("会议于5月3日举行。", "The meeting was on 3 May."),
        ("It takes 1 hour and 30 minutes.", "It takes an hour and a half."),
        ("It takes 60 minutes.", "It takes one hour."),
        ("Nearly 9,000 people fled.", "8,950 people fled."),
        ("Environ 5\u202f000 personnes vinrent.", "4\u202f980 personnes vinrent."),
        ("Había unas 5.000 personas.", "Había 4.980 personas."),
        ("La réunion a eu lieu le 3 mars 2021.", "It took place on 2021-03-03."),
        ("The Müller family owns it.", "Familie Mueller besitzt es."),
        ("Il coûte 5 milliards d'euros.", "Il coûte 5\u202f000 millions d'euros."),
        ("Il coûte 12 500 millions d'euros.", "Il coûte 12,5 milliards d'euros."),
        ("The hall has 0 seats.", "The hall has no free seats left."),
        ("Der Saal hat 0 Plätze.", "Der Saal hat keine Plätze."),
        ("The United States signed it.", "The U.S. had signed."),
        ("In 1998 the Department of Energy paid.", "DOE paid in 1998."),
    ),
)
def test_support_of_a_value_in_the_form_of_its_language_is_not_checked(
    sentence: str, passage: str
) -> None:
    found = support(sentence, passage)

    assert found.label == "not checked", found


def test_support_of_a_sentence_of_the_passage_itself_is_full_with_its_window() -> None:
    found = support("**Spain** refused to sign.[^3^]", TREATY)

    assert (found.label, found.window, found.overlap) == ("supported", "Spain refused to sign.", 1)


def test_support_of_a_part_of_a_sentence_is_not_full_unless_an_ellipsis_says_so() -> None:
    denied = "It is false that the queue holds ten items."

    assert support("The queue holds ten items.", denied).label == "not checked"
    assert support("“the queue holds ten items”", denied).label == "not checked"
    assert support("“… the queue holds ten items”", denied).label == "supported"


def test_support_by_a_judge_has_its_verdict_and_quotations_are_not_asked() -> None:
    verdict = {"why": "Italy is not named", "passages": [1], "label": "partly", "probability": 0.4}
    judge = ScriptedModel([json.dumps({"verdicts": [{"sentence": 1, **verdict}]})])
    found = support("The treaty was signed by Italy and France.", TREATY, judge=judge)

    assert (found.label, found.probability, found.why, found.judge) == (
        "partly", 0.4, "Italy is not named", "model"
    )  # fmt: skip
    assert support("It says “Spain signed at once”.", TREATY, judge=judge).label == "unsupported"
    with pytest.raises(ModelError, match="the judge's answer is not JSON"):
        support("Spain said no.", TREATY, judge=ScriptedModel(["no JSON"] * 2))


@pytest.mark.parametrize("empty", ("", " \n", "…", "```\ncode\n```"))
def test_support_by_a_passage_without_a_sentence_is_none(empty: str) -> None:
    assert support("Spain refused to sign.", empty).label in ("unsupported", "not checked")
    assert support(empty, TREATY).window in TREATY


def test_support_of_what_is_no_text_is_refused() -> None:
    with pytest.raises(DefinitionError, match="passage= must be a text, got None"):
        support("Spain refused to sign.", None)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="judge= needs an object with complete"):
        support("Spain said no.", TREATY, judge=True)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize(
    "piece", ("[^", "1 ", "5 mg ", "not ", "A B ", "9", "(", "1999 ", "before after ", "May 5, ")
)
def test_support_takes_a_bounded_time_whatever_the_text(piece: str) -> None:
    start = time.process_time()
    support(piece * 3000, piece * 3000)
    assert time.process_time() - start < 5


RESTIC = """To remove old snapshots, run:

```
restic forget --keep-last 5 --prune
```

Then check the repository."""


@pytest.mark.parametrize(
    ("sentence", "label"),
    (
        ("“restic forget --keep-last 5 --prune”", "supported"),
        ("To remove old snapshots, run `restic forget --keep-last 5 --prune`.", "not checked"),
        ("“restic forget --keep-last 7 --prune”", "unsupported"),
        ("To remove old snapshots, run `restic purge --keep-last 5`.", "unsupported"),
    ),
)
def test_support_reads_the_code_of_a_passage(sentence: str, label: str) -> None:
    assert support(sentence, RESTIC).label == label


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("The ferry costs CHF 64 million.", "The ferry costs 64 million Swiss francs."),
        ("The ferry costs 64 million Swiss francs.", "The ferry costs CHF 64 million."),
        ("The ferry costs 12 Swedish crowns.", "The ferry costs 12 kronor."),
        ("The ferry costs 5 zlotys.", "The ferry costs PLN 5."),
        ("The ferry costs 12 Canadian dollars.", "The ferry costs CAD 12."),
        ("The card has 4 GB.", "The card has 4096 MB."),
        ("The card has 2,048 kB.", "The card has 2 MB."),
        ("It opened in mid-2021.", "It was opened in June 2021."),
        ("More than 4,000 people came.", "4,050 people came."),
        ("Fewer than ten people came.", "Seven people came."),
        ("Mehr als 4000 Menschen kamen.", "Es kamen 4050 Menschen."),
        ("Two thirds of the members agreed.", "66.7 % of the members agreed."),
        ("Two thirds agreed.", "66.7 % of the members agreed."),
        ("67 % of the members agreed.", "Two thirds of the members agreed."),
        ("2/3 of the members agreed.", "Two thirds of the members agreed."),
        ("Three quarters of the fish died.", "75 percent of the fish died."),
        ("25 % of the fish died.", "A quarter of the fish died."),
        ("50 % of the crew left.", "Half of the crew left."),
        ("Zwei Drittel der Mitglieder kamen.", "66,7 % der Mitglieder kamen."),
        ("The share is 20 %.", "The share is 0.2."),
        ("The share is 0.2.", "The share is 20 %."),
        ("Rain fell in three quarters.", "Rain fell in nine months."),
    ),
)
def test_support_values_in_other_words_and_units_are_the_same(sentence: str, passage: str) -> None:
    assert support(sentence, passage).label == "not checked"


@pytest.mark.parametrize(
    ("sentence", "passage"),
    (
        ("The ferry costs 64 million euros.", "The ferry costs 64 million Swiss francs."),
        ("The ferry costs 12 Canadian dollars.", "The ferry costs 12 US dollars."),
        ("The ferry costs 12 Swedish kronor.", "The ferry costs 12 Danish kroner."),
        ("The card has 4 GB.", "The card has 5096 MB."),
        ("It opened in mid-2021.", "It was opened in 2019."),
        ("More than 4,000 people came.", "3,050 people came."),
        ("More than 4,100 people came.", "4,050 people came."),  # which rounds to it
        ("Weniger als 4000 Menschen kamen.", "Es kamen 4010 Menschen."),
        ("At most ten people came.", "Twelve people came."),
        ("At most ten people came.", "Two people came."),
        ("It is more than 4 metres long.", "It is 5 seconds long."),
        ("Two thirds of the members agreed.", "60 % of the members agreed."),
        ("30 % of the fish died.", "A quarter of the fish died."),
        ("The share is 0.3.", "The share is 20 %."),
        ("The share is 20 %.", "The share is 20."),
        ("The hall has 0 seats.", "The hall has 12 seats and no windows."),
        ("It takes 90 minutes.", "It takes one hour."),
        ("It takes 1 h 40 min.", "It takes 90 minutes."),
        ("Its ISBN is 978-3-16-148410-1.", "It has ISBN 978-3-16-148410-0."),
        ("Its ISBN is 978-3-16-148410-1.", "It has ISBN 9783161484100."),
        ("It costs €0.70.", "It costs 50 cents."),
        ("A quarter of 25 % have it.", "One in five has it."),
        ("The limit is 55 mph.", "The limit is 100 km/h."),
        ("It took 80 minutes.", "It took 1 hour."),
        ("It is open from 2 to 3 p.m.", "It is open from 13:00 to 15:00."),
        ("It costs ₩5000.", "It costs 5,000 JPY."),
        ("会议于5月4日举行。", "The meeting was on 3 May."),
        ("It needs version 3.11.3 here.", "It needs 3.11.2 or later."),
        ("It costs 0 euros.", "It takes no more than 5 euros."),
        ("The United States signed it.", "They told us that the U.K. signed it."),
    ),
)
def test_support_other_values_of_a_kind_are_lacking(sentence: str, passage: str) -> None:
    assert support(sentence, passage).label == "unsupported"
