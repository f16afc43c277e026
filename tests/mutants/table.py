"""Every safety rule of the library, and what the library would look like without it."""

from tests.mutants.mutant import SEEDS, Mutant
from tests.mutants.sharing import SHARING
from tests.mutants.web import WEB

__all__ = ["MUTANTS", "SEEDS", "Mutant"]

_SENDING = (
    Mutant(
        "a lost reply is unknown, whatever the exception",
        "transport.py",
        "    if not asked:\n        return NotSentError(",
        "    if True:\n        return NotSentError(",
        "tests/session/test_evidence.py tests/faults/test_broken_exchanges.py",
    ),
    Mutant(
        "a cancelled request that was written is unknown",
        "attempts.py",
        "error = _given_up(asked=evidence.settle(), ",
        "error = _given_up(asked=evidence.settle() and False, ",
    ),
    Mutant(
        "a request that was given up is not written any more",
        "transport.py",
        "        if self.revoked:",
        "        if False:",
    ),
    Mutant(
        "a reply to a request that was never written is a loud error",
        "transport.py",
        "            if not evidence.asked:",
        "            if False:",
        "tests/session/test_evidence.py",
    ),
    Mutant(
        "what moves money is not repeated once it was written",
        "attempts.py",
        "if kind is not OperationClass.READ or isinstance(error, ReplyTooLargeError):",
        "if isinstance(error, ReplyTooLargeError):",
    ),
    Mutant(
        "a payout is repeated only where the gateway deduplicates",
        "attempts.py",
        "if kind is OperationClass.KEYED and self._session.dialect.payout_deduplicates:",
        "if kind is OperationClass.KEYED:",
    ),
    Mutant(
        "an attempt that was not sent says nothing about the one before",
        "attempts.py",
        "if self._last.sent and error is not None and self._leaves_open(error, evidence):",
        "if False:",
        "tests/session/test_repeats.py",
    ),
    Mutant(
        "an HTTP status vouches for nothing, unless the dialect says so",
        "session.py",
        "trusted = raw.status in self.dialect.nothing_done_http_statuses",
        "trusted = True",
    ),
    Mutant(
        "the pause that the gateway asks for is kept",
        "attempts.py",
        "self._gate.pause(min(seconds, self._session.retry.max_pause_seconds))",
        "pass",
    ),
    Mutant(
        "redirects are not followed",
        "transport.py",
        "            allow_redirects=False,",
        "            allow_redirects=True,",
        "tests/faults/test_redirects.py",
    ),
    Mutant(
        "no middleware of a given session is used",
        "transport.py",
        "            middlewares=(),\n",
        "",
        "tests/faults/test_given_session.py",
    ),
    Mutant(
        "a connection that was idle is not used",
        "transport.py",
        "KEEP_IDLE_SECONDS = 1.0",
        "KEEP_IDLE_SECONDS = 60.0",
        "tests/faults/test_idle_connections.py",
    ),
    Mutant(
        "plain http is for this machine only",
        "checks.py",
        'if parts.scheme == "http" and not _is_loopback(',
        'if parts.scheme == "ftp" and not _is_loopback(',
        "tests/client/test_settings.py",
    ),
)

_READING = (
    Mutant(
        "a reply has a largest size",
        "transport.py",
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
        "another status without a text is unknown",
        "batching/matching.py",
        "    if complaint is None:\n        return _unreadable(",
        '    if complaint is None:\n        return OutcomeStatus.DECLINED, RejectedError("") or (',
    ),
    Mutant(
        "a pending status is unknown",
        "batching/matching.py",
        "    if status in dialect.pending_statuses:",
        "    if False:",
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
)

_RUNNING = (
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

_RECOVERING = (
    Mutant(
        "an absence counts after the settle time only",
        "recovery.py",
        "await asyncio.sleep(max(ended) + self._policy.settle_seconds - time.time())",
        "await asyncio.sleep(0)",
        "tests/recovery/test_refunds.py",
    ),
    Mutant(
        "an absence counts only where a witness is listed",
        "looks.py",
        "            complete=witness.is_listed(of_witness),",
        "            complete=True,",
        "tests/recovery/test_refunds.py",
    ),
    Mutant(
        "an absence counts only where two looks agree",
        "recovery.py",
        "        third = await self._look(self._left())\n",
        "        third = second\n",
        "tests/recovery/test_refunds.py",
    ),
    Mutant(
        "a missing marker counts only where markers are kept",
        "proofs.py",
        "    if look.complete and look.keeps_markers:",
        "    if look.complete:",
        "tests/recovery/test_proofs.py",
    ),
    Mutant(
        "a refund that was there before is not taken for ours",
        "proofs.py",
        "        and record.refund_reference_id not in before\n",
        "",
    ),
    Mutant(
        "one refund proves one order",
        "proofs.py",
        '            taken.add(str(finding.item.get("refund_reference_id")))',
        "            pass",
        "tests/recovery/test_proofs.py",
    ),
    Mutant(
        "without a baseline a refund on record proves nothing",
        "proofs.py",
        "    before = _references_before(outcome)\n",
        "    before = _references_before(outcome) or set()\n",
    ),
)

_HIDING = (
    Mutant(
        "no signature is kept with a reply",
        "batching/outcomes.py",
        "    if first < 0 and not is_escaped:\n",
        "    if True:\n",
        "tests/batching/test_results.py tests/secrets/test_replies.py",
    ),
    Mutant(
        "a signature is found however its name is written",
        "batching/outcomes.py",
        '    is_escaped = b"\\\\" in reply and _ESCAPED_LETTER in reply\n',
        "    is_escaped = False\n",
        "tests/batching/test_results.py",
    ),
    Mutant(
        "a card number shows as six and four digits",
        "models/values.py",
        "        return mask_card(self.reveal())",
        "        return self.reveal()",
        "tests/secrets/test_holders.py",
    ),
    Mutant(
        "a secret shows as stars",
        "models/values.py",
        "        return MASK\n\n    def reveal(",
        "        return self.reveal()\n\n    def reveal(",
        "tests/secrets/test_holders.py",
    ),
)

_KEEPING = (
    Mutant(
        "nothing is sent before its intent is kept",
        "batching/sending.py",
        "            given = await uninterrupted(intent)\n",
        "            given = 1\n",
        "tests/jobs/test_durable.py",
    ),
    Mutant(
        "an outcome is told once it is kept",
        "batching/sending.py",
        "            await kept\n",
        "            self.record(chunk, block)\n            await kept\n",
        "tests/jobs/test_durable.py",
    ),
    Mutant(
        "an outcome that could not be kept is unknown",
        "batching/sending.py",
        "said = block if is_kept or block.sending is None else _not_kept(chunk, block.sending)",
        "said = block",
        "tests/jobs/test_durable.py",
    ),
    Mutant(
        "what is left of the lease is looked at when the first byte is written",
        "transport.py",
        "            self.fence()\n",
        "            pass\n",
        "tests/jobs/test_owners.py tests/jobs/test_frozen.py",
    ),
    Mutant(
        "a lost lease calls nothing not_sent",
        "jobs/telling.py",
        "            if ours():\n",
        "            if True:\n",
        "tests/jobs/test_owners.py",
    ),
    Mutant(
        "what the journal is told waits for no quiet loop",
        "journal/writer.py",
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
        "journal/writing.py",
        "        if [each.state for each in known] != [state]:\n",
        "        if index in beside and False:\n",
        "tests/jobs/test_owners.py",
    ),
    Mutant(
        "only new orders are sent",
        "journal/stretches.py",
        '            if stretch.state not in expected[change.told["state"]]:\n',
        "            if False:\n",
        "tests/journal/test_states.py",
    ),
    Mutant(
        "other orders under the same name are a conflict",
        "journal/importing.py",
        "        if digest.hexdigest() != job.digest:\n",
        "        if False:\n",
        "tests/jobs/test_conflicts.py",
    ),
    Mutant(
        "what is proved not to be done is sent again only where that is asked for",
        "jobs/recovering.py",
        "        if is_absent and self.policy.resend_absent:\n",
        "        if is_absent:\n",
        "tests/jobs/test_faults.py",
    ),
)

MUTANTS = (*_SENDING, *_READING, *_RUNNING, *_RECOVERING, *_KEEPING, *_HIDING, *SHARING, *WEB)
