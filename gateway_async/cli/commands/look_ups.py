"""`query`, `search-refunds`: orders of a file, looked up."""

import os
from collections.abc import Callable
from typing import Literal

from gateway_async.cli.commands.batches import BatchCommand
from gateway_async.cli.commands.common import guarded
from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import (
    FileOptions,
    GatewayOptions,
    Line,
    LookUpOptions,
    Out,
    PaceOptions,
    SafetyOptions,
    Source,
)


def _look_up_command(layout: Layout) -> Callable[..., int]:
    def command(  # noqa: PLR0913  # one keyword an option
        orders: Source,
        /,
        *,
        out: Out | None = None,
        by: Literal["order_no", "transaction_id"] | None = None,
        look_up: LookUpOptions | None = None,
        pace: PaceOptions | None = None,
        files: FileOptions | None = None,
        gateway: GatewayOptions | None = None,
        line: Line,
    ) -> int:
        """Look up the orders of a file.

        Args:
            orders: The file with the orders, one a row: .csv, .jsonl or .parquet, or - for
                standard input.
            out: The file for the outcomes, in the order of the input; - for standard output.
            by: The column to look up by, where the file has both filled.
        """
        who = gateway or GatewayOptions()
        talk = who.talk()

        def work() -> int:
            pacing = pace or PaceOptions()
            policy = {**pacing.policy, "duplicates": "allow"}  # it does no harm to ask twice
            return BatchCommand(
                layout=layout.by(by) if by else layout,
                source=orders,
                out=out,
                talk=talk,
                settings=who.settings(os.environ, rate=pacing.rate, policy=policy),
                files=files or FileOptions(),
                safety=SafetyOptions(dry_run=(look_up or LookUpOptions()).dry_run),
                gateway=who,
                line=line,
            ).run()

        return guarded(talk, work)

    command.__name__ = layout.method
    return command


query = _look_up_command(LAYOUTS["query"])
search_refunds = _look_up_command(LAYOUTS["search-refunds"])
