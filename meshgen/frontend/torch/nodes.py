"""The nodes of an exported program, carried out on traced tensors.

What cannot be read is noted with its place, and its results stand in as zeros, so that all of it is reported at once.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from meshgen.budget import bounded, power
from meshgen.errors import Diagnostic, Location, MeshgenError, ProgramError
from meshgen.frontend.torch.control import HIGHER_ORDER, Part
from meshgen.frontend.torch.document import Json, argument_of, names_in, only, size_of, type_of, without_out
from meshgen.frontend.torch.ops import find_op
from meshgen.frontend.torch.places import place_of
from meshgen.frontend.torch.values import (
    READ_ONLY,
    SAME,
    SPLITS,
    TURNS,
    VIEWS,
    Memory,
    NumberOfData,
    Values,
    is_copied,
    is_einsum_view,
    refuse_write,
    row_of_data,
    split_dim,
    written_part,
)
from meshgen.frontend.tracer import creation
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.recording import current, refuse
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.packages import report_request

# Arguments by keyword that say where a tensor is, and how it is in memory.
WHERE = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "generator", "requires_grad")
# Checks of what the user's code asserts, and marks for tools.
CHECKS = (
    "aten._assert", "aten._functional_assert", "aten._linalg_check_errors", "aten.sym_constrain", "aten._functional_sym_constrain",
    "aten._print", "aten._debug", "higher_order._export_tracepoint", "aten.record_stream",
)  # fmt: skip
WITHOUT_MKLDNN = "record it under torch.backends.mkldnn.flags(enabled=False)"
UNKNOWN = "write it with other operations; torch can for many: exported.run_decompositions() before torch.export.save"
NUMBERS: Mapping[str, Callable[..., Any]] = {
    **{name: bounded(getattr(operator, name)) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "neg")},
    **{
        each: getattr(operator, each) for each in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "getitem")
    },
    "pow": power,
}
# Functions of Python's math that take one number or two; others, such as factorial, have a cost that their operand chooses.
MATH: Mapping[str, Callable[..., Any]] = {
    name: bounded(getattr(math, name))
    for name in [
        "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "exp", "fabs", "floor", "log", "log2", "pow", "sin", "sinh", "sqrt", "tan",
        "tanh", "trunc",
    ]
}  # fmt: skip
SYMS: Mapping[str, Callable[..., Any]] = {
    "sym_float": float, "sym_int": int, "sym_max": max, "sym_min": min, "sym_not": operator.not_, "sym_sum": sum,
    "sym_ite": lambda flag, yes, no: yes if flag else no,
}  # fmt: skip


@dataclass
class Faults:
    """What cannot be read: the places of each text."""

    places: dict[tuple[str, str, str], list[Location | None]] = field(default_factory=dict)  # code, text and hint

    def note(self, error: MeshgenError) -> None:
        for each in error.diagnostics:
            self.places.setdefault((each.code, each.message, each.hint), []).append(each.loc)

    def refuse(self) -> None:
        """Raise ProgramError with all of them, the most frequent first."""
        rows = sorted(self.places.items(), key=lambda row: -len(row[1]))
        if found := [_counted_fault(*key, at) for key, at in rows]:
            raise ProgramError(*found)


def _counted_fault(code: str, text: str, hint: str, places: Sequence[Location | None]) -> Diagnostic:
    """A fault at its first place, with its count."""
    times = f" ({len(places)} times)" if len(places) > 1 else ""
    return Diagnostic(code, text + times, places[0], hint=hint)


class Reader:
    """Carries out graphs, which are nested as the program's own."""

    def __init__(self, symbols: Mapping[str, int], faults: Faults) -> None:
        self._symbols, self._faults = symbols, faults
        self._is_after_lstm = False

    def run(self, graph: Json, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph for these inputs."""
        values = self.carried_out(graph, inputs)
        return [argument_of(each, values.__getitem__, self._part) for each in graph["outputs"]]

    def carried_out(self, graph: Json, inputs: Sequence[Any], ties: Mapping[str, str] | None = None) -> Values:
        """What the names of a graph hold after its nodes; `ties`: inputs that are the tensor of another one."""
        values = Values()
        for each, given in zip(graph["inputs"], inputs, strict=True):
            for name in names_in(each):
                values[name] = given
        for name, base in (ties or {}).items():
            values.same(name, base)
        for node in chain.from_iterable(map(without_out, graph["nodes"])):
            trace = current()
            around, trace.at = trace.at, place_of(node["metadata"]) or trace.at
            try:
                self._carry_out(node, graph, values)
            except ProgramError as error:
                self._faults.note(error)
                self._stand_in(node, graph, values)
            finally:
                trace.at = around
        return values

    def _carry_out(self, node: Json, graph: Json, values: Values) -> None:
        target: str = node["target"].removeprefix("torch.ops.")
        if target.startswith(CHECKS):
            return
        given = [(each, argument_of(each["arg"], values.__getitem__, self._part)) for each in node["inputs"]]
        args = [value for each, value in given if each.get("kind") != 2]
        options = {each["name"]: value for each, value in given if each.get("kind") == 2 and each["name"] not in WHERE}
        if number := next((each for each in (*args, *options.values()) if isinstance(each, NumberOfData)), None):
            if target.startswith("_operator."):
                for name in [name for each in node["outputs"] for name in names_in(each)]:
                    values[name] = NumberOfData(None, number.text)
                return
            args = row_of_data(target, args, number)
        if target.startswith("aten.as_strided"):
            options["memory"] = self._memory(names_in(node["inputs"][0]["arg"]), graph)
        turned = target.removeprefix("aten.").partition(".")[0] if target.startswith("aten.") else ""
        target = f"aten.{TURNS[turned]}" if turned in TURNS else target
        function, mutates = self._function(target)
        try:
            found = function(*args, **options)
        except TypeError:
            _refuse_others(target, function, args, options)
            raise
        results = [*found] if isinstance(found, list | tuple) else [found]
        changed, results = results[len(results) - len(mutates) :], results[: len(results) - len(mutates)]
        self._is_after_lstm |= target == "aten.lstm.input"
        named = {name: self._as_declared(name, value, graph) for name, value in named_results(node["outputs"], results)}
        for name, value in named.items():
            values[name] = value
        names, results = [*named], [*named.values()]
        sources = [names_in(each["arg"]) for each, _ in given]
        for place, value in zip(mutates, changed, strict=True):
            if sources[place] and value is not None:
                values.change(sources[place][0], value)
        if not self._is_copy(target, node, graph):
            self._note_views(target, names, results, args, options, sources, values, mutates == (0,))
        if turned in TURNS:
            values.turn(sources[0][0], names[0])

    def _function(self, target: str) -> tuple[Callable[..., Any], tuple[int, ...]]:
        """What a node computes, and the arguments that it changes. Raises ProgramError MG0103 for an unknown operation."""
        family, _, name = target.rpartition(".")
        if target.startswith("_operator.") and name in NUMBERS:
            return NUMBERS[name], ()
        if name in SYMS:
            return SYMS[name], ()
        if (target.startswith("math.") or family.endswith("math")) and name in MATH:
            return MATH[name], ()
        if target.startswith("aten.sym_size"):
            return lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim], ()
        if target.startswith("aten.sym_numel"):
            return lambda x: x.size, ()
        if target.startswith(("aten.item", "aten._local_scalar")):
            return lambda x: NumberOfData(x, f"{target} makes a number of Python of a tensor, which is data"), ()
        if target.startswith("higher_order."):
            function = self._with_effects if name == "with_effects" else HIGHER_ORDER.get(name)
            return function or refuse(f"{target} is not supported", UNKNOWN, "MG0103"), ()
        op = find_op(target)
        if op is None:
            refuse(f"{target} is not supported", WITHOUT_MKLDNN if ".mkldnn_" in target else UNKNOWN, "MG0103")
        return op.function, op.mutates

    def _memory(self, names: Sequence[str], graph: Json) -> Memory | None:
        """Return how torch has the first of these tensors in memory."""
        meta = graph["tensor_values"].get(names[0]) if names else None
        if meta is None:
            return None
        numbers = (meta["sizes"], meta["strides"], [meta["storage_offset"]])
        sizes, strides, (offset,) = ([size_of(each, self._symbols) or 0 for each in row] for row in numbers)
        return Memory(sizes, strides, offset)

    def _is_copy(self, target: str, node: Json, graph: Json) -> bool:
        """Whether a result has memory of its own: of an operation that copies where it must, or that is told to."""
        if not node["inputs"] or not node["outputs"]:
            return False
        if any(each["name"] == "copy" and each["arg"].get("as_bool") for each in node["inputs"]):
            return True
        kind = target.removeprefix("aten.").partition(".")[0]
        x, result = names_in(node["inputs"][0]["arg"]), names_in(node["outputs"][0])
        return is_copied(kind, self._memory(x, graph), self._memory(result, graph))

    def _with_effects(self, token: Any, target: str, *args: Any, **options: Any) -> list[Any]:
        """Return the token, which only orders operations with effects, and the results of the operation."""
        target = target.removeprefix("torch.ops.")
        if target.startswith(CHECKS):
            return [token]
        function, _ = self._function(target)
        computed = function(*args, **options)
        return [token, *(computed if isinstance(computed, list | tuple) else [computed])]

    def _part(self, given: Json) -> Part:
        return Part(given["graph"], self.run)

    def _as_declared(self, name: str, value: Any, graph: Json) -> Any:
        """Return a result in the type that torch says; refuse it if its size or kind of type is another one.

        Floats that were computed in a wider type are rounded: statistics of norms are bf16 on the CPU and f32 on GPUs.
        The last states of an LSTM have a dim of size 1 too many in what torch says when it exports (not when it runs; seen in 2.9), and so
        has what is made of them: after one, the numbers of elements are compared in place of the sizes.
        """
        meta = graph["tensor_values"].get(name)
        if meta is None or not isinstance(value, Tensor):
            return value
        wanted = type_of(meta, self._symbols)
        pairs = zip(wanted.shape, value.shape, strict=False)
        fits = wanted.rank == value.ndim and all(size in (None, own) for size, own in pairs)
        if not fits and self._is_after_lstm:
            fits = None in wanted.shape or math.prod(wanted.sizes) == value.size
        is_wider = value.type.dtype == "f32" and wanted.dtype in ("bf16", "f16")
        if not fits or (value.type.dtype != wanted.dtype and not is_wider):
            refuse(
                f"'{name}' was read as {value.type}, but torch says that it is {wanted}",
                report_request("the program"),
                "MG0104",
            )
        return convert(value, wanted.dtype) if is_wider else value

    def _note_views(self, target: str, names: Sequence[str], results: Sequence[Any], args: Sequence[Any], options: Mapping[str, Any],
                    sources: Sequence[Sequence[str]], values: Values, is_change: bool) -> None:  # fmt: skip
        """Remember which results are views of the first argument, or are it; also of the only operand that an einsum permutes."""
        op = find_op(f"torch.ops.{target}")
        if op and target.startswith("aten.einsum.") and is_einsum_view(args, results[0]):
            read = lambda x: op.function(args[0], [x], *args[2:], **options)  # noqa: E731
            values.view(names[0], sources[1][0], read, refuse_write)
            return
        if not sources or not sources[0] or not args or not isinstance(args[0], Tensor) or not names:
            return
        base, kind = sources[0][0], target.removeprefix("aten.").partition(".")[0].removesuffix("_")
        if len(results) == 1 and (is_change or (kind in (*SAME, *READ_ONLY) and results[0] is args[0])):
            values.same(names[0], base)
        elif op and kind in (*VIEWS, *SPLITS, *READ_ONLY):
            rest, function = args[1:], op.function
            for number, name in enumerate(names):
                if kind in SPLITS:
                    dim = split_dim(kind, args[0], rest, options)
                    read = lambda x, at=number: function(x, *rest, **options)[at]  # noqa: E731
                    write = written_part(results, number, kind == "unbind", dim)
                else:
                    read = lambda x: function(x, *rest, **options)  # noqa: E731
                    write = (lambda x, new: VIEWS[kind](x, new, *rest, **options)) if kind in VIEWS else refuse_write
                values.view(name, base, read, write)

    def _stand_in(self, node: Json, graph: Json, values: Values) -> None:
        """Zeros for the results of a node that cannot be read: what follows is read nevertheless."""
        for name in [name for each in node["outputs"] for name in names_in(each)]:
            meta = graph["tensor_values"].get(name)
            try:
                values[name] = 0 if meta is None else creation.zeros(type_of(meta, self._symbols).sizes, type_of(meta, self._symbols).dtype)  # fmt: skip
            except (ProgramError, ValueError):
                self._faults.refuse()


def _refuse_others(target: str, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Refuse arguments that the function of an operation does not take."""
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError as error:
        refuse(f"{target} is not supported with these arguments: {error}", UNKNOWN, "MG0103")


def named_results(outputs: Sequence[Json], results: Sequence[Any]) -> list[tuple[str, Any]]:
    """Pair the names in a node's outputs with its results.

    An operation has a result for each output of its schema; one that it does not compute, such as a gradient outside of the output mask, is None and
    gets no name. A single output that is a list has the results themselves. Trailing results may be missing where nothing uses them.
    """
    if len(outputs) == 1 and only(outputs[0])[0] == "as_tensors":
        results = [results]
    pairs: list[tuple[str, Any]] = []
    for output, result in zip(outputs, results, strict=False):
        names = names_in(output)
        pairs += zip(names, result if only(output)[0] == "as_tensors" else [result] * len(names), strict=False)
    return [(name, value) for name, value in pairs if value is not None]
