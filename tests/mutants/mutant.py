"""A safety rule, and how the library would look without it."""

import attrs

SEEDS = "seeds"
"""The simulation, at most a thousand seeds of it."""


@attrs.frozen
class Mutant:
    """A rule taken out.

    Attributes:
        rule: What no longer holds.
        path: The file below `gateway_async/`.
        old: The text that keeps the rule; it occurs once.
        new: What stands there instead.
        guard: What must notice: `SEEDS`, or a selection of tests.
    """

    rule: str
    path: str
    old: str
    new: str
    guard: str = SEEDS

    def apply(self, source: str) -> str:
        """Return the source without the rule.

        Raises:
            ValueError: If the rule is not there, or not only there.
        """
        if source.count(self.old) != 1:
            raise ValueError(
                f"{self.rule}: {self.path} has the text {source.count(self.old)} times"
            )
        return source.replace(self.old, self.new)
