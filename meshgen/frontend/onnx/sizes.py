"""The types of a model's inputs: symbolic sizes get those that the user gives, or stay open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshgen.errors import Diagnostic, Location, ProgramError, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.constants import constant_of
from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.opening.formulas import UnknownFormulaError, computed, solved, symbols_in
from meshgen.frontend.tracer.functions import spec
from meshgen.ir.graph import DTYPES, TensorType, dtype_name, is_inexact

Array = np.ndarray[Any, Any]
Size = int | str  # a number, or the symbol of one that is not known


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model: element types and shapes by name, the known sizes of symbols, and the inputs that have a value."""

    dtypes: Mapping[str, str]
    shapes: Mapping[str, tuple[Size, ...]]
    known: Mapping[str, int]
    constants: Mapping[str, Array]

    @property
    def open(self) -> list[str]:
        """The symbols without a size, in order."""
        shapes = [_solved(size, self.known) for shape in self.shapes.values() for size in shape]
        names = (name for size in shapes if isinstance(size, str) for name in _symbols(size))
        return list(dict.fromkeys(name for name in names if name not in self.known))

    def types(self, sizes: Mapping[str, int]) -> dict[str, TensorType]:
        """The types by name, where these are the sizes of the open symbols. Raises ProgramError MG0208 for negative sizes and fractions."""
        known = {**self.known, **sizes}
        data = {name: shape for name, shape in self.shapes.items() if name not in self.constants}
        return {name: TensorType(tuple(_size_of_input(name, size, known) for size in shape), self.dtypes[name]) for name, shape in data.items()}  # fmt: skip


def read_inputs(inputs: Sequence[Any], args: Args, file: str) -> Inputs:
    """What is known of the inputs. `inputs` are `ValueInfoProto`s; `args` as `from_onnx` takes them.

    Raises ProgramError MG0103 for inputs that are not tensors of a supported type, MG0208 for those without a shape, and UsageError
    MG0001 for args that do not fit.
    """
    dtypes = {each.name: _input_dtype(each, file) for each in inputs}
    shapes = {each.name: _shape(each) for each in inputs}
    symbols = {name for shape in shapes.values() for size in shape or () if isinstance(size, str) for name in (size, *_symbols(size))}  # fmt: skip
    args = _by_name(args, shapes, symbols)
    values = {name: array for name in shapes if (array := constant_of(args.get(name))) is not None}
    constants = {name: _constant(name, array, dtypes[name], shapes[name]) for name, array in values.items()}
    given = {name: _given_shape(args[name]) for name in shapes if args.get(name) is not None and name not in values}
    given |= {name: array.shape for name, array in constants.items()}
    sizes = {name: _size(name, args[name]) for name in args if name not in shapes}
    faults: list[str] = []
    for name, shape in given.items():
        faults += _bound(name, shapes[name], shape, sizes)
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
    """The symbols of a size: `past + 1` is a sum; itself where that is another text."""
    try:
        return symbols_in(size)
    except UnknownFormulaError:
        return [size]


def _solved(size: Size, sizes: Mapping[str, int]) -> Size:
    """The size of a symbol, or of a formula of symbols (`past + 1`); itself where that is not known."""
    if isinstance(size, int) or size in sizes:
        return size if isinstance(size, int) else sizes[size]
    try:
        return computed(size, sizes.__getitem__)
    except UnknownFormulaError:
        return size


def _size_of_input(name: str, size: Size, known: Mapping[str, int]) -> int:
    number: Any = _solved(size, known)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        at = ", ".join(f"{symbol} is {known[symbol]}" for symbol in _symbols(str(size)) if symbol in known)
        text = f"a size of input '{name}' is {size}, which {f'is {number} where {at}, and ' if at else ''}is not a size"
        raise ProgramError(Diagnostic("MG0208", text, hint=f"give its shape: args={{'{name}': (8, 64)}}"))
    return number


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
    """The sizes and symbols of an input; None where its rank is open too."""
    kind = info.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(_declared_size(dim, f"{info.name}.{n}") for n, dim in enumerate(kind.shape.dim))


def _declared_size(dim: Any, unnamed: str) -> Size:
    """A size or a symbol. Negative sizes, and symbols such as `?`, stand for a symbol of their own."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else unnamed
    text = dim.dim_param.strip()
    is_name = text != "None" and any(map(str.isalnum, text)) and not text.lstrip("-").isdecimal()
    return text if is_name or text.isdecimal() else unnamed


def _by_name(args: Args, shapes: Mapping[str, Any], symbols: set[str]) -> Mapping[str, Any]:
    """What is given for inputs and symbols by name. Raises UsageError MG0001 for unknown names, and too many."""
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
    """The value of an input at its element type; a single number also for a tensor of one element. Raises UsageError MG0001."""
    with np.errstate(all="ignore"):
        typed = array.astype(DTYPES[dtype])
        is_exact = is_inexact(dtype) or np.array_equal(typed.astype(array.dtype), array)
    if not is_exact:
        raise UsageError(Diagnostic("MG0001", f"{array.tolist()!r:.60} is not a value of '{name}', which is of type {dtype}"))  # fmt: skip
    if not typed.ndim and shape and all(size == 1 for size in shape):
        typed = typed.reshape([1] * len(shape))
    return typed


def _size(name: str, given: Any) -> int:
    size = given[0] if isinstance(given, (tuple, list)) and len(cast("list[Any]", given)) == 1 else given
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise UsageError(Diagnostic("MG0001", f"the size of '{name}' must be a non-negative integer, got {given!r:.60}"))  # fmt: skip
    return size


def _given_shape(given: Any) -> tuple[int | None, ...]:
    is_shape = isinstance(given, (tuple, list)) and all(s is None or isinstance(s, int) for s in cast("list[Any]", given))  # fmt: skip
    return tuple(cast("list[Any]", given)) if is_shape else spec(given).shape


def _bound(name: str, shape: tuple[Size, ...] | None, given: Sequence[int | None], sizes: dict[str, int]) -> list[str]:
    """Bind the symbols of an input to the sizes given for it; what does not fit."""
    if shape is None:
        return []
    if len(shape) != len(given):
        return [f"input '{name}' has rank {len(shape)}, but a shape of {len(given)} sizes was given"]
    faults: list[str] = []
    for own, size in zip(shape, given, strict=True):
        known = sizes.get(own, size) if isinstance(own, str) else own
        if size is not None and known != size:
            faults.append(f"a size of '{name}' is {known}, but {size} was given for it")
        elif size is not None and isinstance(own, str):
            names = _symbols(own)
            value = solved(own, names[0], size) if len(names) == 1 and names != [own] else size
            if value is None:
                faults.append(f"a size of '{name}' is {own}, which is not {size} for any {names[0]}")
            else:
                sizes[names[0] if len(names) == 1 else own] = value
    return faults
