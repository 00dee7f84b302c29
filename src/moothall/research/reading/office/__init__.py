"""Read what Office programs write: texts, sheets and slides; what they hide is left out."""
