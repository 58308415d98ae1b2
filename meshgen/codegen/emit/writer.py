"""Writer of a kernel's lines and of the index code that determines its addresses (`index_code.py`).

Lines of index code are printed from the same expressions that bounds proofs use. A line that is plain text
must neither access memory nor change a variable of the index code; assertions check this.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from meshgen.codegen.emit.guards import Guards
from meshgen.codegen.emit.names import Names
from meshgen.codegen.emit.tile import Spans, Tile
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import (
    Advance,
    Branch,
    Condition,
    Describe,
    Int,
    Let,
    Loop,
    Operand,
    Statement,
    Touch,
    all_of,
    integer,
    moved,
)
from meshgen.ir.graph import Value
from meshgen.ops.triton.registers import Code

_ADDRESSES = ("tl.load(", "tl.store(", "tl.make_tensor_descriptor(")


class Writer:
    """The lines of a kernel under construction, with the kernel's names and index code.

    Attributes:
        lines: the lines written so far.
        code: the index code of the lines.
        wide: the suffix that widens an integer to 64 bits, or "" if 32 bits are enough.
        checked: ordinals of the loads and stores that compare their offset with the size of the accessed tensor.
    """

    def __init__(self, is_wide: bool, checked: frozenset[int]) -> None:
        self.names = Names()
        self.lines: list[str] = []
        self.code: list[Statement] = []
        self.depth = 1
        self.tile = Tile()
        self.wide = ".to(tl.int64)" if is_wide else ""
        self.checked = checked
        self._blocks = [self.code]
        self._integers: set[str] = set()  # names of the integer variables that index code may use
        self._accesses = 0
        self._spans = Spans()
        # A key that is a text is the source of an index expression.
        self._scopes: list[dict[tuple[Value, Index, Guards] | str, Code]] = [{}]

    def write(self, line: str) -> None:
        """Write a line of plain text, which neither accesses memory nor changes a variable of the index code."""
        assert not any(word in line for word in _ADDRESSES), f"'{line}' is not in the index code"
        targets = line.partition("=")[0].replace(",", " ").split()
        assert self._integers.isdisjoint(targets), f"'{line}' changes a name of the index code"
        self._append(line)

    def _append(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def let(self, name: str, value: str | Int, note: str = "") -> None:
        """Write `name = value`, as index code unless the value is plain text."""
        self._append(f"{name} = {value}{note}")
        if isinstance(value, Int | Condition) or name in self._integers:
            self._integers.add(name)
            self._blocks[-1].append(Let(name, value if isinstance(value, Condition) else integer(value)))

    def assign(self, preferred: str, value: str | Int) -> str:
        """Assign a value to a new variable, and return its name."""
        name = self.names.fresh(preferred)
        self.let(name, value)
        self._spans.note(name, self.spans(str(value)))
        return name

    def bind(self, value: Int) -> None:
        """Make the integer variable `value` usable in index expressions."""
        self._blocks[-1].append(Let(value.text, value))

    def advance(self, address: str, by: Int) -> None:
        """Write the increment of the pointer variable `address` by `by` elements, as in each iteration of a loop."""
        self._append(f"{address} += {by}")
        self._blocks[-1].append(Advance(address, by))

    def widened(self, value: Int) -> Int:
        """Return an integer, converted to 64 bits if some index of the kernel does not fit in 32 bits."""
        return value.to("tl.int64") if self.wide else value

    def spread_over(self, name: str, variables: Iterable[Var]) -> None:
        """Record that the register `name` varies with the tile variables `variables`."""
        self._spans.note(name, [v.text for v in variables])

    def spans(self, text: str) -> frozenset[str]:
        """Return the names of the tile variables that the source expression `text` varies with."""
        return self._spans.of(text, self.tile)

    def loop(self, target: str, *ends: Operand, call: str = "range", options: str = "") -> None:
        """Open a loop over `range(*ends)`, with further options of `tl.range`. The body of the loop is a new scope."""
        bounds = tuple(map(integer, ends))
        self._open(f"for {target} in {call}({', '.join(map(str, bounds))}{options}):", Loop(target, bounds))
        self._integers.add(target)

    def branch(self, test: str) -> None:
        """Open a branch with the condition `test`, which must be the same in all lanes of a program."""
        self._open(f"if {test}:", Branch(test))

    def _open(self, line: str, statement: Loop | Branch) -> None:
        self._append(line)
        self._blocks[-1].append(statement)
        self._blocks.append(statement.body)
        self.depth += 1
        self._scopes.append({})

    def otherwise(self) -> None:
        """Open the else branch of the most recently closed branch."""
        branch = self._blocks[-1][-1]
        assert isinstance(branch, Branch)
        self._append("else:")
        self._blocks.append(branch.otherwise)
        self.depth += 1
        self._scopes.append({})

    def close(self) -> None:
        """Close the innermost loop or branch, and remove it if it is empty."""
        self.depth -= 1
        self._scopes.pop()
        block = self._blocks.pop()
        if self.lines[-1].endswith(":"):
            self.lines.pop()
            last = self._blocks[-1][-1]
            if isinstance(last, Loop | Branch) and last.body is block:
                self._blocks[-1].pop()

    @contextmanager
    def scope(self) -> Generator[None]:
        """Open a scope whose values are not reused after its end, because the tile variables change."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    # ---- accesses

    def next_is_checked(self) -> bool:
        """Count a load or store, and return whether this access must compare its offset with the size of the tensor."""
        self._accesses += 1
        return self._accesses - 1 in self.checked

    def compared(self, address: Int, mask: str, size: int) -> tuple[Int, str]:
        """Return `address` and `mask`, with the mask restricted to offsets inside a tensor of `size` elements."""
        if address.op != "moved":
            return address, mask
        pointer, offset = address.args
        place = integer(self.assign("place", offset))
        return moved(pointer, place), all_of([*([mask] if mask else []), place.compared(">=", 0), place.below(size)])

    def loaded(self, preferred: str, address: Int, mask: str, other: str, after: str = "") -> str:
        """Write a load, and return its variable. `after` is source text appended to the load, such as a conversion."""
        text = f"tl.load({address}, mask={mask}, other={other})" if mask else f"tl.load({address})"
        self._blocks[-1].append(Touch(text, address, mask))
        return self.assign(preferred, f"{text}{after}")

    def stored(self, address: Int, mask: str, value: str) -> None:
        """Write a store."""
        text = f"tl.store({address}, {value}, mask={mask})" if mask else f"tl.store({address}, {value})"
        self._blocks[-1].append(Touch(text, address, mask))
        self._append(text)

    def described(
        self, preferred: str, start: Int, sizes: Sequence[Int], strides: Sequence[int], blocks: Sequence[str]
    ) -> str:
        """Write a tensor descriptor for tiles of shape `blocks`, and return its variable."""
        # Only counts the access: a descriptor covers exactly the tensor, so its offsets need no check.
        self.next_is_checked()
        lists = (f"[{', '.join(map(str, terms))}]" for terms in (sizes, strides, blocks))
        text = f"tl.make_tensor_descriptor({start}, {', '.join(lists)})"
        self._blocks[-1].append(Describe(text, start, tuple(sizes), tuple(strides)))
        return self.assign(preferred, text)
