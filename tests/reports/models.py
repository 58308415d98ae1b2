"""Generates layered programs as MLIR text: two tensor-parallel matmuls per layer, with Python locations and JAX name
scopes.
"""

from __future__ import annotations

_WEIGHTS = ('{"tp"}, {}', '{}, {"tp"}')


def layers(count: int, width: int = 64) -> str:
    """Return a stack of layers on a 2 x 4 mesh with named and annotated weights. Each layer needs one all_reduce over
    tp.
    """
    hidden, rows = 4 * width, 16
    kinds = {"x": f"{rows}x{width}xf32"}
    args = [f'%arg0: tensor<{rows}x{width}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"dp"}}, {{}}]>}} loc("x")']
    body: list[str] = []
    last, weights = "%arg0", iter(range(1, 2 * count + 1))
    for n in range(count):
        up, down = f"%arg{next(weights)}", f"%arg{next(weights)}"
        for name, shape, spec in (("up", f"{width}x{hidden}", _WEIGHTS[1]), ("down", f"{hidden}x{width}", _WEIGHTS[0])):
            args.append(
                f"{up if name == 'up' else down}: tensor<{shape}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{spec}]>}} loc(\"layers[{n}]['{name}']\")"
            )
        body += [
            _dot(f"%h{n}", last, up, rows, width, hidden, _loc(n, "mlp", 4)),
            f"%t{n} = stablehlo.tanh %h{n} : tensor<{rows}x{hidden}xf32> {_loc(n, 'mlp', 4)}",
            _dot(f"%d{n}", f"%t{n}", down, rows, hidden, width, _loc(n, "mlp", 5)),
            f"%y{n} = stablehlo.add {last}, %d{n} : tensor<{kinds['x']}> {_loc(n, 'mlp', 6)}",
        ]
        last = f"%y{n}"
    lines = "\n  ".join(body)
    signature = f"func.func @main({', '.join(args)}) -> tensor<{kinds['x']}>"
    return (
        f'sdy.mesh @mesh = <["dp"=2, "tp"=4]>\n{signature} {{\n  {lines}\n  return {last} : tensor<{kinds["x"]}>\n}}\n'
    )


def _dot(result: str, left: str, right: str, m: int, k: int, n: int, loc: str) -> str:
    types = f"(tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>"
    return f"{result} = stablehlo.dot_general {left}, {right}, contracting_dims = [1] x [0] : {types} {loc}"


def _loc(layer: int, part: str, line: int) -> str:
    return f'loc("jit(f)/layer_{layer}/{part}/op"("model.py":{line}:1))'
