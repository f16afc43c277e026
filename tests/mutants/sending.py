"""The rules of sending a request: what proves that nothing left, and what is repeated."""

from tests.mutants.mutant import Mutant

SENDING = (
    Mutant(
        "a row that was copied is sent from where it was copied",
        "cli/inputs.py",
        "            if source := to_text(row.cells.get(STATUS_FROM)):\n",
        '            if source := "":\n',
        "tests/cli/test_recovering.py",
    ),
    Mutant(
        "an order that a job has is not sent past it",
        "cli/orders.py",
        "    if not job or to_text",
        "    if job or to_text",
        "tests/cli/test_jobs.py",
    ),
    Mutant(
        "what is raised once something was sent proves nothing by its type",
        "attempts.py",
        "                error = _proved(error, asked=evidence.settle())\n",
        "                pass\n",
        "tests/session/test_repeats.py",
    ),
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
