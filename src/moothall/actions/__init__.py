"""Actions: what an agent can do, described well enough for a person, an agent or a model to call.

Schema, help and argument checks come from a function's signature and docstring, or `parameters`.
"""

from moothall.actions.capability import Action as Action
from moothall.actions.marking import ACCESS_DENIED as ACCESS_DENIED
from moothall.actions.marking import ACCESS_PERMITTED as ACCESS_PERMITTED
from moothall.actions.marking import ACCESS_REQUESTED as ACCESS_REQUESTED
from moothall.actions.marking import AccessPolicy as AccessPolicy
from moothall.actions.marking import ActionOptions as ActionOptions
from moothall.actions.marking import MarkedOptions as MarkedOptions
from moothall.actions.marking import action as action
from moothall.actions.registry import ActionRegistry as ActionRegistry
from moothall.actions.retry import Retry as Retry
