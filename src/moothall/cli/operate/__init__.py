"""Commands for whoever operates a journal: deleting, moving, budgets."""
