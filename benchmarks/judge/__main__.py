"""Train the judge of citations, and test it on public pairs.

    python -m benchmarks.judge features   # public and own pairs -> data/judge.csv.gz
    python -m benchmarks.judge train      # data/judge.csv.gz -> the weights in the package
    python -m benchmarks.judge test       # WiCE's test, ExpertQA's rand_test: once, at the end

`features` and `test` need the public files (`public.py` says which; `MOOTHALL_PAIRS` is their
folder). `train` needs numpy alone: the features of every pair are in this repository, as numbers
without any text. It gives the same weights every time.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import random
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.judge import public
from benchmarks.judge.changed import changed, quoted
from benchmarks.judge.public import Pair
from benchmarks.judge.written import pairs as written
from moothall.research import support
from moothall.research.citations import fault, features, judge
from moothall.text.terms import terms

_DATA = Path(__file__).resolve().parent.parent / "data"
TABLE = _DATA / "judge.csv.gz"
WEIGHTS = Path(judge.__file__).with_name(judge.WEIGHTS)
# How much each source counts in all.
SHARES = {
    "wice": 6.0, "wice_partial": 0.25, "expertqa": 6.0, "begin": 2.0, "citations": 3.0,
    "written": 4.0, "quoted": 0.3, "reworded": 0.8, "changed": 1.5,
}  # fmt: skip
RISING = frozenset(
    [
        "covered_window",
        "covered_passage",
        "covered_sentence",
        "covered_exactly",
        "covered_clause",
        "pairs",
        "longest_run",
        "names_covered",
        "in_order",
        "matched",
        "matched_passage",
        "overlap",
        "bound_numbers",
        "bound_dates",
        "bound_names",
    ]
)
UNSIGNED = frozenset(("sentences",))
FOLDS = 4


def citations(split: str) -> list[Pair]:
    """The planted citations of `data/citations.jsonl`."""
    rows = map(json.loads, (_DATA / "citations.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        Pair("citations", r["id"], r["sentence"], r["passage"], float(r["right"]), r["kind"])
        for r in rows
        if r["split"] == split
    ]


def training(seed: int = 3) -> list[Pair]:
    """All pairs for training; no question of ExpertQA's rand_test is among them."""
    draw = random.Random(seed)
    shut = public.questions("rand_test")
    wice = public.wice("dev")
    experts = list(public.expertqa("rand_val", shut))
    experts += public.expertqa("domain_val", shut | public.questions("rand_val"))
    begin = list(public.begin())
    planted = citations("tune")
    first = {pair.group: pair for pair in reversed(wice) if pair.target == 1}
    right = [*first.values(), *(p for p in begin if p.target == 1)]
    right += [p for p in experts if p.kind == "Complete" and 6 < len(p.sentence.split()) < 45][:200]
    right += [p for p in planted if p.target == 1]
    passages = {p.passage: p.group for p in (*wice, *experts, *planted)}
    own = list(quoted((group, text) for text, group in passages.items()))
    draw.shuffle(own)
    made = list(changed(draw.sample(right, 500) + own[:300]))
    begin = draw.sample(begin, 700)
    return [
        *wice,
        *public.wice_partial(),
        *experts,
        *begin,
        *planted,
        *written(4),
        *own[:300],
        *made,
    ]


def write_features() -> None:
    """Write the features of the training pairs, without their texts."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["source", "group", "kind", "target", *features.NAMES])
    groups: dict[str, int] = {}
    for pair in training():
        values = features.evidence(pair.sentence, pair.passage).values
        group = groups.setdefault(pair.group, len(groups))
        numbers = [f"{value:.4f}".rstrip("0").rstrip(".") for value in values]
        table.writerow([pair.source, group, pair.kind, pair.target, *numbers])
    TABLE.write_bytes(gzip.compress(out.getvalue().encode(), mtime=0))
    print(f"{TABLE.name}: {out.getvalue().count(chr(10)) - 1} pairs, {TABLE.stat().st_size} bytes")


def area(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The area under the ROC curve."""
    wrong = sorted(wrong)
    above = sum((bisect_left(wrong, r) + bisect_right(wrong, r)) / 2 for r in right)
    return above / max(len(right) * len(wrong), 1)


def caught(right: Sequence[float], wrong: Sequence[float], lost: float = 0.1) -> float:
    """The part of wrong ones below the threshold that loses a part of the right ones."""
    threshold = sorted(right)[int(lost * len(right))]
    return sum(each < threshold for each in wrong) / max(len(wrong), 1)


def by_claim(pairs: Sequence[Pair], scores: Sequence[float]) -> tuple[list[float], list[float]]:
    """The best score of each claim of WiCE: supported ones, and the rest."""
    best: dict[str, float] = defaultdict(float)
    for pair, score in zip(pairs, scores, strict=True):
        best[pair.group] = max(best[pair.group], score)
    good = {pair.group for pair in pairs if pair.target == 1}
    return [s for g, s in best.items() if g in good], [s for g, s in best.items() if g not in good]


def write_weights(trees: int) -> None:
    """Train on the table, choose the thresholds on held-out parts of it, write the weights."""
    import numpy as np

    from benchmarks.judge.boosting import Settings, predict, train

    with gzip.open(TABLE, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    pairs = [Pair(r["source"], r["group"], "", "", float(r["target"]), r["kind"]) for r in rows]
    table = np.array([[float(row[name]) for name in features.NAMES] for row in rows])
    signs = [0 if name in UNSIGNED else 1 if name in RISING else -1 for name in features.NAMES]
    targets = np.array([float(pair.target == 1) for pair in pairs])
    counts = {s: sum(p.source == s for p in pairs) for s in SHARES}
    weights = np.array([SHARES[p.source] * 1000 / counts[p.source] for p in pairs])
    weights /= weights.mean()
    settings = Settings(trees=trees)
    groups = sorted({pair.group for pair in pairs}, key=int)
    random.Random(1).shuffle(groups)
    fold_of = {group: number % FOLDS for number, group in enumerate(groups)}
    folds = np.array([fold_of[pair.group] for pair in pairs])
    scores = np.zeros(len(pairs))
    for fold in range(FOLDS):
        rest = folds != fold
        start, made = train(table[rest], targets[rest], weights[rest], signs, settings)
        scores[~rest] = predict(start, made, table[~rest])
    report(pairs, scores.tolist())
    # Of the right ones that were held out, so many are marked, and so many lose their footnote.
    plain = [s for p, s in zip(pairs, scores, strict=True) if p.source in _PLAIN and p.target == 1]
    supported, partly = (float(np.quantile(plain, part)) for part in (_MARKED, _LOST))
    start, made = train(table, targets, weights, signs, settings)
    weights_json = {
        "start": round(start, 4),
        "supported": round(supported, 3), "partly": round(partly, 3), "trees": made,
    }  # fmt: skip
    WEIGHTS.write_text(json.dumps(weights_json, separators=(",", ":")) + "\n", encoding="ascii")
    print(f"{WEIGHTS.name}: {len(made)} trees, {WEIGHTS.stat().st_size} bytes, "
          f"supported from {supported:.3f}, partly from {partly:.3f}")  # fmt: skip


_PLAIN = frozenset(("written", "citations"))
_MARKED, _LOST = 0.2, 0.05


def report(pairs: Sequence[Pair], scores: Sequence[float]) -> None:
    """Print how well scores part right pairs from wrong ones, by source and kind."""
    rows = list(zip(pairs, scores, strict=True))
    claims = [(p, s) for p, s in rows if p.source == "wice"]
    print(f"wice: area {area(*by_claim(*zip(*claims, strict=True))):.3f}")
    for source in ("expertqa", "begin", "citations", "written", "changed"):
        beside = ("quoted", "reworded") if source == "changed" else (source,)
        right = [s for p, s in rows if p.target == 1 and p.source in beside]
        kinds = {p.kind for p, _ in rows if p.source == source and p.target < 1}
        for kind in ["", *sorted(kinds - {""})] if source != "begin" else [""]:
            bad = [(p, s) for p, s in rows if p.source == source and p.target < 1]
            wrong = [s for p, s in bad if p.kind == kind or not kind]
            counts = f"{len(right)} right, {len(wrong)} wrong"
            found = f"area {area(right, wrong):.3f}, {caught(right, wrong):.2f} caught at 0.1 lost"
            print(f"{source} {kind}: {counts}, {found}")


def test(split: str) -> None:
    """Judge pairs that were not trained on, beside the rule of version 0.1 and bare overlap."""
    wice = public.wice(split)
    experts = list(public.expertqa("rand_test")) if split == "test" else []
    forms = {
        "this judge": lambda p: support(p.sentence, p.passage).probability,
        "rule of 0.1": lambda p: float(fault(p.sentence, p.passage) is None),
        "bare overlap": lambda p: _overlap(p.sentence, p.passage),
    }
    for name, form in forms.items():
        right, wrong = by_claim(wice, [form(pair) for pair in wice])
        figures: dict[str, Any] = {
            "form": name, "wice_area": round(area(right, wrong), 3),
            "wice_claims": len(right) + len(wrong),
        }  # fmt: skip
        if experts:
            scores = [(p.kind, form(p)) for p in experts]
            complete = [s for kind, s in scores if kind == "Complete"]
            for kind in ("Missing", "Incomplete", "Partial"):
                of_kind = [s for k, s in scores if k == kind]
                figures[f"expertqa_{kind}"] = {
                    "complete": len(complete), "claims": len(of_kind),
                    "area": round(area(complete, of_kind), 3),
                    "caught_at_0.1_lost": round(caught(complete, of_kind), 3),
                }  # fmt: skip
        print(json.dumps(figures))
    if experts:
        labels: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for pair in experts:
            labels[pair.kind][support(pair.sentence, pair.passage).label] += 1
        print(json.dumps({kind: dict(counts) for kind, counts in labels.items()}))


def _overlap(sentence: str, passage: str) -> float:
    ours = set(terms(sentence))
    return len(ours & set(terms(passage))) / max(len(ours), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("features", "train", "test"))
    parser.add_argument("--trees", type=int, default=120)
    parser.add_argument("--split", choices=("dev", "test"), default="test", help="of WiCE")
    args = parser.parse_args()
    if args.what == "features":
        write_features()
    elif args.what == "train":
        write_weights(args.trees)
    else:
        test(args.split)


if __name__ == "__main__":
    main()
