"""Types of a model's inputs. Symbolic sizes such as `batch` get values from the user or stay open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshgen.errors import Diagnostic, Location, ProgramError, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.constants import constant_of
from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.opening.formula_text import UnknownFormulaError, computed, solved, symbols_in
from meshgen.frontend.tracer.functions import spec
from meshgen.ir.graph import DTYPES, TensorType, dtype_name, is_inexact

Array = np.ndarray[Any, Any]
Size = int | str  # A size: a number, or a symbol or formula with an open value.


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model.

    Attributes:
        dtypes: dtypes by input name.
        shapes: shapes by input name; a size is a number, a symbol or a formula of symbols.
        known: the sizes that the user gives for symbols.
        constants: values of constant inputs by name.
    """

    dtypes: Mapping[str, str]
    shapes: Mapping[str, tuple[Size, ...]]
    known: Mapping[str, int]
    constants: Mapping[str, Array]

    @property
    def open(self) -> list[str]:
        """The symbols for which the user gives no size, in order of appearance."""
        shapes = [_evaluate_size(size, self.known) for shape in self.shapes.values() for size in shape]
        names = (name for size in shapes if isinstance(size, str) for name in _symbols(size))
        return list(dict.fromkeys(name for name in names if name not in self.known))

    def types(self, sizes: Mapping[str, int]) -> dict[str, TensorType]:
        """Return the input types by name; `sizes` has a size for each open symbol.

        Raises ProgramError MG0208 for formulas whose value is negative or a fraction.
        """
        bindings = {**self.known, **sizes}
        data = {name: shape for name, shape in self.shapes.items() if name not in self.constants}
        return {name: TensorType(tuple(_size_of_input(name, size, bindings) for size in shape), self.dtypes[name]) for name, shape in data.items()}  # fmt: skip


def read_inputs(inputs: Sequence[Any], args: Args, file: str) -> Inputs:
    """Combine the declared inputs of a model (`ValueInfoProto`s) with the user's `args`, as `from_onnx` describes them.

    Raises:
        ProgramError: MG0103, an input is not a tensor of a supported dtype; MG0208, an input has no shape.
        UsageError: MG0001, `args` do not fit the model.
    """
    dtypes = {info.name: _input_dtype(info, file) for info in inputs}
    shapes = {info.name: _shape(info) for info in inputs}
    symbols = {name for shape in shapes.values() for size in shape or () if isinstance(size, str) for name in (size, *_symbols(size))}  # fmt: skip
    args = _by_name(args, shapes, symbols)
    values = {name: array for name in shapes if (array := constant_of(args.get(name))) is not None}
    constants = {name: _constant(name, array, dtypes[name], shapes[name]) for name, array in values.items()}
    arg_shapes = {
        name: _given_shape(args[name]) for name in shapes if args.get(name) is not None and name not in values
    }
    arg_shapes |= {name: array.shape for name, array in constants.items()}
    sizes = {name: _size(name, args[name]) for name in args if name not in shapes}
    faults: list[str] = []
    for name, shape in arg_shapes.items():
        faults += _bind_symbols(name, shapes[name], shape, sizes)
        if shapes[name] is None:
            shapes[name] = tuple(f"{name}.{n}" if size is None else size for n, size in enumerate(shape))
    if faults:
        raise UsageError(*(Diagnostic("MG0001", text) for text in faults))
    ranked = {name: shape for name, shape in shapes.items() if shape is not None}
    if unranked := [name for name in shapes if name not in ranked]:
        hint = "give its shape: --shape {0}=8x64, in Python args={{'{0}': (8, 64)}}"
        raise ProgramError(*(Diagnostic("MG0208", f"input '{name}' has no shape", Location(file, 0), hint=hint.format(name)) for name in unranked))  # fmt: skip
    return Inputs(dtypes, ranked, sizes, constants)


def _symbols(size: str) -> list[str]:
    """Return the symbols in a size such as `past + 1`. A text that is not a formula is itself a symbol."""
    try:
        return symbols_in(size)
    except UnknownFormulaError:
        return [size]


def _evaluate_size(size: Size, sizes: Mapping[str, int]) -> Size:
    """Return the value of a size: a number, a symbol, or a formula of symbols (`past + 1`).

    Returns `size` itself if `sizes` does not contain all of its symbols.
    """
    if isinstance(size, int) or size in sizes:
        return size if isinstance(size, int) else sizes[size]
    try:
        return computed(size, sizes.__getitem__)
    except UnknownFormulaError:
        return size


def _size_of_input(name: str, size: Size, bindings: Mapping[str, int]) -> int:
    value: Any = _evaluate_size(size, bindings)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        bindings_text = ", ".join(
            f"{symbol} is {bindings[symbol]}" for symbol in _symbols(str(size)) if symbol in bindings
        )
        text = f"a size of input '{name}' is {size}, which {f'is {value} where {bindings_text}, and ' if bindings_text else ''}is not a size"
        raise ProgramError(Diagnostic("MG0208", text, hint=f"give its shape: args={{'{name}': (8, 64)}}"))
    return value


def _input_dtype(info: Any, file: str) -> str:
    if info.type.WhichOneof("value") == "tensor_type":
        try:
            return dtype_name(onnx_package().helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))
        except (KeyError, TypeError):
            pass
    text = f"input '{info.name}' is not a tensor of numbers"
    hint = "sequences, optional inputs, strings and 4-bit floats are not supported"
    raise ProgramError(Diagnostic("MG0103", text, Location(file, 0), hint=hint))


def _shape(info: Any) -> tuple[Size, ...] | None:
    """Return the declared shape of an input, or None if the rank is unknown. A size is a number or a symbol."""
    tensor_type = info.type.tensor_type
    if not tensor_type.HasField("shape"):
        return None
    return tuple(_declared_size(dim, f"{info.name}.{n}") for n, dim in enumerate(tensor_type.shape.dim))


def _declared_size(dim: Any, unnamed: str) -> Size:
    """Return a declared size as a number or symbol.

    Negative sizes and placeholders such as `?` become the symbol `unnamed`.
    """
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else unnamed
    text = dim.dim_param.strip()
    is_name = text != "None" and any(map(str.isalnum, text)) and not text.lstrip("-").isdecimal()
    return text if is_name or text.isdecimal() else unnamed


def _by_name(args: Args, shapes: Mapping[str, Any], symbols: set[str]) -> Mapping[str, Any]:
    """Return the user's `args` as a dict, by names of inputs and symbols. A list is in the order of the inputs.

    Raises UsageError MG0001 for unknown names, and for too many arguments.
    """
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        if len(args) > len(shapes):
            raise UsageError(Diagnostic("MG0001", f"{len(args)} args were given, but the model takes {len(shapes)}"))
        return dict(zip(shapes, args, strict=False))
    if unknown := [name for name in args if name not in shapes and name not in symbols]:
        hint = f"the inputs are {', '.join(shapes)}" + (f", the symbols {', '.join(sorted(symbols))}" if symbols else "")  # fmt: skip
        raise UsageError(Diagnostic("MG0001", f"unknown input '{unknown[0]}'", hint=hint))
    return args


def _constant(name: str, array: Array, dtype: str, shape: tuple[Size, ...] | None) -> Array:
    """Convert the user's value for an input to the input's dtype, and a scalar to the shape of a one-element input.

    Raises:
        UsageError: MG0001, the dtype cannot represent the value.
    """
    with np.errstate(all="ignore"):
        typed = array.astype(DTYPES[dtype])
        is_exact = is_inexact(dtype) or np.array_equal(typed.astype(array.dtype), array)
    if not is_exact:
        raise UsageError(Diagnostic("MG0001", f"{array.tolist()!r:.60} is not a value of '{name}', which is of type {dtype}"))  # fmt: skip
    if not typed.ndim and shape and all(size == 1 for size in shape):
        typed = typed.reshape([1] * len(shape))
    return typed


def _size(name: str, argument: Any) -> int:
    size = argument[0] if isinstance(argument, (tuple, list)) and len(cast("list[Any]", argument)) == 1 else argument
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise UsageError(Diagnostic("MG0001", f"the size of '{name}' must be a non-negative integer, got {argument!r:.60}"))  # fmt: skip
    return size


def _given_shape(argument: Any) -> tuple[int | None, ...]:
    is_shape = isinstance(argument, (tuple, list)) and all(s is None or isinstance(s, int) for s in cast("list[Any]", argument))  # fmt: skip
    return tuple(cast("list[Any]", argument)) if is_shape else spec(argument).shape


def _bind_symbols(
    name: str, shape: tuple[Size, ...] | None, actual_shape: Sequence[int | None], sizes: dict[str, int]
) -> list[str]:
    """Add the symbols in the declared `shape` of an input to `sizes`, with their values for `actual_shape`.

    Returns a message for each size that does not fit the declared shape.
    """
    if shape is None:
        return []
    if len(shape) != len(actual_shape):
        return [f"input '{name}' has rank {len(shape)}, but a shape of {len(actual_shape)} sizes was given"]
    faults: list[str] = []
    for declared_size, size in zip(shape, actual_shape, strict=True):
        expected = sizes.get(declared_size, size) if isinstance(declared_size, str) else declared_size
        if size is not None and expected != size:
            faults.append(f"a size of '{name}' is {expected}, but {size} was given for it")
        elif size is not None and isinstance(declared_size, str):
            names = _symbols(declared_size)
            value = solved(declared_size, names[0], size) if len(names) == 1 and names != [declared_size] else size
            if value is None:
                faults.append(f"a size of '{name}' is {declared_size}, which is not {size} for any {names[0]}")
            else:
                sizes[names[0] if len(names) == 1 else declared_size] = value
    return faults
