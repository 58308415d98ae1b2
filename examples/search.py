"""Automatic shardings of a small stack: the search replicates the weights if memory suffices, and splits them
otherwise.

    python examples/search.py
"""

import sys

import meshgen as mg

MESH = {"dp": 2, "tp": 4}
LAYERS = 2
TYPES = ["bf16[16,128,512]", [{"w1": "bf16[512,2048]", "w2": "bf16[2048,512]"}] * LAYERS]


def stack(x, layers):
    for layer in layers:
        x = x + mg.gelu(x @ layer["w1"]) @ layer["w2"]
    return x


def main(target: str = "cpu") -> None:
    for megabytes in (40, 7):
        result = mg.search(stack, MESH, args=TYPES, target=target, memory_limit=megabytes * 10**6)
        exe = mg.compile(stack, MESH, args=TYPES, in_specs=result.specs, target=target)
        sys.stdout.write("\n".join([f"up to {megabytes} MB:", *result.sentences, ""]))
        sys.stdout.write(f"step {result.step_seconds * 1e6:.0f} us, {exe.comms.counts}\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
