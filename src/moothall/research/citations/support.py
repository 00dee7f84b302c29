"""Whether a passage supports a sentence: a probability, a label, and the sentences it rests on."""

from __future__ import annotations

from moothall.errors import DefinitionError
from moothall.research.citations.evidence import verbatim
from moothall.research.citations.features import evidence
from moothall.research.citations.judge import judge
from moothall.research.findings import Support, SupportLabel

_LONGEST = 20_000  # characters of a sentence


def support(sentence: str, passage: str, *, title: str = "") -> Support:
    """Check whether a passage supports a sentence.

    The judge is learned from pairs that people judged; it compares numbers with their units,
    dates, names, negations and words, and knows no more of the world. Names and words may also
    stand in the title of the passage.

    Raises:
        DefinitionError: an argument is not a text
    """
    for name, given in (("sentence", sentence), ("passage", passage), ("title", title)):
        if not isinstance(given, str):
            raise DefinitionError(f"support(): {name}= must be a text, got {given!r:.80}")
    sentence = sentence[:_LONGEST]
    found = evidence(sentence, passage, title)
    window = passage[slice(*found.window)]
    if verbatim(sentence, passage, title):
        return Support(0.99, "supported", window)
    known = judge()
    probability = round(known.probability(found.values), 3)
    if found.fault.startswith("quotes") or not window.strip():
        probability = min(probability, 0.01)  # what is quoted must stand there
    label: SupportLabel = "unsupported"
    if probability >= known.partly:
        label = "supported" if probability >= known.supported else "partly"
    if label == "supported":
        return Support(probability, label, window)
    vague = not found.fault or found.fault.startswith("shares")
    why = (found.whys or (found.fault,))[0] if vague else found.fault
    return Support(probability, label, window, why or "is too far from what the passage says")
