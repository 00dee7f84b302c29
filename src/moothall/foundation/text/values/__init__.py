"""The values in a text: numbers in digits and words, amounts, units, dates and times."""

from moothall.foundation.text.values.dates import MONTHS_BY_NAME as MONTHS_BY_NAME
from moothall.foundation.text.values.dates import Date as Date
from moothall.foundation.text.values.dates import dates_in as dates_in
from moothall.foundation.text.values.dates import months_in as months_in
from moothall.foundation.text.values.dates import times_in as times_in
from moothall.foundation.text.values.keys import Key as Key
from moothall.foundation.text.values.keys import keys_in as keys_in
from moothall.foundation.text.values.keys import keys_of as keys_of
from moothall.foundation.text.values.languages import has_capital_nouns as has_capital_nouns
from moothall.foundation.text.values.numbers import CURRENCIES as CURRENCIES
from moothall.foundation.text.values.numbers import number_of as number_of
from moothall.foundation.text.values.quantities import Quantity as Quantity
from moothall.foundation.text.values.quantities import is_unit as is_unit
from moothall.foundation.text.values.quantities import quantities_in as quantities_in
from moothall.foundation.text.values.words import NUMBER_WORDS as NUMBER_WORDS
from moothall.foundation.text.values.words import fold as fold
from moothall.foundation.text.values.words import narrow as narrow
from moothall.foundation.text.values.words import spelled_out as spelled_out

__all__ = [
    "CURRENCIES",
    "MONTHS_BY_NAME",
    "NUMBER_WORDS",
    "Date",
    "Key",
    "Quantity",
    "dates_in",
    "fold",
    "has_capital_nouns",
    "is_unit",
    "keys_in",
    "keys_of",
    "months_in",
    "narrow",
    "number_of",
    "quantities_in",
    "spelled_out",
    "times_in",
]
