"""The types of a model's inputs: symbolic sizes get those that the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from meshgen.errors import Diagnostic, Location, ProgramError, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.tracer.functions import spec
from meshgen.ir.graph import TensorType, dtype_name

Size = int | str  # a number, or the symbol of one that is not known


def input_types(inputs: Sequence[Any], args: Args, file: str) -> dict[str, TensorType]:
    """The types by name. `inputs` are `ValueInfoProto`s; `args` as `from_onnx` takes them.

    Raises ProgramError MG0103 for inputs that are not tensors of a supported type, MG0208 for sizes that are not given, and UsageError
    MG0001 for args that do not fit.
    """
    dtypes = {each.name: _dtype(each, file) for each in inputs}
    shapes = {each.name: _shape(each) for each in inputs}
    symbols = {size for shape in shapes.values() for size in shape or () if isinstance(size, str)}
    given, sizes = _given(args, shapes, symbols)
    faults: list[str] = []
    for name, shape in given.items():
        faults += _bound(name, shapes[name], shape, sizes)
        if shapes[name] is None:
            shapes[name] = tuple(f"{name}.{n}" if size is None else size for n, size in enumerate(shape))
    if faults:
        raise UsageError(*(Diagnostic("MG0001", text) for text in faults))
    solved = {name: tuple(_solved(size, sizes) for size in shape or ()) for name, shape in shapes.items()}
    _refuse_open(shapes, solved, file)
    return {name: TensorType(cast("tuple[int, ...]", solved[name]), dtypes[name]) for name in solved}


def _solved(size: Size, sizes: Mapping[str, int]) -> Size:
    """The size of a symbol, or of a sum of symbols and numbers (`past + 1`); itself where that is not known."""
    if isinstance(size, int) or size in sizes:
        return size if isinstance(size, int) else sizes[size]
    terms = [part.strip() for part in size.split("+")]
    known = [int(term) if term.isdecimal() else sizes.get(term) for term in terms]
    return size if None in known else sum(each for each in known if each is not None)


def _dtype(info: Any, file: str) -> str:
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
    named = enumerate(kind.shape.dim)
    return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{info.name}.{n}" for n, dim in named)  # fmt: skip


def _given(args: Args, shapes: Mapping[str, Any], symbols: set[str]) -> tuple[dict[str, tuple[int | None, ...]], dict[str, int]]:  # fmt: skip
    """Shapes by input, and sizes by symbol. Raises UsageError MG0001 for unknown names, and too many."""
    if args is None:
        return {}, {}
    if not isinstance(args, Mapping):
        if len(args) > len(shapes):
            raise UsageError(Diagnostic("MG0001", f"{len(args)} args were given, but the model takes {len(shapes)}"))
        args = dict(zip(shapes, args, strict=False))
    known = [name for name in args if name in shapes or name in symbols]
    if unknown := [name for name in args if name not in known]:
        hint = f"the inputs are {', '.join(shapes)}" + (f", the symbols {', '.join(sorted(symbols))}" if symbols else "")  # fmt: skip
        raise UsageError(Diagnostic("MG0001", f"unknown input '{unknown[0]}'", hint=hint))
    sizes = {name: _size(name, args[name]) for name in known if name not in shapes}
    return {name: _sizes(args[name]) for name in known if name in shapes and args[name] is not None}, sizes


def _size(name: str, given: Any) -> int:
    size = given[0] if isinstance(given, (tuple, list)) and len(cast("list[Any]", given)) == 1 else given
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise UsageError(Diagnostic("MG0001", f"the size of '{name}' must be a non-negative integer, got {given!r:.60}"))  # fmt: skip
    return size


def _sizes(given: Any) -> tuple[int | None, ...]:
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
            sizes[own] = size
    return faults


def _refuse_open(shapes: Mapping[str, tuple[Size, ...] | None], solved: Mapping[str, tuple[Size, ...]], file: str) -> None:  # fmt: skip
    faults: list[Diagnostic] = []
    for name, sizes in solved.items():
        if shapes[name] is None:
            hint = f"give its shape: --shape {name}=8x64, in Python args={{'{name}': (8, 64)}}"
            faults.append(Diagnostic("MG0208", f"input '{name}' has no shape", Location(file, 0), hint=hint))
        elif symbols := [size for size in sizes if isinstance(size, str)]:
            shown = "x".join(str(size) if isinstance(size, int) else "8" for size in sizes)
            text = f"input '{name}' has open sizes: {', '.join(symbols)}"
            hint = f"give its shape: --shape {name}={shown}, in Python args={{'{name}': ({shown.replace('x', ', ')})}}"
            faults.append(Diagnostic("MG0208", text, Location(file, 0), hint=hint))
    if faults:
        raise ProgramError(*faults)
