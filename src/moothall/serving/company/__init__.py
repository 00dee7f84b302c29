"""Companies: the agents of a file, supervised, with schedules, health and metrics."""
