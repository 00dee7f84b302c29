"""Models behind a server: OpenAI's interfaces, and Anthropic's."""
