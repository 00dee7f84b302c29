"""Models around models: budgets, limits, recordings, fallbacks, scripts."""
