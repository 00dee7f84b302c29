"""Approvers: they permit actions and answer questions."""

from civitas.approval.approval import (
    ApprovalRequest,
    Approver,
    CallbackApprover,
    Question,
    RefuseAll,
    Refused,
    Rule,
    RuleApprover,
    TerminalApprover,
    answer,
    approve,
    check_approver,
)

__all__ = [
    "ApprovalRequest",
    "Approver",
    "CallbackApprover",
    "Question",
    "RefuseAll",
    "Refused",
    "Rule",
    "RuleApprover",
    "TerminalApprover",
    "answer",
    "approve",
    "check_approver",
]
