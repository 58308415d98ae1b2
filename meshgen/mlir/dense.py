"""Dense constants: the attribute `dense<...> : tensor<...>`, stored as the bytes of a NumPy array.

xDSL's own attribute expands a splat to all its elements and parses each element separately. This one stores a splat as
a single element and parses a literal in one pass, so that reading large constants takes time proportional to their
text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import BuiltinAttribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.ir.graph import DTYPES, TensorType, is_complex, is_float, real_dtype
from meshgen.ir.limits import MAX_LOCAL_RANK, size_fault
from meshgen.runtime.module_file.resources import LEAST_BYTES, Resources
from meshgen.runtime.module_file.tensors import content_of

_COMMENT = re.compile(r"//[^\n]*")
_ELEMENT = re.compile(r"[^\[\],\s]+")
_PAIR = re.compile(r"\(\s*([^,()\s]+)\s*,\s*([^,()\s]+)\s*\)")
COMPLEX_NAMES = {"complex<f32>": "c64", "complex<f64>": "c128"}
ELEMENT_NAMES = {dtype: name for name, dtype in COMPLEX_NAMES.items()}
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "-1": True}
_HEX_FROM = (
    # Literals of more elements than this are printed as one hexadecimal string. Chosen: MLIR does so for literals
    # longer than about one line
    64
)


@dataclass(frozen=True)
class DenseData:
    """The type and the bytes of a constant. A splat has the bytes of a single element only."""

    type: builtin.TensorType[Any]
    dtype: str
    raw: bytes | memoryview

    @property
    def array(self) -> np.ndarray:
        """Return the constant as an array; a splat is a read-only broadcast of one element."""
        elements = np.frombuffer(self.raw, DTYPES[self.dtype])
        shape = self.type.get_shape()
        return np.broadcast_to(elements[0], shape) if len(elements) == 1 else elements.reshape(shape)


@irdl_attr_definition
class DenseElements(BuiltinAttribute, Data[DenseData]):
    """The attribute `dense<...> : tensor<...>`."""

    name = "meshgen.dense"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> DenseData:
        """Reject the attribute in xDSL's generic syntax. Only `dense<...>` is supported, which `TextParser` reads
        itself.
        """
        return parser.raise_error("write a constant as dense<...> : tensor<...>")

    def print_parameter(self, printer: Printer) -> None:
        self.print_builtin(printer)

    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(f"dense<{_literal(self.data.raw, self.data.dtype, self.data.type.get_shape())}> : ")
        printer.print_attribute(self.data.type)


def dense_text(array: np.ndarray, kind: TensorType, resources: Resources | None = None) -> str:
    """Return the text `dense<...>` of an array, as a splat if all elements are bitwise equal.

    If `resources` is not None, a large constant is stored in this dict and the text refers to it.
    """
    raw = array.astype(kind.numpy_dtype, copy=False)
    content = _content(raw)
    if resources is not None and len(content) >= LEAST_BYTES:
        return f"dense_resource<{resources.name(content)}>"
    return f"dense<{_literal(content, kind.dtype, raw.shape)}>"


def _content(raw: np.ndarray) -> bytes | memoryview:
    """Return the bytes of the array `raw`, or of a single element if all elements are bitwise equal."""
    if all(stride == 0 for stride in raw.strides) and raw.size:
        return raw.flat[:1].tobytes()
    content, width = content_of(raw), raw.itemsize
    is_splat = raw.size > 1 and content[width:] == content[:-width]
    return bytes(content[:width]) if is_splat else content


def read_dense(body: str, type: builtin.TensorType[Any]) -> DenseElements:
    """Parse the text `body` between `dense<` and `>` as a constant of this type.

    Raises ValueError if the text is malformed.
    """
    name = str(type.element_type)
    dtype = "i64" if name == "index" else COMPLEX_NAMES.get(name, name)
    if dtype not in DTYPES:
        raise ValueError(f"constants of {dtype} are not supported")
    if message := size_fault(TensorType(tuple(type.get_shape()), dtype), MAX_LOCAL_RANK):
        raise ValueError(message)
    body, shape = _COMMENT.sub("", body).strip() if "//" in body else body.strip(), type.get_shape()
    if is_complex(dtype) and not body.startswith('"'):
        return _read_complex(body, type, dtype)
    if body.startswith('"'):
        return DenseElements(DenseData(type, dtype, _from_hex(body, dtype, math.prod(shape))))
    words, count = _ELEMENT.findall(body), math.prod(shape)
    if len(words) != count and body.startswith("["):
        raise ValueError(f"expected {count} elements, got {len(words)}")
    if body.startswith("["):
        _check_nesting(body, shape)
    elif len(words) != (1 if body else 0) or (not body and math.prod(shape)):
        raise ValueError("a dense literal is one element, nested lists, or a hexadecimal string")
    return DenseElements(DenseData(type, dtype, _parsed_elements(words, dtype).tobytes()))


def _read_complex(body: str, type: builtin.TensorType[Any], dtype: str) -> DenseElements:
    """Parse a constant whose elements are pairs `(real, imaginary)`. `dtype` is the type of the elements."""
    pairs = _PAIR.findall(body)
    if len(pairs) != math.prod(type.get_shape()) and body.startswith("["):
        raise ValueError(f"expected {math.prod(type.get_shape())} elements, got {len(pairs)}")
    if body.startswith("["):
        _check_nesting(_PAIR.sub("0", body), type.get_shape())
    elif len(pairs) != (1 if body else 0):
        raise ValueError("a complex literal is one pair (real, imaginary), or nested lists of pairs")
    parts = _parsed_elements([word for pair in pairs for word in pair], real_dtype(dtype))
    return DenseElements(DenseData(type, dtype, parts.tobytes()))


def _check_nesting(body: str, shape: Sequence[int]) -> None:
    """Raise ValueError unless the nesting of the brackets in the literal `body` matches the shape."""
    skeleton = ""
    for size in reversed(shape):
        skeleton = "[" + ",".join([skeleton] * size) + "]"
    if re.sub(r"[^\[\],]+", "", body) != skeleton:
        raise ValueError(f"the brackets of the literal do not have the shape {'x'.join(map(str, shape))} of its type")


def _parsed_elements(words: Sequence[str], dtype: str) -> np.ndarray:
    """Parse the elements of a literal: decimal numbers, `true` or `false`, or the bits of a float in hexadecimal."""
    kind = DTYPES[dtype]
    bits = np.dtype(f"u{kind.itemsize}")
    if dtype == "i1":
        if invalid := [word for word in words if word not in _BOOLEANS]:
            raise ValueError(f"expected a boolean, got '{invalid[0]}'")
        return np.array([_BOOLEANS[word] for word in words], kind)
    if not is_float(dtype):
        low, high = int(ml_dtypes.iinfo(kind).min), int(ml_dtypes.iinfo(kind).max)
        span = high - low + 1
        numbers = [int(word, 0) for word in words]
        if invalid := [number for number in numbers if not low <= number < span]:
            raise ValueError(f"{invalid[0]} is out of range for {dtype}, {low} to {high}")
        # Unsigned spellings of signless integers are accepted: 255 as an i8 is -1.
        wrapped = [number - span if number > high else number for number in numbers]
        return np.array(wrapped, np.int64 if low < 0 else np.uint64).astype(kind)
    if not any(word.startswith("0x") for word in words):
        return np.array([float(word) for word in words], np.float64).astype(kind)
    return np.array(
        [bits.type(int(w, 16)) if w.startswith("0x") else np.float64(w).astype(kind).view(bits) for w in words], bits
    ).view(kind)


def _from_hex(body: str, dtype: str, count: int) -> bytes:
    """Decode a hexadecimal string into the bytes of `count` elements, or of a single element if the constant is a
    splat.
    """
    raw = bytes.fromhex(body.strip('"').removeprefix("0x"))
    if dtype == "i1":
        return _unpack_bits(raw, count)
    width = DTYPES[dtype].itemsize
    if len(raw) not in (width, width * count):
        raise ValueError(f"the literal has {len(raw)} bytes, but {count} elements of {dtype} need {count * width}")
    return raw


def _unpack_bits(raw: bytes, count: int) -> bytes:
    """Decode `count` booleans from packed bits, from one byte each (as in some resources), or from a splat byte 0x00 or
    0xFF.
    """
    if len(raw) == count > 1 and not raw.strip(b"\0\1"):
        return raw
    if raw in (b"\x00", b"\xff") and count != 8:
        return b"\x01" if raw == b"\xff" else b"\x00"
    if len(raw) != -(-count // 8):
        raise ValueError(f"the literal has {len(raw)} bytes, but {count} booleans need {-(-count // 8)}")
    return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[:count].tobytes()


def _literal(raw: bytes | memoryview, dtype: str, shape: Sequence[int]) -> str:
    elements = np.frombuffer(raw, DTYPES[dtype])
    if len(elements) == 1:
        text = element_text(elements[0], dtype)
        return text if math.prod(shape) != 1 or not shape else "[" * len(shape) + text + "]" * len(shape)
    if len(elements) > _HEX_FROM and dtype != "i1":
        return f'"0x{raw.hex().upper()}"'
    texts = [element_text(element, dtype) for element in elements]
    for size in reversed(shape):
        texts = ["[" + ", ".join(texts[i : i + size]) + "]" for i in range(0, len(texts), max(size, 1))]
    return texts[0] if texts else ""


def element_text(element: Any, dtype: str) -> str:
    """Return the text of an element in MLIR's short form, or in a longer form if the short form would not read back
    exactly.
    """
    if dtype == "i1":
        return "true" if element else "false"
    if is_complex(dtype):
        return f"({element_text(element.real, real_dtype(dtype))}, {element_text(element.imag, real_dtype(dtype))})"
    if not is_float(dtype):
        return str(int(element))
    number = float(element)
    if math.isfinite(number):
        for text in (f"{number:.6e}", f"{number:.9g}", f"{number:.17g}"):
            if "." in text and float(np.float64(text).astype(DTYPES[dtype])) == number:
                return text
    width = DTYPES[dtype].itemsize
    return f"0x{int.from_bytes(np.asarray(element).tobytes(), 'little'):0{2 * width}X}"
