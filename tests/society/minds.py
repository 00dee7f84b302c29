"""A scripted mind, which answers only from what it is shown, and counts what that costs."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from moothall import ScriptedModel
from moothall.models.protocol import ModelReply

HEARD = re.compile(r"^(\S*\d\d:\d\d): It heard from ([^:]+): .*\bthe word is (\w+)")
SAID = re.compile(r"It said to ([^:]+): .*\bthe word is (\w+)")
PLAN = [
    ("sleep", "home", "00:00", "07:00"),
    ("eat", "home", "07:00", "08:00"),
    ("leisure", "home", "08:00", "12:00"),
    ("eat", "home", "12:00", "13:00"),
    ("leisure", "home", "13:00", "17:30"),
    ("social", "home", "17:30", "19:30"),
    ("leisure", "home", "19:30", "22:00"),
    ("sleep", "home", "22:00", "24:00"),
]
BUSY = [
    ("sleep", "home", "00:00", "07:00"),
    ("eat", "home", "07:00", "07:30"),
    ("work", "work", "08:00", "12:00"),
    ("eat", "work", "12:00", "12:30"),
    ("work", "work", "12:30", "16:30"),
    ("shop", "shop", "16:45", "17:30"),
    ("eat", "home", "18:00", "18:45"),
    ("social", "park", "19:00", "20:30"),
    ("browse", "home", "20:30", "22:00"),
    ("sleep", "home", "22:30", "24:00"),
]


class Mind(ScriptedModel):
    """Keeps to a plan, and tells in its conversations the word that it remembers to have heard."""

    def __init__(self, plan: list[tuple[str, str, str, str]] = PLAN) -> None:
        super().__init__(())
        self.plan = plan
        self.calls: Counter[str] = Counter()
        self.chars: Counter[str] = Counter()
        self.offered: Counter[int] = Counter()

    async def complete(
        self, messages: list[Any], actions: Any = None, schema: Any = None
    ) -> ModelReply:
        asked = messages[-1]["content"]
        shown = json.loads(asked.rpartition("\n")[2])
        names = schema["properties"]
        kind = next(
            name
            for name in ("plan", "place", "block", "to", "answer", "thoughts", *names)
            if name in names
        )
        answer = json.dumps(getattr(self, f"_{kind}", self._any)(shown, names))
        self.calls[kind] += 1
        self.chars[kind] += sum(len(each["content"]) for each in messages) + len(answer)
        return ModelReply(answer)

    def _plan(self, shown: Any, names: Any) -> Any:
        places = names["plan"]["items"]["properties"]["where"]["enum"]
        pieces = []
        for do, where, since, _ in self.plan:
            if where == "work" and where not in places:
                do, where = "leisure", "home"
            where = where if where in places else "home"
            pieces.append({"from": since, "do": do, "where": where})
        return {"plan": pieces}

    def _place(self, shown: Any, names: Any) -> Any:
        return {"place": names["place"]["enum"][0]}

    def _to_do(self, shown: Any, names: Any) -> Any:
        blocks = [*names["blocks"]["properties"]]
        self.offered[len(blocks)] += 1
        said = {name: "yes" if name == blocks[0] else "no" for name in blocks}
        return {"to_do": "what is next", "blocks": said}

    def _to(self, shown: Any, names: Any) -> Any:
        heard = [found for each in shown.get("you remember", ()) if (found := HEARD.match(each))]
        first = next((each for each in heard if "Crier" in each[2]), None)
        people = names["to"]["enum"]
        if first is None:
            return {"to": people[0], "content": "Nice day."}
        at, who, word = first.groups()
        return {"to": people[0], "content": f"At {at} {who} told me: the word is {word}."}

    def _answer(self, shown: Any, names: Any) -> Any:
        events = shown.get("you remember", ())
        heard = [found.groups() for each in events if (found := HEARD.match(each))]
        said = [found.groups() for each in events if (found := SAID.search(each))]
        return {"answer": json.dumps({"heard": heard, "said": said})}

    def _any(self, shown: Any, names: Any) -> Any:
        empty = {"array": [], "string": "", "integer": 500}
        return {name: empty[each["type"]] for name, each in names.items()}
