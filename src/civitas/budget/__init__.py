"""What a run may spend: tokens, money, model calls, actions and time.

Who is about to spend reserves first, at an upper bound, and settles afterwards: of any number that
reserve at the same time, those that do not fit are refused before they begin, or wait in turn.
"""

from civitas.budget.account import Reservation
from civitas.budget.amounts import Left, Spent
from civitas.budget.budget import Budget, Clock, PriceList

__all__ = ["Budget", "Clock", "Left", "PriceList", "Reservation", "Spent"]
