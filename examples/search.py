"""Shardings that nobody wrote: the search finds Megatron's layout for a stack of layers, and another one where memory is short.

python examples/search.py
"""

import sys

import meshgen as mg

MESH = {"dp": 2, "tp": 4}
LAYERS = 4
TYPES = ["bf16[16,128,512]", [{"w1": "bf16[512,2048]", "w2": "bf16[2048,512]"}] * LAYERS]


def stack(x, layers):
    for layer in layers:
        x = x + mg.gelu(x @ layer["w1"]) @ layer["w2"]
    return x


def main(target: str = "cpu") -> None:
    free = mg.search(stack, MESH, args=TYPES, target=target)
    sys.stdout.write("\n".join(["shortest step:", *free.sentences, ""]))
    exe = mg.compile(stack, MESH, args=TYPES, in_specs=free.specs, target=target)
    sys.stdout.write(f"{exe.comms.counts}, {exe.memory.peak_bytes} bytes\n\n")
    by_hand = {"x": mg.P("dp"), "layers.*.w1": mg.P(None, "tp"), "layers.*.w2": mg.P("tp")}
    own = mg.compile(stack, MESH, args=TYPES, in_specs=by_hand, target=target)
    sys.stdout.write(f"found {exe.cost.step_seconds * 1e6:.1f} us, by hand {own.cost.step_seconds * 1e6:.1f} us\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
