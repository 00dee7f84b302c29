"""The names of spans, attributes and metrics: the GenAI conventions of OpenTelemetry, and ours.

The conventions (0.1.0) are in development; what changes there changes in this file only.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SCOPE: Final = "moothall"
"""The instrumentation scope of all spans and metrics."""

# -- operations: a span is named by its operation and by what it is done to ------------------------
CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
EXECUTE_TOOL: Final = "execute_tool"
RETRIEVAL: Final = "retrieval"
PLAN: Final = "plan"
EVALUATION_RESULT: Final = "gen_ai.evaluation.result"
"""The event of a grade."""
SEND: Final = "send"
PROCESS: Final = "process"

WORKFLOWS: Final = frozenset(("DualActAgent", "Conversation", "Researcher", "Society"))
"""The classes of agents whose reply is a workflow; that of any other is an agent's."""

# -- attributes of the GenAI conventions -----------------------------------------------------------
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_ID: Final = "gen_ai.agent.id"
"""Of agents elsewhere alone: one of this process has a name."""
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_FIELDS: Final = {
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}
"""By the field of a request to a provider."""
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOKEN_TYPE: Final = "gen_ai.token.type"
DATA_SOURCE_ID: Final = "gen_ai.data_source.id"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_VALUE: Final = "gen_ai.evaluation.score.value"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"

# Only with `content=True`.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
QUERY_TEXT: Final = "gen_ai.retrieval.query.text"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"

# -- attributes of other conventions ---------------------------------------------------------------
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION: Final = "messaging.operation.name"
MESSAGING_OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGING_DESTINATION: Final = "messaging.destination.name"
MESSAGING_ID: Final = "messaging.message.id"

# -- ours ------------------------------------------------------------------------------------------
RUN_ID: Final = "moothall.run.id"
RUN_PREFIX: Final = "moothall.run"
"""Before the name of what the caller says of the run, such as `moothall.run.tags.customer`."""
STOP_REASON: Final = "moothall.stop_reason"
ACTION: Final = "moothall.action"
ACTION_FACTS_PREFIX: Final = "moothall.action.facts"
"""Before the name of a fact of the action, such as `moothall.action.facts.danger`."""
TOTAL_INPUT_TOKENS: Final = "moothall.usage.input_tokens"
TOTAL_OUTPUT_TOKENS: Final = "moothall.usage.output_tokens"
"""Of a whole reply: a backend that adds up `gen_ai.usage` must not find its calls' tokens again."""
SENDER: Final = "moothall.sender"
STEP: Final = "moothall.step"

# -- metrics ---------------------------------------------------------------------------------------
DURATION: Final = "gen_ai.client.operation.duration"
AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
_FIRST_CHUNK_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip


class _Instrument(NamedTuple):
    unit: str
    description: str
    buckets: tuple[float, ...]


_SHORT_BUCKETS: Final = tuple(0.01 * 2**n for n in range(14))
_LONG_BUCKETS: Final = tuple(0.1 * 2**n for n in range(16))
METRICS: Final = {
    DURATION: _Instrument("s", "How long an operation took.", _SHORT_BUCKETS),
    AGENT_DURATION: _Instrument(
        "s", "How long a reply of an agent, or a workflow, took.", _LONG_BUCKETS
    ),
    TOOL_DURATION: _Instrument("s", "How long a call of an action took.", _SHORT_BUCKETS),
    TOKEN_USAGE: _Instrument(
        "{token}", "The tokens of a call of a model.", tuple(4**n for n in range(14))
    ),
    TIME_TO_FIRST_CHUNK: _Instrument(
        "s", "How long the first piece of a streamed answer took.", _FIRST_CHUNK_BUCKETS
    ),
}
"""To add one, record its values by `SpanStarter.measure`."""
