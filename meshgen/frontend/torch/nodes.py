"""Evaluation of the nodes of an exported program on traced tensors.

A node with an error is recorded with its location, and its results become zeros, so that one run reports all errors.
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
from meshgen.frontend.torch.document import Json, names_in, only, read_argument, size_of, split_out_argument, type_of
from meshgen.frontend.torch.locations import place_of
from meshgen.frontend.torch.ops import find_op
from meshgen.frontend.torch.views import (
    READ_ONLY,
    RESHAPES_IN_PLACE,
    SAME,
    SPLITS,
    VIEWS,
    DataDependentNumber,
    Memory,
    Values,
    is_copied,
    is_einsum_view,
    part_writer,
    refuse_write,
    select_row_by_tensor,
    split_dim,
)
from meshgen.frontend.tracer import creation
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.recording import current, refuse
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.packages import report_request

# Keyword arguments about the device, layout or memory of a tensor, which do not affect its elements.
IGNORED_OPTIONS = (
    "device",
    "layout",
    "pin_memory",
    "memory_format",
    "non_blocking",
    "copy",
    "generator",
    "requires_grad",
)
# Prefixes of operations that check assertions of the user's code, or that mark nodes for tools.
CHECKS = (
    "aten._assert", "aten._functional_assert", "aten._linalg_check_errors", "aten.sym_constrain", "aten._functional_sym_constrain",
    "aten._print", "aten._debug", "higher_order._export_tracepoint", "aten.record_stream",
)  # fmt: skip
WITHOUT_MKLDNN = "record it under torch.backends.mkldnn.flags(enabled=False)"
UNKNOWN = "write it with other operations; torch can for many: exported.run_decompositions() before torch.export.save"
NUMBERS: Mapping[str, Callable[..., Any]] = {
    **{name: bounded(getattr(operator, name)) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "neg")},
    **{
        name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "getitem")
    },
    "pow": power,
}
# Functions of Python's math module with bounded cost. Others, such as factorial, cost more for larger operands.
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
    """Collects the errors of a program, grouped by (code, text, hint), with all locations of each group."""

    places: dict[tuple[str, str, str], list[Location | None]] = field(default_factory=dict)  # Keys: (code, text, hint).

    def note(self, error: MeshgenError) -> None:
        for diagnostic in error.diagnostics:
            self.places.setdefault((diagnostic.code, diagnostic.message, diagnostic.hint), []).append(diagnostic.loc)

    def refuse(self) -> None:
        """Raise a ProgramError with all recorded errors, the most frequent first, if there are any."""
        faults = sorted(self.places.items(), key=lambda fault: -len(fault[1]))
        if diagnostics := [_merge_locations(*key, locations) for key, locations in faults]:
            raise ProgramError(*diagnostics)


def _merge_locations(code: str, text: str, hint: str, locations: Sequence[Location | None]) -> Diagnostic:
    """Return one diagnostic for an error that occurs at several locations: the first one, and their number in the text."""
    times = f" ({len(locations)} times)" if len(locations) > 1 else ""
    return Diagnostic(code, text + times, locations[0], hint=hint)


class Reader:
    """Evaluates graphs on traced tensors, including subgraphs of higher-order operators."""

    def __init__(self, symbols: Mapping[str, int], faults: Faults) -> None:
        self._symbols, self._faults = symbols, faults
        self._is_after_lstm = False

    def run(self, graph: Json, inputs: Sequence[Any]) -> list[Any]:
        """Evaluate `graph` for `inputs` and return its outputs."""
        values = self.evaluate_graph(graph, inputs)
        return [read_argument(output, values.__getitem__, self._part) for output in graph["outputs"]]

    def evaluate_graph(self, graph: Json, inputs: Sequence[Any], ties: Mapping[str, str] | None = None) -> Values:
        """Evaluate all nodes of `graph` for `inputs` and return the values of all names.

        Args:
            ties: maps an input to the earlier input whose tensor it shares.
        """
        values = Values()
        for graph_input, value in zip(graph["inputs"], inputs, strict=True):
            for name in names_in(graph_input):
                values[name] = value
        for name, base in (ties or {}).items():
            values.same(name, base)
        for node in chain.from_iterable(map(split_out_argument, graph["nodes"])):
            trace = current()
            outer_location, trace.at = trace.at, place_of(node["metadata"]) or trace.at
            try:
                self._carry_out(node, graph, values)
            except ProgramError as error:
                self._faults.note(error)
                self._stand_in(node, graph, values)
            finally:
                trace.at = outer_location
        return values

    def _carry_out(self, node: Json, graph: Json, values: Values) -> None:
        target: str = node["target"].removeprefix("torch.ops.")
        if target.startswith(CHECKS):
            return
        arguments = [
            (argument, read_argument(argument["arg"], values.__getitem__, self._part)) for argument in node["inputs"]
        ]
        args = [value for argument, value in arguments if argument.get("kind") != 2]
        options = {
            argument["name"]: value
            for argument, value in arguments
            if argument.get("kind") == 2 and argument["name"] not in IGNORED_OPTIONS
        }
        if data_number := next(
            (argument for argument in (*args, *options.values()) if isinstance(argument, DataDependentNumber)), None
        ):
            if target.startswith("_operator."):
                for name in [name for argument in node["outputs"] for name in names_in(argument)]:
                    values[name] = DataDependentNumber(None, data_number.text)
                return
            args = select_row_by_tensor(target, args, data_number)
        if target.startswith("aten.as_strided"):
            options["memory"] = self._memory(names_in(node["inputs"][0]["arg"]), graph)
        in_place_name = target.removeprefix("aten.").partition(".")[0] if target.startswith("aten.") else ""
        target = f"aten.{RESHAPES_IN_PLACE[in_place_name]}" if in_place_name in RESHAPES_IN_PLACE else target
        function, mutates = self._function(target)
        try:
            raw_results = function(*args, **options)
        except TypeError:
            _refuse_arguments(target, function, args, options)
            raise
        results = [*raw_results] if isinstance(raw_results, list | tuple) else [raw_results]
        changed, results = results[len(results) - len(mutates) :], results[: len(results) - len(mutates)]
        self._is_after_lstm |= target == "aten.lstm.input"
        results_by_name = {
            name: self._as_declared(name, value, graph) for name, value in named_results(node["outputs"], results)
        }
        for name, value in results_by_name.items():
            values[name] = value
        names, results = [*results_by_name], [*results_by_name.values()]
        sources = [names_in(argument["arg"]) for argument, _ in arguments]
        for position, value in zip(mutates, changed, strict=True):
            if sources[position] and value is not None:
                values.change(sources[position][0], value)
        if not self._is_copy(target, node, graph):
            self._note_views(target, names, results, args, options, sources, values, mutates == (0,))
        if in_place_name in RESHAPES_IN_PLACE:
            values.turn(sources[0][0], names[0])

    def _function(self, target: str) -> tuple[Callable[..., Any], tuple[int, ...]]:
        """Return the function that computes a node, and the indices of the arguments that it mutates.

        Raises:
            ProgramError: MG0103, the operation is unsupported.
        """
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
            return lambda x: DataDependentNumber(
                x, f"{target} converts a tensor, which is data, to a Python number"
            ), ()
        if target.startswith("higher_order."):
            function = self._with_effects if name == "with_effects" else HIGHER_ORDER.get(name)
            return function or refuse(f"{target} is not supported", UNKNOWN, "MG0103"), ()
        op = find_op(target)
        if op is None:
            refuse(f"{target} is not supported", WITHOUT_MKLDNN if ".mkldnn_" in target else UNKNOWN, "MG0103")
        return op.function, op.mutates

    def _memory(self, names: Sequence[str], graph: Json) -> Memory | None:
        """Return the memory layout that torch records for the first tensor in `names`, or None if it records none."""
        meta = graph["tensor_values"].get(names[0]) if names else None
        if meta is None:
            return None
        fields = (meta["sizes"], meta["strides"], [meta["storage_offset"]])
        sizes, strides, (offset,) = (
            [size_of(size, self._symbols) or 0 for size in sizes_of_field] for sizes_of_field in fields
        )
        return Memory(sizes, strides, offset)

    def _is_copy(self, target: str, node: Json, graph: Json) -> bool:
        """Whether the result of a node does not alias the operand.

        That is so if `copy=True` was passed, or if torch had to copy the operand because of its strides.
        """
        if not node["inputs"] or not node["outputs"]:
            return False
        if any(argument["name"] == "copy" and argument["arg"].get("as_bool") for argument in node["inputs"]):
            return True
        kind = target.removeprefix("aten.").partition(".")[0]
        x, result = names_in(node["inputs"][0]["arg"]), names_in(node["outputs"][0])
        return is_copied(kind, self._memory(x, graph), self._memory(result, graph))

    def _with_effects(self, token: Any, target: str, *args: Any, **options: Any) -> list[Any]:
        """Evaluate an operation with side effects. Return `token`, which orders the effects, and the results."""
        target = target.removeprefix("torch.ops.")
        if target.startswith(CHECKS):
            return [token]
        function, _ = self._function(target)
        computed = function(*args, **options)
        return [token, *(computed if isinstance(computed, list | tuple) else [computed])]

    def _part(self, argument: Json) -> Part:
        return Part(argument["graph"], self.run)

    def _as_declared(self, name: str, value: Any, graph: Json) -> Any:
        """Return a result, converted to the dtype that torch declares for it.

        Only f32 is converted, to a declared bf16 or f16: statistics of norms are bf16 on the CPU and f32 on GPUs. The
        shapes that torch 2.9 declares for the last states of an LSTM, and for all values computed from them, have one
        size-1 dim too many. After an LSTM, element counts are therefore compared instead of sizes.

        Raises:
            ProgramError: MG0104, the size or dtype differs from the declared one.
        """
        meta = graph["tensor_values"].get(name)
        if meta is None or not isinstance(value, Tensor):
            return value
        declared = type_of(meta, self._symbols)
        pairs = zip(declared.shape, value.shape, strict=False)
        fits = declared.rank == value.ndim and all(size in (None, actual) for size, actual in pairs)
        if not fits and self._is_after_lstm:
            fits = None in declared.shape or math.prod(declared.sizes) == value.size
        is_wider = value.type.dtype == "f32" and declared.dtype in ("bf16", "f16")
        if not fits or (value.type.dtype != declared.dtype and not is_wider):
            refuse(
                f"'{name}' was imported as {value.type}, but torch declares {declared}",
                report_request("the program"),
                "MG0104",
            )
        return convert(value, declared.dtype) if is_wider else value

    def _note_views(self, target: str, names: Sequence[str], results: Sequence[Any], args: Sequence[Any], options: Mapping[str, Any],
                    sources: Sequence[Sequence[str]], values: Values, is_change: bool) -> None:  # fmt: skip
        """Record which results are the first argument itself, and which are views of it.

        An einsum with one operand that only permutes dims is a view of that operand.
        """
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
            other_args, function = args[1:], op.function
            for index, name in enumerate(names):
                if kind in SPLITS:
                    dim = split_dim(kind, args[0], other_args, options)
                    read = lambda x, at=index: function(x, *other_args, **options)[at]  # noqa: E731
                    write = part_writer(results, index, kind == "unbind", dim)
                else:
                    read = lambda x: function(x, *other_args, **options)  # noqa: E731
                    write = (
                        (lambda x, new: VIEWS[kind](x, new, *other_args, **options)) if kind in VIEWS else refuse_write
                    )
                values.view(name, base, read, write)

    def _stand_in(self, node: Json, graph: Json, values: Values) -> None:
        """Set the results of a node with an error to zeros, so that later nodes can still be checked."""
        for name in [name for output in node["outputs"] for name in names_in(output)]:
            meta = graph["tensor_values"].get(name)
            try:
                values[name] = 0 if meta is None else creation.zeros(type_of(meta, self._symbols).sizes, type_of(meta, self._symbols).dtype)  # fmt: skip
            except (ProgramError, ValueError):
                self._faults.refuse()


def _refuse_arguments(
    target: str, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Raise ProgramError if `function` does not accept these arguments."""
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError as error:
        refuse(f"{target} is not supported with these arguments: {error}", UNKNOWN, "MG0103")


def named_results(outputs: Sequence[Json], results: Sequence[Any]) -> list[tuple[str, Any]]:
    """Pair the names in a node's outputs with the results of the operation.

    If the only output is a list, it takes all results. Trailing results may be missing if they have no users. Results
    that were not computed, such as gradients outside of the output mask, are None and get no name.
    """
    if len(outputs) == 1 and only(outputs[0])[0] == "as_tensors":
        results = [results]
    pairs: list[tuple[str, Any]] = []
    for output, result in zip(outputs, results, strict=False):
        names = names_in(output)
        pairs += zip(names, result if only(output)[0] == "as_tensors" else [result] * len(names), strict=False)
    return [(name, value) for name, value in pairs if value is not None]
