"""What callers need of a function: description, JSON schema, and the check of arguments."""

from moothall.actions.signature.signature import Signature, checked_parameters, refuse_generator

__all__ = ["Signature", "checked_parameters", "refuse_generator"]
