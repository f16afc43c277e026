"""The rules of a batch: what is taken in, what is in flight together, and when it stops."""

from tests.mutants.mutant import Mutant

RUNNING = (
    Mutant(
        "a list is checked whole before anything is sent",
        "batching/feed.py",
        "        if problems:\n            raise",
        "        if False:\n            raise",
    ),
    Mutant(
        "duplicates in a stream are refused",
        "batching/feed.py",
        "        if len(hashes) < len(identities) or not hashes.isdisjoint(self._seen):\n",
        "        if False:\n",
    ),
    Mutant(
        "orders are taken in once, whatever is raised meanwhile",
        "batching/feed.py",
        "            if added < len(orders) and self._orders is not orders:",
        "            if added < len(orders):",
        "tests/batching/test_inputs.py",
    ),
    Mutant(
        "what was written of other orders is not sent",
        "batching/feed.py",
        "            self._identities.add(identity)\n            self._encoded = None\n",
        "            self._identities.add(identity)\n",
        "tests/batching/test_feed.py",
    ),
    Mutant(
        "equal identities never share a request",
        "batching/feed.py",
        "            identity in self._identities\n            or ",
        "            ",
    ),
    Mutant(
        "serialized identities are never in flight together",
        "batching/feed.py",
        "            self._in_flight |= self._identities",
        "            pass",
    ),
    Mutant(
        "after an unknown outcome the later ones of its identity are not sent",
        "batching/feed.py",
        "        if identity in self._unknown:",
        "        if False:",
    ),
    Mutant(
        "a batch stops after too many lost replies",
        "batching/runner.py",
        "        elif self._failed_in_a_row >= self._policy.stop_after_unknown:",
        "        elif False:",
    ),
    Mutant(
        "nothing is sent after the deadline",
        "batching/runner.py",
        "deadline=asyncio.get_running_loop().time() + (policy.deadline_seconds or math.inf),",
        "deadline=math.inf,",
    ),
    Mutant(
        "what was sent is waited for within the drain time",
        "batching/runner.py",
        "interruption = await self._wait(self._policy.drain_seconds)",
        "interruption = await self._wait(0)",
    ),
    Mutant(
        "a cancelled batch drains before it ends",
        "batching/runner.py",
        "            cut_short = await self.drain(reason)",
        "            cut_short = interruption or await self.drain(reason)",
    ),
    Mutant(
        "what was not yet written is not written once a batch is left",
        "batching/runner.py",
        "        self._sender.withdraw_unsent()\n        self._cancel_idle()\n",
        "        self._cancel_idle()\n",
    ),
    Mutant(
        "from an iterable that raised no more is taken",
        "batching/feed.py",
        "            except BaseException:\n                self.is_broken = True\n",
        "            except BaseException:\n",
    ),
    Mutant(
        "from an asynchronous iterable that raised no more is taken",
        "batching/feed.py",
        "            except BaseException:\n                self.is_broken = True\n",
        "            except BaseException:\n",
    ),
)
