"""What a step is made of: wants, perception, messages, the commit stage, citizens."""
