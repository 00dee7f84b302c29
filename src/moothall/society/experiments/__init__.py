"""Experiments with a society: surveys, interviews and interventions."""
