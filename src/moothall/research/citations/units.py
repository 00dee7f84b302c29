"""Units, currencies, fractions, months, and the words by which numbers are compared."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, TypeAlias

from moothall.provenance.values import MONTHS_BY_NAME
from moothall.research.citations.claims import COUNTS, SCALES
from moothall.text.terms import listed

Comparison: TypeAlias = Literal["=", ">", ">=", "<", "<=", "~"]


def _units() -> dict[str, tuple[str, float]]:
    """Return the units: the dimension and how many of its base unit each is."""
    units: dict[str, tuple[str, float]] = {}
    for line in _TABLE.strip().splitlines():
        dimension, *entries = line.split()
        for entry in entries:
            names, _, factor = entry.partition("=")
            for name in names.split(","):
                units[name] = (dimension, float(factor))
    return units


_TABLE: Final = """
time ns,nanosecond=1e-9 µs,us,microsecond=1e-6 ms,millisecond=1e-3 s,sec,second=1 min,minute=60
time h,hr,hour=3600 day=86400 week=604800 fortnight=1209600 month=2629800 quarter=7889400
time year,yr=31557600 decade=315576000 century=3155760000
length nm,nanometre,nanometer=1e-9 µm,micron,micrometre,micrometer=1e-6
length mm,millimetre,millimeter=1e-3 cm,centimetre,centimeter=0.01 m,metre,meter=1
length km,kilometre,kilometer=1000 inch=0.0254 ft,foot,feet=0.3048 yard=0.9144 mile,mi=1609.344
mass µg,mcg,ug,microgram=1e-6 mg,milligram=1e-3 g,gram,gramme=1 kg,kilogram,kilo=1000 tonne,t=1e6
mass lb,pound-mass=453.592 ounce,oz=28.3495
volume ml,millilitre,milliliter=1e-3 cl=0.01 dl=0.1 l,litre,liter=1 gallon=3.78541 pint=0.473176
area ha,hectare=1e4 acre=4046.86
data bit=0.125 byte,b=1 kb,kilobyte,kib=1e3 mb,megabyte,mib=1e6 gb,gigabyte,gib=1e9
data tb,terabyte,tib=1e12
power mw,megawatt=1e6 kw,kilowatt=1e3 gw,gigawatt=1e9 w,watt=1
energy kwh=1 mwh=1e3 gwh=1e6 twh=1e9 joule=2.7778e-7 kj=2.7778e-4 mj=0.27778 kcal=1.163e-3
rate hz,hertz=1 khz=1e3 mhz=1e6 ghz=1e9
speed km/h,kph=1 mph=1.609344 m/s=3.6 knot=1.852
pressure pa=1 kpa=1e3 hpa,mbar,millibar=100 bar=1e5 psi=6894.76
volt mv,millivolt=1e-3 v,volt=1 kv=1e3
kelvin k,kelvin=1
celsius c,celsius,°c=1
fahrenheit f,fahrenheit,°f=1
degree degree=1
usd dollar,usd=1
eur euro,eur=1
gbp gbp,sterling=1
jpy yen,jpy=1
chf franc,chf=1
cny yuan,cny,renminbi=1
inr rupee,inr=1
cent cent=0.01
share percent,pct,prozent=0.01 permille=0.001 percentage=0.01
"""
UNITS: Final = _units()
FRACTIONS: Final = {
    "half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
TIMES: Final[dict[str, float]] = {
    "doubled": 2, "double": 2, "doubling": 2, "twice": 2, "twofold": 2, "tripled": 3, "triple": 3,
    "tripling": 3, "threefold": 3, "thrice": 3, "trebled": 3, "quadrupled": 4, "fourfold": 4,
    "fivefold": 5, "tenfold": 10, "halved": 0.5, "halving": 0.5, "halves": 0.5,
}  # fmt: skip
"""Words that say how many times larger a value has become."""
MONTHS: Final = frozenset(MONTHS_BY_NAME)
LOOSE_MONTHS: Final = listed("may march mar dec sep jan jun mai")
# What stands before a number, the last words first, and how the number compares then.
_BEFORE: Final[list[tuple[str, Comparison]]] = [
    ("no more than", "<="), ("not more than", "<="), ("no less than", ">="),
    ("not less than", ">="), ("no fewer than", ">="), ("no later than", "<="),
    ("not later than", "<="), ("not exceed", "<="), ("not exceeding", "<="),
    ("never exceed", "<="), ("at least", ">="), ("at most", "<="), ("up to", "<="),
    ("minimum of", ">="), ("maximum of", "<="), ("more than", ">"), ("greater than", ">"),
    ("larger than", ">"), ("higher than", ">"), ("longer than", ">"), ("older than", ">"),
    ("less than", "<"), ("fewer than", "<"), ("lower than", "<"), ("smaller than", "<"),
    ("shorter than", "<"), ("younger than", "<"),
    ("cheaper than", "<"), ("earlier than", "<"), ("later than", ">"), ("bigger than", ">"),
    ("faster than", ">"), ("slower than", "<"), ("heavier than", ">"), ("lighter than", "<"),
    ("in excess of", ">"), ("over", ">"),
    ("above", ">"), ("exceed", ">"), ("exceeds", ">"), ("exceeded", ">"), ("exceeding", ">"),
    ("beyond", ">"), ("under", "<"), ("below", "<"), ("within", "<="), ("about", "~"),
    ("around", "~"), ("roughly", "~"), ("approximately", "~"), ("some", "~"), ("almost", "~"),
    ("nearly", "~"), ("circa", "~"), ("≥", ">="), ("≤", "<="), (">", ">"), ("<", "<"),
]  # fmt: skip
_AFTER: Final[list[tuple[str, Comparison]]] = [
    ("or more", ">="), ("or higher", ">="), ("or above", ">="), ("or greater", ">="),
    ("or older", ">="), ("or longer", ">="), ("or over", ">="), ("and over", ">="),
    ("or later", ">="), ("and above", ">="), ("or newer", ">="), ("or less", "<="),
    ("or fewer", "<="), ("or lower", "<="), ("or below", "<="), ("or younger", "<="),
    ("or under", "<="), ("at most", "<="), ("at least", ">="), ("or earlier", "<="),
]  # fmt: skip
BY_LAST: Final[dict[str, list[tuple[list[str], Comparison]]]] = {}
for _words, _sign in _BEFORE:
    BY_LAST.setdefault(_words.split()[-1], []).append((_words.split(), _sign))
BY_FIRST: Final[dict[str, list[tuple[list[str], Comparison]]]] = {}
for _words, _sign in _AFTER:
    BY_FIRST.setdefault(_words.split()[0], []).append((_words.split(), _sign))


@lru_cache(maxsize=1 << 12)
def unit_of(word: str) -> tuple[str, float] | None:
    """Return the dimension of a unit, and how many of the base unit it is; None for no unit."""
    word = word.casefold().rstrip(".")
    return UNITS.get(word) or (UNITS.get(word[:-1]) if word.endswith("s") else None)


_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ONES: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NUMBER_WORDS: Final = (
    frozenset(FRACTIONS)
    | frozenset(TIMES)
    | frozenset(MONTHS_BY_NAME)
    | frozenset(("a", "an", "one"))
    | frozenset(COUNTS)
    | frozenset(SCALES)
    | {
        f"{count}-{of}"
        for count in ("one", "two", "three", "four", "five", "seven")
        for of in FRACTIONS
    }
    | {f"{count}-{of}s" for count in ("two", "three", "four", "five", "seven") for of in FRACTIONS}
    | {f"{ten}-{one}" for ten in _TENS for one in _ONES}
)
