"""A model's plans, evaluations, outlines and texts, read as far as they can be.

Other parts of the package parse a model's answers strictly. Research takes hours: one field too
many must not end it. What is ambiguous is refused here too.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from moothall import Action, InvalidArguments
from moothall.build import UnreadableText, cut, json_text, one_line
from moothall.research.calling import taking
from moothall.research.findings import ResearchTask
from moothall.research.writing.json_in_text import is_all_json, values_in, without_thinking

MOST_GENERATED: Final = 10
"""How many smaller objectives an evaluation may name."""
_LONGEST_TOPIC: Final = 300
_LONGEST_REMARK: Final = 2000
_ALIKE: Final = 0.85
_TOOL: Final = ("tool", "toolname", "name", "action", "function")
_ARGS: Final = ("args", "arguments", "parameters", "params", "input", "toolinput", "kwargs")
_REASON_FIELDS: Final = ("reasoning", "reason", "why", "rationale", "thought", "thoughts")
_TOPIC: Final = ("topic", "objective", "question", "name", "title")
_REACHED: Final = ("expertise", "score", "rating", "level", "value", "confidence")
_ANSWERED: Final = ("answered", "known")
_UNANSWERED: Final = ("unanswered", "open", "missing")
_OBJECTIVES: Final = ("objectives", "objective", "evaluation", "evaluations", "ratings", "topics")
_GENERATED: Final = ("generatedobjectives", "generated", "newobjectives", "smallerobjectives")
_REMARK: Final = ("remark", "remarks", "comment", "feedback", "notes")
_HEADING: Final = ("heading", "title", "section", "name", "topic")
_DESCRIPTION_FIELDS: Final = ("about", "description", "content", "summary", "covers", "points")
_OUTLINE: Final = ("sections", "outline", "headings", "chapters")
_MARKDOWN: Final = ("markdown", "report", "narrative", "text", "content", "answer", "section")
_LISTED: Final = re.compile(r"^[ \t]*(?:#{1,4}|\d{1,2}[.)]|[-*+])[ \t]+(\S[^\n]*)$", re.MULTILINE)
_SHARE: Final = re.compile(
    r"\s*(\d+(?:[.,]\d+)?)\s*(?:(%)|(?:/|out of|of)\s*(\d+))?\s*", re.IGNORECASE
)
_OPENING: Final = re.compile(  # words to the user, no part of what was asked for
    r"\A(?:sure|certainly|of course|ok(?:ay)?|absolutely|here(?:['’]s| is| are)|below is)\b"
    r"[^\n\[]{0,80}\b(?:report|narrative|summary|section|answer|draft|version|text)\b[^\n\[]{0,80}"
    r":[*_]{0,2}[ \t]*\n\s*\n",
    re.IGNORECASE,
)
_IN_BRACKETS: Final = re.compile(r"\s?\[[^\]\n]{1,40}\]")  # footnotes and marks
_NUMBERING: Final = re.compile(r"^(?:\d{1,2}[.)]\s*)+")


def words_of(text: str) -> str:
    """Return a topic as words that can be compared: without case, marks and numbering."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", _NUMBERING.sub("", plain.strip())))


# -- plans -----------------------------------------------------------------------------------------


def tasks_in(text: str, tools: Mapping[str, Action]) -> list[ResearchTask]:
    """Return the tasks of a plan that can be done; raise `UnreadableText` if none can."""
    values = values_in(text)
    faults: list[str] = []
    for value in reversed(values):
        entries = _field(value, "tasks")
        entries = _field(value, "plan", "steps", "actions") if entries is None else entries
        listed = _listed(value if entries is None and isinstance(value, list) else entries)
        if listed is None:
            continue
        tasks = _readable(listed, tools, faults)
        if tasks or not listed:
            return tasks
    alone = [each for each in values if isinstance(each, dict) and _field(each, *_TOOL) is not None]
    if tasks := _readable(alone, tools, faults):  # each in a fence or line of its own
        return tasks
    if faults:
        raise UnreadableText("cannot be used: " + "; ".join(dict.fromkeys(faults)))
    raise UnreadableText('holds no JSON with "tasks"')


def _readable(
    listed: list[Any], tools: Mapping[str, Action], faults: list[str]
) -> list[ResearchTask]:
    tasks = []
    for each in listed:
        try:
            tasks.append(_task(each, tools))
        except InvalidArguments as error:
            faults.append(str(error))
    return tasks


def _task(item: Any, tools: Mapping[str, Action]) -> ResearchTask:
    if isinstance(item, str):
        queries = [*taking(dict(tools), "query")]
        if len(queries) != 1 or not item.strip():
            raise InvalidArguments(f"a task must name its tool, got {item!r:.80}")
        tool_name, argument = queries[0]
        return ResearchTask(tool_name, {argument: one_line(item, _LONGEST_TOPIC)}, "")
    if not isinstance(item, dict):
        raise InvalidArguments(f"a task must be an object, got {item!r:.80}")
    task, call = item, _field(item, *_TOOL)
    if isinstance(call, dict):  # as providers write calls
        task, call = call, _field(call, *_TOOL)
    name = _tool(call, tools)
    tool = tools[name]
    args = _field(task, *_ARGS)
    properties = tool.parameters.get("properties", {})
    if args is None:
        args = {key: value for key, value in task.items() if key in properties and key not in _TOOL}
    elif isinstance(args, str):
        inner = next((each for each in values_in(args) if isinstance(each, dict)), None)
        only = next((arg for each, arg in taking(dict(tools), "query") if each == name), None)
        only = only or next((arg for each, arg in taking(dict(tools), "url") if each == name), None)
        args = inner if inner is not None else {only: args} if only else args
    if not isinstance(args, dict):
        raise InvalidArguments(f"the args of {name!r} must be an object, got {args!r:.80}")
    reason = _field(item, *_REASON_FIELDS)
    return ResearchTask(name, _checked(tool, args), reason if isinstance(reason, str) else "")


def _tool(name: Any, tools: Mapping[str, Action]) -> str:
    if isinstance(name, str):
        if name in tools:
            return name
        bare = name.removesuffix("()").rpartition(".")[2]
        alike = [each for each in tools if _key(each) in (_key(name), _key(bare))]
        if len(alike) == 1:
            return alike[0]
    raise InvalidArguments(
        f"there is no tool {json_text(name)!r:.80}; there are {', '.join(tools)}"
    )


def _checked(tool: Action, args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a tool takes: as they are, or with what is plainly meant."""
    try:
        tool.check(args)
        return args
    except InvalidArguments as error:
        fault = error
    properties = tool.parameters.get("properties", {})
    corrected = {key: value for key, value in args.items() if key in properties}
    needed = [each for each in tool.parameters.get("required", properties) if each not in corrected]
    unknown = [value for key, value in args.items() if key not in properties]
    if len(needed) == len(unknown) == 1:
        corrected[needed[0]] = unknown[0]
    for key, value in corrected.items():
        kind = properties[key].get("type")
        if kind == "string" and type(value) in (int, float):
            corrected[key] = json_text(value)
        elif kind == "string" and isinstance(value, list) and len(value) == 1:
            corrected[key] = value[0]
        elif kind == "integer" and isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
            corrected[key] = int(value)
    try:
        tool.check(corrected)
    except InvalidArguments:
        raise fault from None
    return corrected


# -- evaluations -----------------------------------------------------------------------------------


class Evaluation:
    """What a model has said of each objective; a second answer completes the first."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics: list[str] = [*topics]
        self.reached: dict[str, float] = {}
        self.unanswered: list[str] = []
        self.generated: list[str] = []
        self.remark: str = ""

    @property
    def missing(self) -> list[str]:
        """The objectives of which nothing usable was said."""
        return [each for each in self.topics if each not in self.reached]

    def read(self, text: str) -> None:
        """Add what an answer says; raise `UnreadableText` if an objective is still missing."""
        values = [each for each in reversed(values_in(text)) if isinstance(each, dict | list)]
        before = len(self.reached)
        for value in values:
            self._take(value)
            if not self.missing:
                break
        if len(self.reached) == before and not any(map(_says_more, values)):
            raise UnreadableText('holds no JSON with "objectives"')
        for value in values:
            if not self.generated:
                self.generated = topics_of(_field(value, *_GENERATED))
            if not self.remark:
                self.remark = _remark(_field(value, *_REMARK))
        if self.missing:
            topics = ", ".join(map(repr, self.missing))
            raise UnreadableText(f"does not say what is answered of {cut(topics, 300)}")

    def _take(self, value: Any) -> None:
        ratings = _field(value, "objectives")
        ratings = _field(value, *_OBJECTIVES) if ratings is None else ratings
        if ratings is None or isinstance(ratings, str):
            ratings = value
        rated = [*_rated(ratings)]
        for topic, expertise, unanswered in rated:
            known_topic = self._topic(topic, alone=len(rated) == 1)
            share = share_of(expertise)
            if known_topic is not None and share is not None:
                if known_topic not in self.reached:
                    self.unanswered += unanswered
                self.reached[known_topic] = share

    def _topic(self, topic: Any, *, alone: bool) -> str | None:
        """Return the objective that is meant, or None."""
        if alone and len(self.topics) == 1:
            return self.topics[0]
        if not isinstance(topic, str):
            return None
        by_words = {words_of(each): each for each in self.topics}
        topic_words = words_of(topic)
        if topic_words in by_words:
            return by_words[topic_words]
        near = difflib.get_close_matches(topic_words, by_words, 2, _ALIKE)
        return by_words[near[0]] if len(near) == 1 else None


def share_of(value: Any) -> float | None:
    """Return an expertise from 0 to 1, also of `"0.8"`, `"80%"`, `80` and `"8/10"`; else None.

    From 1 to 10 it is not known which scale is meant.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return None
        share = value / 100 if 10 < value <= 100 else value
    elif isinstance(value, str) and (match := _SHARE.fullmatch(value)):
        share = float(match[1].replace(",", "."))
        if match[2]:
            share /= 100
        elif match[3]:
            share = share / int(match[3]) if int(match[3]) else 2.0
        elif 10 < share <= 100:
            share /= 100
    else:
        return None
    return float(share) if 0 <= share <= 1 else None


def topics_of(value: Any) -> list[str]:
    """Return the smaller objectives of an evaluation: so many, and so long, as a plan can use."""
    listed = value if isinstance(value, list) else [value]
    texts = [_field(each, *_TOPIC) if isinstance(each, dict) else each for each in listed]
    topics = [one_line(each, _LONGEST_TOPIC) for each in texts if isinstance(each, str)]
    return [each for each in dict.fromkeys(topics) if each.strip()][:MOST_GENERATED]


def _says_more(value: Any) -> bool:
    return _field(value, *_GENERATED, *_REMARK) is not None


def _rated(value: Any) -> Iterator[tuple[Any, Any, list[str]]]:
    """Yield topics with what is said of their expertise, and which parts are unanswered."""
    if isinstance(value, dict):
        answered, open_ = _field(value, *_ANSWERED), _field(value, *_UNANSWERED)
        if isinstance(answered, list) or isinstance(open_, list):
            done, open_parts = len(_parts(answered)), _parts(open_)
            yield (
                _field(value, *_TOPIC),
                done / (done + len(open_parts)) if done else 0.0,
                open_parts,
            )
            return
        expertise = _field(value, *_REACHED)
        if expertise is not None and not isinstance(expertise, dict):
            yield _field(value, *_TOPIC), expertise, []
            return
        for topic, rating in (expertise or value).items():
            yield topic, _field(rating, *_REACHED) if isinstance(rating, dict) else rating, []
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, list) and len(each) == 2:
                yield each[0], each[1], []
            elif isinstance(each, dict):
                yield from _rated(each)


def _parts(value: Any) -> list[str]:
    """Return the parts of an objective that are listed."""
    listed = map(str, value if isinstance(value, list) else [])
    bare = (one_line(_IN_BRACKETS.sub("", each).strip(" ."), _LONGEST_TOPIC) for each in listed)
    return [each for each in bare if each]


def _remark(value: Any) -> str:
    listed = value if isinstance(value, list) else [value]
    return one_line(" ".join(each for each in listed if isinstance(each, str)), _LONGEST_REMARK)


# -- outlines and texts ----------------------------------------------------------------------------


def outline_in(text: str, max_headings: int) -> list[tuple[str, str]]:
    """Return the headings of an outline, what each section is about; or raise UnreadableText."""
    listed: Any = None
    for value in reversed(values_in(text)):
        listed = _listed(_field(value, *_OUTLINE))
        if listed is None and isinstance(value, list):
            listed = value
        if listed:
            break
    if not listed:  # as Markdown
        listed = [each.strip() for each in _LISTED.findall(without_thinking(text))]
    headings: dict[str, tuple[str, str]] = {}
    for each in listed:
        heading = _field(each, *_HEADING) if isinstance(each, dict) else each
        if not isinstance(heading, str):
            continue
        heading = one_line(_NUMBERING.sub("", heading.strip("#*_ \t")), 120)
        description = _field(each, *_DESCRIPTION_FIELDS) if isinstance(each, dict) else ""
        description = (
            "; ".join(map(str, description)) if isinstance(description, list) else description
        )
        if words_of(heading):
            about_text = one_line(description, 500) if isinstance(description, str) else ""
            headings.setdefault(words_of(heading), (heading, about_text))
    if not headings:
        raise UnreadableText('holds no JSON with "sections"')
    return [*headings.values()][:max_headings]


def text_in(text: str) -> str:
    """Return the Markdown of an answer, also if it stands in JSON; or raise `UnreadableText`."""
    content = without_thinking(text)
    if content[:1] in "{`" and content.rstrip("`\n ")[-1:] == "}":
        for value in values_in(content):
            inner = _field(value, *_MARKDOWN) if isinstance(value, dict) else None
            if isinstance(inner, str) and len(inner) > len(content) / 2:
                content = inner.strip()
                break
        else:
            if is_all_json(content.strip("`").removeprefix("json")):
                raise UnreadableText("is JSON without a text")
    content = _OPENING.sub("", content)
    if not content:
        raise UnreadableText("holds nothing but its thinking" if text.strip() else "is empty")
    return content


def written_in(prompt: Iterable[Mapping[str, Any]]) -> Callable[[str], str]:
    """Return a reader of texts that refuses one which repeats the prompt's own lines."""
    lines = (line for each in prompt for line in str(each["content"]).splitlines())
    prompt_lines = {each.strip() for each in lines if each.startswith(("| ", "Source [^"))}

    def read(text: str) -> str:
        content = text_in(text)
        if sum(line.strip() in prompt_lines for line in content.splitlines()) > 1:
            raise UnreadableText("copies what you were shown: answer the question in sentences")
        return content

    return read


# -- fields ----------------------------------------------------------------------------------------


def _key(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _field(value: Any, *names: str, deep: int = 2) -> Any:
    """Return the first of these fields, however its name is spelled; also one level further in."""
    if not isinstance(value, dict):
        return None
    by_key = {_key(key): each for key, each in value.items() if isinstance(key, str)}
    for name in names:
        if by_key.get(name) is not None:
            return by_key[name]
    inner = (_field(each, *names, deep=deep - 1) for each in value.values() if deep > 1)
    return next((each for each in inner if each is not None), None)


def _listed(value: Any) -> list[Any] | None:
    """Return what should be a list, also if it is the only item, or JSON in a text."""
    if isinstance(value, str):
        value = next(iter(values_in(value)), None)
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else None
