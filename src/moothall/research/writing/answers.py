"""A model's plans, evaluations, outlines and texts, read as far as they can be.

Other parts of the package parse a model's answers strictly. Research takes hours: one field too
many must not end it. What is ambiguous is refused here too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moothall import Action, InvalidArguments
from moothall.build import UnreadableText, as_json, cut, json_text, one_line
from moothall.research.findings import ResearchTask
from moothall.research.tool_calls import one_text_tools
from moothall.research.writing.json_in_text import is_all_json, values_in, without_thinking

MAX_GENERATED: Final = 10
"""How many smaller objectives an evaluation may name."""
_LONGEST_TOPIC: Final = 300
_LONGEST_REMARK: Final = 2000
# Words to the user, no part of what was asked for: a line with a colon above a text, not a list.
_OPENING: Final = re.compile(r"\A[^\n\[#|]{1,200}:[*_]{0,2}[ \t]*\n\s*\n(?=#|\*\*|[^\W\d_]|“)")
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
        items = _as_list(value if isinstance(value, list) else _field(value, "tasks"))
        if items is None:
            continue
        tasks = _readable_tasks(items, tools, faults)
        if tasks or not items:
            return tasks
    alone = [each for each in values if isinstance(each, dict) and "tool" in each]
    if tasks := _readable_tasks(alone, tools, faults):  # each in a fence or line of its own
        return tasks
    if faults:
        raise UnreadableText("cannot be used: " + "; ".join(dict.fromkeys(faults)))
    raise UnreadableText('holds no JSON with "tasks"')


def _readable_tasks(
    items: list[Any], tools: Mapping[str, Action], faults: list[str]
) -> list[ResearchTask]:
    tasks = []
    for each in items:
        try:
            tasks.append(_read_task(each, tools))
        except InvalidArguments as error:
            faults.append(str(error))
    return tasks


def _read_task(item: Any, tools: Mapping[str, Action]) -> ResearchTask:
    if not isinstance(item, dict):
        raise InvalidArguments(f"a task must be an object, got {item!r:.80}")
    name, args = item.get("tool"), item.get("args")
    if not isinstance(name, str) or name not in tools:
        raise InvalidArguments(
            f"there is no tool {json_text(as_json(name))!r:.80}; there are {', '.join(tools)}"
        )
    if isinstance(args, str):  # as JSON, or what alone it takes
        own_tool = {name: tools[name]}
        argument = next(
            (
                arg
                for parameter in ("query", "url")
                for _, arg in one_text_tools(own_tool, parameter)
            ),
            None,
        )
        inner = next((each for each in values_in(args) if isinstance(each, dict)), None)
        args = inner if inner is not None else {argument: args} if argument else args
    if not isinstance(args, dict):
        raise InvalidArguments(f"the args of {name!r} must be an object, got {args!r:.80}")
    tools[name].check(args)
    reason = item.get("reasoning")
    return ResearchTask(name, args, reason if isinstance(reason, str) else "")


# -- evaluations -----------------------------------------------------------------------------------


class TopicEvaluation:
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
        has_ratings = False
        for value in values:
            ratings = value if isinstance(value, list) else _field(value, "objectives")
            items = _as_list(ratings) or []
            has_ratings |= bool(items)
            for each in items:
                self._note_rating(each, is_alone=len(items) == len(self.topics) == 1)
            self.generated = self.generated or topics_in(_field(value, "generatedobjectives"))
            remark = _field(value, "remark")
            self.remark = self.remark or one_line(
                remark if isinstance(remark, str) else "", _LONGEST_REMARK
            )
        if not (has_ratings or self.generated or self.remark):
            raise UnreadableText('holds no JSON with "objectives"')
        if self.missing:
            topics = ", ".join(map(repr, self.missing))
            raise UnreadableText(f"does not say what is answered of {cut(topics, 300)}")

    def _note_rating(self, rating: Any, *, is_alone: bool) -> None:
        """Note what an objective has reached, unless it is noted; the only one has any name."""
        by_words = {words_of(each): each for each in self.topics}
        name = self.topics[0] if is_alone else _field(rating, "topic")
        topic = by_words.get(words_of(name)) if isinstance(name, str) else None
        answered = _objective_parts(_field(rating, "answered"))
        unanswered = _field(rating, "unanswered")
        expertise = _field(rating, "expertise")
        if topic is None or topic in self.reached:
            return
        if answered or isinstance(unanswered, list):
            open_parts = _objective_parts(unanswered)
            self.reached[topic] = len(answered) / max(len(answered) + len(open_parts), 1)
            self.unanswered += open_parts
        elif type(expertise) in (int, float) and 0 <= expertise <= 1:
            self.reached[topic] = float(expertise)


def topics_in(value: Any) -> list[str]:
    """Return the smaller objectives of an evaluation: so many, and so long, as a plan can use."""
    items = value if isinstance(value, list) else []
    topics = [one_line(each, _LONGEST_TOPIC) for each in items if isinstance(each, str)]
    return [each for each in dict.fromkeys(topics) if each.strip()][:MAX_GENERATED]


def _objective_parts(value: Any) -> list[str]:
    """Return the parts of an objective that are listed."""
    items = map(str, value if isinstance(value, list) else [])
    bare = (one_line(_IN_BRACKETS.sub("", each).strip(" ."), _LONGEST_TOPIC) for each in items)
    return [each for each in bare if each]


# -- outlines and texts ----------------------------------------------------------------------------


def outline_in(text: str, max_headings: int) -> list[tuple[str, str]]:
    """Return the headings of an outline, what each section is about; or raise UnreadableText."""
    headings: dict[str, tuple[str, str]] = {}
    for value in reversed(values_in(text)):
        items = value if isinstance(value, list) else _as_list(_field(value, "sections")) or []
        for each in items:
            heading = _field(each, "heading") if isinstance(each, dict) else each
            subject = _field(each, "about")
            if isinstance(heading, str) and words_of(heading):
                heading = heading.strip("*_ \t").lstrip("#*_ \t")
                heading = one_line(_NUMBERING.sub("", heading), 120)
                subject = one_line(subject, 500) if isinstance(subject, str) else ""
                headings.setdefault(words_of(heading), (heading, subject))
        if headings:
            return [*headings.values()][:max_headings]
    raise UnreadableText('holds no JSON with "sections"')


def text_in(text: str) -> str:
    """Return the Markdown of an answer; raise `UnreadableText` if it has none."""
    content = without_thinking(text)
    if content[:1] in "{`" and is_all_json(content.strip("`\n ").removeprefix("json")):
        raise UnreadableText("is JSON without a text")
    content = _OPENING.sub("", content)
    if not content:
        raise UnreadableText("holds nothing but its thinking" if text.strip() else "is empty")
    return content


def reader_for_prompt(prompt: Iterable[Mapping[str, Any]]) -> Callable[[str], str]:
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


def _field(value: Any, name: str, depth: int = 2) -> Any:
    """Return a field, in whatever letters its name is; also one level further in."""
    if not isinstance(value, dict):
        return None
    for key, each in value.items():
        if "".join(filter(str.isalnum, str(key).casefold())) == name and each is not None:
            return each
    inner = (_field(each, name, depth - 1) for each in value.values() if depth > 1)
    return next((each for each in inner if each is not None), None)


def _as_list(value: Any) -> list[Any] | None:
    """Return what should be a list, also if it is the only item, or JSON in a text."""
    if isinstance(value, str):
        value = next(iter(values_in(value)), None)
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else None
