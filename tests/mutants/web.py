"""The rules of the coalescer and of notifications."""

from tests.mutants.mutant import Mutant

_REQUESTS = "tests/coalescer/test_requests.py"
_CANCELLATION = "tests/coalescer/test_cancellation.py"
_CLOSING = "tests/coalescer/test_closing.py"
_READING = "tests/notifications/test_reading.py"
_RECEIVER = "tests/notifications/test_receiver.py"
_SERVERS = "tests/notifications/test_servers.py"

_COALESCING = (
    Mutant(
        "an order that was withdrawn as its request left is not sent",
        "coalescer.py",
        "for name, one in self.waiting.items() if one.is_wanted}",
        "for name, one in self.waiting.items()}",
        _CANCELLATION,
    ),
    Mutant(
        "an order that nobody waits for any more is withdrawn at once",
        "coalescer.py",
        "        if not pending.waiters and queue.waiting.get(identity) is pending:\n",
        "        if False:\n",
        _CANCELLATION,
    ),
    Mutant(
        "whoever comes second leaves in time where the first is withdrawn",
        "coalescer.py",
        "            if queue.waiting and not queue.is_due(now):\n",
        "            if False:\n",
        _CANCELLATION,
    ),
    Mutant(
        "money that is under way in a coalescer is not moved again",
        "coalescer.py",
        "        if pending is not None or identity in queue.in_flight:\n",
        "        if pending is not None:\n",
        _REQUESTS,
    ),
    Mutant(
        "an outcome of money that nobody waits for is kept",
        "coalescer.py",
        "            if not queue.operation.is_look_up:\n                self._keep(",
        "            if False:\n                self._keep(",
        _CANCELLATION,
    ),
    Mutant(
        "an outcome told in the moment of a cancellation is kept",
        "coalescer.py",
        "        if is_told and pending.has_left and not queue.operation.is_look_up:\n",
        "        if False:\n",
        _CANCELLATION,
    ),
    Mutant(
        "what waits is not sent where a coalescer is left by an exception",
        "coalescer.py",
        "        if error is not None:\n            self._give_up(",
        "        if False:\n            self._give_up(",
        _CLOSING,
    ),
    Mutant(
        "the requests of a coalescer in flight are limited",
        "coalescer.py",
        "        while len(self._requests) < self._concurrency:\n",
        "        while True:\n",
        _REQUESTS,
    ),
)

_TELLING = (
    Mutant(
        "a notification is remembered only once the application took it",
        "notifications/confirming.py",
        "            told = handler(subject)\n",
        "            self.memory.keep(name, news)\n            told = handler(subject)\n",
        _RECEIVER,
    ),
    Mutant(
        "an answer that was overtaken is not told to the application",
        "notifications/confirming.py",
        "        if self.memory.is_newer(name, asked_at):",
        "        if False:",
        _RECEIVER,
    ),
    Mutant(
        "the application is told of one payment by one call at a time",
        "notifications/confirming.py",
        "        return self._turns.setdefault(name, asyncio.Lock())\n",
        "        return asyncio.Lock()\n",
        _RECEIVER,
    ),
    Mutant(
        "an unconfirmed payout is handed on only where it is verified",
        "notifications/receiver.py",
        "            return _NOT_VERIFIED if notification.is_payout else None\n",
        "            return None\n",
        _SERVERS,
    ),
    Mutant(
        "only True verifies a notification",
        "notifications/receiver.py",
        "return None if right is True else _NOT_VERIFIED",
        "return None if right else _NOT_VERIFIED",
        _RECEIVER,
    ),
    Mutant(
        "a notification is read up to the cap",
        "notifications/receiver.py",
        "            if len(body) > self._max_body_bytes:\n",
        "            if False:\n",
        _SERVERS,
    ),
    Mutant(
        "too many notifications at once are sent away",
        "notifications/receiver.py",
        "        if self._busy >= self._concurrency:\n",
        "        if False:\n",
        _RECEIVER,
    ),
    Mutant(
        "a notification that has a field twice is not read",
        "notifications/reading.py",
        "json.loads(body, object_pairs_hook=_check_pairs, ",
        "json.loads(body, ",
        _READING,
    ),
    Mutant(
        "a signature is compared with what was sent",
        "notifications/verifying.py",
        'return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE_FIELD, "").encode())',
        "return bool(expected)",
        _READING,
    ),
)

WEB = (*_COALESCING, *_TELLING)
