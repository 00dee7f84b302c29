"""Graders at work: functions, evaluators of Pydantic Evals, and scorers of Inspect."""

from __future__ import annotations

import inspect
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from moothall import ConfigError, Reply, RunHeld, StateError
from moothall.build import WorkSpan, as_json, call_user, error_text, json_text
from moothall.evals.cases import Case
from moothall.evals.graders import Grade, GradedCell
from moothall.evals.results import CellResult
from moothall.journal import Journal, RunView

_SCORES: Final = {"C": True, "I": False, "N": False, "P": 0.5}
"""What Inspect's letters mean: correct, incorrect, no answer, in part."""
_MAX_NOTE_CHARS: Final = 2000
_MAX_NAME_CHARS: Final = 200


def check_grader(grader: Any) -> None:
    """Raise ConfigError for what is no grader."""
    if not _is_evaluator(grader) and (not callable(grader) or isinstance(grader, type)):
        raise ConfigError(
            f"a grader must be a function of a reply and its case, got {grader!r:.80}"
        )


def with_names(graders: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield graders with their names: the second of a name has a number behind it, `judge_2`."""
    counts: Counter[str] = Counter()
    for each in graders:
        name = _name_of(each)
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name}_{counts[name]}", each


def check_grader_name(argument: str, name: str, graders: Iterable[Any]) -> None:
    """Raise ConfigError for a name of which no grader can give a grade."""
    named_graders = dict(with_names(graders))
    grader, _, _ = name.partition("=")
    if grader in named_graders or any(map(_is_evaluator, named_graders.values())):
        return  # only an evaluator itself says what it names its grades
    scorer = named_graders.get(grader.rpartition(".")[0])
    if scorer is None or _scorer_info(scorer) is None:
        names = ", ".join(named_graders) or "none"
        raise ConfigError(f"{argument} must be one of {names}, got {name!r:.80}")


def _name_of(grader: Any) -> str:
    if _is_evaluator(grader):
        return str(grader.get_default_evaluation_name())
    if (scorer := _scorer_info(grader)) is not None:
        return str(scorer.name).rpartition("/")[2]
    return str(getattr(grader, "__name__", type(grader).__name__))


async def grade_cell(
    cell: CellResult, graders: Iterable[Any], reply: Reply[Any], graded: GradedCell
) -> None:
    """Grade a cell by each grader, in a span; what goes wrong is one of its errors."""
    stop_count = sum(bool(each.reason) and not each.path for each in graded.view.entries) - 1
    for name, grader in with_names(graders):
        try:
            span = WorkSpan("grading", name, cell.run, stop_count)
            grades = await span.hold(partial(_grades_of, name, grader, reply, graded))
        except Exception as error:
            cell.errors[name] = error_text(error)
            continue
        cell.grades |= {name: grade.value for name, grade in grades.items()}
        cell.reasons |= {name: grade.why for name, grade in grades.items() if grade.why}


async def _grades_of(
    name: str, grader: Any, reply: Reply[Any], cell: GradedCell
) -> dict[str, Grade]:
    """Return the grades that a grader gives, by their names; ConfigError if one is none."""
    if _is_evaluator(grader):
        value = await grader.evaluate_async(_evaluator_context(reply, cell))
    elif _scorer_info(grader) is not None:
        score = await grader(*_scorer_arguments(reply, cell))
        if score is None:
            raise StateError(f"{name} has given no score")
        value, reason = score.value, score.explanation or score.reason or ""
        if not isinstance(value, Mapping):
            return {name: _grade(_SCORES.get(value, value), reason)}
        value = {f"{name}.{key}": _SCORES.get(each, each) for key, each in value.items()}
    else:
        arguments = (reply, cell.case, cell) if _takes_cell(grader) else (reply, cell.case)
        return {name: _grade(await call_user(grader, *arguments, in_thread=None))}
    grades = value if isinstance(value, Mapping) else {name: value}
    return {str(key): _grade(each) for key, each in grades.items()}


def note_grades(journal: Journal, view: RunView, cell: CellResult) -> None:
    """Note grades at the run that they are of, where people look; not those that stand there."""
    past_notes = {(each.by, each.good, each.note) for each in view.feedback}
    for name, value in cell.grades.items():
        good, reason = value if isinstance(value, bool) else None, cell.reasons.get(name, "")
        words = reason if good is not None else f"{value}: {reason}" if reason else str(value)
        by, note = f"grader {name}"[:_MAX_NAME_CHARS], words[:_MAX_NOTE_CHARS]
        if (by, good, note) not in past_notes and (good is not None or words):
            with suppress(RunHeld):  # by who grades it, too
                journal.feedback(cell.run, good=good, note=note, by=by)


def _grade(value: Any, reason: str = "") -> Grade:
    if isinstance(value, Grade):
        return value
    if hasattr(value, "value") and hasattr(value, "reason"):  # of Pydantic Evals, with its reason
        return Grade(value.value, value.reason or "")
    if isinstance(value, float) and math.isnan(value) and reason:
        raise StateError(f"it could not be scored: {reason}")
    return Grade(value, reason)


def _takes_cell(grader: Any) -> bool:
    try:
        inspect.signature(grader).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # of a builtin nobody knows the parameters
        return False
    return True


# -- Pydantic Evals --------------------------------------------------------------------------------


def _is_evaluator(grader: Any) -> bool:
    """Return whether it is an evaluator of Pydantic Evals, which is loaded then."""
    kind = getattr(sys.modules.get("pydantic_evals.evaluators"), "Evaluator", None)
    return kind is not None and isinstance(grader, kind)


def _evaluator_context(reply: Reply[Any], cell: GradedCell) -> Any:
    """Return what an evaluator looks at."""
    from pydantic_evals.evaluators import EvaluatorContext

    case, outline, usage = cell.case, cell.view.outline, reply.usage
    return EvaluatorContext(
        name=case.name,
        inputs=case.inputs,
        metadata={**case.metadata} or None,
        expected_output=case.expected,
        output=reply.value,
        duration=outline.changed - outline.began,
        _span_tree=_span_tree(cell.view),
        attributes={},
        metrics={"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    )


def _span_tree(view: RunView) -> Any:
    """Return the answers and calls of a run as its spans, a microsecond after each other."""
    from pydantic_evals.otel import SpanNode, SpanTree

    spans: list[tuple[str, dict[str, Any], Any]] = []
    for answers in view.answers.values():
        for answer in answers:
            names = {"gen_ai.operation.name": "chat", "gen_ai.request.model": answer.model}
            spans.append((f"chat {answer.model}", names, "unset"))
    for call in view.calls:
        if call.was_executed:
            names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.action}
            names["gen_ai.tool.call.arguments"] = json_text(as_json(call.asked_args))
            has_failed = (call.result or {}).get("error") is not None
            spans.append((f"execute_tool {call.action}", names, "error" if has_failed else "unset"))
    nodes = []
    for number, (name, attributes, status) in enumerate(spans, 1):
        at = datetime.fromtimestamp(view.outline.began, UTC) + timedelta(microseconds=number)
        node = SpanNode(
            name=name,
            trace_id=1,
            span_id=number,
            parent_span_id=None,
            start_timestamp=at,
            end_timestamp=at,
            attributes=attributes,
            status=status,
        )
        nodes.append(node)
    tree = SpanTree()
    tree.add_spans(nodes)
    return tree


# -- Inspect ---------------------------------------------------------------------------------------


def _scorer_info(grader: Any) -> Any:
    """Return what Inspect has registered of a scorer; None of anything else."""
    info = getattr(grader, "__registry_info__", None)
    return info if getattr(info, "type", "") == "scorer" else None


def _scorer_arguments(reply: Reply[Any], cell: GradedCell) -> tuple[Any, Any]:
    """Return what a scorer looks at: the state of its task, and the target."""
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageTool,
        ChatMessageUser,
        ModelName,
        ModelOutput,
    )
    from inspect_ai.scorer import Target
    from inspect_ai.solver import TaskState
    from inspect_ai.tool import ToolCall

    text, model = _text_of(cell.case), f"moothall/{cell.view.outline.agent}"
    messages: list[Any] = [ChatMessageUser(content=text)]
    for call in cell.view.calls:
        if call.was_executed and not call.path:
            names = {"id": call.key, "function": call.action, "arguments": call.asked_args}
            messages.append(ChatMessageAssistant(content="", tool_calls=[ToolCall(**names)]))
            result = json_text(as_json((call.result or {}).get("result")))
            names = {"tool_call_id": call.key, "function": call.action}
            messages.append(ChatMessageTool(content=result, **names))
    output = ModelOutput.from_content(model, reply.text)
    expected = cell.case.expected
    targets = [*map(json_text, expected)] if isinstance(expected, list) else json_text(expected)
    target = Target("" if expected is None else targets)
    state = TaskState(
        ModelName(model),
        cell.case.name,
        cell.seed,
        text,
        [*messages, output.message],
        target,
        cell.case.metadata.get("choices"),
        output,
        completed=True,
        metadata={**cell.case.metadata},
    )
    return state, target


def _text_of(case: Case) -> str:
    """Return what a case asks as a text: of chat messages, the last one."""
    request, _ = case.request
    return json_text(request)
