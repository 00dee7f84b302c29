"""Agents whose programs other frameworks run: the base of `moothall.serving.theirs`."""
