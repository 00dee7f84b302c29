"""Research: plan, research, update, narrate, evaluate, until the objectives are understood."""
