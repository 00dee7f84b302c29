"""Agents in many processes, over RabbitMQ."""
