"""Approvers: they permit actions and answer questions."""

from moothall.approval.approval import CALL_TO_APPROVE as CALL_TO_APPROVE
from moothall.approval.approval import Always as Always
from moothall.approval.approval import ApprovalRequest as ApprovalRequest
from moothall.approval.approval import Approver as Approver
from moothall.approval.approval import CallbackApprover as CallbackApprover
from moothall.approval.approval import CallToApprove as CallToApprove
from moothall.approval.approval import ChangedArgs as ChangedArgs
from moothall.approval.approval import Question as Question
from moothall.approval.approval import RefuseAll as RefuseAll
from moothall.approval.approval import Refused as Refused
from moothall.approval.approval import TerminalApprover as TerminalApprover
from moothall.approval.approval import Waiting as Waiting
from moothall.approval.approval import answer as answer
from moothall.approval.approval import approve as approve
from moothall.approval.approval import check_approver as check_approver
from moothall.approval.later import Later as Later
from moothall.approval.rules import Rule as Rule
from moothall.approval.rules import RuleApprover as RuleApprover
