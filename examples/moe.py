"""Expert parallelism, also with fewer experts than devices: then the mesh axis is split into sub-axes.

    python examples/moe.py

Axis x has eight devices. With two experts, the sub-axis `x:(1)2` splits the experts, and `x:(2)4` splits the hidden
layer of each expert. With sixteen experts, each device has two.
"""

import sys

import numpy as np

import meshgen as mg

TOKENS, WIDTH, HIDDEN, SLOTS = 512, 64, 256, 128  # an expert accepts up to SLOTS tokens
MESH = mg.make_mesh({"x": 8})


def experts(tokens, route, w1, w2):
    """Apply the experts. `route[t, e, c]` is the weight of token t in slot c of expert e."""
    slots = mg.einsum("tec,td->ecd", route, tokens)
    hidden = mg.maximum(mg.einsum("ecd,edf->ecf", slots, w1), 0.0)
    return mg.einsum("tec,ecd->td", route, mg.einsum("ecf,efd->ecd", hidden, w2))


def specs(count: int) -> dict[str, mg.Sharding]:
    """Split tokens over all devices, experts over as many devices as possible, and hidden layers over the remaining
    sub-axis.
    """
    token_specs = {"tokens": mg.P("x"), "route": mg.P("x")}
    if count >= MESH.size:
        return token_specs | {"w1": mg.P("x"), "w2": mg.P("x")}
    expert_axis, hidden_axis = f"x:(1){count}", f"x:({count}){MESH.size // count}"
    return token_specs | {"w1": mg.P(expert_axis, None, hidden_axis), "w2": mg.P(expert_axis, hidden_axis, None)}


def compiled(count: int, target: str = "cpu") -> mg.Executable:
    shapes = [(TOKENS, WIDTH), (TOKENS, count, SLOTS), (count, WIDTH, HIDDEN), (count, HIDDEN, WIDTH)]
    args = [mg.spec(f"f32[{','.join(map(str, shape))}]") for shape in shapes]
    return mg.compile(experts, MESH, args=args, in_specs=specs(count), out_specs=mg.P("x"), target=target)


def main(target: str = "cpu") -> None:
    for count in (2, 16):
        exe = compiled(count, target)
        rng = np.random.default_rng(count)
        arrays = [rng.standard_normal(kind.sizes).astype(np.float32) for kind in exe.fused.in_types]
        y = exe(*arrays)
        sys.stdout.write(f"{count} experts on {MESH.size} devices: {y.shape}, {exe.comms.counts}\n{exe.comms}\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
