"""What is no text of a page: hidden elements, and characters without a width."""

from __future__ import annotations

import re
from typing import Any, Final

_STYLES: Final = 200_000  # characters of a page's own styles that are looked at
_RULES: Final = 2000

# Tags, joiners of nothing, fillers, marks of annotations: they can carry a text that is not shown.
_NO_WIDTH: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u2060-\u206f\u3164\uffa0"
    "\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SUSPECT = re.compile(f"[{_NO_WIDTH}\u200c\u200d\ufe00-\ufe0f]")  # searched for alone it is fast
_UNSEEN = re.compile(f"[{_NO_WIDTH}]")
# Joiners stand between letters that they join, and a variation selector behind its character.
_OUT_OF_PLACE = re.compile(
    "(?<![^\x00-\x7f])[\u200c\u200d]+|[\u200c\u200d]+(?![^\x00-\x7f])"
    "|(?<=[\u200c\u200d])[\u200c\u200d]+"
    "|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+|(?<=[\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f])[\ufe00-\ufe0f]+"
)

_CANDIDATES: Final = (
    "//*[@hidden or @style or @aria-hidden or self::template or self::dialog or self::font[@color]]"
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AT_RULE = re.compile(r"@[^{};]+\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")  # such as @media print
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_SIMPLE = re.compile(r"([.#])([\w-]+)$")
_NOT_SHOWN = re.compile(
    r"(?:^|;)\s*(?:"
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|content-visibility\s*:\s*hidden"
    r"|opacity\s*:\s*(?:0*\.?0+|0?\.0\d*)%?\s*(?:$|;|!)"
    r"|font-size\s*:\s*(?:0+(?:\.0+)?(?:px|pt|r?em|%|vw)?|(?:0*\.\d+|1(?:\.0+)?)(?:px|pt|%))\s*(?:$|;|!)"
    r"|(?:left|right|top|bottom|text-indent|margin-left|margin-top)\s*:\s*-\d{3,}(?:\.\d+)?(?:px|pt|em|rem|vw|vh|%)"
    r"|clip-path\s*:\s*inset\(\s*(?:50|100)%|clip\s*:\s*rect\(\s*[01](?:px)?[\s,]+[01]"
    r"|transform\s*:[^;]*(?:scale\(\s*0\s*\)|translate[xy]?\(\s*-\d{4,})"
    r"|color\s*:\s*(?:transparent|#(?:[0-9a-f]{3}0|[0-9a-f]{6}00)(?![0-9a-f])"
    r"|(?:rgb|hsl)a?\((?:(?:[^(),]*,){3}|[^(),/]*/)\s*(?:0(?:\.0*)?|\.0+)%?\s*\))"
    r")",
    re.IGNORECASE,
)
_COLOR = re.compile(r"(?:^|;)\s*(background(?:-color)?|color)\s*:\s*([^;]+)", re.IGNORECASE)
_SIZE = re.compile(r"(?:^|;)\s*(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?:;|$|!)", re.I)
_RGB = re.compile(
    r"rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})\s*(?:[,/]\s*([\d.]+%?)\s*)?\)"
)
_HEX = re.compile(r"#([0-9a-f]{3,8})\b")
_COLOURS: Final = {"white": (255, 255, 255), "snow": (255, 250, 250), "black": (0, 0, 0)}
_WHITE: Final = (255, 255, 255)
_CLOSE: Final = 12  # of 255; two colours that differ by less cannot be told apart


def without_hidden(text: str) -> str:
    """Return a text without characters that have no width and can carry a text of their own."""
    return _OUT_OF_PLACE.sub("", _UNSEEN.sub("", text)) if _SUSPECT.search(text) else text


def drop_hidden(tree: Any) -> None:
    """Remove the elements of a page that no browser shows, as its own markup and styles say."""
    for element in tree.xpath(_CANDIDATES):
        if _is_hidden(element):
            _drop(element)
    classes, ids = _hiding(tree)
    for element in tree.xpath("//*[@class or @id]") if classes or ids else ():
        if element.get("id") in ids or not classes.isdisjoint((element.get("class") or "").split()):
            _drop(element)


def _drop(element: Any) -> None:
    if element.getparent() is not None and element.tag not in ("html", "body", "head"):
        element.drop_tree()


def _is_hidden(element: Any) -> bool:
    if element.tag == "template" or element.get("aria-hidden", "").strip().lower() == "true":
        return True
    if element.tag == "dialog" and element.get("open") is None:
        return True
    style = element.get("style") or ""
    hidden = element.get("hidden") is not None and not _is_tab(element)
    return hidden or _hides(style) or _is_invisible(element, style)


def _is_tab(element: Any) -> bool:
    """Return whether a click on its tab shows an element."""
    if element.get("role") != "tabpanel":
        return False
    return bool(element.getroottree().xpath("boolean(//*[@role='tab'])"))


def _hides(style: str) -> bool:
    if _NOT_SHOWN.search(style) is not None:
        return True
    return "hidden" in style.lower() and _SIZE.search(style) is not None  # overflow: hidden


def _is_invisible(element: Any, style: str) -> bool:
    """Return whether an element's own colour is that of what is behind it."""
    font_color = element.get("color") if element.tag == "font" else None
    color = _color(_colors(style).get("color") or font_color or "")
    if color is None:
        return False
    ancestor = element
    while ancestor is not None:
        colors = _colors(ancestor.get("style") or "")
        background = (
            colors.get("background-color") or colors.get("background") or ancestor.get("bgcolor")
        )
        if background:
            ground = _color(background)
            return ground is not None and _is_close(color, ground)
        ancestor = ancestor.getparent()
    return _is_close(color, _WHITE)


def _colors(style: str) -> dict[str, str]:
    return {name.lower(): value for name, value in _COLOR.findall(style)}


def _color(value: str) -> tuple[int, ...] | None:
    value = value.strip().lower()
    if match := _RGB.search(value):
        return tuple(int(each) for each in match.groups()[:3])
    if match := _HEX.search(value):
        digits = match[1]
        if len(digits) < 6:
            digits = "".join(2 * each for each in digits)
        return tuple(int(digits[at : at + 2], 16) for at in (0, 2, 4))
    return next((rgb for name, rgb in _COLOURS.items() if re.search(rf"\b{name}\b", value)), None)


def _is_close(colour: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(abs(a - b) < _CLOSE for a, b in zip(colour, other, strict=True))


def _hiding(tree: Any) -> tuple[set[str], set[str]]:
    """Return the classes and ids that the page's own styles hide by a simple rule."""
    hidden: dict[str, set[str]] = {".": set(), "#": set()}
    styles = " ".join(each.text or "" for each in tree.iter("style"))[:_STYLES]
    css = _AT_RULE.sub("", _COMMENT.sub("", styles))
    for number, rule in enumerate(_RULE.finditer(css)):
        if number < _RULES and _hides(rule[2]):
            for selector in rule[1].split(","):
                if simple := _SIMPLE.fullmatch(selector.strip()):
                    hidden[simple[1]].add(simple[2])
    return hidden["."], hidden["#"]
