"""Kernels, in PTX, that reduce several arrays element by element, for reductions that NCCL does not support.

They compute the same as `meshgen.ccl.simulated.reduce_arrays`. Each element is first converted to the
target's type. 16-bit floats are summed in f32 and rounded once; integers wrap; NaN propagates. Complex
numbers are pairs of floats, whose products are rounded each time.
"""

from __future__ import annotations

import functools

from meshgen.errors import Diagnostic, MissingError
from meshgen.kernels.copy_ptx import PtxKernel, threads_kernel

_FLOATS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}  # bytes of an element
# For each complex dtype, the dtype of the real and imaginary parts, and the prefix of their registers.
_COMPLEX = {"c64": ("f32", "f"), "c128": ("f64", "d")}  # type of the parts, and the prefix of their registers
_INTEGERS = {"i1": 1, "i8": 1, "ui8": 1, "i16": 2, "ui16": 2, "i32": 4, "ui32": 4, "i64": 8, "ui64": 8}
_BOOLEAN = {"sum": "or", "max": "or", "or": "or", "product": "and", "min": "and", "and": "and", "xor": "xor"}
_ARITHMETIC = {"sum": "add", "product": "mul", "max": "max", "min": "min"}
_BITWISE = ("and", "or", "xor")


@functools.cache
def reduce_kernel(kind: str, source: str, target: str, count: int) -> PtxKernel:
    """Return the kernel that reduces `count` arrays of dtype `source` to one of dtype `target`.

    Its parameters are the target's address, the sources' addresses, and the number of elements.

    Raises:
        MissingError: MG0602, for dtypes that the kernel does not support.
    """
    if not _is_supported(kind, source, target):
        text = f"no kernel reduces {source} to {target} by {kind} on a device"
        raise MissingError(
            Diagnostic("MG0602", text, hint="--device reference does; or reduce in another element type")
        )
    body = [
        ".reg .b64 %wide, %place, %la, %lb;",
        ".reg .b32 %ia, %ib;",
        ".reg .b16 %h;",
        ".reg .f32 %fa, %fb, %fia, %fib, %fc, %fic;",
        ".reg .f64 %da, %db, %dia, %dib, %dc, %dic;",
        ".reg .pred %nan;",
        "cvt.u64.u32 %wide, %number;",
    ]
    for i in range(count):
        body += [f"mad.lo.u64 %place, %wide, {_element_bytes(source)}, %source{i};"]
        body += _loaded(source, target, "a" if i == 0 else "b")
        body += _combined(kind, target) if i else []
    body += [f"mad.lo.u64 %place, %wide, {_element_bytes(target)}, %target;", *_stored(target)]
    parameters = [("target", "u64"), *((f"source{n}", "u64") for n in range(count)), ("count", "u32")]
    return threads_kernel(f"reduce_{kind}_{source.lower()}_{target.lower()}_{count}", parameters, body)


def _element_bytes(dtype: str) -> int:
    """Return the bytes of an element."""
    return 2 * _FLOATS[_COMPLEX[dtype][0]] if dtype in _COMPLEX else (_FLOATS | _INTEGERS)[dtype]


def _is_supported(kind: str, source: str, target: str) -> bool:
    if source in _COMPLEX:
        return source == target and kind in ("sum", "product")
    if source in _FLOATS and target in _FLOATS:
        return kind in _ARITHMETIC
    return source in _INTEGERS and source == target and (kind in _ARITHMETIC or kind in _BITWISE)


def _loaded(source: str, target: str, name: str) -> list[str]:
    """Return code that loads the source element at `%place` into register `name`, converted to the type of the
    computation.
    """
    if source in _INTEGERS:
        register = f"%l{name}" if _INTEGERS[source] == 8 else f"%i{name}"
        return [f"ld.global.{_word(source)} {register}, [%place];"]
    if source in _COMPLEX:
        part, r = _COMPLEX[source]
        return [f"ld.global.v2.{part} {{%{r}{name}, %{r}i{name}}}, [%place];"]
    lines = {
        "f16": ["ld.global.b16 %h, [%place];", f"cvt.f32.f16 %f{name}, %h;"],
        "bf16": [
            f"ld.global.u16 %i{name}, [%place];",
            f"shl.b32 %i{name}, %i{name}, 16;",
            f"mov.b32 %f{name}, %i{name};",
        ],
        "f32": [f"ld.global.f32 %f{name}, [%place];"],
        "f64": [f"ld.global.f64 %d{name}, [%place];"],
    }[source]
    if source == "f64" and target != "f64":
        lines += [f"cvt.rn.f32.f64 %f{name}, %d{name};"]
    if target == "f64" and source != "f64":
        lines += [f"cvt.f64.f32 %d{name}, %f{name};"]
    return lines + (_rounded(target, name) if source != target else [])


def _rounded(target: str, name: str) -> list[str]:
    """Return code that rounds register `name` to the precision of the target dtype."""
    if target == "f16":
        return [f"cvt.rn.f16.f32 %h, %f{name};", f"cvt.f32.f16 %f{name}, %h;"]
    if target == "bf16":
        return [f"cvt.rn.bf16.f32 %h, %f{name};", f"cvt.u32.u16 %i{name}, %h;", f"shl.b32 %i{name}, %i{name}, 16;",
                f"mov.b32 %f{name}, %i{name};"]  # fmt: skip
    return []


def _combined(kind: str, target: str) -> list[str]:
    """Return code that combines registers a and b by the reduction `kind`, with the result in a."""
    if target in _COMPLEX:
        return _combined_pairs(kind, *_COMPLEX[target])
    if target == "i1":
        return [f"{_BOOLEAN[kind]}.b32 %ia, %ia, %ib;"]
    if target in _INTEGERS:
        r, bits = ("l", 64) if _INTEGERS[target] == 8 else ("i", 32)
        if kind in _BITWISE:
            return [f"{kind}.b{bits} %{r}a, %{r}a, %{r}b;"]
        sign = "u" if target.startswith("ui") else "s"
        low = ".lo" if kind == "product" else ""
        return [f"{_ARITHMETIC[kind]}{low}.{sign}{bits} %{r}a, %{r}a, %{r}b;"]
    if target != "f64":
        instruction = {"sum": "add.rn", "product": "mul.rn", "max": "max.NaN", "min": "min.NaN"}[kind]
        return [f"{instruction}.f32 %fa, %fa, %fb;"]
    if kind in ("sum", "product"):
        return [f"{_ARITHMETIC[kind]}.rn.f64 %da, %da, %db;"]
    return ["setp.nan.f64 %nan, %da, %db;", "add.rn.f64 %dc, %da, %db;", f"{_ARITHMETIC[kind]}.f64 %da, %da, %db;",
            "selp.f64 %da, %dc, %da, %nan;"]  # fmt: skip


def _combined_pairs(kind: str, part: str, r: str) -> list[str]:
    """Return code that combines complex numbers a and b, with the result in a. Imaginary parts are in separate
    registers.
    """
    if kind == "sum":
        return [f"add.rn.{part} %{r}{name}a, %{r}{name}a, %{r}{name}b;" for name in ("", "i")]
    return [
        f"mul.rn.{part} %{r}c, %{r}ia, %{r}ib;",
        f"mul.rn.{part} %{r}ic, %{r}ia, %{r}b;",
        f"mul.rn.{part} %{r}ia, %{r}a, %{r}ib;",
        f"mul.rn.{part} %{r}a, %{r}a, %{r}b;",
        f"sub.rn.{part} %{r}a, %{r}a, %{r}c;",
        f"add.rn.{part} %{r}ia, %{r}ia, %{r}ic;",
    ]


def _stored(target: str) -> list[str]:
    if target in _COMPLEX:
        part, r = _COMPLEX[target]
        return [f"st.global.v2.{part} [%place], {{%{r}a, %{r}ia}};"]
    if target in _INTEGERS:
        register = "%la" if _INTEGERS[target] == 8 else "%ia"
        return [f"st.global.{_word(target)} [%place], {register};"]
    if target in ("f16", "bf16"):
        return [f"cvt.rn.{target}.f32 %h, %fa;", "st.global.b16 [%place], %h;"]
    return ["st.global.f32 [%place], %fa;" if target == "f32" else "st.global.f64 [%place], %da;"]


def _word(dtype: str) -> str:
    sign = "u" if dtype.startswith("ui") or dtype == "i1" else "s"
    return f"{sign}{8 * _INTEGERS[dtype]}"
