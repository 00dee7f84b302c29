"""Models behind a server: OpenAI's chat interface, and what litellm knows."""
