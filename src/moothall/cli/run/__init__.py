"""The commands that begin runs, and the display of a run."""
