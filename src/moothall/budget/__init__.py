"""What a run may spend: tokens, money, model calls, actions and time.

A spender first reserves an upper bound, and settles afterwards. Of any number of concurrent
reservations, those that do not fit are refused before they begin, or wait in turn.
"""

from moothall.budget.amounts import PriceList
from moothall.budget.budget import Budget, Clock
from moothall.budget.limits import Left, Spent
from moothall.budget.reservation import Reservation
from moothall.budget.stored import StoredBudget
from moothall.foundation.lazily import show_classes

__all__ = [
    "Budget",
    "Clock",
    "Left",
    "PriceList",
    "Reservation",
    "Spent",
    "StoredBudget",
]

show_classes(__name__)
