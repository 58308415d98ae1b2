"""Tensor-parallel attention: heads are split over `tp`, and an annotation splits the result along the sequence.

    python examples/attention.py

Without the annotation the sum over heads is an all-reduce. With the annotation the sum is a reduce-scatter, and the
next layer gathers its result.
"""

import sys

import meshgen as mg

MESH = {"dp": 2, "tp": 4}
BATCH, LENGTH, MODEL, HEADS, SIZE = 4, 256, 512, 8, 64


def attention(x, weights, is_split=True):
    q, k, v = (mg.einsum("blm,mhe->bhle", x, weights[name]) for name in ("wq", "wk", "wv"))
    rows, columns = mg.arange(LENGTH)[:, None], mg.arange(LENGTH)[None, :]
    scores = mg.where(rows >= columns, mg.einsum("bhle,bhme->bhlm", q, k) / SIZE**0.5, -1e9)
    heads = mg.einsum("bhlm,bhme->bhle", mg.softmax(scores), v)
    out = mg.einsum("bhle,hem->blm", heads, weights["wo"])
    return mg.annotate(out, mg.P("dp", "tp")) if is_split else out


def compiled(is_split: bool, target: str = "cpu") -> mg.Executable:
    into, out = f"bf16[{MODEL},{HEADS},{SIZE}]", f"bf16[{HEADS},{SIZE},{MODEL}]"
    types = [f"bf16[{BATCH},{LENGTH},{MODEL}]", {"wq": into, "wk": into, "wv": into, "wo": out}]
    specs = {"x": mg.P("dp"), "weights.w[qkv]": mg.P(None, "tp"), "weights.wo": mg.P("tp")}
    return mg.compile(
        lambda x, weights: attention(x, weights, is_split), MESH, args=types, in_specs=specs, target=target
    )


def main(target: str = "cpu") -> None:
    for is_split in (False, True):
        exe = compiled(is_split, target)
        sys.stdout.write(
            f"result {'split' if is_split else 'whole'}: {exe.comms.counts}, {exe.comms.ring_bytes} bytes\n"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
