"""The address of a PostgreSQL server: a URL, which errors and lists show without its password."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from moothall.foundation.errors import ConfigError, MissingExtra

_SCHEMES: Final = ("postgresql://", "postgres://")
_SECRET_PARAMETERS: Final = ("password", "sslpassword")
_URL_PARAMETERS: Final = ("user", "host", "port", "dbname")
_SEARCH_PATH: Final = re.compile(r"search_path\s*=\s*\"?(\w+)")


def is_url(value: object) -> bool:
    """Return whether something names a PostgreSQL database, rather than a file."""
    return isinstance(value, str) and value.startswith(_SCHEMES)


class DatabaseAddress:
    """A database on a PostgreSQL server.

    Attributes:
        display_url: its URL without passwords
        parameters: those of the connection, as libpq knows them
        schema: the schema with moothall's tables: the first of a `search_path` that the URL's
            `options` state, else `moothall`
    """

    def __init__(self, url: str, caller: str) -> None:
        MissingExtra.unless(caller, "postgres", "psycopg")
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        self._secrets: list[str] = []
        try:
            options: dict[str, Any] = dict(conninfo_to_dict(url))
        except (psycopg.Error, ValueError):  # its text may have the password
            raise ConfigError(
                f"{caller}: that is not the URL of a PostgreSQL database, such as "
                "postgresql://user@host:5432/database?sslmode=verify-full"
            ) from None
        self.parameters: dict[str, Any] = options
        self._secrets = [str(options[name]) for name in _SECRET_PARAMETERS if options.get(name)]
        self.display_url: str = self._url_text(options)
        schema_match = _SEARCH_PATH.search(str(options.get("options", "")))
        self.schema: str = schema_match.group(1) if schema_match else "moothall"

    def without_secrets(self, text: str) -> str:
        """Return a text without the passwords of the URL."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _url_text(self, parameters: dict[str, Any]) -> str:
        """Return the URL of connection parameters, without passwords."""
        user = parameters.get("user")
        hosts = str(parameters.get("host", "")).split(",")
        ports = str(parameters.get("port", "")).split(",")
        if len(ports) < len(hosts):
            ports = ports[:1] * len(hosts)
        host_ports = []
        for host, port in zip(hosts, ports, strict=False):
            host = f"[{host}]" if ":" in host else quote(host, safe="")
            host_ports.append(f"{host}:{port}" if port else host)
        query = [
            f"{name}={quote(self.without_secrets(str(value)), safe='')}"
            for name, value in parameters.items()
            if name not in (*_URL_PARAMETERS, *_SECRET_PARAMETERS)
        ]
        return "".join(
            (
                "postgresql://",
                "" if user is None else f"{quote(str(user), safe='')}@",
                ",".join(host_ports),
                f"/{quote(str(parameters.get('dbname', '')), safe='')}",
                f"?{'&'.join(query)}" if query else "",
            )
        )
