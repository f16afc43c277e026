"""The rules of the journal: what it keeps of a job, when, and on whose word."""

from tests.mutants.mutant import Mutant

KEEPING = (
    Mutant(
        "nothing is sent before its intent is kept",
        "session.py",
        "            await self._prepare()\n",
        "            asyncio.ensure_future(self._prepare())\n",
        "tests/jobs/test_durable.py",
    ),
    Mutant(
        "an intent is kept when it is the request's turn",
        "session.py",
        "        async with limiter:",
        "        if self._prepare is not None and not self._is_prepared:\n"
        "            await self._prepare()\n"
        "            self._is_prepared = True\n"
        "        async with limiter:",
        "tests/jobs/test_turns.py",
    ),
    Mutant(
        "what waits to be tried again has no intent",
        "session.py",
        "                self._is_prepared = False\n",
        "",
        "tests/jobs/test_turns.py",
    ),
    Mutant(
        "an outcome is told once it is kept",
        "batching/sender.py",
        "            await recorded\n            is_recorded = True\n",
        "            self._add(result)\n            await recorded\n"
        "            is_recorded = True\n",
        "tests/jobs/test_durable.py",
    ),
    Mutant(
        "an outcome that could not be kept is unknown",
        "batching/sender.py",
        "            if is_recorded or result.sending is None:\n",
        "            if True:\n",
        "tests/jobs/test_durable.py",
    ),
    Mutant(
        "what is left of the lease is looked at when the first byte is written",
        "transport/tracked.py",
        "            self.fence()\n",
        "            pass\n",
        "tests/jobs/test_owners.py tests/jobs/test_frozen.py",
    ),
    Mutant(
        "a lost lease calls nothing not_sent",
        "jobs.py",
        "            if ours():\n",
        "            if True:\n",
        "tests/jobs/test_owners.py",
    ),
    Mutant(
        "a job that was cut short tells what was not sent once nothing is sent any more",
        "jobs.py",
        '                await self._run.drain("the job was cut short")',
        "                pass",
        "tests/jobs/test_cancellation.py",
    ),
    Mutant(
        "what the journal is told waits for no quiet loop",
        "journal/database.py",
        "        if found >= _MOST_TOGETHER or (found == known and turn == _QUIET_TURNS):\n",
        "        if found == known and turn == _QUIET_TURNS:\n",
        "tests/journal/test_writer.py",
    ),
    Mutant(
        "whoever lost the lease changes no row",
        "journal/leases.py",
        "        if row is None or row[0] != key.epoch:\n",
        "        if row is None:\n",
        "tests/journal/test_leases.py",
    ),
    Mutant(
        "what was in flight at a takeover is unknown",
        "journal/leases.py",
        "        state=str(JobState.UNKNOWN),\n",
        "        state=str(JobState.NEW),\n",
        "tests/journal/test_leases.py",
    ),
    Mutant(
        "what rests on other orders is kept only while those are as they were",
        "journal/writes.py",
        "    expected = {**beside, **{each.index: JobState.UNKNOWN for each in found}}\n",
        "    expected = {each.index: JobState.UNKNOWN for each in found}\n",
        "tests/jobs/test_owners.py",
    ),
    Mutant(
        "only new orders are sent",
        "journal/writes.py",
        '        elif found.state not in sources(transition, JobState(changed["state"])):\n',
        "        elif False:\n",
        "tests/journal/test_states.py",
    ),
    Mutant(
        "other orders under the same name are a conflict",
        "journal/submit.py",
        "            if known != order:\n",
        "            if False:\n",
        "tests/jobs/test_conflicts.py",
    ),
    Mutant(
        "an order is not sent without a field that another release kept",
        "journal/rows.py",
        "        if unknown or lacking:\n",
        "        if lacking:\n",
        "tests/journal/test_earlier.py",
    ),
    Mutant(
        "what is proved not to be done is sent again only where that is asked for",
        "jobs.py",
        "        again = is_absent and self.policy.resend_absent\n",
        "        again = is_absent\n",
        "tests/jobs/test_faults.py",
    ),
)
