"""The values in a text: numbers in digits and words, amounts, units, dates and times."""

from moothall.foundation.text.values.dates import MONTHS_BY_NAME as MONTHS_BY_NAME
from moothall.foundation.text.values.keys import Key as Key
from moothall.foundation.text.values.keys import keys_in as keys_in
from moothall.foundation.text.values.keys import keys_of as keys_of
from moothall.foundation.text.values.number_words import fold as fold
from moothall.foundation.text.values.number_words import in_figures as in_figures
from moothall.foundation.text.values.number_words import narrow as narrow
from moothall.foundation.text.values.quantities import quantities_in as quantities_in
from moothall.foundation.text.values.text_values import TextValues as TextValues

__all__ = [
    "MONTHS_BY_NAME",
    "Key",
    "TextValues",
    "fold",
    "in_figures",
    "keys_in",
    "keys_of",
    "narrow",
    "quantities_in",
]
