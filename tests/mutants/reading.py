"""The rules of reading a reply: what it says of each order, and what it does not."""

from tests.mutants.mutant import Mutant

READING = (
    Mutant(
        "a field that is named twice, and differently, has no value",
        "wire/decoding.py",
        "    return value if _is_unambiguous(trimmed, value) else _without_doubt(trimmed, value)\n",
        "    return value\n",
        "tests/batching/test_repeated_names.py",
    ),
    Mutant(
        "a reply has a largest size",
        "transport/http.py",
        "            if size > self._max_reply_bytes:",
        "            if False:",
        "tests/session/test_evidence.py tests/faults/test_hostile_replies.py",
    ),
    Mutant(
        "a document type definition is refused",
        "wire/respon.py",
        "forbid_dtd=True, forbid_entities=True, forbid_external=True",
        "forbid_dtd=False, forbid_entities=False, forbid_external=False",
        "tests/wire/test_decoding.py tests/faults/test_hostile_replies.py",
    ),
    Mutant(
        "items are matched by identity, not by position",
        "batching/matching.py",
        "match = _match_by_identity(orders, listed)",
        "match = _Match([(one,) if isinstance(one, dict) else ()"
        " for one in [*listed, *[None] * len(orders)][: len(orders)]], set(), [])",
    ),
    Mutant(
        "an item that names two orders makes both unknown",
        "batching/matching.py",
        "        if named is not None and named != position:",
        "        if False:",
    ),
    Mutant(
        "what the reply repeats of the order is compared",
        "batching/matching.py",
        "    if contradiction is not None:\n        return _unreadable(contradiction)",
        "    if False:\n        return _unreadable(str(contradiction))",
    ),
    Mutant(
        "an order that is listed twice, and differently, is unknown",
        "batching/matching.py",
        "    if not _are_alike(items):",
        "    if False:",
    ),
    Mutant(
        "a status of success with a complaint is unknown",
        "batching/matching.py",
        "    if status in dialect.done_statuses and complaint is None:",
        "    if status in dialect.done_statuses:",
    ),
    Mutant(
        "a status that the dialect does not name is unknown",
        "batching/matching.py",
        "    if status in dialect.declined_statuses and not praise:",
        "    if complaint:",
    ),
    Mutant(
        "what is declined with a text of success is unknown",
        "batching/matching.py",
        "declined_statuses and not praise:",
        "declined_statuses:",
        "tests/batching/test_judging.py",
    ),
    Mutant(
        "what is done in a reply that says nothing was done is unknown",
        "batching/matching.py",
        "            is_contradiction = is_denied and verdict is _SUCCEEDED",
        "            is_contradiction = False",
        "tests/batching/test_judging.py",
    ),
    Mutant(
        "a reply for another merchant says nothing of our orders",
        "session.py",
        "            if not is_empty and identifier(said) != ours.strip():",
        "            if False:",
        "tests/faults/test_owners.py",
    ),
    Mutant(
        "a pending status is told from one without a meaning",
        "batching/matching.py",
        "    if status in dialect.pending_statuses:",
        "    if False:",
        "tests/batching/test_judging.py",
    ),
    Mutant(
        "an order that the reply does not list is unknown",
        "batching/matching.py",
        "        return OutcomeStatus.UNKNOWN, ReplyUnreadableError(_NOT_LISTED)\n",
        "        return _SUCCEEDED\n",
    ),
    Mutant(
        "an order is not declined because its request was not accepted",
        "batching/matching.py",
        "    if code in dialect.nothing_done_return_statuses:",
        "    if True:",
    ),
    Mutant(
        "a look-up that lists others proves no absence",
        "batching/matching.py",
        "    if strangers:",
        "    if False:",
    ),
    Mutant(
        "a look-up that was not accepted proves no absence",
        "batching/matching.py",
        "    if code not in dialect.done_return_statuses:",
        "    if False:",
    ),
    Mutant(
        "a reply that may have been cut is asked for again",
        "batching/matching.py",
        "    cut = full and honoured and any(",
        "    cut = False and any(",
    ),
    Mutant(
        "the reply to an earlier request is none to the refunds",
        "batching/sending.py",
        "            if intent.references:\n",
        "            if False:\n",
        "tests/recovery/test_refunds.py",
    ),
)
