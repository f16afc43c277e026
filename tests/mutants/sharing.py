"""The rules of jobs that many processes share."""

from tests.mutants.mutant import Mutant

_SLICES = "tests/journal/test_slices.py"
_WORKERS = "tests/workers/test_workers.py"

SHARING = (
    Mutant(
        "all orders of a transaction are in one slice",
        "journal/submit.py",
        "    for positions in _apart(keys, size):\n",
        "    for positions in ():\n",
        _SLICES,
    ),
    Mutant(
        "a slice is finished once nothing is left to do",
        "journal/leases.py",
        "    if any(counts[state] for state in UNFINISHED):\n",
        "    if False:\n",
        _SLICES,
    ),
    Mutant(
        "a decision that an order is to be sent opens its slice",
        "journal/writes.py",
        "(reopen_slice if state is JobState.NEW else make_due)",
        "make_due",
        _SLICES,
    ),
    Mutant(
        "a decision lets a slice be due",
        "journal/leases.py",
        "values(due_at=0.0, tries=0)",
        "values(tries=0)",
        _SLICES,
    ),
    Mutant(
        "a finished slice that is run again is not finished before that run ends",
        "journal/leases.py",
        "_POSTPONE.values(finished=False)",
        "_POSTPONE",
        _SLICES,
    ),
    Mutant(
        "a slice that is due is told to one at a time",
        "journal/leases.py",
        "    if found:\n",
        "    if False:\n",
        _SLICES,
    ),
    Mutant(
        "a slice that somebody has is told to nobody",
        "journal/leases.py",
        "        ~_IS_TAKEN,\n",
        "",
        _SLICES,
    ),
    Mutant(
        "a slice whose process died is due when its lease is over",
        "journal/leases.py",
        "    if slice_number:  # else a worker",
        "    if False:  # else a worker",
        _SLICES,
    ),
    Mutant(
        "a job that was cut is run by its slices only",
        "journal/leases.py",
        "    if not slice_number and job.slice_size:\n",
        "    if False:\n",
        _SLICES,
    ),
    Mutant(
        "a slice that is finished is not looked at again",
        "workers/workers.py",
        "    if (await named.slice(slice_number)).finished:\n",
        "    if False:\n",
        _WORKERS,
    ),
    Mutant(
        "what the queue did not take is due at once",
        "workers/workers.py",
        "            if handed < len(due):\n",
        "            if False:\n",
        _WORKERS,
    ),
    Mutant(
        "the jobs of another merchant are left to its workers",
        "journal/leases.py",
        '        JOBS.c.merchant_id == sa.bindparam("the_merchant"),\n',
        "",
        _WORKERS,
    ),
)
