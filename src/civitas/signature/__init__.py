"""What a function says to its callers: description, JSON schema, and the check of arguments."""

from civitas.signature.signature import Signature, check_parameters

__all__ = ["Signature", "check_parameters"]
