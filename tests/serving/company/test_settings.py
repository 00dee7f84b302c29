"""A company's file: what is wrong is named, each with its line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moothall.foundation.errors import ConfigError
from moothall.serving import Company

PROGRAM = """
from moothall import Agent

class Clerk(Agent):
    def __init__(self, id, secret=""):
        super().__init__(id)
        self.secret = secret
"""

FUNCTIONS = """
from moothall import ReActAgent, ScriptedModel

def make(id): return Clerk(id)
def needy(id, shelf): return Clerk(id)
def wrong(id): return ReActAgent(id, ScriptedModel([]), colour="red")
def other(): return Clerk("other")
"""


@pytest.fixture
def folder(folder: Path) -> Path:
    (folder / "program.py").write_text(PROGRAM)
    return folder


def company(folder: Path, text: str, **environment: str) -> Company:
    (folder / "company.yaml").write_text(text)
    return Company.from_yaml(folder / "company.yaml", environment=environment)


AGENT = "agents:\n  Clerk:\n    ref: program.py:Clerk\n"


@pytest.mark.parametrize(
    ("text", "told"),
    (
        ("agnets: {}", ":1: agnets: there is no such key (did you mean 'agents'?)"),
        ("journal: a.db", "'agents' is missing"),
        ("agents: {}", ":1: agents: there must be at least one"),
        (
            "agents:\n  A:\n    reff: x:Y",
            ":3: agents.A.reff: there is no such key (did you mean 'ref'?)",
        ),
        ("agents:\n  A: {}", ":2: agents.A: needs either ref, such as agents.py:Clerk, or kind"),
        ("agents:\n  A: {kind: cat}", ":2: agents.A.kind: must be chatty, function"),
        ("agents:\n  '*': {kind: host}", ':2: agents["*"]: '),
        (AGENT + "drain: soon", ":4: drain: must be a duration, such as 10m"),
        (AGENT + "drain: -1", ":4: drain: "),
        (AGENT + "mailbox: '5'", ":4: mailbox: must be a valid integer"),
        (
            AGENT + "budget:\n  token: 5",
            ":5: budget.token: there is no such key (did you mean 'tokens'?)",
        ),
        (
            AGENT + "budget:\n  tokens: 5\n  release_dead: true",
            ":6: budget.release_dead: needs a journal, which has the budgets",
        ),
        (
            AGENT + "    budget: {release_dead: true}\njournal: a.db\nbudget: {tokens: 5}",
            ":4: agents.Clerk.budget.release_dead: belongs to the budget of all agents",
        ),
        (AGENT + "restart: {most: many}", ":4: restart.most: must be a valid integer"),
        (AGENT + "http:\n  token: x", ":4: http: 'listen' is missing"),
        (
            AGENT + "http:\n  listen: x\n  token: ${NONE}",
            ":6: http.token: the variable NONE is not set",
        ),
        (
            AGENT + "journal: a.db\nschedules:\n  s:\n    every: 5m\n    to: Clark",
            ":8: schedules.s.to: there is no agent 'Clark' (did you mean 'Clerk'?)",
        ),
        (
            AGENT + "journal: a.db\nschedules:\n  s:\n    cron: 99 * * * *\n    to: Clerk",
            ":6: schedules.s: cron '99 * * * *': bad minute",
        ),
        (
            AGENT + "schedules:\n  s:\n    every: 5m\n    to: Clerk",
            ":4: schedules: need a journal, which has each firing before it runs",
        ),
        (AGENT + "http: {listen: x, token: $ADA}", "the whole value, written as ${ADA}"),
        (AGENT + "http: {listen: x, token: 'a-${ADA}'}", "the whole value, written as ${ADA}"),
        ("agents: {A: program.py:Clerk}", ':1: agents.A: must be a mapping, got "program'),
        (AGENT + "    options: [1]", ":4: agents.Clerk.options: must be a mapping, got array"),
        ("agents: {No: {kind: host}}", ':1: a key must be a text, got "No": write it in quotes'),
        (AGENT + "budget: {usd: true}", ":4: budget.usd: must be a valid number"),
        (AGENT + "budget: {usd: .inf}", ":4: budget.usd: must be a finite number"),
        (AGENT + "agents: {}", ":4: 'agents' appears twice"),
        (AGENT + "drain: !!python/object:os.system x", "python/object"),
    ),
)
def test_company_file_that_is_wrong_is_refused_with_the_line(
    folder: Path, text: str, told: str
) -> None:
    with pytest.raises(ConfigError) as error:
        company(folder, text)
    assert told in str(error.value)
    assert str(folder / "company.yaml") in str(error.value)


@pytest.mark.parametrize(
    ("agent", "told"),
    (
        ('{ref: "program.py:Clerk", options: {colour: red}}', "argument 'colour'"),
        ('{ref: "program.py:make", secrets: {secret: x}}', "argument 'secret'"),
        ('{ref: "program.py:needy"}', "missing a required argument: 'shelf'"),
        ('{ref: "program.py:wrong"}', "ReActAgent has no argument colour="),
        ('{ref: "program.py:other"}', "it made an agent of the id 'other', not 'A'"),
    ),
)
def test_company_whose_file_fits_no_agent_ends_at_its_start(
    folder: Path, agent: str, told: str
) -> None:
    with (folder / "program.py").open("a") as file:
        file.write(FUNCTIONS)
    with pytest.raises(ConfigError) as error:
        asyncio.run(company(folder, f"agents: {{A: {agent}}}").run())
    assert str(error.value).startswith("company: agent 'A': ")
    assert told in str(error.value)


def test_company_file_has_all_its_mistakes_named_at_once(folder: Path) -> None:
    with pytest.raises(ConfigError) as error:
        company(folder, AGENT + "drian: 5s\nmailbox: 0\nhttp: {}\nschedules: {s: {to: Clark}}")
    assert len(str(error.value).split("\n")) == 5
    assert "there is no agent 'Clark'" in str(error.value)


def test_variables_fill_fields_for_secrets_and_no_others(folder: Path) -> None:
    text = AGENT + "    options: {secret: '${HOME}'}\njournal: ${HOME}x\n"
    made = company(folder, text, HOME="/root")
    assert made.settings.agents["Clerk"].options == {"secret": "${HOME}"}
    assert made.settings.journal == "${HOME}x"
    text = (
        AGENT + "    secrets: {secret: '${KEY}'}\nhttp: {listen: '127.0.0.1:0', token: '${TOKEN}'}"
    )
    made = company(folder, text, KEY="k", TOKEN="t")
    assert made.settings.agents["Clerk"].secrets == {"secret": "k"}
    assert "'t'" not in repr(made.settings)


@pytest.mark.parametrize(
    ("text", "seconds"),
    (
        *(("10m", 600), ("1h30m", 5400), ("250ms", 0.25), ("1.5s", 1.5), ("2d", 172800)),
        *(("1w", 604800), ("7", 7), ("0", 0), ("1.0e+8", 1e8)),
    ),
)
def test_duration_is_read_with_its_units(folder: Path, text: str, seconds: float) -> None:
    assert company(folder, f"{AGENT}drain: {text}").settings.drain == seconds


SCHEDULE = "\njournal: a.db\nschedules: {s: {every: 5m, to: Clerk}}\nbroker: {}\nhttp: {listen: x}"


def test_company_file_has_these_defaults(folder: Path) -> None:
    settings = company(folder, AGENT + SCHEDULE).settings.model_dump(exclude_none=True)
    assert settings == {
        "agents": {
            "Clerk": {"ref": "program.py:Clerk", "options": {}, "secrets": {}, "restart": {}}
        },
        "schedules": {
            "s": {
                "every": 300.0,
                "timezone": "UTC",
                "missed": "once",
                "to": "Clerk",
                "action": "say",
                "args": {},
                "timeout": 3600.0,
                "thread": "own",
            }
        },
        "journal": "a.db",
        "broker": {"exchange": "moothall", "quorum": False, "keep": 86_400.0},
        "http": {"listen": "x", "callers": {}, "proxies": [], "origins": []},
        "restart": {},
        "given_up": "exit",
        "drain": 30.0,
        "mailbox": 10_000,
    }


@pytest.mark.parametrize(
    ("least", "below"),
    (
        ("deaths: 1", "deaths: 0"),
        ("mailbox: 1", "mailbox: 0"),
        ("drain: 0", "drain: -1"),
        ("drain: 100000000", "drain: 100000001"),
        ("journal: a.db\nexpire: 1ms", "journal: a.db\nexpire: 0"),
        ("journal: a.db\nexpire: 100000000", "journal: a.db\nexpire: 100000001"),
        ("http: {listen: x, rate: 1}", "http: {listen: x, rate: 0}"),
        ("http: {listen: x, max_replies: 1}", "http: {listen: x, max_replies: 0}"),
        ("budget: {tokens: 0}", "budget: {tokens: -1}"),
        ("budget: {usd: 0.0}", "budget: {usd: -0.5}"),
        ("restart: {most: 0}", "restart: {most: -1}"),
    ),
)
def test_company_file_takes_amounts_up_to_their_limits(
    folder: Path, least: str, below: str
) -> None:
    assert company(folder, f"{AGENT}{least}")
    with pytest.raises(ConfigError, match=r"must be|should be|needs"):
        company(folder, f"{AGENT}{below}")
