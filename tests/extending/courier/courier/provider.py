"""A provider's row: a server with OpenAI's interface that moothall does not know by itself."""

from moothall.models import Provider

ACME = Provider("Acme's", "https://api.acme.example/v1", "ACME_API_KEY", otel="acme.cloud")
