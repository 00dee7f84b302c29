"""Approvers: they permit actions and answer questions."""

from moothall.actions.approval.approval import Approver as Approver
from moothall.actions.approval.approval import CallbackApprover as CallbackApprover
from moothall.actions.approval.approval import RefuseAll as RefuseAll
from moothall.actions.approval.approval import Waiting as Waiting
from moothall.actions.approval.approval import answer as answer
from moothall.actions.approval.approval import approve as approve
from moothall.actions.approval.approval import check_approver as check_approver
from moothall.actions.approval.decision import Always as Always
from moothall.actions.approval.decision import AlwaysInRun as AlwaysInRun
from moothall.actions.approval.decision import ChangedArgs as ChangedArgs
from moothall.actions.approval.decision import NeverInRun as NeverInRun
from moothall.actions.approval.decision import Refused as Refused
from moothall.actions.approval.later import Later as Later
from moothall.actions.approval.request import ApprovalRequest as ApprovalRequest
from moothall.actions.approval.request import CallToApprove as CallToApprove
from moothall.actions.approval.request import Question as Question
from moothall.actions.approval.rules import Rule as Rule
from moothall.actions.approval.rules import RuleApprover as RuleApprover
from moothall.actions.approval.terminal import TerminalApprover as TerminalApprover
