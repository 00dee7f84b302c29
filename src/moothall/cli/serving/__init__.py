"""Commands that connect agents to others: over RabbitMQ, HTTP and MCP."""
