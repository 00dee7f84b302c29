"""`civitas chat`."""
