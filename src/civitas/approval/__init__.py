"""Approvers: they permit actions and answer questions."""

from civitas.approval.approval import ApprovalRequest as ApprovalRequest
from civitas.approval.approval import Approver as Approver
from civitas.approval.approval import CallbackApprover as CallbackApprover
from civitas.approval.approval import Question as Question
from civitas.approval.approval import RefuseAll as RefuseAll
from civitas.approval.approval import Refused as Refused
from civitas.approval.approval import Rule as Rule
from civitas.approval.approval import RuleApprover as RuleApprover
from civitas.approval.approval import TerminalApprover as TerminalApprover
from civitas.approval.approval import answer as answer
from civitas.approval.approval import approve as approve
from civitas.approval.approval import check_approver as check_approver
