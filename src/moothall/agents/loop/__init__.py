"""The loop: a model chooses actions, an environment executes them, memory keeps the results."""
