"""The rules of what is neither shown nor kept."""

from tests.mutants.mutant import Mutant

HIDING = (
    Mutant(
        "no signature is kept with a reply",
        "wire/decode.py",
        "    if first < 0 and not is_escaped:\n",
        "    if True:\n",
        "tests/batching/test_results.py tests/secrets/test_replies.py",
    ),
    Mutant(
        "a signature is found however its name is written",
        "wire/decode.py",
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
    Mutant(
        "a signature is masked wherever a reply quotes it",
        "session.py",
        "    masked = without_text(body, signature, MASK)",
        "    masked = body",
        "tests/secrets/test_replies.py",
    ),
    Mutant(
        "an error does not show the proxy of a session that was given",
        "transport/http.py",
        "_quotes_reply(failure) or _names_proxy(failure)",
        "_quotes_reply(failure)",
        "tests/faults/test_proxies.py",
    ),
    Mutant(
        "a card number is masked wherever a reply quotes it",
        "payments.py",
        "    if len(number) < SHORTEST_CARD:",
        "    if True:",
        "tests/secrets/test_replies.py",
    ),
)
