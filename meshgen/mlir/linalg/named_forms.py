"""Generic forms of linalg's named operations: their indexing maps, and the bodies as operations of arith and math.

Maps are written in letters: `mk, kn -> mn`. In a window the spatial letters of an image are walked: its `h` is read at
`stride * h + dilation * kh`, where `kh` is the kernel's `h`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from meshgen.mlir.arith.operations import ARITH, MATH
from meshgen.mlir.conversion import Refused
from meshgen.mlir.linalg.operations import YIELD
from meshgen.mlir.tosa.operations import OPERATIONS as TOSA

SCALAR_OPERATIONS = {op.name: op for op in (*ARITH, *MATH, *TOSA)}
_CONTRACTIONS = {
    "matmul": "mk kn mn", "matmul_unsigned": "mk kn mn", "quantized_matmul": "mk kn mn",
    "matmul_transpose_a": "km kn mn", "matmul_transpose_b": "mk nk mn",
    "batch_matmul": "bmk bkn bmn", "quantized_batch_matmul": "bmk bkn bmn", "batch_reduce_matmul": "bmk bkn mn",
    "batch_matmul_transpose_a": "bkm bkn bmn", "batch_matmul_transpose_b": "bmk bnk bmn",
    "matvec": "mk k m", "vecmat": "k kn n", "batch_matvec": "bmk bk bm", "batch_vecmat": "bk bkn bn", "dot": "k k .",
    "mmt4d": "mkpq nkrq mnpr", "batch_mmt4d": "bmkpq bnkrq bmnpr",
}  # fmt: skip
# Name of the scalar operation on floats, and on integers.
SCALARS = {
    "add": ("addf", "addi"), "sub": ("subf", "subi"), "mul": ("mulf", "muli"), "div": ("divf", "divsi"),
    "div_unsigned": ("", "divui"), "max": ("maximumf", "maxsi"), "min": ("minimumf", "minsi"),
    "max_signed": ("maximumf", "maxsi"), "min_signed": ("minimumf", "minsi"),
    "max_unsigned": ("maximumf", "maxui"), "min_unsigned": ("minimumf", "minui"),
    "powf": ("powf", "ipowi"), "exp": ("exp", ""), "log": ("log", ""), "abs": ("absf", "absi"), "ceil": ("ceil", ""),
    "floor": ("floor", ""), "negf": ("negf", ""), "round": ("round", ""), "sqrt": ("sqrt", ""), "rsqrt": ("rsqrt", ""),
    "tanh": ("tanh", ""), "erf": ("erf", ""), "select": ("select", "select"),
}  # fmt: skip
SPATIAL = "dhw"


@dataclass
class Scalars:
    """Writes scalar operations at the end of a block."""

    block: Block

    def apply(self, name: str, *operands: SSAValue, result: Attribute | None = None) -> SSAValue:
        """The result of an operation of arith or math, or of tosa where those have none. Raises Refused where its signature is another."""
        cls = next(
            SCALAR_OPERATIONS[f"{dialect}.{name}"]
            for dialect in ("arith", "math", "tosa")
            if f"{dialect}.{name}" in SCALAR_OPERATIONS
        )
        if not operands:
            raise Refused("MG0104", f"{cls.name} of no elements")
        operation = cls.create(operands=operands, result_types=[result or operands[-1].type])
        if faults := cls.signature.faults(operation):
            raise Refused("MG0104", f"{operation.name} {faults[0]}")
        self.block.add_op(operation)
        return operation.results[0]

    def named(self, word: str, *operands: SSAValue) -> SSAValue:
        """linalg's function `word`, by the type of its operands. Raises Refused if that has no such function."""
        if word in ("square", "copy"):
            return self.named("mul", operands[0], operands[0]) if word == "square" else operands[0]
        if word == "reciprocal":
            return self.apply("reciprocal", *operands)
        floats, integers = SCALARS.get(word, ("", ""))
        kind = operands[-1].type
        name = integers if isinstance(kind, IntegerType | IndexType) else floats
        if isinstance(kind, IntegerType) and kind.width.data == 1:  # truth values are not added up modulo 2
            name = {"addi": "ori", "muli": "andi"}.get(name, name)
        if not name:
            raise Refused("MG0104", f"has no function '{word}' of {kind}")
        return self.apply(name, *operands)

    def cast(self, value: SSAValue, kind: Attribute, is_unsigned: bool) -> SSAValue:
        """A value in another element type."""
        old = value.type
        if old == kind:
            return value
        sign = "u" if is_unsigned else "s"
        if isinstance(old, IntegerType) and isinstance(kind, IntegerType):
            name = f"ext{sign}i" if kind.width.data > old.width.data else "trunci"
        elif isinstance(old, IntegerType):
            name = f"{sign}itofp"
        elif isinstance(kind, IntegerType):
            name = f"fpto{sign}i"
        else:
            name = "extf" if _width(kind) > _width(old) else "truncf"
        return self.apply(name, value, result=kind)


def _width(kind: Attribute) -> int:
    return 64 if isinstance(kind, Float64Type) else getattr(kind, "bitwidth", 0)


Write = Callable[[Scalars, Sequence[SSAValue]], SSAValue]
"""The yield of a body for one element of each operand."""


def block_of(kinds: Sequence[Attribute], body: Write) -> Block:
    """A block over one element of each operand, the last of which is the output, that yields what `body` makes."""
    block = Block(arg_types=kinds)
    result = body(Scalars(block), block.args)
    block.add_op(YIELD.create(operands=[result]))
    return block


def product(is_unsigned: bool) -> Write:
    """`output + input * input`, in the output's type; two more inputs are zero points."""

    def body(scalars: Scalars, arguments: Sequence[SSAValue]) -> SSAValue:
        *inputs, output = arguments
        left, right = (scalars.cast(x, output.type, is_unsigned) for x in inputs[:2])
        if len(inputs) == 4:
            zeros = [scalars.cast(x, output.type, is_unsigned) for x in inputs[2:]]
            left, right = (scalars.named("sub", x, zero) for x, zero in zip((left, right), zeros, strict=True))
        return scalars.named("add", output, scalars.named("mul", left, right))

    return body


def pooled(word: str) -> Write:
    """`word(output, input)`; the window is only there for its shape."""

    def body(scalars: Scalars, arguments: Sequence[SSAValue]) -> SSAValue:
        source = scalars.cast(arguments[0], arguments[-1].type, word.endswith("unsigned"))
        return scalars.named({"sum": "add"}.get(word, word), arguments[-1], source)

    return body


def letter_maps_of(name: str) -> list[AffineMap]:
    """Maps of a contraction's operands, whose dims are loops, one letter each; none for other operations."""
    words = _CONTRACTIONS[name].split() if name in _CONTRACTIONS else []
    if not words:
        return []
    loops = list(dict.fromkeys("".join([words[-1], *words]).replace(".", "")))
    return [
        AffineMap(len(loops), 0, tuple(AffineExpr.dimension(loops.index(x)) for x in word if x != "."))
        for word in words
    ]


def convolution_maps(name: str, strides: Sequence[int], dilations: Sequence[int]) -> tuple[list[AffineMap], str]:
    """Maps of image, kernel and result of an operation named after its layouts, and what it folds with."""
    word = name.removesuffix("_q")
    if word.startswith("pooling_"):
        _, image, fold = word.split("_", 2)
        kernel = "".join(x for x in image if x in SPATIAL)
        return _window_maps(image, kernel, image, strides, dilations), fold
    depthwise = word.startswith("depthwise_")
    parts = word.removeprefix("depthwise_").split("_")[1:]
    if len(parts) == 1:
        image = kernel = result = SPATIAL[3 - int(parts[0][0]) :]
    else:
        _, image, kernel = parts
        result = image + "m" * ("m" in kernel) if depthwise else image.replace("c", "f")
    return _window_maps(image, kernel, result, strides, dilations), "product"


def _window_maps(image: str, kernel: str, result: str, strides: Sequence[int], dilations: Sequence[int]
                 ) -> list[AffineMap]:  # fmt: skip
    """Maps where the image's spatial letters are walked by the kernel's."""
    spatial = [letter for letter in image if letter in SPATIAL]
    if not len(strides) == len(dilations) == len(spatial):
        raise Refused(
            "MG0104", f"has {len(strides)} strides and {len(dilations)} dilations for {len(spatial)} spatial dims"
        )
    loops = [*result, *(letter.upper() for letter in spatial)]
    loops += [letter for letter in dict.fromkeys(kernel + image) if letter not in (*loops, *SPATIAL)]
    at = {letter: AffineExpr.dimension(number) for number, letter in enumerate(loops)}
    walked = dict(at)
    for letter, stride, dilation in zip(spatial, strides, dilations, strict=True):
        walked[letter] = at[letter] * stride + at[letter.upper()] * dilation
    inside = {**at, **{letter: at[letter.upper()] for letter in spatial}}
    sides = ((image, walked), (kernel, inside), (result, at))
    return [AffineMap(len(loops), 0, tuple(places[letter] for letter in word)) for word, places in sides]
