"""What is no text of a page: hidden elements, and characters without a width."""

from __future__ import annotations

import re
from itertools import islice
from operator import itemgetter
from typing import Any, Final

_STYLE_CHARS: Final = 200_000  # characters of a page's own styles that are looked at
_MAX_RULES: Final = 2000

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

_UNREAD_TAGS: Final = ("template", "del", "s", "strike", "rp", "rt", "rtc")  # struck, or a reading
_CANDIDATES: Final = (
    "//*[@class or @id or @hidden or @style or @aria-hidden or self::dialog or self::font[@color]"
    f"{''.join(f' or self::{tag}' for tag in _UNREAD_TAGS)}]"
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AT_RULE = re.compile(r"@[^{};]+\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")  # such as @media print
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_COMPOUND = re.compile(r"(?:[.#][\w-]+)+|body|html")
_NAME = re.compile(r"[.#]?[\w-]+")
_ON_SCREENS = re.compile(r"\s*|[^(]*\b(?:all|screen)\b[^(]*", re.IGNORECASE)
_OPACITY = re.compile(r"(?:^|;)\s*opacity\s*:[^;]*", re.IGNORECASE)
_NOT_SHOWN = re.compile(
    r"(?:^|;)\s*(?:"
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|content-visibility\s*:\s*hidden"
    r"|opacity\s*:\s*(?:0*\.?0+|0?\.0\d*)%?\s*(?:$|;|!)"
    r"|font-size\s*:\s*(?:0+(?:\.0+)?(?:px|pt|r?em|%|vw)?|(?:0*\.\d+|1(?:\.0+)?)(?:px|pt|%))\s*(?:$|;|!)"
    r"|(?:left|right|top|bottom|text-indent|margin-left|margin-top)\s*:\s*-\d{3,}(?:\.\d+)?(?:px|pt|em|rem|vw|vh|%)"
    r"|clip-path\s*:\s*inset\(\s*(?:50|100)%|clip\s*:\s*rect\(\s*[01](?:px)?[\s,]+[01]"
    r"|text-decoration(?:-line)?\s*:[^;]*line-through"
    r"|transform\s*:[^;]*(?:scale\(\s*0\s*\)|translate[xy]?\(\s*-\d{4,})"
    r"|color\s*:\s*(?:transparent|#(?:[0-9a-f]{3}0|[0-9a-f]{6}00)(?![0-9a-f])"
    r"|(?:rgb|hsl)a?\((?:(?:[^(),]*,){3}|[^(),/]*/)\s*(?:0(?:\.0*)?|\.0+)%?\s*\))"
    r")",
    re.IGNORECASE,
)
_COLOR = re.compile(r"(?:^|;)\s*(background(?:-color|-image)?|color)\s*:\s*([^;]+)", re.IGNORECASE)
_SIZE = re.compile(r"(?:^|;)\s*(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?:;|$|!)", re.I)
_RGB = re.compile(
    r"rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})\s*(?:[,/]\s*([\d.]+%?)\s*)?\)"
)
_NO_BACKGROUND = re.compile(
    r"(?:none|transparent|initial|inherit|unset|rgba\([^)]*[,/]\s*0?\.?0*%?\s*\))\s*(?:!|$)", re.I
)
_HEX = re.compile(r"#([0-9a-f]{3,8})\b")
_NAMED_COLORS: Final = {"white": (255, 255, 255), "snow": (255, 250, 250), "black": (0, 0, 0)}
_WHITE: Final = (255, 255, 255)
_CLOSE_COLOR: Final = 12  # of 255; two colours that differ by less cannot be told apart


def without_hidden(text: str) -> str:
    """Return a text without characters that have no width and can carry a text of their own."""
    return _OUT_OF_PLACE.sub("", _UNSEEN.sub("", text)) if _SUSPECT.search(text) else text


def drop_hidden(tree: Any) -> None:
    """Remove what no browser shows; scripts fade in what is transparent, if it is most."""
    styles, faint_elements, faint_words = _StyleSheet(tree), dict[Any, None](), 0
    for element in tree.xpath(_CANDIDATES):
        style = styles.style_of(element)
        if (
            _is_unread(element)
            or _is_invisible(element, styles)
            or _is_hiding(_OPACITY.sub("", style))
        ):
            _drop(element)
        elif _is_hiding(style) and faint_elements.keys().isdisjoint(element.iterancestors()):
            faint_elements[element] = None
            faint_words += len("".join(element.itertext()).split())
    if faint_elements and 2 * faint_words <= len("".join(tree.itertext()).split()):
        for element in faint_elements:
            _drop(element)


def _drop(element: Any) -> None:
    if element.getparent() is not None and element.tag not in ("html", "body", "head"):
        element.drop_tree()


def _is_unread(element: Any) -> bool:
    """Return whether an element's tag or attributes say that it is no text."""
    if element.tag in _UNREAD_TAGS or element.get("aria-hidden", "").strip().lower() == "true":
        return True
    if element.tag == "dialog" and element.get("open") is None:
        return True
    # A click on its tab shows a panel.
    is_panel = element.get("role") == "tabpanel" and element.getroottree().xpath("//*[@role='tab']")
    return element.get("hidden") is not None and not is_panel


def _is_hiding(style: str) -> bool:
    if _NOT_SHOWN.search(style) is not None:
        return True
    return "hidden" in style.lower() and _SIZE.search(style) is not None  # overflow: hidden


def _is_invisible(element: Any, styles: _StyleSheet) -> bool:
    """Return whether an element's own colour is that of what is behind it."""
    font_color = element.get("color") if element.tag == "font" else None
    color = _rgb_of(_color_values(element.get("style") or "").get("color") or font_color or "")
    if color is None:
        return False
    ancestor = element
    while ancestor is not None:
        colors = _color_values(styles.style_of(ancestor))
        backgrounds = (colors.get(f"background{each}") for each in ("-image", "-color", ""))
        background = next(
            (each for each in backgrounds if each and not _NO_BACKGROUND.match(each.strip())),
            ancestor.get("bgcolor"),
        )
        if background:
            background_rgb = _rgb_of(background)
            return background_rgb is not None and _is_close(color, background_rgb)
        ancestor = ancestor.getparent()
    return _is_close(color, _WHITE)


def _color_values(style: str) -> dict[str, str]:
    return {name.lower(): value for name, value in _COLOR.findall(style)}


def _rgb_of(value: str) -> tuple[int, ...] | None:
    value = value.strip().lower()
    if match := _RGB.search(value):
        return tuple(int(each) for each in match.groups()[:3])
    if match := _HEX.search(value):
        digits = match[1]
        if len(digits) < 6:
            digits = "".join(2 * each for each in digits)
        return tuple(int(digits[at : at + 2], 16) for at in (0, 2, 4))
    return next(
        (rgb for name, rgb in _NAMED_COLORS.items() if re.search(rf"\b{name}\b", value)), None
    )


def _is_close(color: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(abs(a - b) < _CLOSE_COLOR for a, b in zip(color, other, strict=True))


class _StyleSheet:
    """The rules of a page's own styles whose selectors are classes and ids of one element."""

    def __init__(self, tree: Any) -> None:
        self._rules: dict[str, list[tuple[frozenset[str], tuple[int, ...], str]]] = {}
        sheets = (
            each.text or ""
            for each in tree.iter("style")
            if _ON_SCREENS.fullmatch(each.get("media") or "")
        )
        css = _AT_RULE.sub("", _COMMENT.sub("", " ".join(sheets)[:_STYLE_CHARS]))
        for number, rule in enumerate(islice(_RULE.finditer(css), _MAX_RULES)):
            for selector in map(str.strip, rule[1].split(",")):
                if _COMPOUND.fullmatch(selector):
                    names = _NAME.findall(selector)
                    weight = (selector.count("#"), selector.count("."), number)
                    self._rules.setdefault(names[0], []).append((frozenset(names), weight, rule[2]))

    def style_of(self, element: Any) -> str:
        """Return the declarations that hold for an element, with those of its own style."""
        own_style = element.get("style") or ""
        if not self._rules:
            return own_style
        names = {f".{each}" for each in (element.get("class") or "").split()}
        names |= {f"#{element.get('id')}", str(element.tag)}
        rules = [
            (weight, style)
            for name in names & self._rules.keys()
            for rule_names, weight, style in self._rules[name]
            if rule_names <= names
        ]
        if not rules:
            return own_style
        declarations = [
            ("!" in value, weight, name.strip().lower(), value)
            for weight, style in (*rules, ((len(names), 0, 0), own_style))
            for name, _, value in (each.partition(":") for each in style.split(";"))
        ]
        by_name = {name: value for *_, name, value in sorted(declarations, key=itemgetter(0, 1))}
        return ";".join(f"{name}:{value}" for name, value in by_name.items())
