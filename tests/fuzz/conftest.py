"""`pytest tests/fuzz --hypothesis-profile=long` runs 10,000 examples of each test."""

from hypothesis import settings

settings.register_profile("long", max_examples=10_000, deadline=None)
