"""Write manual pages of the macros `mdoc`, by which BSD and OpenSSH say what a word is."""

from __future__ import annotations

from typing import Final

from moothall.research.reading.roff import BREAK, Lines, Page, paired

_CLOSING: Final = frozenset((".", ",", ":", ";", ")", "]", "?", "!"))
_PAIRS: Final = paired("Op [] Pq () Dq “” Qq \"\" Sq '' Ql '' Aq <> Bq [] Brq {}")
_OPENS: Final = paired("Oo [ Po ( Do “ Qo \" So ' Ao < Bo [ Bro {")
_CLOSES: Final = paired("Oc ] Pc ) Dc ” Qc \" Sc ' Ac > Bc ] Brc }")
_SYSTEMS: Final = paired("Ux UNIX Bx BSD At AT&T Nx NetBSD Fx FreeBSD Ox OpenBSD Dx DragonFly")
_PLAIN_TEXT: Final = (
    "Ar Cm Ic Pa Va Vt Ev Em Sy Li Dv Er Fa Ft Cd Ad Ms Tn Sx Lk Mt An No St Fr Xo Xc Eq Bf Ef Nm "
    "Fl Xr Fn Ns Ap Pf Ta In Fo Fc"
)
_PLAIN: Final = frozenset(_PLAIN_TEXT.split())
_LONGEST_TERM: Final = 2000
_CALLED: Final = _PLAIN | {*_PAIRS, *_OPENS, *_CLOSES, *_SYSTEMS}


def write_mdoc(lines: Lines, page: Page) -> None:
    """Write a page."""
    _Mdoc(page).write(lines)


class _Mdoc:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._name = ""
        self._lists: list[tuple[str, int, int]] = []  # the kind, the depth, how many items
        self._term = ""  # that goes on until `Xc`
        self._is_tight = False  # after `Sm off`, no space stands between words
        self._tight = ""  # what was said since
        self._section = ""

    def write(self, lines: Lines) -> None:
        """Write line by line."""
        for line in lines:
            if line.name == "Sm":
                self._end_tight()
                self._is_tight = line.words[0] == "off" if line.words else not self._is_tight
            elif line.name:
                self._macro(line.name, line.words)
            elif self._is_tight and line.text.strip():
                self._tight += line.text[:_LONGEST_TERM]
            elif self._term:
                self._term += f" {line.text[:_LONGEST_TERM]}"
            elif line.text.strip() or self._page.is_code:
                self._page.say(line.text)
            else:
                self._page.end()
        self._end_tight()

    def _macro(self, name: str, words: list[str]) -> None:
        page = self._page
        if self._is_tight and name in _CALLED:
            self._tight += self._inline([name, *words])
            return
        self._end_tight()
        if self._term:
            self._term += f" {self._inline([name, *words])}"
            if "Xc" in (name, *words) or len(self._term) > _LONGEST_TERM:
                self._explain(self._term)
        elif name == "Dt":
            page.entitle(words)
        elif name in ("Sh", "Ss"):
            self._lists = []
            page.is_code = False
            self._section = self._inline(words)
            page.head(self._section, 1 + (name == "Ss"))
        elif name in ("Pp", "Lp"):
            page.end()
        elif name == "Bl":
            page.end()
            kind = words[0] if words else "-item"
            self._lists.append((kind, page.depth, 0))
        elif name == "El" and self._lists:
            page.end()
            page.depth = self._lists.pop()[1]
        elif name == "It" and self._lists:
            self._item(words)
        elif name in ("Bd", "Ed"):
            page.end()
            page.is_code = name == "Bd" and words[:1] in (["-literal"], ["-unfilled"])
        elif name in ("D1", "Dl"):
            page.end()
            page.say(self._inline(words))
            page.end("code", page.depth + 1)
        elif name == "Nd":
            page.say(f"– {self._inline(words)}")
        elif name[:1] == "%":
            page.say(f"{' '.join(words)},")
        elif name in _CALLED:
            if name == "Nm" and self._section == "SYNOPSIS":
                page.say(BREAK)
            page.say(self._inline([name, *words]))
        elif name in ("br", "sp"):
            page.say(BREAK)

    def _end_tight(self) -> None:
        said, self._tight = self._tight, ""
        if self._term and said:
            self._term += f" {said}"
        elif said:
            self._page.say(said)

    def _item(self, words: list[str]) -> None:
        page = self._page
        page.end()
        kind, depth, count = self._lists.pop()
        self._lists.append((kind, depth, count + 1))
        page.depth = depth
        if kind in ("-bullet", "-dash", "-hyphen", "-item"):
            page.mark = "-"
        elif kind == "-enum":
            page.mark = f"{count + 1}."
        elif kind == "-column":
            cells = words if "Ta" not in words else [self._inline(words)]
            page.say(" | ".join(cells))
        else:
            said = self._inline(words)
            if "Xo" in words and "Xc" not in words:
                self._term = said or " "
            else:
                self._explain(said)

    def _explain(self, term: str) -> None:
        """Write a term, whose explanation follows."""
        self._term = ""
        depth = self._lists[-1][1] if self._lists else 0
        self._page.say(term)
        self._page.end("tag", depth)
        self._page.depth = depth + 1

    def _inline(self, words: list[str]) -> str:
        """Return what a line of macros and their arguments says."""
        made = ""
        glued, ends = True, ""
        place = 0

        def put(said: str) -> None:
            nonlocal made, glued
            if not said:
                return
            closes = said in _CLOSING or said[0] in "]”)" or glued or self._is_tight
            made += said if closes else f" {said}"
            glued = said in ("(", "[")

        while place < len(words):
            word = words[place]
            place += 1
            if word not in _CALLED:
                put(word)
                continue
            until = place
            while until < len(words) and words[until] not in _CALLED:
                until += 1
            given = words[place:until]
            if word in _PAIRS:
                put(_PAIRS[word][0])
                glued, ends = True, _PAIRS[word][1] + ends
            elif word in _OPENS:
                put(_OPENS[word])
                glued = True
            elif word in _CLOSES:
                made += _CLOSES[word]
                glued = False
            elif word == "Ns":
                glued = True
            elif word == "Ap":
                made, glued = f"{made}'", True
            elif word == "Ta":
                put("|")
            elif word == "Pf":
                put("".join(given[:1]))
                glued, place = True, place + 1
            elif word == "Nm":
                own = given[:1] if given and given[0] not in _CLOSING else []
                self._name = self._name or "".join(own)
                put("".join(own) or self._name)
                place += len(own)
            elif word == "Fl":
                flags = [each for each in given if each not in _CLOSING]
                for each in flags or [""]:
                    put(f"-{each}")
                glued = glued or (not flags and not given)
                place += len(flags)
            elif word == "Xr" and given:
                own = given[:2] if len(given) > 1 and given[1] not in _CLOSING else given[:1]
                put(own[0] + (f"({own[1]})" if len(own) > 1 else ""))
                place += len(own)
            elif word == "Fn" and given:
                own = [each for each in given if each not in _CLOSING]
                put(f"{own[0]}({', '.join(own[1:])})" if own else "")
                place += len(own)
            elif word == "In" and given:
                put(f"#include <{given[0]}>")
                place += 1
            elif word in _SYSTEMS:
                put(_SYSTEMS[word])
            elif word == "Ar" and not given:
                put("file ...")
        # The marks at the end of a line stand behind what it encloses.
        tail = ""
        while ends and made[-1:] in (".", ",", ";", ":"):
            made, tail = made[:-1], made[-1] + tail
        return made + ends + tail
