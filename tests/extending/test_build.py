"""A package of another's stands on public names and `moothall.build` alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

COURIER = '''
"""A round of deliveries, each made once."""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, field

from moothall import InDoubt, Journal
from moothall.build import APPENDED, StepHandle, recorded


@dataclass
class Round:
    delivered: list[str] = field(default_factory=list, metadata=APPENDED)


async def deliver(places: list[str], dies_at: str) -> None:
    async with recorded(Journal("rounds.db"), "r1", "Courier", "bo", Round) as record:
        state = record.state or Round()
        if record.over is not None:
            print("was delivered", record.over["text"])
            return
        for place in places[len(state.delivered) :]:

            async def ring(step: StepHandle, place: str = place) -> str:
                await step.begins({"place": place})
                print("rang at", place, flush=True)
                if place == dies_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return place

            about = {"outcome": "ask", "action": "ring"}
            state.delivered.append(await record.step(f"ring.{place}", ring, **about))
            record.save(state)
        await record.end("done", text=" ".join(state.delivered))


if __name__ == "__main__":
    if sys.argv[1] == "decide":
        Journal("rounds.db").decide("r1", "repeat")
    else:
        try:
            asyncio.run(deliver(["home", "shop", "farm"], sys.argv[2]))
        except InDoubt as error:
            print("in doubt" if "ring" in str(error) else error)
'''
WARD = '''
"""A space whose agents handle alarms before anything else."""

from itertools import takewhile

from moothall import Agent, NativeSpace, action
from moothall.build import Delivery, Mailbox


class AlarmsFirst(Mailbox):
    def accept(self, delivery: Delivery) -> None:
        super().accept(delivery)
        if delivery.envelope.name == "alarm":
            self.box.pop()  # `accept` has put it last
            later = takewhile(lambda each: each.envelope.name != "alarm", reversed(self.box))
            self.box.insert(len(self.box) - len([*later]), delivery)


class Ward(NativeSpace):
    mailbox_type = AlarmsFirst


class Nurse(Agent):
    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.log: list[str] = []

    @action
    async def visit(self, room: str) -> None:
        """Visit a room."""
        self.log.append(f"visit {room}")

    @action
    async def alarm(self, room: str) -> None:
        """Run to a room."""
        self.log.append(f"alarm {room}")


class Desk(Agent):
    @action
    async def ring(self) -> None:
        """Tell a nurse what is to be done."""
        calls = (("visit", "1"), ("alarm", "2"), ("visit", "3"), ("alarm", "4"), ("alarm", "5"))
        for name, room in calls:
            to = "*" if room == "5" else "nurse"
            self.send({"to": to, "action": {"name": name, "args": {"room": room}}})


if __name__ == "__main__":
    with Ward() as space:
        nurse = space.add(Nurse("nurse"))
        space.add(Desk("desk"))
        space.add(Agent("me")).ask("desk", "ring").result(timeout=20)
        space.idle()
        print(*nurse.log, sep=", ")
'''


def run(folder: Path, *args: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, *args], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, -9), done.stderr
    return done.returncode, done.stdout.splitlines()


def test_orchestrator_on_build_goes_on_after_a_kill_and_delivers_each_once(tmp_path: Path) -> None:
    (tmp_path / "courier.py").write_text(COURIER)
    assert run(tmp_path, "courier.py", "go", "shop") == (-9, ["rang at home", "rang at shop"])
    assert run(tmp_path, "courier.py", "go", "") == (0, ["in doubt"])
    assert run(tmp_path, "courier.py", "decide") == (0, [])
    assert run(tmp_path, "courier.py", "go", "") == (0, ["rang at shop", "rang at farm"])
    assert run(tmp_path, "courier.py", "go", "") == (0, ["was delivered home shop farm"])


def test_space_on_build_handles_messages_in_an_order_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "ward.py").write_text(WARD)
    assert run(tmp_path, "ward.py") == (0, ["alarm 2, alarm 4, alarm 5, visit 1, visit 3"])


def test_packages_of_others_import_public_names_alone() -> None:
    for program in (COURIER, WARD):
        homes = {
            node.module
            for node in ast.walk(ast.parse(program))
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("moothall")
        }
        assert homes == {"moothall", "moothall.build"}
