"""Pairs that were written for training: passages with blanks, and sentences about them.

They stand in `data/judge_texts.txt`.

`+ ` marks what a passage supports, `- KIND: ` what it does not. Each passage is filled with several
sets of names, numbers and dates, so that the judge learns the relations and not the words.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.judge.public import Pair

_TEXTS = Path(__file__).resolve().parent.parent / "data" / "judge_texts.txt"
_FILLS = {
    "P": "Anna Brandt|Luis Ortega|Mei Tanaka|Omar Haddad|Sofia Lindqvist|Piotr Zielinski|"
    "Grace Okafor|Henrik Dahl|Nadia Rahman|Tomas Novak|Claire Fontaine|Ravi Menon",
    "Q": "Viktor Hale|Elena Petrova|Samuel Adeyemi|Ingrid Moen|Carlos Fuentes|Hana Suzuki|"
    "Marta Kowalska|David Mensah|Lucia Ferri|Jonas Weber|Amina Diallo|Peter Novotny",
    "C": "Norvik|Aldera|Brightwell|Castorane|Delmere|Estrix|Fjordline|Granica|Helvion|Ixtal",
    "D": "Orbane|Palisade|Quintar|Rovello|Sundera|Tarmac Systems|Ulvetech|Varnholm|Wexcom|Zephyra",
    "T": "Lisbon|Turin|Bergen|Porto|Gdansk|Leipzig|Utrecht|Malmo|Graz|Brno",
    "U": "Oslo|Vienna|Dublin|Seville|Krakow|Lyon|Ghent|Basel|Tartu|Split",
    "n": "12|17|23|34|46|58|71|84|96|130",
    "m": "140|190|220|310|450|560|720|860|910|990",
    "k": "3|4|5|6|7|8|9",
    "y": "1987|1992|1999|2004|2008|2011|2015",
    "z": "1978|1981|1984|2017|2019|2021|2023",
    "d": "4 March|11 April|19 June|27 July|8 September|15 October|22 November",
    "e": "2 January|6 February|13 May|21 August|30 December|9 July|17 April",
}


def pairs(times: int = 8, seed: int = 7) -> Iterator[Pair]:
    """The pairs, each text filled `times` times."""
    draw = random.Random(seed)
    for number, block in enumerate(_TEXTS.read_text(encoding="utf-8").strip().split("# ")[1:]):
        name, passage, *lines = block.strip().splitlines()
        for _ in range(times):
            fill = {key: draw.choice(values.split("|")) for key, values in _FILLS.items()}
            for line in lines:
                right = line[0] == "+"
                kind, said = ("right", line[2:]) if right else line[2:].split(": ", 1)
                yield Pair(
                    "written", f"{name}{number}", said.format(**fill), passage.format(**fill),
                    float(right), kind,
                )  # fmt: skip
