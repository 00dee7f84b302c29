"""Models behind a server: OpenAI's chat interface, and the providers that litellm knows."""
