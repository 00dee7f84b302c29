"""What a command was ordered to do, as its run records it; and the agent that it asks for."""
