"""Actions: what an agent can do, described well enough for a person, an agent or a model to call.

Schema, help and argument checks come from a function's signature and docstring, or `parameters`.
"""

from moothall.action.capability import Action as Action
from moothall.action.marking import ACCESS_DENIED as ACCESS_DENIED
from moothall.action.marking import ACCESS_PERMITTED as ACCESS_PERMITTED
from moothall.action.marking import ACCESS_REQUESTED as ACCESS_REQUESTED
from moothall.action.marking import AccessPolicy as AccessPolicy
from moothall.action.marking import ActionOptions as ActionOptions
from moothall.action.marking import MarkedOptions as MarkedOptions
from moothall.action.marking import action as action
from moothall.action.registry import ActionRegistry as ActionRegistry
from moothall.action.retry import Retry as Retry
