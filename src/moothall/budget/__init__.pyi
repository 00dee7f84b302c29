"""The public names of this package: `__init__.py` loads them from here."""

from moothall.budget.amounts import PriceList as PriceList
from moothall.budget.budget import Budget as Budget
from moothall.budget.budget import Clock as Clock
from moothall.budget.limits import LIMITS as LIMITS
from moothall.budget.limits import RUN_LIMITS as RUN_LIMITS
from moothall.budget.limits import Left as Left
from moothall.budget.limits import Limit as Limit
from moothall.budget.limits import RunLimits as RunLimits
from moothall.budget.limits import Spent as Spent
from moothall.budget.period import Per as Per
from moothall.budget.reservation import Reservation as Reservation
from moothall.budget.stored_budget import StoredBudget as StoredBudget
