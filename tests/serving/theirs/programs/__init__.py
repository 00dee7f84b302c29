"""Programs in the shape of the frameworks' own examples, with scripted models and local effects."""
