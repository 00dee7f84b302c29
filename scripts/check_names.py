"""Check names: each says what a thing is, and the first word of a test's is its feature.

    check_names.py [-v]

A class, function, attribute, parameter or variable counts if its whole name is one of `WORDS` or of
`RELATIONS`; a noun in it makes it fine (`calls_made`), and so does a question (`is_taken`). No name
may be one of `WORDS`; `CEILINGS` says how many of `RELATIONS` a package still has, public ones and
locals of few lines among them: they only fall. No test begins with an article, a pronoun, a
preposition or a quantity. With -v each is printed with its place.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORDS = frozenset(
    "told said made found heard asked given taken left seen known held kept gone meant lost "
    "wanted sought begun shown named stated called over whole beside others elsewhere whose "
    "means due began ended written settled noted tried joined looked swallowed unheard reckoned "
    "brought borne laid thing things one ones it what who".split()
)
EXCEPTIONS = {
    "actions/approval/approval.py who": "public: `Waiting.who`",
    "actions/approval/later.py who": "public: `Later.who`",
    "actions/provenance/marks.py said": "recorded",
    "agents/conversation/conversation_state.py begun": "public, and recorded",
    "agents/conversation/conversation_state.py kept": "public, and recorded",
    "agents/conversation/conversation_state.py said": "public, and recorded",
    "agents/conversation/exchange.py said": "of `ConversationState`",
    "agents/conversation/termination.py Said": "public",
    "agents/conversation/termination.py what": "public: `Said(what)`",
    "agents/dualact/dual_act_state.py told": "recorded",
    "agents/durable/waits.py who": "public: `durable.ask(who=)`",
    "agents/dispatch.py given": "public: `Dispatch.given`",
    "agents/loop/recording.py joined": "recorded",
    "agents/replies/events.py left": "public: `BudgetLow.left`",
    "agents/replies/read_record.py over": "documented: `record.over`",
    "agents/replies/record.py beside": "documented: what `record.step` takes",
    "agents/replies/reply.py heard": "public: `Utterance.heard`",
    "budget/budget.py left": "public: `Budget.left`",
    "budget/budget.py over": "public: `Budget.over`",
    "budget/limits.py Left": "public: what `Budget.left` is",
    "budget/stored_budget.py over": "public: `StoredBudget.over`",
    "evals/graders.py called": "public: `called`",
    "journal/deleting.py left": "public: `Deleted.left`",
    "journal/entry.py began": "public, and a key of `moothall runs --json`",
    "journal/entry.py held": "public, and a key of `moothall runs --json`",
    "journal/wait_kinds.py who": "public, and recorded",
    "journal/journal.py kept": "public: `Journal.kept`",
    "models/wrappers/prices.py stated": "public: an argument of `Prices`",
    "memory/summarizing.py settled": "public: `SummarizingMemory.settled`",
    "research/findings.py told": "a key of recorded progress",
    "serving/company/company.py ended": "public: `Company.ended`",
    "serving/company/schedule.py due": "public: `Schedule.due`",
    "society/blocks/feed.py shown": "public: `FeedBlockParams.shown`, `FeedBlock.shown`",
    "society/blocks/row_block.py whole": "public: `RowBlock.whole`",
    "society/columns/column.py seen": "public: `Column.seen`",
    "society/columns/encounters.py heard": "public: `Rows.heard`",
    "society/columns/rows.py seen": "public: `Rows.seen`",
    "society/checkpoint.py ended": "a key of checkpoints",
    "society/city/places.py who": "public: an argument of `needs`",
    "society/experiments/fitting.py means": "public: `Fit.means`",
    "society/experiments/sweep.py ended": "public: of the progress of an experiment",
    "society/kernel/perception.py others": "public: `View.others`",
    "society/kernel/perception.py seen": "public: `Perception.seen`",
    "society/kernel/wants.py what": "public, and recorded: `Pay.what`",
    "society/population/life.py others": "of `View`",
    "society/services/economy.py due": "public: `Government.due`",
    "society/services/feed.py shown": "public: `Feed.shown`",
    "society/services/firm.py asked": "public, and a key of checkpoints: `Firm.asked`",
    "society/society.py ended": "of `SocietyState`",
}
"""What programs, journals and pages read by such a name, with the reason."""
RELATIONS = frozenset(
    "about own why whom which mine its how aside apart away ahead again beyond behind several such "
    "instead otherwise of around both every".split()
)
CEILINGS = {
    "actions": 11,
    "agents": 32,
    "budget": 2,
    "cli": 2,
    "evals": 1,
    "foundation": 2,
    "journal": 3,
    "models": 1,
    "research": 4,
    "serving": 5,
    "society": 27,
    "spaces": 1,
    "studio": 5,
}
"""How many names of `RELATIONS` a package has at most."""
SHARED = 8
"""How many classes share their name with another one."""
OPENERS = frozenset(
    "a an the it its they their he she you your we our one ones what who whose whoever whatever "
    "which that this these those there each every all both some any no none nobody nothing in "
    "on at of to for from with without within by as after before between beside below above "
    "under over during until while when where if how why two three few many several more most much "
    "only own another other such so very too either neither everyone everybody everything "
    "somebody something anything once half".split()
)
FEATURES = ("before_action", "after_action", "after_add", "before_remove", "own_template")
"""Features whose name begins with such a word."""


def names_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield each name that a module gives, with its line."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def in_source(root: Path) -> tuple[list[str], list[str], list[str]]:
    """Return where names of `WORDS` and of `RELATIONS` stand, and classes that share a name."""
    places: list[str] = []
    relations: list[str] = []
    classes = defaultdict[str, list[str]](list)
    for path in sorted(root.rglob("*.py")):
        nodes, file = [*ast.walk(ast.parse(path.read_text()))], path.relative_to(root).as_posix()
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].append(f"{file}:{node.lineno} {node.name}")
        for name, line in names_in(nodes):
            word = name.strip("_").lower()
            if word in WORDS and f"{file} {name}" not in EXCEPTIONS:
                places.append(f"{file}:{line} {name}")
            elif word in RELATIONS:
                relations.append(f"{file}:{line} {name}")
    shared = [each for twins in classes.values() if len(twins) > 1 for each in twins]
    return places, relations, shared


def in_tests(root: Path) -> list[str]:
    """Return where tests begin with one of `OPENERS`."""
    return [
        f"{path.relative_to(root).as_posix()}:{node.lineno} {node.name}"
        for path in sorted(root.rglob("test_*.py"))
        for at_top in ast.parse(path.read_text()).body
        for node in (at_top.body if isinstance(at_top, ast.ClassDef) else [at_top])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.split("_")[1] in OPENERS
        and not node.name.removeprefix("test_").startswith(FEATURES)
    ]


def faults(what: str, places: list[str], ceilings: dict[str, int]) -> Iterator[str]:
    """Yield what exceeds its ceiling."""
    counts = Counter(each.partition("/")[0] for each in places)
    for name in sorted({*counts, *ceilings}):
        count, most = counts[name], ceilings.get(name, 0)
        if count > most:
            yield f"{name}: {count} {what}, and at most {most} may be: -v lists them"


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    places, relations, shared = in_source(ROOT / "src" / "moothall")
    tests = in_tests(ROOT / "tests")
    if "-v" in sys.argv:
        print(*places, *relations, *shared, sep="\n")
    wrong = [*faults("names that do not say what it is", places, {})]
    wrong += faults("names that are a relation", relations, CEILINGS)
    if len(shared) > SHARED:
        wrong.append(f"{len(shared)} classes share a name, and at most {SHARED} may")
    wrong += [f"tests/{each}: its first word must be its feature" for each in tests]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
