"""What a model writes for research: read as far as it can be, made safe, and put into form."""
