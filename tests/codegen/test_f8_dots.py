"""Tests of warp-specialized GEMMs of 8-bit floats on the emulated GPU."""

from __future__ import annotations

import pytest
from bodies import Body

from meshgen.ir.graph import Graph
from tests.codegen.test_specialized_dots import agree, specialized

pytestmark = pytest.mark.usefixtures("two_multiprocessors", "tma_from_shorter_k")


@pytest.mark.parametrize("dtype, result, stages", [("f8E4M3FN", "bf16", [4, 4, 3]), ("f8E5M2", "f32", [3, 4])])
def test_f8_partial_sums_are_accumulated_each_iteration(dtype: str, result: str, stages: list[int]) -> None:
    """Check tiles of 256 columns in halves and tiles of 128 columns. The last iteration is partial."""
    b = Body(f"{dtype}[248,656]", f"{dtype}[504,656]", f"{result}[504]", name="product")
    x, w, bias = b.inputs
    y = b.dot(x, w, ((1,), (1,)), dtype=result)
    body = b.done(b.op("add", y, b.wide(bias, y, (1,))))
    sources = specialized(body)
    assert [source.num_stages for source in sources] == stages
    for source in sources:
        assert source.tile["k"] == 128 and source.text.count("+= tl.dot(") == source.tile["parts"]
        agree(body, source, interpreted=source is sources[0])


def gated_f8() -> Graph:
    b = Body("f8E4M3FN[248,640]", "f8E4M3FN[256,640]", "f8E4M3FN[256,640]", name="product")
    x, *weights = b.inputs
    gate, up = (b.dot(x, w, ((1,), (1,)), dtype="bf16") for w in weights)
    return b.done(b.op("multiply", b.op("tanh", gate), up))


def two_f8(second: str, *, are_added: bool) -> Graph:
    """Return two GEMMs that are added, or are separate results."""
    k = second.removesuffix("]").rsplit(",", 1)[1]
    b = Body("f8E4M3FN[248,640]", "f8E4M3FN[512,640]", second, f"f8E4M3FN[512,{k}]", name="product")
    x, w, y, v = b.inputs
    gemms = [b.dot(*operands, ((1,), (1,)), dtype="bf16") for operands in ((x, w), (y, v))]
    return b.done(*([b.op("add", *gemms)] if are_added else gemms))


@pytest.mark.parametrize("body", [gated_f8(), two_f8("f8E4M3FN[248,528]", are_added=True), two_f8("f8E4M3FN[130,1024]", are_added=False)],
                         ids=["gated", "added up", "side by side"])  # fmt: skip
def test_f8_gemms_share_a_main_loop(body: Graph) -> None:
    source = specialized(body)[0]
    assert source.text.count("tl.range(") == 1 and source.text.count("+= tl.dot(") == 2
    agree(body, source)
