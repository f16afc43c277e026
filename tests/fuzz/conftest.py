"""Longer runs, for the night: `pytest tests/fuzz --hypothesis-profile=long`."""

from hypothesis import settings

settings.register_profile("long", max_examples=10_000, deadline=None)
