"""civitas: agents that talk, act and check each other's work, in one vocabulary.

The public names are here; each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from civitas.action import ACCESS_DENIED as ACCESS_DENIED
    from civitas.action import ACCESS_PERMITTED as ACCESS_PERMITTED
    from civitas.action import ACCESS_REQUESTED as ACCESS_REQUESTED
    from civitas.action import Action as Action
    from civitas.action import ActionRegistry as ActionRegistry
    from civitas.action import action as action
    from civitas.agent import Agent as Agent
    from civitas.agent import Context as Context
    from civitas.agents.chatty import ChattyAI as ChattyAI
    from civitas.agents.function import OpenAIFunctionAgent as OpenAIFunctionAgent
    from civitas.agents.host import Host as Host
    from civitas.agents.person import Person as Person
    from civitas.agents.remote import RemoteAgent as RemoteAgent
    from civitas.agents.user import User as User
    from civitas.approval import ApprovalRequest as ApprovalRequest
    from civitas.approval import Approver as Approver
    from civitas.approval import CallbackApprover as CallbackApprover
    from civitas.approval import Question as Question
    from civitas.approval import RefuseAll as RefuseAll
    from civitas.approval import Rule as Rule
    from civitas.approval import RuleApprover as RuleApprover
    from civitas.approval import TerminalApprover as TerminalApprover
    from civitas.budget import Budget as Budget
    from civitas.budget import Spent as Spent
    from civitas.environment import Environment as Environment
    from civitas.errors import ActionError as ActionError
    from civitas.errors import ActionNotFound as ActionNotFound
    from civitas.errors import AgentNotFound as AgentNotFound
    from civitas.errors import AgentStopped as AgentStopped
    from civitas.errors import AskAgain as AskAgain
    from civitas.errors import BrokerError as BrokerError
    from civitas.errors import BudgetExceeded as BudgetExceeded
    from civitas.errors import CivitasError as CivitasError
    from civitas.errors import CommandError as CommandError
    from civitas.errors import CommandTimeout as CommandTimeout
    from civitas.errors import ConfigError as ConfigError
    from civitas.errors import ContextOverflow as ContextOverflow
    from civitas.errors import DeadlineExceeded as DeadlineExceeded
    from civitas.errors import DefinitionError as DefinitionError
    from civitas.errors import DuplicateAgent as DuplicateAgent
    from civitas.errors import FileError as FileError
    from civitas.errors import FileTooLarge as FileTooLarge
    from civitas.errors import HookError as HookError
    from civitas.errors import HopLimitExceeded as HopLimitExceeded
    from civitas.errors import InboxError as InboxError
    from civitas.errors import InDoubt as InDoubt
    from civitas.errors import InvalidArguments as InvalidArguments
    from civitas.errors import InvalidId as InvalidId
    from civitas.errors import InvalidMessage as InvalidMessage
    from civitas.errors import JournalError as JournalError
    from civitas.errors import MailboxFull as MailboxFull
    from civitas.errors import MemoryFileError as MemoryFileError
    from civitas.errors import MissingExtra as MissingExtra
    from civitas.errors import ModelError as ModelError
    from civitas.errors import NobodyToAsk as NobodyToAsk
    from civitas.errors import NoSuchFile as NoSuchFile
    from civitas.errors import NoSuchRun as NoSuchRun
    from civitas.errors import NotAFile as NotAFile
    from civitas.errors import NotInSpace as NotInSpace
    from civitas.errors import NotPermitted as NotPermitted
    from civitas.errors import NotText as NotText
    from civitas.errors import OutsideFolder as OutsideFolder
    from civitas.errors import RemoteForbidden as RemoteForbidden
    from civitas.errors import RequestCancelled as RequestCancelled
    from civitas.errors import RequestError as RequestError
    from civitas.errors import RequestTimeout as RequestTimeout
    from civitas.errors import RunHeld as RunHeld
    from civitas.errors import RunMismatch as RunMismatch
    from civitas.errors import SlashError as SlashError
    from civitas.errors import SpaceClosed as SpaceClosed
    from civitas.errors import StateError as StateError
    from civitas.errors import TooManyThreads as TooManyThreads
    from civitas.errors import UnknownPrice as UnknownPrice
    from civitas.errors import WeightsError as WeightsError
    from civitas.goal import Goal as Goal
    from civitas.journal import Journal as Journal
    from civitas.memory.bounded import TokenBoundedMemory as TokenBoundedMemory
    from civitas.memory.embedder import Embedder as Embedder
    from civitas.memory.embedder import HashEmbedder as HashEmbedder
    from civitas.memory.memory import Memory as Memory
    from civitas.memory.sqlite import SQLiteMemory as SQLiteMemory
    from civitas.memory.summarizing import SummarizingMemory as SummarizingMemory
    from civitas.models.budgeted import BudgetedModel as BudgetedModel
    from civitas.models.fallback import FallbackModel as FallbackModel
    from civitas.models.limits import RateLimit as RateLimit
    from civitas.models.litellm import LiteLLMModel as LiteLLMModel
    from civitas.models.local import LocalModel as LocalModel
    from civitas.models.local_embedder import LocalEmbedder as LocalEmbedder
    from civitas.models.names import model as model
    from civitas.models.openai import OpenAIModel as OpenAIModel
    from civitas.models.prices import Price as Price
    from civitas.models.prices import Prices as Prices
    from civitas.models.protocol import Call as Call
    from civitas.models.protocol import Model as Model
    from civitas.models.protocol import ModelReply as ModelReply
    from civitas.models.protocol import ReasoningPiece as ReasoningPiece
    from civitas.models.protocol import StreamingModel as StreamingModel
    from civitas.models.protocol import TextPiece as TextPiece
    from civitas.models.protocol import Usage as Usage
    from civitas.models.recorded import RecordedModel as RecordedModel
    from civitas.models.scripted import ScriptedModel as ScriptedModel
    from civitas.models.transformers import TransformersModel as TransformersModel
    from civitas.reasoning.conversation.chosen_by import ChosenBy as ChosenBy
    from civitas.reasoning.conversation.conversation import Conversation as Conversation
    from civitas.reasoning.conversation.hand_over import HandOver as HandOver
    from civitas.reasoning.conversation.order import RoundRobin as RoundRobin
    from civitas.reasoning.conversation.state import ConversationState as ConversationState
    from civitas.reasoning.conversation.state import TurnEnded as TurnEnded
    from civitas.reasoning.conversation.state import TurnStarted as TurnStarted
    from civitas.reasoning.conversation.state import Utterance as Utterance
    from civitas.reasoning.conversation.termination import Condition as Condition
    from civitas.reasoning.conversation.termination import Elapsed as Elapsed
    from civitas.reasoning.conversation.termination import MaxTokens as MaxTokens
    from civitas.reasoning.conversation.termination import MaxTurns as MaxTurns
    from civitas.reasoning.conversation.termination import Said as Said
    from civitas.reasoning.conversation.termination import StoppedBy as StoppedBy
    from civitas.reasoning.conversational import Conversational as Conversational
    from civitas.reasoning.conversational import ConversationalAgent as ConversationalAgent
    from civitas.reasoning.dualact.agent import DualActAgent as DualActAgent
    from civitas.reasoning.dualact.conclusions import Conclusion as Conclusion
    from civitas.reasoning.dualact.conclusions import DecisionAction as DecisionAction
    from civitas.reasoning.dualact.conclusions import HumanDecision as HumanDecision
    from civitas.reasoning.dualact.config import DualActConfig as DualActConfig
    from civitas.reasoning.dualact.progress import DualActReply as DualActReply
    from civitas.reasoning.dualact.review import ReviewRule as ReviewRule
    from civitas.reasoning.dualact.review import after_budget_share as after_budget_share
    from civitas.reasoning.dualact.review import below_confidence as below_confidence
    from civitas.reasoning.dualact.review import no_progress as no_progress
    from civitas.reasoning.dualact.review import on_error as on_error
    from civitas.reasoning.events import CallEnded as CallEnded
    from civitas.reasoning.events import CallStarted as CallStarted
    from civitas.reasoning.events import ConclusionReached as ConclusionReached
    from civitas.reasoning.events import DecisionMade as DecisionMade
    from civitas.reasoning.events import Done as Done
    from civitas.reasoning.events import MessageAdded as MessageAdded
    from civitas.reasoning.person import ask_person as ask_person
    from civitas.reasoning.react import ReActAgent as ReActAgent
    from civitas.reasoning.reply import Reply as Reply
    from civitas.reasoning.reply import Step as Step
    from civitas.reasoning.stream import ReplyStream as ReplyStream
    from civitas.slash import format_slash as format_slash
    from civitas.slash import parse_slash as parse_slash
    from civitas.spaces.amqp.options import AMQPOptions as AMQPOptions
    from civitas.spaces.amqp.space import AMQPSpace as AMQPSpace
    from civitas.spaces.native import NativeSpace as NativeSpace

_HOMES = {
    "civitas.action": (
        "ACCESS_DENIED",
        "ACCESS_PERMITTED",
        "ACCESS_REQUESTED",
        "Action",
        "ActionRegistry",
        "action",
    ),
    "civitas.agent": (
        "Agent",
        "Context",
    ),
    "civitas.agents.chatty": ("ChattyAI",),
    "civitas.agents.function": ("OpenAIFunctionAgent",),
    "civitas.agents.host": ("Host",),
    "civitas.agents.person": ("Person",),
    "civitas.agents.remote": ("RemoteAgent",),
    "civitas.agents.user": ("User",),
    "civitas.approval": (
        "ApprovalRequest",
        "Approver",
        "CallbackApprover",
        "Question",
        "RefuseAll",
        "Rule",
        "RuleApprover",
        "TerminalApprover",
    ),
    "civitas.budget": (
        "Budget",
        "Spent",
    ),
    "civitas.environment": ("Environment",),
    "civitas.errors": (
        "ActionError",
        "ActionNotFound",
        "AgentNotFound",
        "AgentStopped",
        "AskAgain",
        "BrokerError",
        "BudgetExceeded",
        "CivitasError",
        "CommandError",
        "CommandTimeout",
        "ConfigError",
        "ContextOverflow",
        "DeadlineExceeded",
        "DefinitionError",
        "DuplicateAgent",
        "FileError",
        "FileTooLarge",
        "HookError",
        "HopLimitExceeded",
        "InDoubt",
        "InboxError",
        "InvalidArguments",
        "InvalidId",
        "InvalidMessage",
        "JournalError",
        "MailboxFull",
        "MemoryFileError",
        "MissingExtra",
        "ModelError",
        "NoSuchFile",
        "NoSuchRun",
        "NobodyToAsk",
        "NotAFile",
        "NotInSpace",
        "NotPermitted",
        "NotText",
        "OutsideFolder",
        "RemoteForbidden",
        "RequestCancelled",
        "RequestError",
        "RequestTimeout",
        "RunHeld",
        "RunMismatch",
        "SlashError",
        "SpaceClosed",
        "StateError",
        "TooManyThreads",
        "UnknownPrice",
        "WeightsError",
    ),
    "civitas.goal": ("Goal",),
    "civitas.journal": ("Journal",),
    "civitas.memory.bounded": ("TokenBoundedMemory",),
    "civitas.memory.embedder": (
        "Embedder",
        "HashEmbedder",
    ),
    "civitas.memory.memory": ("Memory",),
    "civitas.memory.sqlite": ("SQLiteMemory",),
    "civitas.memory.summarizing": ("SummarizingMemory",),
    "civitas.models.budgeted": ("BudgetedModel",),
    "civitas.models.fallback": ("FallbackModel",),
    "civitas.models.limits": ("RateLimit",),
    "civitas.models.litellm": ("LiteLLMModel",),
    "civitas.models.local": ("LocalModel",),
    "civitas.models.local_embedder": ("LocalEmbedder",),
    "civitas.models.names": ("model",),
    "civitas.models.openai": ("OpenAIModel",),
    "civitas.models.prices": (
        "Price",
        "Prices",
    ),
    "civitas.models.protocol": (
        "Call",
        "Model",
        "ModelReply",
        "ReasoningPiece",
        "StreamingModel",
        "TextPiece",
        "Usage",
    ),
    "civitas.models.recorded": ("RecordedModel",),
    "civitas.models.scripted": ("ScriptedModel",),
    "civitas.models.transformers": ("TransformersModel",),
    "civitas.reasoning.conversation.chosen_by": ("ChosenBy",),
    "civitas.reasoning.conversation.conversation": ("Conversation",),
    "civitas.reasoning.conversation.hand_over": ("HandOver",),
    "civitas.reasoning.conversation.order": ("RoundRobin",),
    "civitas.reasoning.conversation.state": (
        "ConversationState",
        "TurnEnded",
        "TurnStarted",
        "Utterance",
    ),
    "civitas.reasoning.conversation.termination": (
        "Condition",
        "Elapsed",
        "MaxTokens",
        "MaxTurns",
        "Said",
        "StoppedBy",
    ),
    "civitas.reasoning.conversational": (
        "Conversational",
        "ConversationalAgent",
    ),
    "civitas.reasoning.dualact.agent": ("DualActAgent",),
    "civitas.reasoning.dualact.conclusions": (
        "Conclusion",
        "DecisionAction",
        "HumanDecision",
    ),
    "civitas.reasoning.dualact.config": ("DualActConfig",),
    "civitas.reasoning.dualact.progress": ("DualActReply",),
    "civitas.reasoning.dualact.review": (
        "ReviewRule",
        "after_budget_share",
        "below_confidence",
        "no_progress",
        "on_error",
    ),
    "civitas.reasoning.events": (
        "CallEnded",
        "CallStarted",
        "ConclusionReached",
        "DecisionMade",
        "Done",
        "MessageAdded",
    ),
    "civitas.reasoning.person": ("ask_person",),
    "civitas.reasoning.react": ("ReActAgent",),
    "civitas.reasoning.reply": (
        "Reply",
        "Step",
    ),
    "civitas.reasoning.stream": ("ReplyStream",),
    "civitas.slash": (
        "format_slash",
        "parse_slash",
    ),
    "civitas.spaces.amqp.options": ("AMQPOptions",),
    "civitas.spaces.amqp.space": ("AMQPSpace",),
    "civitas.spaces.native": ("NativeSpace",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'civitas' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps the name `action` for the decorator; importing its module would take it."""

    @property
    def action(self) -> Any:
        """The `@action` decorator."""
        return importlib.import_module("civitas.action").action

    @action.setter
    def action(self, module: ModuleType) -> None:
        """Called by the import system with the module."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
