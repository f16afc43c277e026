"""Longer runs, for the night.

`pytest tests/fuzz --hypothesis-profile=long` runs 10,000 examples of each test.
`python -m tests.fuzz.glance --mutations 100000 --seed N` mutates replies to be read at a glance.
"""

from hypothesis import settings

settings.register_profile("long", max_examples=10_000, deadline=None)
