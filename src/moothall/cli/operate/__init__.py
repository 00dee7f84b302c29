"""Commands for operators of a journal: deleting, moving, budgets."""
