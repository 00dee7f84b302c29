"""Agents as models of OpenAI's interface."""
