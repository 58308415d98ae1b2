"""Demand-driven generation of source: starting from a value and an index, write the code that computes this element.

Layout ops become index expressions and conditions of loads. Every other op becomes one line of source. Within a scope,
a value that is used twice at the same index is computed once. Each loop opens a scope.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.gather_concat import emit_lookup, emit_resizing_bitcast, is_resizing_bitcast, updated_windows
from meshgen.codegen.emit.guards import NEVER, Guard, Guards, Steps
from meshgen.codegen.emit.index_maps import emit_layout
from meshgen.codegen.emit.tile import Tile, calls_method, is_literal, needs_wide, neutral_number
from meshgen.codegen.emit.writer import Writer
from meshgen.codegen.expr import ZERO, Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import Int, Let, all_of, integer, moved, program_id
from meshgen.errors import CodegenError
from meshgen.ir.graph import Graph, Node, Value, is_complex
from meshgen.kernels.functions import NEEDS
from meshgen.mesh import Mesh
from meshgen.ops.classes import LAYOUT, LOOKUPS, POINTWISE, REDUCTIONS, TYPED
from meshgen.ops.registry import expression
from meshgen.ops.triton.registers import NARROW, Code, literal, register_type, rounded, unsupported, zero
from meshgen.runtime.in_place import chain


class Evaluator(Writer):
    """Emitter of the source of one kernel body. Requesting a value appends the lines that compute it."""

    def __init__(self, body: Graph, mesh: Mesh, checked: frozenset[int] = frozenset()) -> None:
        """Initialize an emitter of `body`.

        `checked`: ordinals of the loads and stores that compare their offset with the size of the accessed tensor.
        """
        super().__init__(needs_wide(body), checked)
        self.body = body
        self.mesh = mesh
        self.helpers: dict[str, None] = {}
        self.functions: dict[str, str] = {}  # source by name of the helper functions that only this kernel uses
        self.coordinates: dict[tuple[str, ...], str] = {}
        self._wide_coordinates: dict[tuple[str, ...], str] = {}  # variables with 64-bit copies of `coordinates`
        self.producer = dict(body.index.producers)
        self.pointers = [self.names.pointer(self.name_of(v, f"x{i}")) for i, v in enumerate(body.inputs)]
        self.results = [self.names.pointer(f"{self.name_of(v, 'x')}_out") for v in body.outputs]
        # pointers through which outputs are stored: those of the results, or of the current segment
        self.targets = list(self.results)
        self.is_part = False  # whether `body` is only a segment of the kernel, beside segments of other programs
        self.program = program_id()  # index of the program among the programs that compute `body`
        self.constants: dict[str, int] = {}  # compile-time parameters of the kernel by name
        self.placed: dict[Value, tuple[Index, Code]] = {}
        self.pointer_of = dict(zip(body.inputs, self.pointers, strict=True))
        self.data_over: dict[Var, tuple[Var, ...]] = {}
        # For a value that is a range of rows of another value: the other value, and the first row of the range.
        self.rows: dict[Value, tuple[Value, Expr]] = {}

    def name_of(self, value: Value, otherwise: str) -> str:
        if name := value.name.lstrip("0123456789_"):
            return name
        node = self.producer.get(value)
        if node is None:
            return otherwise
        return f"reduced_{node.attrs.kind}" if node.op in REDUCTIONS else node.op

    @contextmanager
    def part(self, body: Graph, program: Int, pointers: dict[Value, str], targets: Sequence[str]) -> Generator[None]:
        """Set up a context in which the emitter writes the source of `body`, a segment of the kernel's body.

        Args:
            program: index of the program among the programs that compute the segment.
            pointers: the pointers of the segment's inputs.
            targets: the pointers of the segment's outputs.
        """
        saved = self.body, self.program, self.pointer_of, self.targets, self.tile
        self.body, self.program, self.pointer_of, self.targets, self.tile = body, program, pointers, [*targets], Tile()
        self.is_part = True
        with self.scope():
            yield
        self.body, self.program, self.pointer_of, self.targets, self.tile = saved
        self.is_part = False

    def constant(self, name: str, value: int) -> str:
        """Return the name of a compile-time parameter with value `value`. Adds the parameter if the kernel has none."""
        free = itertools.chain((name,), (f"{name}_{n}" for n in itertools.count(2)))
        parameter = next(candidate for candidate in free if self.constants.get(candidate, value) == value)
        self.constants[parameter] = value
        return parameter

    def helper(self, name: str) -> str:
        for need in NEEDS.get(name, ()):
            self.helper(need)
        self.helpers[name] = None
        return name

    def over(self, *exprs: Expr) -> tuple[Var, ...]:
        """Return the tile variables that `expressions` vary with, in the tile's order."""
        varying = {v for e in exprs for w in ex.variables(e) for v in self.data_over.get(w, (w,))}
        return tuple(v for v in self.tile.edges if v in varying)

    def value(self, value: Value, index: Index, guards: Guards = ()) -> Code:
        """Return a register with `value` at `index`. In lanes where a guard does not hold, the register's content is
        undefined.

        Raises:
            CodegenError: MG0301, if the kernel holds the value only at another index.
        """
        steps: list[Steps] = [self._steps(value, index, guards)]
        code: Code | None = None
        while steps:  # An explicit stack, because chains of operations can exceed Python's recursion limit.
            try:
                request = next(steps[-1]) if code is None else steps[-1].send(code)
            except StopIteration as done:
                steps.pop()
                code = done.value
            else:
                steps.append(self._steps(*request))
                code = None
        assert code is not None
        return code

    def _steps(self, value: Value, index: Index, guards: Guards) -> Steps:
        if value in self.placed:
            placed_index, code = self.placed[value]
            if placed_index != index:
                raise CodegenError(unsupported(self.producer[value]))
            return code
        key = (value, index, guards)
        if (code := self._cached(key)) is None:
            code = self._scopes[-1][key] = yield from self._compute(value, index, guards)
        return code

    def _cached(self, key: tuple[Value, Index, Guards] | str) -> Code | None:
        return next((scope[key] for scope in reversed(self._scopes) if key in scope), None)

    def _compute(self, value: Value, index: Index, guards: Guards) -> Steps:
        if value in self.rows:
            source, first = self.rows[value]
            return (yield source, (index[0] + first, *index[1:]), guards)
        node = self.producer.get(value)
        if node is None:
            return self.load(value, index, guards)
        if is_resizing_bitcast(node):
            return (yield from emit_resizing_bitcast(self, node, index, guards))
        if node.op in POINTWISE:
            return (yield from self._pointwise(node, index, guards))
        if node.op in LAYOUT:
            return (yield from emit_layout(self, node, index, guards))
        if node.op in LOOKUPS:
            return (yield from emit_lookup(self, node, index, guards))
        emitters = {"constant": self._constant, "iota": self._iota, "process_index": self._process_index}
        if node.op not in emitters:
            raise CodegenError(unsupported(node))
        return emitters[node.op](node, index, guards)

    # ---- leaves

    def address(self, value: Value, index: Index, guards: Guards = ()) -> tuple[Int, str]:
        """Return the address and the mask of an element of an input. The mask is "" if the access is unconditional."""
        offset = ex.linearize(index, value.type.sizes)
        over = self.over(offset)
        wider = tuple(v for g in guards for v in g.over if v not in over)
        reach = tuple(v for v in self.tile.edges if v in over or v in wider)
        conditions = [self.tile.edges[v] for v in reach if self.tile.edges[v]] + [g.text for g in guards]
        return self._address_at(self.pointer_of[value], offset, tuple(dict.fromkeys(wider))), all_of(conditions)

    def _address_at(self, pointer: str, offset: Expr, wider: tuple[Var, ...]) -> Int:
        """Return the address `offset` elements after `pointer`, broadcast over the variables `wider`.

        The offset that all lanes share is added first. The offsets of a thread's elements then differ by constants,
        which load and store instructions encode. Otherwise each address would take two registers.
        """
        first, rest = ex.ZERO, offset
        for var, lanes in self.tile.lanes.items():
            if factor := dict(offset.terms).get(var, 0):
                first += Expr(((lanes.first, factor),))
                rest += Expr(((lanes.lane, factor), (var, -factor)))
        parts = (
            []
            if offset == ZERO
            else [integer(offset)]
            if first == ZERO
            else [integer(first), integer(rest).bracketed()]
        )
        parts += [integer(v.text) * 0 for v in wider]
        return moved(integer(pointer), functools.reduce(operator.add, parts)) if parts else integer(pointer)

    def load(self, value: Value, index: Index, guards: Guards = (), raw: bool = False, other: str = "") -> Code:
        other = other or zero(value.type.dtype)
        pointer, mask = self.address(value, index, guards)
        if self.next_is_checked():
            pointer, mask = self.compared(pointer, mask, value.type.size)
        after = ".to(tl.float32)" if value.type.dtype in NARROW and not raw else ""
        return Code(self.loaded(self.name_of(value, "x"), pointer, mask, other, after), value.type.dtype)

    def _constant(self, node: Node, index: Index, guards: Guards) -> Code:
        array, dtype = node.attrs.value, node.result.type.dtype
        if is_complex(dtype):
            raise CodegenError(unsupported(node))
        assert (array.size and (array == array.flat[0]).all()) or array.size == 1 or (array != array).all(), "splat"
        return Code(literal(array.flat[0], dtype), dtype, None if dtype == "i1" else array.flat[0].item())

    def _iota(self, node: Node, index: Index, guards: Guards) -> Code:
        return self.index_value(index[node.attrs.dim], node.result.type.dtype, "iota")

    def index_value(self, expr: Expr, dtype: str, preferred: str) -> Code:
        """Return an index expression as a value of `dtype`."""
        if expr.is_constant:
            return Code(literal(expr.const, dtype), dtype)
        return self.as_index(preferred, integer(expr).bracketed().to(register_type(dtype)), dtype)

    def as_index(self, preferred: str, value: Int, dtype: str = "i32") -> Code:
        """Assign the integer `value` to a variable that index expressions can use, and return the variable.

        Within a scope, equal source text yields the same variable. Values that were computed at this index are then
        reused.
        """
        if (code := self._cached(value.text)) is None:
            code = self._scopes[-1][value.text] = Code(self.assign(preferred, value), dtype)
        return code

    def coordinate(self, axes: tuple[str, ...]) -> Expr:
        """Return the index of the device in its group over the mesh axes `axes`: a kernel parameter, or 0 in a group of
        one.
        """
        size = self.mesh.group_size(axes)
        if size == 1:
            return ZERO
        if axes not in self.coordinates:
            parameter = self.coordinates[axes] = self.names.fresh("_".join(("index", *axes)))
            if self.wide:
                self._wide_coordinates[axes] = self.names.fresh(f"{parameter}_wide")
                wide = self.widened(integer(parameter))
                self.lines.insert(0, f"    {self._wide_coordinates[axes]} = {wide}")
                self.code.insert(0, Let(self._wide_coordinates[axes], wide))
        return ex.variable(self._wide_coordinates.get(axes, self.coordinates[axes]), size)

    def _process_index(self, node: Node, index: Index, guards: Guards) -> Code:
        axes = tuple(node.attrs.axes)
        position = self.coordinate(axes)
        return Code("0" if position == ZERO else self.coordinates[axes], "i32")

    # ---- element-wise ops

    def _pointwise(self, node: Node, index: Index, guards: Guards) -> Steps:
        args: list[Code] = []
        for operand in node.operands:
            args.append((yield operand, index if operand.type.rank else (), guards))
        if node.op == "to_partial":
            return self._to_partial(node, args[0])
        text, helpers = expression(node, args)
        if node.op in TYPED or any(is_literal(a) and (helpers or calls_method(text, a.text)) for a in args):
            text, helpers = expression(node, args := [self.in_register(a) for a in args])
        for name in helpers:
            self.helper(name)
        dtype = node.result.type.dtype
        return Code(text if text == args[0].text else self.assign(self.name_of(node.result, node.op), text), dtype)

    def in_register(self, code: Code) -> Code:
        """Convert a literal to a Triton scalar; registers are returned unchanged.

        Literals are Python numbers, which lack Triton's methods and arithmetic.
        """
        if not is_literal(code):
            return code
        return Code(f"tl.full([], {code.text}, {register_type(code.dtype)})", code.dtype, code.number)

    def _to_partial(self, node: Node, inner: Code) -> Code:
        position = self.coordinate(tuple(node.attrs.axes))
        if position.is_constant:
            return inner
        neutral = literal(neutral_number(node.attrs.kind, inner.dtype), inner.dtype)
        return Code(self.assign("partial", f"tl.where({position} == 0, {inner.text}, {neutral})"), inner.dtype)

    # ---- conditions

    def within(self, where: Expr, low: int, high: int) -> Guards:
        """Return guards for `low <= where < high`, without conditions that always hold. Returns NEVER if the range is
        empty.
        """
        least, most = where.bounds
        if most < low or least >= high:
            return (NEVER,)
        conditions = [integer(where).compared(">=", low)] if least < low else []
        conditions += [integer(where).below(high)] if most >= high else []
        return tuple(Guard(text, self.over(where)) for text in conditions)

    # ---- results

    def store(self, number: int, index: Index, span: tuple[Var, ...] = ()) -> None:
        """Store output `number` of the body at `index`. If the output is an in-place update, store only the updated
        windows.

        `span`: variables that the stored registers vary with even if the index does not.
        """
        value = self.body.outputs[number]
        if nodes := chain(value, self.producer):
            for window, window_index, guards in updated_windows(self, nodes, index):
                self.put(number, window_index, self.value(window, index), span, guards)
        else:
            self.put(number, index, self.value(value, index), span)

    def put(self, number: int, index: Index, code: Code, span: tuple[Var, ...] = (), guards: Guards = ()) -> None:
        """Store the registers `code` as elements of output `number` of the body at `index`."""
        value, code = self.body.outputs[number], self.in_register(code)
        offset = ex.linearize(index, value.type.sizes)
        over = (*self.over(offset), *(v for v in span if v not in self.over(offset)))
        mask = all_of([*(self.tile.edges[v] for v in over if self.tile.edges[v]), *(g.text for g in guards)])
        pointer = self._address_at(self.targets[number], offset, over[len(self.over(offset)) :])
        dtype = value.type.dtype
        stored, helpers = rounded(code.text, dtype) if dtype in NARROW else (code.text, ())
        for name in helpers:
            self.helper(name)
        if self.next_is_checked():
            pointer, mask = self.compared(pointer, mask, value.type.size)
        self.stored(pointer, mask, stored)
