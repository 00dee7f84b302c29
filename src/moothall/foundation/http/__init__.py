"""The HTTP client, the switch that forbids calls to other machines, and proxies."""

from moothall.foundation.http.client import HTTPClient as HTTPClient
from moothall.foundation.http.response import BrokenOff as BrokenOff
from moothall.foundation.http.response import HTTPError as HTTPError
from moothall.foundation.http.response import HTTPResponse as HTTPResponse
from moothall.foundation.http.response import error_reason as error_reason
from moothall.foundation.http.retries import LONGEST_WAIT_S as LONGEST_WAIT_S
from moothall.foundation.http.retries import backoff_s as backoff_s
from moothall.foundation.http.retries import is_transient as is_transient
from moothall.foundation.http.retries import retry_after_s as retry_after_s
from moothall.foundation.http.retries import tries_note as tries_note
from moothall.foundation.http.retries import wants_retry as wants_retry
