"""H's judgement by an answer of its own: what it is asked, and what code makes of its answers.

A small model copies a claim that it is shown into whatever it writes before its verdict. So H
answers the task from R's results before it sees what R says. Then code compares the values of the
two answers; where these do not decide, H is asked whether both are the same answer, without
knowing which is its own. Code turns that into a decision. The examples come first, where a cache
keeps them; their names can pass for nobody's data.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from moothall.actions.provenance.relative_times import duration_of
from moothall.actions.signature.schema import object_schema
from moothall.agents.decision import Conclusion, DecisionAction, HumanDecision
from moothall.agents.dualact.briefing import evidence_text, statement_of, text_of
from moothall.agents.dualact.conclusions import MAX_SHORT_CHARS
from moothall.agents.replies.reply_request import AnswerSchema
from moothall.foundation.jsonvalue import UnreadableText
from moothall.foundation.text import copied_example, cut, marked, one_line
from moothall.foundation.text.values import fold, in_figures, keys_in, quantities_in

_SHORT: Final = {"type": "string", "maxLength": MAX_SHORT_CHARS}
UNKNOWN: Final = "The results do not say."
"""What H answers where the results do not."""

_SAYS_YES_OR_NO: Final = re.compile(r"(?:yes|no|not|ja|nein|oui|non|sí|si)\b")
_VAGUE: Final = frozenset(("", "date", "time"))

OWN_SCHEMA: Final = object_schema(
    results_say={**_SHORT, "description": "what the results say about the task"},
    answer={**_SHORT, "description": "the answer to the task, in one sentence"},
)
"""What H's model writes before it sees R's answer."""
COMPARED_SCHEMA: Final = object_schema(
    A_says={**_SHORT, "description": "what A answers to the question, in a few words"},
    B_says={**_SHORT, "description": "what B answers to the question, in a few words"},
    same={"enum": ["no", "yes"], "description": "whether A and B are the same answer"},
)
"""What H's model writes about its own answer and R's, without knowing which is whose."""

_OWN_PROMPT = f"""\
Answer a task from results alone: from nothing that you know, and nothing that the task says of \
itself. Look at each result: its values, its units, what it is about. If the task asks to change \
something, say whether the results show that it was changed. If they do not say it, answer: \
{UNKNOWN}

Examples:
Task: Is pump Zorp running?
Results: state {{"pump": "Zorp"}} gave: {{"state": "off"}}
{{"results_say": "the state of Zorp is off", "answer": "No, pump Zorp is not running."}}
Task: How many open hatches are there?
Results: hatches {{}} gave: [{{"id": 3, "open": true}}, {{"id": 4, "open": false}}, \
{{"id": 9, "open": true}}]
{{"results_say": "3 and 9 are open, 4 is not", "answer": "There are 2 open hatches, 3 and 9."}}
Task: Set the limit in plan.zz to 9.
Results: replace {{"in": "plan.zz", "by": "9"}} gave: nothing was found to replace
{{"results_say": "nothing was replaced", "answer": "No, the limit was not set."}}
Task: Who leads the Blue Guild?
Results: read {{"page": "guild"}} failed: there is no such page
{{"results_say": "the page could not be read", "answer": "{UNKNOWN}"}}

Now this one."""
_COMPARISON_PROMPT = """\
Are A and B the same answer to a question or a task? Same: whoever hears B knows what A says, in \
other words, in another form, shorter, or with more beside it. Not the same: yes and no, done and \
not done, known and not known, another name, number or item.

Examples:
Question: Is pump Zorp running?
A: No, Zorp is off. B: It was stopped at nine.
{"A_says": "Zorp is off", "B_says": "Zorp was stopped", "same": "yes"}
Question: Set the limit in plan.zz to 9.
A: No, the limit in plan.zz was not set. B: Refused: plan.zz is locked.
{"A_says": "not set", "B_says": "refused", "same": "yes"}
Question: Set the limit in plan.zz to 9.
A: The limit is 9 now. B: No, the limit was not set.
{"A_says": "set to 9", "B_says": "not set", "same": "no"}
Question: Which guilds are there?
A: Blue and Tin. B: The guilds are Blue, Grey and Tin.
{"A_says": "Blue, Tin", "B_says": "Blue, Grey, Tin", "same": "no"}
Question: Who leads the Blue Guild?
A: I could not find out. B: The results do not say.
{"A_says": "not known", "B_says": "not known", "same": "yes"}
Question: Who leads the Blue Guild?
A: Quill Zorp. B: The results do not say.
{"A_says": "Quill Zorp", "B_says": "not known", "same": "no"}

Now this one."""


async def compare_conclusions(
    ask: Callable[..., Awaitable[dict[str, str]]],
    task: Any,
    conclusion: Conclusion | None,
    messages: Sequence[str],
    earlier: Sequence[HumanDecision],
) -> HumanDecision:
    """Return H's decision; `ask` puts a question to it, by a schema and a reader, as a part."""
    if conclusion is None:
        return HumanDecision(DecisionAction.CONTINUE, "", "R begins with the task as it is")
    if conclusion.error is not None:
        reason = f"You did not finish: {conclusion.error}. Go on, and conclude."
        return _send_back(reason, conclusion.error, earlier)
    text = text_of(task)
    own_answer = await ask(_own_question(text, conclusion, messages), OWN_SCHEMA, _read_own, ".own")
    claim = statement_of(conclusion)
    is_same = _same_values(text, own_answer["answer"], claim)
    if is_same is None:
        comparison = await ask(
            _compare_question(text, own_answer["answer"], claim), COMPARED_SCHEMA, _read_comparison
        )
        is_same = _same_values(text, comparison["A_says"], comparison["B_says"])
        if is_same is None:
            is_same = comparison["same"] == "yes"
    return _decide(own_answer, claim, is_same, earlier)


def _own_question(task: str, conclusion: Conclusion, messages: Sequence[str]) -> str:
    """Return the question for an answer of H's own."""
    texts = "".join(f"\nMessage from the user:\n{marked(text)}" for text in messages)
    results = marked(evidence_text(conclusion)) if conclusion.evidence else "nothing was called"
    return f"{_OWN_PROMPT}\nTask:\n{marked(task)}{texts}\nResults:\n{results}\nAnswer with JSON."


def _compare_question(task: str, *answers: str) -> str:
    """Return the question whether two answers are the same; their order does not say whose."""
    first, second = sorted(answers)
    both_answers = f"A:\n{marked(first)}\nB:\n{marked(second)}"
    return f"{_COMPARISON_PROMPT}\nQuestion:\n{marked(task)}\n{both_answers}\nAnswer with JSON."


def _reader_of(schema: dict[str, Any], prompt: str) -> Callable[[str], dict[str, str]]:
    def read(text: str) -> dict[str, str]:
        answer: dict[str, str] = AnswerSchema(schema).parse(text)
        if not all(each.strip() for each in answer.values()):
            raise UnreadableText("has an empty part")
        if copied := copied_example(text, prompt):
            raise UnreadableText(f"repeats an example, which is of others: {copied}")
        return answer

    return read


_read_own: Final = _reader_of(OWN_SCHEMA, _OWN_PROMPT)
_read_comparison: Final = _reader_of(COMPARED_SCHEMA, _COMPARISON_PROMPT)


def _decide(
    own_answer: dict[str, str], claim: str, is_same: bool, earlier: Sequence[HumanDecision]
) -> HumanDecision:
    """Return the decision that follows from H's answers."""
    if is_same:
        return HumanDecision(
            DecisionAction.TERMINATE, "", cut(own_answer["results_say"], MAX_SHORT_CHARS)
        )
    claim = one_line(claim, MAX_SHORT_CHARS).rstrip(".")
    if own_answer["answer"].strip() == UNKNOWN:
        finding = f"Your answer says: {claim}. The results of your calls do not show this."
        todo = "Call what shows it, or say that you do not know."
    else:
        finding = f"Your answer says: {claim}. By the results: {own_answer['answer'].rstrip('.')}."
        todo = "Look at the results again, do what is missing, and answer by them."
    return _send_back(f"{finding} {todo}", own_answer["answer"], earlier)


def _same_values(task: str, answer: str, claim: str) -> bool | None:
    """Return whether two answers have the same values; None if the values do not decide.

    A value that the task names says nothing of the answer. Beside yes or no, values are details.
    """
    own_text, claim_text = (in_figures(fold(each)).rstrip(".") for each in (answer, claim))
    lists = [{each.strip() for each in text.split(",")} for text in (own_text, claim_text)]
    if own_text == claim_text or (len(lists[0]) > 1 and lists[0] == lists[1]):
        return True
    if min(map(len, lists)) > 1 and (lists[0] < lists[1] or lists[1] < lists[0]):
        return False
    lengths = {duration_of(own_text), duration_of(claim_text)}
    if None not in lengths:
        return len(lengths) == 1
    if any(_SAYS_YES_OR_NO.match(each) for each in (own_text, claim_text)):
        return None
    in_task = _values(in_figures(fold(task)))
    own_values, claimed_values = (
        [each for each in _values(text) if each not in in_task] for text in (own_text, claim_text)
    )
    if len(own_values) != 1 or len(claimed_values) != 1:
        return None
    (kind, value), (other_kind, other_value) = *own_values, *claimed_values
    if value & other_value and (kind == other_kind or "" in (kind, other_kind)):
        return True
    # 16 may be 16:00, and 2.5 may be kilograms.
    return None if kind != other_kind and {kind, other_kind} & _VAGUE else False


def _values(text: str) -> list[tuple[str, frozenset[Any]]]:
    """Return the values of a folded text: of each its kind, and its readings in the base unit."""
    values: list[tuple[str, frozenset[Any]]] = [
        (each.relation + each.dimension, frozenset(each.values)) for each in quantities_in(text)
    ]
    moments = [key for key in keys_in(text) if key[0] in ("date", "time")]
    kinds = {
        kind: frozenset(key[1:] for key in moments if key[0] == kind) for kind in _VAGUE if kind
    }
    values += [each for each in kinds.items() if each[1]]
    return list(dict.fromkeys(values))


def _send_back(instruction: str, reason: str, earlier: Sequence[HumanDecision]) -> HumanDecision:
    """Return CONTINUE with an instruction; REDIRECT if R was told the same before."""
    is_repeated = any(each.new_instruction == instruction for each in earlier)
    action = DecisionAction.REDIRECT if is_repeated else DecisionAction.CONTINUE
    return HumanDecision(action, instruction, reason)
