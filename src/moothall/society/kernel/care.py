"""Children under 12, who go along with a parent after all have set out.

A parent who has set out, but not for work, takes a child along that is where it was: from home, if
the child neither sleeps nor learns; a coin decides where the other parent stays with it. A child
away from home goes along with the last parent there. If that one goes to work, the child goes where
its own plan says. Who finds no room stays: `population/moves.py`.
"""

from __future__ import annotations

from typing import Final

MIN_AGE_ALONE: Final = 12  # who is younger goes out with a parent, or to school, or stays
ADULT_AGE: Final = 18
BUSY_ACTS: Final = ("sleep", "study")
ALONG_PURPOSE: Final = "mobility.along"
