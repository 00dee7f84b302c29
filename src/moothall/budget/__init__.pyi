"""The public names of this package: `__init__.py` loads them from here."""

from moothall.budget.amounts import PriceList as PriceList
from moothall.budget.budget import Budget as Budget
from moothall.budget.budget import Clock as Clock
from moothall.budget.limits import Left as Left
from moothall.budget.limits import Spent as Spent
from moothall.budget.reservation import Reservation as Reservation
from moothall.budget.stored import StoredBudget as StoredBudget
