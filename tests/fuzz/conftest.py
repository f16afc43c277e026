"""Longer runs, for the night: `pytest tests/fuzz --hypothesis-profile=long`."""

from hypothesis import settings

settings.register_profile("long", settings.get_profile("no-clock"), max_examples=10_000)
