"""The public names: what users and other packages rely on. A change here is a change for them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import moothall
from moothall import build
from moothall.foundation.lazily import homes_of

NAMES = (
    "A2AAgent",
    "ACCESS_DENIED",
    "ACCESS_PERMITTED",
    "ACCESS_REQUESTED",
    "AMQPOptions",
    "AMQPSpace",
    "AccessPolicy",
    "Action",
    "ActionError",
    "ActionNotFound",
    "ActionRegistry",
    "ActionStep",
    "AddressRefused",
    "Agent",
    "AgentDied",
    "AgentNotFound",
    "AgentParams",
    "AgentStopped",
    "AgentToolbox",
    "AgentType",
    "AgentsSDKAgent",
    "Always",
    "AlwaysInRun",
    "ApprovalRequest",
    "AnthropicModel",
    "Approver",
    "AskAgain",
    "BROADCAST",
    "Block",
    "BlockDispatcher",
    "BlockEnded",
    "BlockParams",
    "BlockStarted",
    "BrokerError",
    "Budget",
    "BudgetLow",
    "BudgetExceeded",
    "CardGone",
    "BudgetedModel",
    "Call",
    "CallEnded",
    "CallProgress",
    "CallStarted",
    "CallbackApprover",
    "ChangedArgs",
    "ChatMessage",
    "ChattyAI",
    "ChosenBy",
    "Citation",
    "CitizenAgent",
    "CitizenAgentParams",
    "CitizenMemory",
    "City",
    "Clock",
    "CommandError",
    "CommandTimeout",
    "Conclusion",
    "ConclusionReached",
    "Condition",
    "ConfigError",
    "Context",
    "ContextOverflow",
    "Conversation",
    "ConversationState",
    "Conversational",
    "ConversationalAgent",
    "DISPATCHER_PROMPT",
    "DeadlineExceeded",
    "DecisionAction",
    "DecisionMade",
    "DefinitionError",
    "Dispatch",
    "Done",
    "DualActAgent",
    "DualActConfig",
    "DualActReply",
    "Deadlock",
    "DuplicateAgent",
    "DurableFunction",
    "Elapsed",
    "Embedder",
    "Emitted",
    "Environment",
    "Event",
    "FallbackModel",
    "FileError",
    "FileTooLarge",
    "Findings",
    "FolderIndexError",
    "GivenUp",
    "Goal",
    "Guidance",
    "HandOver",
    "HashEmbedder",
    "HookError",
    "HopLimitExceeded",
    "Host",
    "HumanDecision",
    "InDoubt",
    "InboxError",
    "InvalidArguments",
    "Interval",
    "InvalidId",
    "InvalidMessage",
    "Journal",
    "JournalError",
    "LangGraphAgent",
    "Later",
    "MCPServerError",
    "LocalEmbedder",
    "LocalModel",
    "MailboxFull",
    "MaxTokens",
    "MaxTurns",
    "Memory",
    "MemoryFileError",
    "MemoryT",
    "Message",
    "MessageAdded",
    "MessagesLeftOut",
    "MissingExtra",
    "MobilityBlock",
    "MobilityBlockParams",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelStep",
    "MoothallError",
    "Narrative",
    "NativeSpace",
    "NeverInRun",
    "NoSuchFile",
    "NoSuchRun",
    "NobodyToAsk",
    "NotAFile",
    "NotInSpace",
    "NotPermitted",
    "NotText",
    "Notes",
    "Objective",
    "OpenAIFunctionAgent",
    "OpenAIModel",
    "Origin",
    "OutsideFolder",
    "PageError",
    "Passage",
    "Person",
    "PostgresMemory",
    "Price",
    "Prices",
    "PydanticAIAgent",
    "Question",
    "RateLimit",
    "ReActAgent",
    "ReasoningPiece",
    "RecordedModel",
    "RefuseAll",
    "Refused",
    "RemoteAgent",
    "RemoteForbidden",
    "Reply",
    "ReplyStream",
    "Report",
    "RequestCancelled",
    "RequestError",
    "RequestTimeout",
    "ResearchResult",
    "ResearchTask",
    "Researcher",
    "Retry",
    "Resource",
    "ResourcePool",
    "ReviewRule",
    "RoundRobin",
    "Rule",
    "RuleApprover",
    "RunDamaged",
    "RunHeld",
    "RunMismatch",
    "RunWaiting",
    "SQLiteMemory",
    "Said",
    "ScriptedModel",
    "SearchError",
    "Skill",
    "Skills",
    "SlashError",
    "SocialBlock",
    "SocialBlockParams",
    "Society",
    "SpaceClosed",
    "Spent",
    "StateError",
    "Step",
    "StepFailed",
    "StopReason",
    "StoppedBy",
    "StreamingModel",
    "SummarizingMemory",
    "SystemPrompt",
    "TerminalApprover",
    "TextPiece",
    "TokenBoundedMemory",
    "TooManyThreads",
    "TurnEnded",
    "TurnStarted",
    "UnknownPrice",
    "UnreadableDocument",
    "Usage",
    "User",
    "Utterance",
    "VirtualTimeError",
    "Waiting",
    "WeightsError",
    "__version__",
    "action",
    "after_budget_share",
    "ask_person",
    "below_confidence",
    "check_skill",
    "complete_many",
    "durable",
    "event_of_json",
    "format_slash",
    "model",
    "no_progress",
    "on_error",
    "parse_slash",
    "show",
    "step",
)


BUILD = (
    "APPENDED",
    "AnswerSchema",
    "CURRENT",
    "CallerContext",
    "Delivery",
    "Envelope",
    "Extension",
    "HTTPClient",
    "HTTPError",
    "HTTPResponse",
    "Language",
    "LoopThread",
    "Mailbox",
    "FieldFault",
    "NULL_RECORD",
    "NotJSON",
    "Ranking",
    "Record",
    "RecordedAgent",
    "Request",
    "Router",
    "SQLiteFile",
    "SQLitePool",
    "SafeHTML",
    "SchemaValidator",
    "SearchWords",
    "Space",
    "StepHandle",
    "Stop",
    "TextValues",
    "Thread",
    "TheirAgent",
    "TheirRequest",
    "TheirRun",
    "Threaded",
    "ToolCall",
    "ToolCalls",
    "Tracing",
    "UnreadableText",
    "Unusable",
    "WORKERS",
    "Words",
    "WorkSpan",
    "check_path",
    "address",
    "answer",
    "approve",
    "as_json",
    "ask_value",
    "call_user",
    "AllowedHosts",
    "ServerURL",
    "check_boolean",
    "check_function",
    "check_integer",
    "check_seconds",
    "check_text",
    "completed",
    "context_value",
    "copy_json",
    "counted",
    "cut",
    "dump_state",
    "error_text",
    "escaped",
    "excerpt",
    "guard",
    "in_child",
    "is_journal_file",
    "is_ours",
    "json_line",
    "json_text",
    "lazily",
    "load_state",
    "log_failure",
    "marked",
    "names_checked",
    "nearest",
    "object_schema",
    "one_line",
    "read_json",
    "read_yaml",
    "recorded",
    "refuse_on_loop",
    "shorten",
    "side_by_side",
    "state_file",
    "stated_delimiter",
    "to_its_end",
    "watch_group",
    "with_sources",
    "written_whole",
)
"""The names of `moothall.build`: at most 92."""


def test_public_names_are_these() -> None:
    assert sorted(moothall.__all__) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)
    assert sorted(build.__all__) == sorted(BUILD)
    assert len(BUILD) <= 92


def test_page_on_building_lists_each_name_once() -> None:
    page = (Path(__file__).parent.parent / "docs" / "build.md").read_text()
    listed = re.findall(r"`(\w+)`", page.partition("\n| for | names |\n")[2])
    assert sorted(listed) == sorted(BUILD)


@pytest.mark.parametrize("name", (*NAMES, *BUILD))
def test_public_name_is_there_and_says_what_it_is(name: str) -> None:
    package = build if name in BUILD else moothall
    thing = getattr(package, name)
    assert getattr(package, name) is thing
    if inspect.isclass(thing) or inspect.isroutine(thing):
        # Its own words, not those inherited from a base or made up by the dataclass decorator.
        text = (thing.__doc__ or "").strip()
        assert text
        assert not text.startswith(f"{name}(")
    else:
        assert thing is not None


@pytest.mark.parametrize(
    "package",
    (
        *(
            "",
            ".actions",
            ".agents",
            ".budget",
            ".build",
            ".journal",
            ".memory",
            ".models",
            ".research",
        ),
        *(".serving", ".serving.doors", ".society", ".society.blocks", ".spaces", ".studio.orders"),
        *(".cli.build", ".studio", ".studio.gradio", ".testing"),
    ),
)
def test_type_checkers_know_the_same_names(package: str) -> None:
    module = importlib.import_module(f"moothall{package}")
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text())
    known = {"__version__"} & {*module.__all__}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            known.add(node.name)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("moothall"):
            home = importlib.import_module(str(node.module))
            names = [name.name for name in node.names]
            if names == ["*"]:
                every = getattr(home, "__all__", vars(home))
                names = [name for name in every if not name.startswith("_")]
            for name in names:
                assert getattr(home, name) is getattr(module, name)
                known.add(name)
    assert known == {*module.__all__}


def test_public_names_are_listed_by_dir() -> None:
    assert set(NAMES) <= set(dir(moothall))
    packages = (
        "actions",
        "agents",
        "build",
        "memory",
        "models",
        "research",
        "serving",
        "society",
        "society.blocks",
    )
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    package = importlib.import_module(f'moothall.{name}')\n"
        "    assert {*package.__all__} <= {*dir(package)}, name\n"
        "try:\n"
        "    package.NeedsBlok\n"
        "except AttributeError as error:\n"
        "    assert \"did you mean 'NeedsBlock'\" in str(error)\n"
    )
    subprocess.run([sys.executable, "-c", program, *packages], check=True)


def test_star_import_brings_all_public_names() -> None:
    program = "from moothall import *\nprint(*sorted(n for n in dir() if not n.startswith('__')))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == sorted(n for n in NAMES if not n.startswith("__"))


def test_star_import_brings_what_the_installed_extras_have() -> None:
    program = (
        "import sys\nsys.modules['numpy'] = None\n"
        "from moothall import *\nprint(*sorted(n for n in dir() if not n.startswith('__')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    missing = {*NAMES} - {*done.stdout.split()} - {"__version__"}
    assert {"City", "Society", "CitizenAgent", "MobilityBlock"} <= missing
    homes = homes_of("moothall")
    assert [name for name in missing if ".society." not in homes[name]] == []


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'moothall' has no attribute 'no_such_name'"):
        moothall.no_such_name  # noqa: B018


def test_action_is_the_decorator_whatever_was_imported_before() -> None:
    program = (
        "import moothall.actions, moothall.agents.agent\n"
        "from moothall import action\n"
        "assert callable(action) and moothall.action is action\n"
        "from moothall.actions import Action\n"
        "print(Action.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "Action\n", done.stderr


def test_agent_and_space_need_no_pydantic() -> None:
    # It takes as long to import as both of them together.
    program = (
        "import sys\nfrom moothall import Agent, NativeSpace\nprint('pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
