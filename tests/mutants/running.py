"""The rules of a batch: what is taken in, what is in flight together, and when it stops."""

from tests.mutants.mutant import Mutant

RUNNING = (
    Mutant(
        "a list is checked whole before anything is sent",
        "batching/intake.py",
        "        if problems:\n            raise",
        "        if False:\n            raise",
    ),
    Mutant(
        "duplicates in a stream are refused",
        "batching/chunks.py",
        "        if key not in self._hashes:",
        "        if True:",
    ),
    Mutant(
        "orders are taken in once, whatever is raised meanwhile",
        "batching/intake.py",
        "            if not self._chunker.is_open_with(page):\n",
        "            if True:\n",
        "tests/batching/test_inputs.py",
    ),
    Mutant(
        "what was written of other orders is not sent",
        "batching/intake.py",
        "list(sheet.indices) == list(chunk.indices)",
        "len(sheet.indices) == len(chunk)",
        "tests/batching/test_inputs.py",
    ),
    Mutant(
        "equal identities never share a request",
        "batching/chunks.py",
        "            and identity not in self._open_identities\n",
        "",
    ),
    Mutant(
        "serialized identities are never in flight together",
        "batching/chunks.py",
        "            self._in_flight |= self._open_identities",
        "            pass",
    ),
    Mutant(
        "after an unknown outcome the later ones of its identity are not sent",
        "batching/chunks.py",
        "        if identity in self._unknown:",
        "        if False:",
    ),
    Mutant(
        "a batch stops after too many lost replies",
        "batching/running.py",
        "        elif self._failed_in_a_row >= self._policy.stop_after_unknown:",
        "        elif False:",
    ),
    Mutant(
        "nothing is sent after the deadline",
        "batching/lifecycle.py",
        "deadline=now + (policy.deadline_seconds or math.inf),",
        "deadline=math.inf,",
    ),
    Mutant(
        "what was sent is waited for within the drain time",
        "batching/lifecycle.py",
        "interruption = await self._wait(self._policy.drain_seconds)",
        "interruption = await self._wait(0)",
    ),
    Mutant(
        "a cancelled batch drains before it ends",
        "batching/lifecycle.py",
        "            cut_short = await self.drain(reason)",
        "            cut_short = interruption or await self.drain(reason)",
    ),
    Mutant(
        "what was not yet written is not written once a batch is left",
        "batching/running.py",
        "        self._withdraw_calls()\n        self._cancel_idle()\n",
        "        self._cancel_idle()\n",
    ),
    Mutant(
        "an input that raised is not exhausted",
        "batching/intake.py",
        "            self.is_broken = True\n",
        "",
    ),
)
