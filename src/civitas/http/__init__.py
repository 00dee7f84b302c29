"""The HTTP client, the switch that forbids calls to other machines, and proxies."""

from civitas.http.client import (
    LONGEST_WAIT_S,
    Client,
    HTTPError,
    Response,
    TooLarge,
    TooLate,
    error_reason,
    may_pass,
    retry_after_s,
)

__all__ = [
    "LONGEST_WAIT_S",
    "Client",
    "HTTPError",
    "Response",
    "TooLarge",
    "TooLate",
    "error_reason",
    "may_pass",
    "retry_after_s",
]
