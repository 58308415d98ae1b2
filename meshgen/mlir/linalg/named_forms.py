"""Generic forms of linalg's named operations: their indexing maps, and their bodies as operations of arith and math.

Maps are written with one letter per loop: `mk, kn -> mn`. In a convolution, the index into the image's spatial dim `h`
is `stride * h + dilation * kh`, where `kh` is the loop of the kernel's dim `h`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
# Name of a linalg function -> operation on floats, and operation on integers
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
    """A builder that appends operations on scalars to a block."""

    block: Block

    def apply(
        self, name: str, *operands: SSAValue, result: Attribute | None = None, properties: Mapping[str, Attribute] = {}
    ) -> SSAValue:
        """Append the operation `name` of arith, else of math, else of tosa, and return its result.

        Raises Refused if the operands violate its signature.
        """
        cls = next(
            SCALAR_OPERATIONS[f"{dialect}.{name}"]
            for dialect in ("arith", "math", "tosa")
            if f"{dialect}.{name}" in SCALAR_OPERATIONS
        )
        if not operands:
            raise Refused("MG0104", f"{cls.name} needs at least one operand")
        operation = cls.create(operands=operands, result_types=[result or operands[-1].type], properties=properties)
        if faults := cls.signature.faults(operation):
            raise Refused("MG0104", f"{operation.name} {faults[0]}")
        self.block.add_op(operation)
        return operation.results[0]

    def named(self, word: str, *operands: SSAValue) -> SSAValue:
        """Append the operation for the linalg function `word` on operands of this type, according to `SCALARS`.

        Raises Refused if the function is undefined for the type.
        """
        if word in ("square", "copy"):
            return self.named("mul", operands[0], operands[0]) if word == "square" else operands[0]
        if word == "reciprocal":
            return self.apply("reciprocal", *operands)
        floats, integers = SCALARS.get(word, ("", ""))
        kind = operands[-1].type
        name = integers if isinstance(kind, IntegerType | IndexType) else floats
        # On booleans these functions are logical, whereas integer operations on i1 would compute modulo 2.
        if isinstance(kind, IntegerType) and kind.width.data == 1:
            name = {"addi": "ori", "muli": "andi"}.get(name, name)
        if not name:
            raise Refused("MG0104", f"has no function '{word}' of {kind}")
        return self.apply(name, *operands)

    def cast(self, value: SSAValue, kind: Attribute, is_unsigned: bool) -> SSAValue:
        """Append a conversion of `value` to the element type `kind`, unless it already has that type."""
        old_kind = value.type
        if old_kind == kind:
            return value
        sign = "u" if is_unsigned else "s"
        if isinstance(old_kind, IntegerType) and isinstance(kind, IntegerType):
            name = f"ext{sign}i" if kind.width.data > old_kind.width.data else "trunci"
        elif isinstance(old_kind, IntegerType):
            name = f"{sign}itofp"
        elif isinstance(kind, IntegerType):
            name = f"fpto{sign}i"
        else:
            name = "extf" if _width(kind) > _width(old_kind) else "truncf"
        return self.apply(name, value, result=kind)


def _width(kind: Attribute) -> int:
    return 64 if isinstance(kind, Float64Type) else getattr(kind, "bitwidth", 0)


Write = Callable[[Scalars, Sequence[SSAValue]], SSAValue]
"""A function that appends the body of an operation: it takes the builder and one element per operand, and returns the
element to yield.
"""


def block_of(kinds: Sequence[Attribute], body: Write) -> Block:
    """Return a block that takes one element of each operand, the last of which is the output, and yields the result of
    `body`.
    """
    block = Block(arg_types=kinds)
    result = body(Scalars(block), block.args)
    block.add_op(YIELD.create(operands=[result]))
    return block


def product(is_unsigned: bool) -> Write:
    """Return a body that computes `output + input * input` in the output's type. Optional third and fourth inputs are
    zero points.
    """

    def body(scalars: Scalars, arguments: Sequence[SSAValue]) -> SSAValue:
        *inputs, output = arguments
        left, right = (scalars.cast(x, output.type, is_unsigned) for x in inputs[:2])
        if len(inputs) == 4:
            zeros = [scalars.cast(x, output.type, is_unsigned) for x in inputs[2:]]
            left, right = (scalars.named("sub", x, zero) for x, zero in zip((left, right), zeros, strict=True))
        return scalars.named("add", output, scalars.named("mul", left, right))

    return body


def pooled(word: str) -> Write:
    """Return a body that computes `word(output, input)`. It ignores the second input, whose shape defines the window."""

    def body(scalars: Scalars, arguments: Sequence[SSAValue]) -> SSAValue:
        source = scalars.cast(arguments[0], arguments[-1].type, word.endswith("unsigned"))
        return scalars.named({"sum": "add"}.get(word, word), arguments[-1], source)

    return body


def named_contraction_maps(name: str) -> list[AffineMap]:
    """Return the indexing maps of the operands of a named contraction such as `matmul`, or [] for other operations."""
    words = _CONTRACTIONS[name].split() if name in _CONTRACTIONS else []
    if not words:
        return []
    loops = list(dict.fromkeys("".join([words[-1], *words]).replace(".", "")))
    return [
        AffineMap(len(loops), 0, tuple(AffineExpr.dimension(loops.index(x)) for x in word if x != "."))
        for word in words
    ]


def convolution_maps(name: str, strides: Sequence[int], dilations: Sequence[int]) -> tuple[list[AffineMap], str]:
    """Return the indexing maps of image, kernel and result, and the reduction ("product", "max", ...), of a
    convolution.

    The name of the operation states the layouts and the reduction.
    """
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
    """Return the indexing maps of image, kernel and result. The image's spatial dims are indexed through windows."""
    spatial = [letter for letter in image if letter in SPATIAL]
    if not len(strides) == len(dilations) == len(spatial):
        raise Refused(
            "MG0104", f"has {len(strides)} strides and {len(dilations)} dilations for {len(spatial)} spatial dims"
        )
    loops = [*result, *(letter.upper() for letter in spatial)]
    loops += [letter for letter in dict.fromkeys(kernel + image) if letter not in (*loops, *SPATIAL)]
    loop_dims = {letter: AffineExpr.dimension(index) for index, letter in enumerate(loops)}
    image_dims = dict(loop_dims)
    for letter, stride, dilation in zip(spatial, strides, dilations, strict=True):
        image_dims[letter] = loop_dims[letter] * stride + loop_dims[letter.upper()] * dilation
    kernel_dims = {**loop_dims, **{letter: loop_dims[letter.upper()] for letter in spatial}}
    sides = ((image, image_dims), (kernel, kernel_dims), (result, loop_dims))
    return [AffineMap(len(loops), 0, tuple(dims[letter] for letter in word)) for word, dims in sides]
