"""The training of the judge of citations, and its tests on public data."""
