"""The package of somebody else is not collected here: its tests run where it is installed."""

collect_ignore = ["courier"]
