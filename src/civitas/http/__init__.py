"""The HTTP client, the switch that forbids calls to other machines, and proxies."""

from civitas.http.client import LONGEST_WAIT_S as LONGEST_WAIT_S
from civitas.http.client import Client as Client
from civitas.http.client import HTTPError as HTTPError
from civitas.http.client import Response as Response
from civitas.http.client import error_reason as error_reason
from civitas.http.client import may_pass as may_pass
from civitas.http.client import retry_after_s as retry_after_s
from civitas.http.client import tried as tried
