"""Attributes that state the schedule of a program (stage `schedule`), whose operations are printed in issue order.

`sched.item` says on which stream an operation runs, for which events it waits, and which event it records.
`sched.buffers` has the arena offsets of the operation's results, in bytes. Times are in seconds and printed with all
digits, so that they read back exactly.
"""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.ir.notes import Place, Slot
from meshgen.mlir.literals import parse_text, quoted
from meshgen.mlir.shard.attributes import parse_list


def _float_text(parser: AttrParser) -> float:
    """Parse a float that is quoted in the text, such as `"1e-05"`, since MLIR's float literals do not allow this form."""
    return float(parser.parse_str_literal())


def _clause(parser: AttrParser, word: str) -> bool:
    """Parse `WORD =` if it comes next. Returns whether it did."""
    if parser.parse_optional_keyword(word) is None:
        return False
    parser.parse_punctuation("=")
    return True


def _source(parser: AttrParser) -> str:
    return parse_text(parser) if _clause(parser, "source") else ""


def _source_text(source: str) -> str:
    return f" source = {quoted(source)}" if source else ""


def item_text(slot: Slot) -> str:
    """Return the text `#sched.item<...>` that states when and on which stream an operation runs."""
    waits = f" waits = {list(slot.waits)}" if slot.waits else ""
    records = "" if slot.records is None else f" records = {slot.records}"
    exposure = f' hidden = "{slot.exposure[0]!r}" exposed = "{slot.exposure[1]!r}"' if slot.exposure else ""
    times = f' seconds = "{slot.seconds!r}" start = "{slot.start!r}"{exposure}'
    return f"#sched.item<stream {slot.stream}{waits}{records}{times}{_source_text(slot.source)}>"


def buffer_text(place: Place) -> str:
    """Return the text `#sched.buffer<...>` of the arena allocation of a result."""
    where = f"{place.kind} storage = {place.storage} offset = {place.offset}"
    return f"#sched.buffer<{place.number} {quoted(place.name)} {where}{_source_text(place.source)}>"


@irdl_attr_definition
class ItemAttr(Data[Slot]):
    """The schedule of one operation: stream, events and times in seconds.

    #sched.item<stream 0 waits = [1] records = 2 seconds = "1e-05" start = "0.0" hidden = "0.0" exposed = "1e-05">
    """

    name = "sched.item"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Slot:
        with parser.in_angle_brackets():
            parser.parse_keyword("stream")
            stream = parser.parse_integer()
            waits = parse_list(parser, parser.parse_integer) if _clause(parser, "waits") else ()
            records = parser.parse_integer() if _clause(parser, "records") else None
            seconds = _float_text(parser) if _clause(parser, "seconds") else 0.0
            start = _float_text(parser) if _clause(parser, "start") else 0.0
            exposure = None
            if _clause(parser, "hidden"):
                hidden = _float_text(parser)
                parser.parse_keyword("exposed")
                parser.parse_punctuation("=")
                exposure = (hidden, _float_text(parser))
            source = _source(parser)
        return Slot(stream, waits, records, seconds, start, exposure, source)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(item_text(self.data).removeprefix(f"#{self.name}"))


@irdl_attr_definition
class BufferAttr(Data[Place]):
    """The arena allocation of a result, with the offset in bytes: `#sched.buffer<3 "h" temporary storage = 3 offset =
    1024>`.
    """

    name = "sched.buffer"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Place:
        with parser.in_angle_brackets():
            number, name = parser.parse_integer(), parse_text(parser)
            kind = parser.parse_keyword_in(("input", "constant", "temporary", "output", "given"))
            numbers: list[int] = []
            for word in ("storage", "offset"):
                parser.parse_keyword(word)
                parser.parse_punctuation("=")
                numbers.append(parser.parse_integer())
            source = _source(parser)
        return Place(number, name, kind, numbers[0], numbers[1], source)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(buffer_text(self.data).removeprefix(f"#{self.name}"))


ATTRIBUTES = (ItemAttr, BufferAttr)
