"""`civitas act`, and what shows a run."""
