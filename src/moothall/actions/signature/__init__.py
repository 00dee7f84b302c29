"""What callers need of a function: description, JSON schema, and the check of arguments."""

from moothall.actions.signature.signature import Signature, check_parameters, check_returns

__all__ = ["Signature", "check_parameters", "check_returns"]
