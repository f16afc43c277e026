"""The rules of recovery: what proves that an order was done, or was not."""

from tests.mutants.mutant import Mutant

RECOVERING = (
    Mutant(
        "an absence counts after the settle time only",
        "recovery/recover.py",
        "        await asyncio.sleep(seconds)\n",
        "        await asyncio.sleep(0)\n",
        "tests/recovery/test_refunds.py",
    ),
    Mutant(
        "an absence counts only where a control refund is listed",
        "recovery/recover.py",
        "            complete=control.is_listed(of_control),",
        "            complete=True,",
        "tests/recovery/test_refunds.py",
    ),
    Mutant(
        "an absence counts only where two look-ups agree",
        "recovery/recover.py",
        "        third = await self._look(self._left())\n",
        "        third = second\n",
        "tests/recovery/test_refunds.py",
    ),
    Mutant(
        "a missing marker counts only where markers are kept",
        "recovery/evidence.py",
        "    if lookup.complete and lookup.keeps_markers:",
        "    if lookup.complete:",
        "tests/recovery/test_proofs.py",
    ),
    Mutant(
        "a refund that was there before is not taken for ours",
        "recovery/evidence.py",
        "    known = {*taken, *before}\n",
        "    known = {*taken}\n",
    ),
    Mutant(
        "a reference that two refunds share names none of them",
        "recovery/evidence.py",
        "        if (reference_of(record) not in known or listed[reference_of(record)] > 1)\n",
        "        if reference_of(record) not in known\n",
        "tests/recovery/test_proofs.py",
    ),
    Mutant(
        "a refund record of a status without a meaning proves nothing",
        "recovery/evidence.py",
        "        record.refund_status in dialect.done_statuses\n",
        "        True\n",
        "tests/recovery/test_unclear_statuses.py",
    ),
    Mutant(
        "one refund proves one order",
        "recovery/evidence.py",
        "            taken.add(finding.reference)",
        "            pass",
        "tests/recovery/test_proofs.py",
    ),
    Mutant(
        "without a baseline a refund on record proves nothing",
        "recovery/evidence.py",
        "    before = _references_before(outcome)\n",
        "    before = _references_before(outcome) or set()\n",
    ),
    Mutant(
        "a refund like one that the gateway lists already is not sent",
        "batching/runner.py",
        "        if self._alike_since is None:\n",
        "        if True:\n",
    ),
    Mutant(
        "an alike refund without a readable date counts",
        "batching/baseline.py",
        "    if date is None:\n        return True\n",
        "    if date is None:\n        return False\n",
    ),
    Mutant(
        "an alike refund counts however many hours ago the policy says",
        "batching/baseline.py",
        "    return date.replace(tzinfo=UTC).timestamp() - ahead > since\n",
        "    return date.replace(tzinfo=UTC).timestamp() - ahead > since + 3600\n",
        "tests/recovery/test_alike.py",
    ),
    Mutant(
        "one refund of this batch explains one that is listed",
        "batching/baseline.py",
        "    if len(alike) <= made:\n",
        "    if not alike or made:\n",
        "tests/recovery/test_alike.py",
    ),
)
