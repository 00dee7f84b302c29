"""What the actions of other agents ask of a run that calls them."""
