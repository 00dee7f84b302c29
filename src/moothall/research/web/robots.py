"""The rules of a robots.txt (RFC 9309) for one crawler."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from moothall.research.resource_pool import percent_encoded

_SECONDS = re.compile(r"\d{1,6}(?:\.\d+)?", re.ASCII)


class Robots:
    """Which URLs of a host a crawler may read; `delay_s` is the time from one to the next."""

    def __init__(self, text: str, name: str) -> None:
        self.delay_s: float = 0.0
        self._rules: list[tuple[int, bool, str]] = []  # (length, whether it allows, pattern)
        groups: dict[str, list[tuple[str, str]]] = {}
        agents: list[str] = []  # of the group that is read
        has_rules = False  # whether its rules have begun
        for line in text.splitlines():
            key, _, value = (each.strip() for each in line.partition("#")[0].partition(":"))
            key = key.lower()
            if key == "user-agent":
                agents = [*([] if has_rules else agents), value.partition("/")[0].strip().lower()]
                groups.setdefault(agents[-1], [])
                has_rules = False
            elif key in ("allow", "disallow", "crawl-delay"):
                has_rules = True
                for each in agents:
                    groups[each].append((key, value[:2000]))
        for key, value in groups.get(name.lower(), groups.get("*", ())):
            if key == "crawl-delay":
                seconds = _SECONDS.match(value)
                self.delay_s = float(seconds[0]) if seconds else self.delay_s
            elif value:
                self._rules.append((len(value), key == "allow", percent_encoded(value)))
        self._rules.sort(reverse=True)  # the longest decides; of equal ones, the one that allows

    def allows(self, url: str) -> bool:
        """Return whether a URL may be read."""
        parts = urlsplit(url)
        path = percent_encoded(f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}")
        return next((allows for _, allows, rule in self._rules if _matches(rule, path)), True)


def _matches(rule: str, path: str) -> bool:
    """Return whether a path fits a rule: `*` is any text, and `$` at the end is the end."""
    first, *parts = (rule[:-1] if rule.endswith("$") else f"{rule}*").split("*")
    if not parts or not path.startswith(first):
        return path == first
    at = len(first)
    for part in parts[:-1]:
        at = path.find(part, at) + len(part)
        if at < len(part):
            return False
    return path.endswith(parts[-1]) and len(path) - len(parts[-1]) >= at
