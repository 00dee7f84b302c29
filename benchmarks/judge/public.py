"""Public pairs of a sentence and a passage that people judged, read from a folder outside of here.

`MOOTHALL_PAIRS` names the folder (default: `pairs` beside the working directory). It holds, under
these names, files of public repositories; none of their text is kept in this one:

    wice_dev.jsonl, wice_test.jsonl   github.com/ryokamoi/wice (ODC-BY, texts CC-BY-SA):
        code_and_resources/entailment_inputs/oracle_chunks/claim/{dev,test}.jsonl
    expertqa_rand_test.jsonl          github.com/chaitanyamalaviya/ExpertQA (MIT): data/lfqa/
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from moothall.foundation.text.vocabulary import Words


class Pair(NamedTuple):
    """A sentence and a passage; `target` is 1 if it is supported, 0.5 in part, 0 if not."""

    source: str
    group: str  # pairs of one group are about one claim or one question
    sentence: str
    passage: str
    target: float
    kind: str = ""


def folder() -> Path:
    """The folder of the public files."""
    return Path(os.environ.get("MOOTHALL_PAIRS", "pairs"))


def _lines(name: str) -> list[dict[str, Any]]:
    with (folder() / name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


_WICE = {"supported": 1.0, "partially_supported": 0.5, "not_supported": 0.0}


def _evidence(listed: list[str]) -> str:
    kept = [re.sub(r"^\(meta data\) [A-Z ]+: |^#+ ", "", each) for each in listed]
    return "\n\n".join(kept)


def wice(split: str) -> list[Pair]:
    """WiCE's claims with their oracle passages: some three passages a claim, in one group."""
    return [
        Pair(
            "wice", row["meta"]["id"], row["claim"], _evidence(row["evidence"]), _WICE[row["label"]]
        )
        for row in _lines(f"wice_{split}.jsonl")
    ]


_CITED = re.compile(r"\s*\[\d+\](?:\[\d+\])*")
_HEAD = re.compile(r"^\s*(?:\[\d+\]\s*)?(?:https?://\S+)?\s*")


def _texts(evidence: list[str]) -> str:
    texts = [_HEAD.sub("", each).strip() for each in evidence]
    return "\n\n".join(each for each in texts if len(each) > 100)


EXPERTQA = {"Complete": 1.0, "Partial": 0.5, "Incomplete": 0.25}


def expertqa(split: str) -> Iterator[Pair]:
    """ExpertQA's claims with the passages that they cite.

    A claim whose support is `Missing` has no passage. It gets, of all passages that answers to the
    same question cite, the one that has most of its words; without such a passage it is left out.
    """
    for number, row in enumerate(_lines(f"expertqa_{split}.jsonl")):
        claims = [c for answer in row["answers"].values() for c in answer["claims"]]
        passages = list(dict.fromkeys(filter(None, (_texts(c["evidence"]) for c in claims))))
        bags = [frozenset(Words(each).terms()) for each in passages]
        for claim in claims:
            text = _CITED.sub("", claim["claim_string"]).strip()
            own = _texts(claim["evidence"])
            if claim["support"] == "Missing" and passages and not own:
                words = frozenset(Words(text).terms())
                best = max(range(len(bags)), key=lambda n: len(words & bags[n]))
                yield Pair("expertqa", f"{split}{number}", text, passages[best], 0.0, "Missing")
            elif own and claim["support"] in EXPERTQA:
                target = EXPERTQA[claim["support"]]
                yield Pair("expertqa", f"{split}{number}", text, own, target, claim["support"])
