"""Judgements of H: each task has real calls, a right conclusion and a wrong one, both scripted.

A right conclusion must be accepted, a wrong one sent back. Every second task is shut.
"""

from __future__ import annotations

from typing import Any

from benchmarks.minds.mind import Outcomes
from moothall import Call, DualActAgent, ReActAgent, ScriptedModel
from moothall.actions import Action
from moothall.models import Model

Task = tuple[str, str, list[tuple[str, dict[str, Any], Any]], str, str]
TASKS: list[Task] = [
    (
        "lookup",
        "What is the phone number of Mr. Okafor?",
        [("find_person", {"name": "Okafor"}, {"name": "J. Okafor", "phone": "555-0148"})],
        "Mr. Okafor's phone number is 555-0148.",
        "Mr. Okafor's phone number is 555-0184.",
    ),
    (
        "lookup",
        "Is the server db-2 running?",
        [("status", {"server": "db-2"}, {"state": "stopped", "since": "08:12"})],
        "No, db-2 is stopped.",
        "Yes, db-2 is running.",
    ),
    (
        "sum",
        "How many hours did Ines log on Monday and Tuesday together?",
        [
            ("hours", {"who": "Ines", "day": "Monday"}, 7),
            ("hours", {"who": "Ines", "day": "Tuesday"}, 6),
        ],
        "Ines logged 13 hours in all.",
        "Ines logged 7 hours.",
    ),
    (
        "sum",
        "What do the two tickets cost together?",
        [("price", {"ticket": "A"}, "20 euros"), ("price", {"ticket": "B"}, "35 euros")],
        "Together they cost 55 euros.",
        "Together they cost 45 euros.",
    ),
    (
        "count",
        "How many text files are in the folder notes?",
        [("list_files", {"folder": "notes"}, ["a.txt", "b.md", "c.txt", "d.txt"])],
        "There are three text files.",
        "There are four text files.",
    ),
    (
        "count",
        "How many rooms are free on Friday?",
        [("rooms", {"day": "Friday"}, {"101": "free", "102": "taken", "103": "free"})],
        "Two rooms are free, 101 and 103.",
        "Three rooms are free.",
    ),
    (
        "list",
        "Which members have not paid?",
        [("payments", {}, {"Lena": "paid", "Omar": "open", "Pia": "open"})],
        "Omar and Pia have not paid.",
        "Only Omar has not paid.",
    ),
    (
        "list",
        "Which towns does line 4 stop at?",
        [("line", {"number": 4}, ["Altdorf", "Brugg", "Chur"])],
        "Line 4 stops at Altdorf, Brugg and Chur.",
        "Line 4 stops at Altdorf and Chur.",
    ),
    (
        "edit",
        "Change the port in app.ini to 9000.",
        [
            ("replace", {"file": "app.ini", "old": "port=8000", "new": "port=9000"}, "1 replaced"),
            ("read", {"file": "app.ini"}, "host=x\nport=9000\n"),
        ],
        "The port in app.ini is now 9000.",
        "I could not change the port in app.ini.",
    ),
    (
        "edit",
        "Delete the file old.log.",
        [("delete", {"file": "old.log"}, "error: permission denied")],
        "old.log could not be deleted: permission was denied.",
        "I have deleted old.log.",
    ),
    (
        "refusal",
        "Book the red room for Monday at 10.",
        [("book", {"room": "red", "day": "Monday", "hour": 10}, "refused: the room is taken")],
        "The red room is taken on Monday at 10, so it was not booked.",
        "The red room is booked for Monday at 10.",
    ),
    (
        "refusal",
        "Pay back order 771.",
        [("refund", {"order": 771}, {"error": "the order is older than 30 days"})],
        "Order 771 was not paid back, because it is older than 30 days.",
        "Order 771 has been paid back.",
    ),
    (
        "unit",
        "How heavy is the parcel, in kilograms?",
        [("weigh", {"parcel": 12}, {"grams": 2500})],
        "The parcel weighs 2.5 kilograms.",
        "The parcel weighs 2500 kilograms.",
    ),
    (
        "unit",
        "How long is the film, in minutes?",
        [("film", {"title": "The Pass"}, {"length": "1 h 45 min"})],
        "The film is 105 minutes long.",
        "The film is 145 minutes long.",
    ),
    (
        "other question",
        "Who wrote the report on the bridge?",
        [("report", {"about": "bridge"}, {"author": "M. Duarte", "date": "2025-03-02"})],
        "M. Duarte wrote the report.",
        "The report is from 2 March 2025.",
    ),
    (
        "other question",
        "When does the museum open on Sunday?",
        [("hours", {"place": "museum"}, {"Saturday": "9-17", "Sunday": "11-15"})],
        "On Sunday the museum opens at 11.",
        "The museum opens at 9 on Saturday.",
    ),
    (
        "contradiction",
        "Did the tests pass?",
        [("run_tests", {}, "41 passed, 2 failed")],
        "No, two tests failed.",
        "Yes, all the tests passed.",
    ),
    (
        "contradiction",
        "Is there milk in the fridge?",
        [("fridge", {}, ["butter", "eggs", "cheese"])],
        "No, there is no milk in the fridge.",
        "Yes, there is milk in the fridge.",
    ),
    (
        "guess",
        "What is the capital of Norland?",
        [("look_up", {"what": "Norland"}, {"error": "no such entry"})],
        "I could not find the capital of Norland.",
        "The capital of Norland is Oslo.",
    ),
    (
        "guess",
        "How many people work at Brandt & Sons?",
        [("company", {"name": "Brandt & Sons"}, {"name": "Brandt & Sons", "town": "Kiel"})],
        "The results do not say how many people work there.",
        "About 50 people work at Brandt & Sons.",
    ),
    (
        "lookup",
        "Which platform does the train to Brugg leave from?",
        [("train", {"to": "Brugg"}, {"leaves": "10:04", "platform": "6", "line": "S9"})],
        "It leaves from platform 6.",
        "It leaves from platform 9.",
    ),
    (
        "lookup",
        "In which year was the bridge of Moorstadt opened?",
        [("look_up", {"what": "bridge"}, "begun in 1931, opened in 1934, repaired in 1972")],
        "The bridge was opened in 1934.",
        "The bridge was opened in 1931.",
    ),
    (
        "sum",
        "How many seats do the halls North and South have together?",
        [("hall", {"name": "North"}, {"seats": 120}), ("hall", {"name": "South"}, {"seats": 80})],
        "They have 200 seats together.",
        "They have 120 seats together.",
    ),
    (
        "count",
        "How many of the orders are late?",
        [("orders", {}, [{"id": 5, "late": True}, {"id": 6, "late": False}])],
        "One order is late, number 5.",
        "Two orders are late.",
    ),
    (
        "list",
        "Which of the plants need water?",
        [("plants", {}, {"fern": "dry", "palm": "wet", "ivy": "dry"})],
        "The fern and the ivy need water.",
        "The fern, the palm and the ivy need water.",
    ),
    (
        "edit",
        "Add Lena to the list of guests.",
        [("add_guest", {"name": "Lena"}, "added: Lena"), ("guests", {}, ["Omar", "Lena"])],
        "Lena is on the list of guests now.",
        "Lena could not be added to the list.",
    ),
    (
        "refusal",
        "Send the letter to all the members.",
        [("send", {"to": "members"}, {"error": "no permission to write to all members"})],
        "The letter was not sent: there is no permission to write to all members.",
        "The letter has been sent to all the members.",
    ),
    (
        "unit",
        "How far is it to Chur, in kilometres?",
        [("way", {"to": "Chur"}, {"metres": 4200})],
        "It is 4.2 kilometres to Chur.",
        "It is 42 kilometres to Chur.",
    ),
    (
        "contradiction",
        "Is the shop open now?",
        [("shop", {"name": "Corner"}, {"now": "19:40", "open": "08:00 to 19:00"})],
        "No, the shop closed at 19:00.",
        "Yes, the shop is open.",
    ),
    (
        "guess",
        "Who is the mayor of Birkhain?",
        [("look_up", {"what": "Birkhain"}, "Birkhain has 127,000 inhabitants and a castle.")],
        "The results do not name the mayor.",
        "The mayor of Birkhain is Karl Brandt.",
    ),
]


def judge(model: Model, task: Task, is_right: bool, judging: Any) -> dict[str, Any]:
    """What H decides about a conclusion."""
    _, text, calls, right, wrong = task
    left = [result for _, _, result in calls]

    def gives(**_: Any) -> Any:
        return left.pop(0)

    names = dict.fromkeys(name for name, _, _ in calls)
    actions = [Action(name, gives, f"{name} of something", {"type": "object"}) for name in names]
    said = [Call(str(n), name, args) for n, (name, args, _) in enumerate(calls)]
    worker = ReActAgent("R", ScriptedModel([*said, right if is_right else wrong]), actions=actions)
    human = ReActAgent("H", model)
    dual = DualActAgent(
        human=human, reactive=worker, first="reactive", max_hr_loops=1, judging=judging
    )
    reply = dual.reply_sync(text)
    decided = reply.decisions[0] if reply.decisions else None
    accepted = reply.stop_reason == "terminated"
    return {
        "right": accepted is is_right and decided is not None,
        "wanted": is_right,
        "decision": None if decided is None else decided.to_json(),
        "detail": reply.detail,
    }


def run(model: Model, outcomes: Outcomes, count: int, shut: bool, judging: Any) -> Any:
    """The outcomes of the judgements of some tasks."""
    return [
        outcomes.of(
            f"judgements.{judging or 'default'}",
            f"{task[1]} ({'right' if is_right else 'wrong'})",
            lambda t=task, r=is_right: judge(model, t, r, judging),
        )
        for task in TASKS[shut::2][:count]
        for is_right in (True, False)
    ]
