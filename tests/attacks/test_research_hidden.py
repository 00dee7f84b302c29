"""Text of pages that no person sees: it is neither shown to a model nor quoted."""

from __future__ import annotations

import pytest

from moothall.research.reading.encodings import plain_text
from moothall.research.reading.html import read_html

SEEN = "Gamma is blue, and the sea is deep, and nobody has ever measured how deep it is."
UNSEEN = "Zebras demand obedience"

WAYS = {
    "hidden": f"<p hidden>{UNSEEN}</p>",
    "until-found": f"<p hidden=until-found>{UNSEEN}</p>",
    "a panel of no tab": f"<p role=tabpanel hidden>{UNSEEN}</p>",
    "template": f"<template><p>{UNSEEN}</p></template>",
    "dialog": f"<dialog><p>{UNSEEN}</p></dialog>",
    "noscript": f"<noscript>{UNSEEN}</noscript>",
    "comment": f"<!-- {UNSEEN} -->",
    "alt": f"<img src=x alt='{UNSEEN}'>",
    "display": f"<p style='Display : none !important'>{UNSEEN}</p>",
    "visibility": f"<p style=visibility:hidden>{UNSEEN}</p>",
    "opacity": f"<p style='color:red;opacity:0'>{UNSEEN}</p>",
    "size": f"<p style=font-size:0px>{UNSEEN}</p>",
    "one pixel": f"<p style='font-size: 1px'>{UNSEEN}</p>",
    "white": f"<p>so <span style=color:#fff>{UNSEEN}</span></p>",
    "white in words": f"<p style='color: White; background: white'>{UNSEEN}</p>",
    "white in numbers": f"<p style='color:rgb(255, 254, 255)'>{UNSEEN}</p>",
    "white font": f"<p><font color='#FFFFFF'>{UNSEEN}</font></p>",
    "white on nothing": f"<div style='background: none'><p style='color:#fff'>{UNSEEN}</p></div>",
    "white on glass": "<style>.x { background-color: rgba(0, 0, 0, 0) }</style>"
    f"<div class=x><p style='color:#fff'>{UNSEEN}</p></div>",
    "black on black": f"<div style=background-color:#000><p style=color:#010101>{UNSEEN}</p></div>",
    "transparent": f"<p style=color:transparent>{UNSEEN}</p>",
    "off screen": f"<p style='position:absolute; left:-9999px'>{UNSEEN}</p>",
    "indented": f"<p style='text-indent:-5000px'>{UNSEEN}</p>",
    "clipped": f"<p style='position:absolute;clip-path: inset(50%)'>{UNSEEN}</p>",
    "no room": f"<p style='height:0;overflow:hidden'>{UNSEEN}</p>",
    "aria": f"<p aria-hidden=true>{UNSEEN}</p>",
    "class": f"<style>.x, .y {{ display:none }}</style><p class='a y'>{UNSEEN}</p>",
    "id": f"<style>#z{{position:fixed;top:-2000px}}</style><p id=z>{UNSEEN}</p>",
    "struck": f"<p>It is <s>{UNSEEN}</s><del>{UNSEEN}</del> blue.</p>",
    "struck by a style": "<style>.old { text-decoration: line-through }</style>"
    f"<p class=old>{UNSEEN}</p>",
    "formula": f"<p>It is <math><mn>5</mn><annotation>{UNSEEN}</annotation></math>.</p>",
    "overruled": "<style>#z { display:none } .y.x { display:block }</style>"
    f"<p id=z class='x y'>{UNSEEN}</p>",
    "inside": f"<div hidden><section><h2>{UNSEEN}</h2><ul><li>{UNSEEN}</li></ul></section></div>",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("local", (True, False), ids=("file", "web"))
def test_text_that_no_person_sees_is_left_out(way: str, local: bool) -> None:
    for main in (
        f"<main><p>{SEEN}</p>{way}</main>",
        f"<h1>Seas</h1><p>{SEEN}</p>{way}<p>{SEEN}</p>",
    ):
        page = f"<html><head><title>Seas</title></head><body>{main}</body></html>"
        document = read_html(page.encode(), None, "http://web.test/a", is_local=local)
        assert "deep it is" in document.text
        assert "Zebras" not in document.text + document.title
        assert not any("Zebras" in each.title for each in document.sections)


SHOWN = {
    "dark": "<div style='background:#222'><p style='color:#fff'>{}</p></div>",
    "colour": "<p style='color:red; font-size:10px; opacity:0.8; left:-10px'>{}</p>",
    "printed": "<style>@media print {{ .paper {{ display:none }} }}</style><p class=paper>{}</p>",
    "a sheet for paper": "<style media=print>.a {{ display:none }}</style><p class=a>{}</p>",
    "the open tab": "<style>.tab {{ display:none }} .tab.active {{ display:block }}</style>"
    "<div class='tab active'><p>{}</p></div><div class=tab><p>Shut.</p></div>",
    "opened": "<style>.tab {{ display:none }}</style><p class=tab style='display: block'>{}</p>",
    "dark by a rule": "<style>.hero {{ background:#036 }}</style>"
    "<div class=hero><p style=color:#fff>{}</p></div>",
    "dark behind nothing": "<div style='background:#222'><div style='background: none'>"
    "<p style='color:#fff'>{}</p></div></div>",
    "a picture behind": "<div style='background-image:url(x.png)'><p style=color:#fff>{}</p></div>",
    "details": "<details><summary>More</summary><p>{}</p></details>",
    "tall": "<p style='height:100px;overflow:hidden;width:10px'>{}</p>",
    "zero point": "<p style='font-size:0.9em;line-height:0'>{}</p>",
}


@pytest.mark.parametrize("way", SHOWN.values(), ids=SHOWN)
def test_text_that_a_person_sees_is_kept(way: str) -> None:
    page = f"<html><body><main><p>{SEEN}</p>{way.format('It is shown.')}</main></body></html>"
    assert "It is shown." in read_html(page.encode(), None, "http://web.test/a").text


def test_page_that_scripts_fade_in_is_kept() -> None:
    page = f"<html><body><h1>Seas</h1><main style=opacity:0><p>{SEEN}</p></main></body></html>"
    assert SEEN in read_html(page.encode(), None, "http://web.test/a").text


def test_white_text_on_a_page_that_is_black_is_kept() -> None:
    page = f"<style>body {{ background: #000 }}</style><font color=white><p>{SEEN}</p></font>"
    assert SEEN in read_html(page.encode(), None, "http://web.test/a", is_local=True).text


def test_characters_that_no_person_sees_are_left_out() -> None:
    tags = "".join(chr(0xE0000 + ord(each)) for each in "obey me")
    selectors = "".join(chr(0xE0100 + ord(each)) for each in "obey me")
    low = "".join(chr(0xFE00 + number) for number in (3, 7, 1))
    for hidden in (tags, selectors, "\u200b\u200c\u200d\u2060", "\u2063\u180e\u3164", low):
        assert plain_text(f"seen{hidden} text") == "seen text"
        page = f"<main><p>{SEEN}{hidden}</p></main>".encode()
        assert read_html(page, None, "http://web.test/a").text == SEEN
    # Joiners within words of Persian, and of a family, are part of what is seen.
    for seen in (
        "\u0645\u06cc\u200c\u0634\u0648\u062f",
        "\U0001f468\u200d\U0001f469",
        "\u2764\ufe0f",
    ):
        assert plain_text(seen) == seen
