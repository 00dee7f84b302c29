"""What the model of a run is shown: its prompt and actions, and as much as fits."""
