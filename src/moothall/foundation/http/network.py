"""Connections to other machines: their certificates."""

from __future__ import annotations

from typing import Any, Final

_UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)
"""OpenSSL's codes for a certificate whose issuer is not among the known ones."""


def certificate_fault(error: BaseException) -> str:
    """Return why a server's certificate was refused, and what to do; empty for other errors."""
    cause: Any = getattr(error, "certificate_error", error)
    code = getattr(cause, "verify_code", None)
    if code is None:
        return ""
    text = f"CERTIFICATE_VERIFY_FAILED: {cause.verify_message}"
    if code in _UNKNOWN_AUTHORITY:
        text += (
            "; for certificates of your own network, set SSL_CERT_FILE to the file that has them"
        )
    return text
