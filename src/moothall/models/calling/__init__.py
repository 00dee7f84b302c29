"""How a model without a format of its own is shown actions, and how its calls are read."""
