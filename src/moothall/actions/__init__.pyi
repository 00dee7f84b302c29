"""The public names of this package: `__init__.py` loads them from here."""

from moothall.actions.approval.decision import DECISION_KINDS as DECISION_KINDS
from moothall.actions.approval.decision import Decision as Decision
from moothall.actions.approval.decision import DecisionKind as DecisionKind
from moothall.actions.approval.decision import DecisionKinds as DecisionKinds
from moothall.actions.capability import Action as Action
from moothall.actions.marking import ACCESS_DENIED as ACCESS_DENIED
from moothall.actions.marking import ACCESS_PERMITTED as ACCESS_PERMITTED
from moothall.actions.marking import ACCESS_REQUESTED as ACCESS_REQUESTED
from moothall.actions.marking import AccessPolicy as AccessPolicy
from moothall.actions.marking import action as action
from moothall.actions.marking import checked_policy as checked_policy
from moothall.actions.registry import ActionRegistry as ActionRegistry
from moothall.actions.retry import Retry as Retry
