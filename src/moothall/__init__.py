"""moothall: agents that talk, act and check each other's work, in one vocabulary.

The public names are here; each is loaded when it is first used. `__init__.pyi` lists them for
type checkers and editors.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from moothall.text import lazily

_NAMES = """
a2a.agent: A2AAgent
action: ACCESS_DENIED ACCESS_PERMITTED ACCESS_REQUESTED Action ActionRegistry action
agent: Agent
agents.chatty: ChattyAI
agents.function: OpenAIFunctionAgent
agents.host: Host
agents.person: Person ask_person
agents.remote_agent: RemoteAgent
agents.show_reply: show
agents.user: User
approval: Always ApprovalRequest Approver CallbackApprover ChangedArgs Question RefuseAll Refused
    Rule RuleApprover TerminalApprover
block: Block
budget: Budget Spent
clock: Clock
context: Context
dispatch: AgentToolbox BlockDispatcher DISPATCHER_PROMPT Dispatch
environment: Environment
errors: ActionError ActionNotFound AddressRefused AgentDied AgentNotFound AgentStopped AskAgain
    BrokerError BudgetExceeded CardGone CommandError CommandTimeout ConfigError
    ContextOverflow DeadlineExceeded DefinitionError DuplicateAgent FileError FileTooLarge
    FolderIndexError GivenUp HookError HopLimitExceeded InDoubt InboxError InvalidArguments
    InvalidId InvalidMessage JournalError MCPServerError MailboxFull MemoryFileError MissingExtra
    ModelError MoothallError NoSuchFile NoSuchRun NobodyToAsk NotAFile NotInSpace NotPermitted
    NotText OutsideFolder
    PageError RemoteForbidden RequestCancelled RequestError RequestTimeout RunHeld RunMismatch
    SearchError SlashError SpaceClosed StateError TelemetryError TooManyThreads UnknownPrice
    UnreadableDocument
    VirtualTimeError WeightsError
goal: Goal
journal: Journal
memory.bounded: TokenBoundedMemory
memory.embedder: Embedder HashEmbedder
memory.memory: Memory
memory.memory_config: MemoryT
memory.postgres: PostgresMemory
memory.sqlite: SQLiteMemory
memory.summarizing: SummarizingMemory
message: Message
provenance: Origin
models.wrappers.budgeted: BudgetedModel
models.wrappers.fallback: FallbackModel
models.remote.rate_limit: RateLimit
models.remote.anthropic: AnthropicModel
models.remote.litellm: LiteLLMModel
models.local: LocalModel
models.local_embedder: LocalEmbedder
models.names: model
models.remote.openai: OpenAIModel
models.wrappers.prices: Price Prices
models.protocol: Call ChatMessage Model ModelReply ReasoningPiece StreamingModel TextPiece Usage
models.wrappers.recorded: RecordedModel
models.wrappers.scripted: ScriptedModel
params: AgentParams BlockParams
reasoning.conversation.chosen_by: ChosenBy
reasoning.conversation.conversation: Conversation
reasoning.conversation.speaking_order: HandOver RoundRobin
reasoning.conversation.conversation_state: ConversationState
reasoning.conversation.termination: Condition Elapsed MaxTokens MaxTurns Said StoppedBy
reasoning.conversational: ConversationalAgent
reasoning.dualact.dual_act: DualActAgent
reasoning.dualact.config: DualActConfig ReviewRule after_budget_share below_confidence no_progress
    on_error
reasoning.dualact.dual_act_state: DualActReply
reasoning.events: BlockEnded BlockStarted CallEnded CallProgress CallStarted Conclusion
    ConclusionReached DecisionAction DecisionMade Done Event HumanDecision MessageAdded TurnEnded
    TurnStarted Utterance
reasoning.loop.react: ReActAgent
reasoning.reply: Reply Step StopReason
reasoning.reply_request: Conversational
reasoning.stream: ReplyStream
research.findings: Citation Findings Narrative Objective Passage ResearchResult ResearchTask
    Resource
research.pool: ResourcePool
research.report: Report
research.researcher: Researcher
skills: Skill Skills check_skill
slash: format_slash parse_slash
society.blocks.mobility: MobilityBlock MobilityBlockParams
society.blocks.social: SocialBlock SocialBlockParams
society.kernel.citizen: AgentType CitizenAgent CitizenAgentParams CitizenMemory
society.city.city: City
society.society: Society
spaces.amqp.amqp_options: AMQPOptions
spaces.amqp.amqp_space: AMQPSpace
spaces.native: NativeSpace
"""


def _homes() -> dict[str, str]:
    """Return the module of each public name."""
    homes, home = {}, ""
    for word in _NAMES.split():
        if word.endswith(":"):
            home = word[:-1]
        else:
            homes[word] = home
    return homes


_HOME = _homes()

__version__ = "0.1.0"
__getattr__, __dir__ = lazily(__name__, _HOME)


class _Package(ModuleType):
    """Keeps the name `action` for the decorator; importing the module would replace it."""

    @property
    def __all__(self) -> list[str]:
        """The public names that this installation has, for `from moothall import *`."""
        names = ["__version__", *sorted(_HOME)]
        try:
            importlib.import_module("moothall.society.arrays")
        except ImportError:  # no extra `society`: the star would fail at its first name
            return [name for name in names if not _HOME.get(name, "").startswith("society.")]
        return names

    @property
    def action(self) -> Any:
        """The `@action` decorator."""
        return importlib.import_module("moothall.action").action

    @action.setter
    def action(self, module: ModuleType) -> None:
        """Ignore the module, which the import system assigns."""


sys.modules[__name__].__class__ = _Package
