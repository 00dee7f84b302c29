"""A period of budgets stands in one file: budgets, companies and the command read it there.

A user cannot add one, so this test adds it to a copy of the package.
"""

from __future__ import annotations

from tests.extending.conftest import Added

ADDED = (
    ('Per: TypeAlias = Literal["day", "month"', ', "week"'),
    (
        '    "month": _PeriodForm("%Y-%m", "-01", 31),\n',
        '    "week": _PeriodForm("%G-W%V", "-1", 7),\n',
    ),
)
USES = """
from moothall import Budget, BudgetExceeded
from moothall.budget.period import is_period, period_at, renewal_text
from moothall.serving.company.settings import BudgetSettings

assert period_at("week", 1_782_000_000) == "2026-W25"  # a Sunday
assert renewal_text("2026-W25") == "2026-06-22 at 00:00 UTC"
assert renewal_text("2026-W53") == "2027-01-04 at 00:00 UTC"
assert is_period("2026-W53") and not is_period("2026-W54") and not is_period("2026-7")
assert renewal_text("2026-12") == "2027-01-01 at 00:00 UTC" == renewal_text("2026-12-31")
assert BudgetSettings(actions=1, per="week").limits()["per"] == "week"
budget = Budget(actions=1, per="week")
budget.reserve(actions=1).settle()
try:
    budget.reserve(actions=1)
except BudgetExceeded as error:
    assert "it is renewed on " in str(error), error
else:
    raise AssertionError
again = Budget(actions=1, per="week")
again.load_state_dict(budget.state_dict())
assert again.spent.actions == 1
"""


def test_period_added_in_one_file_is_known_to_budgets_companies_and_the_command(
    added: Added,
) -> None:
    run = added({"budget/period.py": ADDED})
    run("-c", USES)
    help = run("-m", "moothall", "serve", "--help")
    assert "each day or month or week" in " ".join(help.split())
