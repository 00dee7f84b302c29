"""Why an answer of a model ended: what servers call it, and what becomes of the answer."""

from __future__ import annotations

from typing import Final, NamedTuple


class FinishReason(NamedTuple):
    """What is known of a reason."""

    server_words: str = ""  # with spaces between them
    detail: str = ""  # what a reply's `detail` says of an answer that ended so
    cuts: bool = False  # whether the answer was longer than what there is of it
    fault: str = ""  # what the model is told of an answer without calls, if that cannot be used


FINISH_REASONS: Final = {
    "stop": FinishReason(
        "stop tool_calls tool_call tool_use function_call function_calls end_turn stop_sequence"
        " pause_turn eos eos_token complete completed finished done normal stop_token stop_str null"
        " none unspecified"
    ),
    "calls": FinishReason(),
    "length": FinishReason(
        "length max_tokens max_output_tokens max_completion_tokens max_new_tokens max_length"
        " model_length token_limit model_context_window_exceeded error_limit context_length"
        " context_length_exceeded context_window_exceeded",
        "cut at the model's length limit",
        cuts=True,
    ),
    "content_filter": FinishReason(
        "content_filter content_filtered sensitive guardrail_intervened safety"
        " recitation blocklist prohibited_content spii language image_safety image_recitation"
        " image_prohibited_content error_toxic content_policy_violation",
        "cut by the provider's content filter",
        cuts=True,
    ),
    "refusal": FinishReason("refusal", "refused by the model"),
    "unreadable": FinishReason(
        fault="The call of an action could not be read: call it again, or answer with text."
    ),
}
"""By our word for it, which `ModelReply.finish_reason` has."""
FAULTS: Final = {word: each.fault for word, each in FINISH_REASONS.items() if each.fault}
CUT: Final = frozenset(word for word, each in FINISH_REASONS.items() if each.cuts)
REASON_OF_SERVER_WORD: Final = {
    theirs: word for word, each in FINISH_REASONS.items() for theirs in each.server_words.split()
}
"""Our word for each of the servers'."""
