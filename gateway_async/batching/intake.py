"""How orders come in: pulled, checked, written, and cut into chunks.

Law: every order that is pulled leaves once, in a chunk or refused with its error. When it is sent,
and how, is not known here.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from gateway_async.batching.chunks import Chunk, Chunker, Page, SeenIdentities
from gateway_async.batching.outcomes import UniformBlock, status_code
from gateway_async.batching.sources import open_source
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import DuplicateOrderError, InvalidOrderError, NotSentError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence

    from gateway_async.batching.chunks import Identity
    from gateway_async.batching.outcomes import Block
    from gateway_async.batching.sheets import Sheet, SheetWriter
    from gateway_async.settings import BatchPolicy

_CHECKED_AT_ONCE = 200
_LEFT_IN_A_BLOCK = 1000
_PROBLEMS_SHOWN = 20


class Intake:
    """The orders of one batch that are not yet on their way.

    Attributes:
        source: Where they come from.
        is_broken: Whether the input raised, so that no more is taken from it.
    """

    def __init__(
        self,
        writer: "SheetWriter",
        policy: "BatchPolicy",
        orders: object,
        *,
        checked: bool = False,
    ) -> None:
        plan = writer.plan
        size = min(policy.chunk_size or plan.limit, plan.limit)
        self.source = open_source(orders)
        self._size = size
        self._plan = plan
        self._writer = writer
        self._chunker = Chunker(
            size=size,
            identity=plan.identity,
            look_ahead=size * policy.concurrency,
            serialize=policy.duplicates == "serialize",
            kind=plan.kind,
        )
        self._seen = SeenIdentities(plan.identity) if policy.duplicates == "reject" else None
        self._checked = checked
        self._pulled = 0
        self.is_broken = False
        self._refused: list[UniformBlock] = []
        self._sheet: Sheet | None = None

    @property
    def can_fill(self) -> bool:
        """Whether another order may be pulled."""
        return self._room > 0

    @property
    def _room(self) -> int:
        """How many orders may be pulled, whatever becomes of each."""
        if self.source.ended or self.is_broken:
            return 0
        refused = len(self._refused) + len(self._chunker.refused)
        return min(self._chunker.room, self._size - refused)

    @property
    def is_exhausted(self) -> bool:
        """Whether every order of the input was taken; one that raised may have held more."""
        return self.source.ended and not self.is_broken

    @property
    def is_done(self) -> bool:
        """Whether every order has left."""
        return self.source.ended and not self._chunker.holds

    async def check_all(self) -> None:
        """Check a collection whole, so that one bad order means that nothing is sent.

        Raises:
            InvalidOrderError: Listing every bad order with its position.
        """
        collection = self.source.collection
        if collection is None:
            return
        problems: dict[int, InvalidOrderError] = {}
        for start in range(0, len(collection), _CHECKED_AT_ONCE):
            problems |= self._problems(start, collection[start : start + _CHECKED_AT_ONCE])
            await asyncio.sleep(0)
        if problems:
            raise _refusal(problems, len(collection))
        self._checked = True

    async def left(self) -> "AsyncIterator[tuple[int, Any]]":
        """Yield what was not pulled yet, with its index, each to be checked by the caller."""
        while not self.source.ended:
            page = Page()
            await self._pull(1, page)
            for numbered in zip(page.indices, page.orders, strict=True):
                yield numbered

    async def fill(self) -> None:
        """Pull orders until a chunk is full, as far as the input has any."""
        while (room := self._room) > 0:
            page = Page()
            try:
                await self._pull(room, page)
            finally:
                self._take_in(page)

    async def _pull(self, most: int, into: Page) -> None:
        try:
            await self.source.pull_some(most, into)
        except BaseException:
            self.is_broken = True
            raise

    def _take_in(self, page: Page) -> None:
        """Check what was pulled, and cut it into chunks: nearly always all of it at once."""
        self._pulled += len(page)
        self._sheet = None
        if not page.orders:
            return
        try:
            self._open_with(page)
        finally:  # whatever was raised, every order is taken in once
            if not self._chunker.is_open_with(page):
                self._add(page)

    def _add(self, page: Page) -> None:
        for index, order in zip(page.indices, page.orders, strict=True):
            error = None if self._checked else self.check(order)
            if error is None:
                self._chunker.add(index, order)
            else:
                self._refused.append(_refused(index, order, error))

    def _open_with(self, page: Page) -> None:
        """Open a chunk with orders, if none of them is wrong or in another's way."""
        sheet = self._writer.write_if_right(page.orders, page.indices)
        identities = None if sheet is None else self._chunker.fitting(page.orders)
        if identities is not None and (self._checked or self._are_new(identities)):
            self._sheet = sheet
            self._chunker.open_with(page, identities)

    def _are_new(self, identities: "Collection[Identity]") -> bool:
        """Note identities, if duplicates are refused and none of these is one."""
        return self._seen is None or self._seen.add(identities)

    def take(self) -> "tuple[Chunk, Sheet | None] | None":
        """Return the next chunk, full or not; None if none can leave now.

        Its sheet comes with it, where all of it was taken in, and so written, at once.
        """
        chunk, sheet, self._sheet = self._chunker.take(), self._sheet, None
        if chunk is None:
            return None
        is_its_own = sheet is not None and list(sheet.indices) == list(chunk.indices)
        return chunk, sheet if is_its_own else None

    def take_refused(self) -> list[UniformBlock]:
        """Return the orders that may not be sent, each with its error."""
        refused = self._refused + [_refused(*one) for one in self._chunker.refused]
        self._refused = []
        self._chunker.refused.clear()
        return refused

    def release(self, block: "Block") -> None:
        """Note that the orders of a chunk came back, with what became of them."""
        if self._chunker.serializes:
            code = status_code(OutcomeStatus.UNKNOWN)
            orders = zip(block.orders, block.statuses, strict=True)
            self._chunker.release(block.orders, [order for order, said in orders if said == code])

    def note_unknown(self, orders: "Sequence[object]") -> None:
        """Note orders of the same job whose outcome is unknown: none like them may follow."""
        if self._chunker.serializes:
            self._chunker.release((), orders)

    def give_up(self, error: NotSentError) -> "list[Block]":
        """End the intake, and return all that was taken and never sent.

        What a collection still held counts as taken.
        """
        blocks: list[Block] = [*self.take_refused()]
        left = self._chunker.empty()
        if left is not None:
            blocks.append(_not_sent(left, error))
        if not self.source.ended and self.source.collection is not None:
            self.source.ended = True
            blocks.extend(_not_sent(chunk, error) for chunk in self._never_pulled())
        return blocks

    async def aclose(self) -> None:
        """Close an input that was not taken to its end."""
        if not self.source.ended:
            await self.source.aclose()

    def _never_pulled(self) -> "Iterator[Chunk]":
        orders = self.source.collection or ()
        for start in range(self._pulled, len(orders), _LEFT_IN_A_BLOCK):
            part = orders[start : start + _LEFT_IN_A_BLOCK]
            yield Chunk(range(start, start + len(part)), part)

    def _problems(self, start: int, orders: "Sequence[object]") -> "dict[int, InvalidOrderError]":
        """Return why some orders may not be sent, each by its index; each is to be checked once."""
        if self._writer.are_right(orders) and (
            self._seen is None or self._seen.add(list(map(self._plan.identity, orders)))
        ):
            return {}
        checked = enumerate(map(self.check, orders), start)
        return {index: error for index, error in checked if error is not None}

    def check(self, order: Any) -> InvalidOrderError | None:  # noqa: ANN401  # anything may come in
        """Return why an order may not be sent, or None; each is to be checked once."""
        error = self._plan.check(order, self._writer.dialect)
        if error is None and self._seen is not None:
            return self._seen.refuse(order)
        return error


def _not_sent(chunk: Chunk, error: NotSentError) -> UniformBlock:
    return UniformBlock(chunk=chunk, status=OutcomeStatus.NOT_SENT, error=error)


def _refused(index: int, order: object, error: "InvalidOrderError | NotSentError") -> UniformBlock:
    chunk = Chunk(range(index, index + 1), (order,))
    return UniformBlock(chunk=chunk, status=OutcomeStatus.NOT_SENT, error=error)


def _refusal(problems: "Mapping[int, InvalidOrderError]", total: int) -> InvalidOrderError:
    """Make one error of all that is wrong with a collection."""
    shown = [f"  [{index}] {error}" for index, error in list(problems.items())[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        shown.append(f"  and {len(problems) - _PROBLEMS_SHOWN} more, in `problems`")
    only_duplicates = all(isinstance(error, DuplicateOrderError) for error in problems.values())
    error_class = DuplicateOrderError if only_duplicates else InvalidOrderError
    text = f"{len(problems)} of {total} orders are wrong, so nothing was sent:"
    return error_class("\n".join([text, *shown]), problems=problems)
