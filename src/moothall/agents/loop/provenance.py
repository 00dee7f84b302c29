"""The origins of what a run of the loop reads and of the values of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from moothall.actions import Action
from moothall.actions.provenance import Origin, Origins, merged_sources, sources_of
from moothall.actions.provenance.marks import Marks, any_has_marks, marks_of
from moothall.actions.provenance.origin_question import question_on
from moothall.agents.loop.answer import ToolCall
from moothall.agents.loop.call_result import has_blocks
from moothall.agents.replies.reply_request import ReplyRequest
from moothall.agents.replies.thread import Thread
from moothall.foundation.jsonvalue import json_line
from moothall.foundation.text import cut
from moothall.memory.refused import has_refusals
from moothall.memory.reply_memory import attachments_in
from moothall.models.blocks import file_text, name_of

if TYPE_CHECKING:
    from moothall.actions.provenance.texts import Texts, TracedParts

_CONTAINERS: Final = (list, tuple, dict)
_MAX_SHOWN: Final = 3
_SOURCE_CHARS: Final = 200
_MAX_OWN: Final = 1000
_OWN_CHARS: Final = 100
_NON_SCHEMA_KEYS: Final = frozenset(("const", "default", "enum", "examples", "properties"))


def note_messages(
    thread: Thread,
    request: ReplyRequest,
    messages: Sequence[dict[str, Any]],
    find: Callable[[str], Action | None],
    new: Sequence[dict[str, Any]] | None = None,
    descriptions: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Take in the messages that a model is shown, and where they come from, if any is from outside.

    So it does with what others say of their actions, which a model reads as well: `descriptions`.
    If only some of the messages are `new`, the others were looked at before.

    What stands in a memory without a mark, such as a message that the program put there, counts as
    from outside if the action that returned it does.
    """
    thread.last_checked = messages[-1] if messages else None
    if from_start := new is None:
        new, thread.has_blocks = messages, False
    for each in new:
        if type(each.get("content")) is list:
            if has_blocks(each):
                thread.has_blocks = True
            elif each.get("role") == "user" and any(attachments_in(each["content"])):
                thread.has_attachments = True
    texts = thread.texts_by_origin
    if not thread.is_marked and any_has_marks(new):
        thread.is_marked = True
    if thread.is_marked and not thread.has_refusals:
        thread.has_refusals = has_refusals(new)
    if texts is None:
        # What nobody has looked at yet may be without marks.
        from_outside = request.outside or descriptions or thread.has_attachments
        from_outside = from_outside or (thread.is_marked and any(map(sources_of, new)))
        if not from_outside and (
            not from_start
            or not any(_may_be_outside(each, find) for each in new if each.get("role") == "tool")
        ):
            return
        new = messages
        texts = thread.begin_texts(request.on_behalf)
        texts.note(request.outside)
    elif not from_start and messages[0].get("role") == "system":
        mark_message(texts, messages[0], find)
    if descriptions and descriptions is not texts.descriptions:
        texts.descriptions = descriptions
        for source, text in descriptions:
            texts.add_outside(text, [source])
    args: dict[Any, Any] = {}
    for message in new:
        marks = mark_message(texts, message, find)
        for call in message.get("tool_calls") or ():
            args[call.get("id")] = call.get("args")
        if marks.wrote:
            call_args = args.get(message.get("tool_call_id"))
            _note_given(
                texts, call_args if isinstance(call_args, dict) else {}, marks.wrote, message, find
            )


def _note_given(
    texts: Texts,
    args: dict[str, Any],
    names: Sequence[str],
    message: dict[str, Any],
    find: Callable[[str], Action | None],
) -> None:
    """Note what an action was given from outside, as the mark of its result says."""
    foreign = {name: args[name] for name in names if name in args}
    action = find(str(message.get("name", "")))
    texts.note_worked_on(foreign, action is not None and _may_change(action))
    texts.note_given(foreign)


def _may_change(action: Action) -> bool:
    """Whether an action of the program may change what its other actions read."""
    return not action.outside and (not action.idempotent or bool(action.guard))


def _may_be_outside(message: dict[str, Any], find: Callable[[str], Action | None]) -> bool:
    """Whether a result may be from outside: its action is, or nobody knows the action."""
    if marks_of(message).fault:
        return False
    action = find(str(message.get("name", "")))
    return action is None or action.outside


def mark_message(
    texts: Texts, message: dict[str, Any], find: Callable[[str], Action | None]
) -> Marks:
    """Take in one message; return its marks."""
    role, content = message.get("role"), message.get("content")
    marks = marks_of(message)
    sources = [*marks.sources]
    if role == "assistant":
        texts.note(sources)
    elif sources:
        texts.add_outside(content, sources)
    elif marks.fault:
        pass  # it repeats what the model wrote
    elif role == "tool":
        name = str(message.get("name", ""))
        if _may_be_outside(message, find):
            texts.add_outside(content, [name or "an action without a name"])
        else:
            texts.add(content, "program", name, is_result=True)
    elif role == "system":
        texts.add(content, "program", "prompt")
    else:
        texts.add(content, "user")
        if content.__class__ is list:
            for block in attachments_in(content):
                _add_attachment(texts, block)
    for statement in marks.said:
        texts.add(statement, "user")
    if role == "tool" and marks.own:
        texts.add_whole_values(
            [each for each in marks.own if _is_plain(each)], str(message.get("name", ""))
        )
    texts.permitted_values.update(filter(_is_text, marks.always))
    return marks


def _add_attachment(texts: Texts, block: dict[str, Any]) -> None:
    """Take in what a user attached: nobody can read it as the user's words."""
    sources = [name_of(block)]
    if (text := file_text(block)) is None:
        texts.note(sources)
    else:
        texts.add_outside(text, sources)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _OWN_CHARS and "\n" not in value
    return isinstance(value, int | float) and not isinstance(value, bool)


def own_values(value: Any, option: bool | Sequence[str]) -> list[Any]:
    """Return the values of a result's fields, or with True all, that are the program's."""
    values: dict[tuple[type, Any], Any] = {}
    remaining: list[tuple[Any, bool]] = [(value, option is True)]
    names = () if isinstance(option, bool) else option
    while remaining and len(values) < _MAX_OWN:
        value, is_own = remaining.pop()
        if isinstance(value, dict):
            remaining += [(each, is_own or name in names) for name, each in value.items()]
        elif isinstance(value, list):
            remaining += [(each, is_own) for each in value]
        elif is_own and _is_plain(value):
            values[type(value), value] = value
    return [*values.values()]


def trace(call: ToolCall, texts: Texts) -> None:
    """Note where the values of a call come from, and which guarded ones are from outside."""
    action = call.action
    assert action is not None
    guarded, addressed = action.guarded, action.addressed
    by_parameter: Origins = {}
    from_outside: list[tuple[str, str]] = []
    call.derived = False
    if not (call.has_started or call.resumed):  # else its action has been given these
        call.foreign = {}
    for name, value in call.args.items():
        is_guarded = guarded is None or name in guarded
        traced = texts.trace(value)
        if any(origin.kind == "outside" for _, origin in traced):
            traced = texts.trace(value, *choices_of(action, name))
        origins: dict[Origin, None] = {}
        for part, origin in traced:
            if origin.kind == "outside":
                call.derived = True
                if is_guarded:
                    from_outside.append((name, part))
                    if len(from_outside) <= _MAX_SHOWN:
                        origin = texts.locate(part)
            origins[origin] = None
        if not is_guarded and (addressed is None or name in addressed):
            addresses = _addresses(texts, value, action, name)
            from_outside += [(name, part) for part, _ in addresses]
            origins.update(dict.fromkeys(origin for _, origin in addresses[:_MAX_SHOWN]))
        by_parameter[name] = [*origins]
    call.origins, call.from_outside = by_parameter, tuple(from_outside)
    if call.derived:
        note_foreign(call)


def note_foreign(call: ToolCall) -> None:
    """Note which arguments of a call are partly from outside, by their origins."""
    assert call.action is not None
    guarded, origins = call.action.guarded, call.origins.items()
    outside = [name for name, each in origins if any(o.kind == "outside" for o in each)]
    # A guarded value is executed only once a person has permitted it: then it is known.
    guarded_names = outside if guarded is None else guarded
    call.foreign = {name: call.args[name] for name in outside if name not in guarded_names}


def note_execution(call: ToolCall, texts: Texts | None) -> None:
    """Note the values from outside of a call that is executed now: a result may give them back."""
    action = call.action
    assert action is not None
    if texts is not None and not (action.outside and action.idempotent):  # else it reads
        texts.note_worked_on(call.foreign, _may_change(action))
        texts.note_given(call.foreign)


def _addresses(texts: Texts, value: Any, action: Action, name: str) -> TracedParts:
    """Return the addresses within a value that are from outside."""
    from moothall.actions.provenance.addresses import MAX_ADDRESSES, addresses_in
    from moothall.actions.provenance.read_texts import UNTRACED
    from moothall.actions.provenance.texts import is_same

    choices, _ = choices_of(action, name)
    traced: TracedParts = []
    for place, each in enumerate(addresses_in(value)):
        if any(is_same(part, each.text) or is_same(value, part) for part in choices):
            continue
        origin = texts.origin_of_address(each)
        if place == MAX_ADDRESSES:
            traced.append((f"more than {MAX_ADDRESSES} addresses", UNTRACED))
        elif origin.kind == "outside":
            traced.append(
                (each.text, texts.locate(each.text) if len(traced) < _MAX_SHOWN else origin)
            )
    return traced


def choices_of(action: Action, name: str) -> tuple[list[Any], set[str]]:
    """Return the values that a parameter's schema names (`enum`, `const`, `default`), and fields.

    What else stands there (a bound, a description) is no value that the program chose. If others
    wrote the schema, only the default counts: leaving the parameter out does the same.
    """
    parameters = action.parameters
    schema = parameters.get("properties", {}).get(name)
    by_others = action.origin.described_by or (action.outside and action.origin.server)
    choices: list[Any] = []
    if by_others and isinstance(schema, dict) and "default" in schema:
        choices.append(schema["default"])
    fields: set[str] = set()
    remaining: list[Any] = [schema]
    visited: set[str] = set()
    while remaining:
        each = remaining.pop()
        if isinstance(each, list):
            remaining += each
        elif isinstance(each, dict):
            if not by_others:
                choices += [each[key] for key in ("const", "default") if key in each]
                choices += each["enum"] if isinstance(each.get("enum"), list) else []
            ref = str(each.get("$ref", ""))
            if ref.startswith("#/$defs/") and ref not in visited:
                visited.add(ref)
                remaining.append(parameters.get("$defs", {}).get(ref.removeprefix("#/$defs/")))
            properties = each.get("properties")
            if isinstance(properties, dict):
                fields.update(properties)
                remaining += properties.values()
            remaining += [value for key, value in each.items() if key not in _NON_SCHEMA_KEYS]
    choices += [part for each in choices if isinstance(each, list) for part in each]
    return choices, fields


def questions(call: ToolCall, texts: Texts, request: ReplyRequest) -> list[tuple[str, str]]:
    """Return what a person is asked of a call: each value's key, and the question."""
    described_by = "" if call.action is None else call.action.origin.described_by
    if described_by and texts.sources == [described_by]:
        # All that was read from outside is what the tool's own server says of its tools, and the
        # server gets what the user said in any case.
        return []
    from moothall.foundation.text.values import fold

    result: list[tuple[str, str]] = []
    guarded = () if call.action is None else call.action.guarded
    for parameter, part in dict.fromkeys(call.from_outside):
        key = f"{call.name}.{parameter}={fold(part)}"
        if key not in texts.permitted_values and key not in request.allowed:
            question = ""
            if len(result) < _MAX_SHOWN:
                within = guarded is not None and parameter not in guarded
                question = question_on(parameter, part, texts.locate(part), texts.sources, within)
            result.append((key, question))
    return result


def questions_in_words(asked_values: list[tuple[str, str]]) -> str:
    """Return what is asked of the values of a call as one text."""
    text = "; ".join(each for _, each in asked_values[:_MAX_SHOWN])
    left_out = len(asked_values) - _MAX_SHOWN
    return f"{text}; and {left_out} other values" if left_out > 0 else text


def marks_of_result(call: ToolCall, thread: Thread, request: ReplyRequest) -> Marks | None:
    """Return the marks of a call's result."""
    result = call.result
    assert result is not None
    sources, texts = result.sources, thread.texts_by_origin
    if not (sources or call.statements or call.is_stated) and texts is None:
        return None  # the most frequent case
    is_outside = call.action is not None and call.action.outside
    own_parts: list[Any] = []
    if sources:
        if call.action is not None and (call.has_started or call.resumed) and call.action.own:
            own_parts = own_values(result.value, call.action.own)
        if texts is None:  # the next prompt fills it
            thread.last_checked = None
            thread.begin_texts(request.on_behalf).note(sources)
    written_names: list[str] = []
    has_begun = (call.has_started or call.resumed) and call.foreign
    if has_begun and not (is_outside and call.action and call.action.idempotent):
        written_names = [*call.foreign]
    return Marks(sources, call.always, call.statements, call.is_stated, own_parts, written_names)


def marks_of_fault(call: ToolCall, thread: Thread) -> Marks:
    """Return the marks of a call that was not executed, since something in it was wrong.

    Its message repeats what the model wrote: the name that no action has, or a value.
    """
    marks = marks_after_reading(thread)
    fault = call.action is None or call.action.outside
    return Marks(() if marks is None else marks.sources, fault=fault)


def marks_after_reading(thread: Thread) -> Marks | None:
    """Return the marks of what a model writes after it has read something from outside."""
    return None if thread.texts_by_origin is None else Marks([*thread.texts_by_origin.sources])


def sources_of_result(call: ToolCall, texts: Texts | None, result: dict[str, Any]) -> list[str]:
    """Return where the result of a call comes from, if from outside; empty if not."""
    is_outside = call.action is not None and call.action.outside
    may_have = is_outside or call.read_sources or texts is not None
    if call.is_stated or not (may_have or isinstance(result.get("result"), _CONTAINERS)):
        return []  # the most frequent case
    is_outside = is_outside and (call.has_started or call.resumed)
    sources = [source_of(call)] if is_outside else []
    sources += [*call.read_sources, *_recalled_sources(result.get("result"))]
    may_give_back = (
        call.action is None or call.action.origin.may_return_arguments or "error" in result
    )
    if texts is not None and may_give_back and not is_outside:
        sources += texts.sources if call.derived or texts.may_have_kept else ()
    return merged_sources(sources)


def _recalled_sources(result: Any) -> list[str]:
    """Return the sources of the messages that an action recalled from a memory."""
    if not isinstance(result, list | tuple):
        return sources_of(result)
    return [source for each in result for source in sources_of(each)]


def source_of(call: ToolCall) -> str:
    """Return what a call reads, in words: the file or the address if it names one, or itself."""
    for value in call.args.values():
        if isinstance(value, str) and ("." in value or "/" in value) and " " not in value:
            return cut(value, _SOURCE_CHARS)
    args = ", ".join(map(json_line, call.args.values()))
    return f"{call.name}({cut(args, _SOURCE_CHARS)})" if args else call.name
