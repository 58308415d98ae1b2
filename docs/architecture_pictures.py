"""Draw the pictures of docs/architecture.md: the pipeline, where state is kept, a step on a GPU, and the layers of
imports.

`docs/generate.py` writes them to docs/images. They follow from the code: stages and passes from `meshgen/pipeline.py`
and `meshgen/passes.py`, fields from the dataclasses, the step from a plan, and the layers from
`tests/test_layering.py`.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from svg import GRAY, Picture, width_of

import meshgen as mg
from meshgen import pipeline
from meshgen.compilation import Compilation, PassRecord
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.passes import BY_STAGE
from meshgen.runtime.plan import Buffer, Item, Schedule

ROOT = Path(__file__).resolve().parents[1]
COLORS = {"frontend": "blue", "mlir": "blue", "sharding": "green", "codegen": "orange", "runtime": "purple"}
WIDTH = 780  # pixels; pages show wider pictures scaled down
AFTER = {
    "import": "global tensors, some annotations",
    "propagate": "a sharding for every operand and result",
    "materialize": "collectives on the edges that need them",
    "optimize": "fewer and smaller collectives",
    "partition": "local shapes: the program of one device",
    "fuse": "one node per kernel launch",
    "schedule": "streams, events, offsets in the arena",
    ".mgx": "manifest, stages, kernels, constants",
    "step": "launches on the GPUs of all ranks",
}
MADE_BY = {
    "import": "frontend/programs.py",
    "propagate": "sharding/propagate.py",
    "materialize": "sharding/materialize.py",
    "optimize": "sharding/optimize.py",
    "partition": "sharding/partition.py",
    "fuse": "codegen/fuse.py",
    "schedule": "codegen/scheduling/schedule.py",
    ".mgx": "codegen/packaging/package.py",
    "step": "runtime/cuda/execute.py",
}  # paths below meshgen/
MEMBERS = {
    "manifest.json": "the plan; inputs, outputs, kernels; digests of all members",
    "stages/": "the program after each stage, as text",
    "decisions.json.gz": "decisions of propagation and chunks, for explain",
    "kernels/, ptx/, cubins/": "Triton source, PTX, machine code of each kernel",
    "constants.safetensors": "constants, each stored once",
}


def pipeline_picture() -> Picture:
    """Draw a row for each stage: its name, its file, the number of its passes, and what the program has after it."""
    assert list(AFTER) == list(MADE_BY) == ["import", *pipeline.STAGES, ".mgx", "step"]
    rows, height, top = list(AFTER), 46, 92
    picture = Picture(WIDTH, top + height * len(rows) + 14, "The pipeline of meshgen: stages, files and passes")
    picture.labeled(
        16, 16, 748, 32, "Python, JAX, PyTorch (.pt2), ONNX, MLIR (stablehlo, chlo, sdy, linalg, tosa, ...)", "gray"
    )
    for x, title in ((16, "stage"), (148, "made by meshgen/..."), (402, "passes"), (470, "after it the program has")):
        picture.text(x, 76, title, color=GRAY)
    for row, stage in enumerate(rows):
        y, path = top + row * height, MADE_BY[stage]
        assert (ROOT / "meshgen" / path).exists(), path
        picture.labeled(16, y, 120, 30, stage, COLORS[path.partition("/")[0]], bold=True)
        picture.text(148, y + 20, path, room=255)
        picture.text(420, y + 20, str(len(BY_STAGE[stage])) if stage in BY_STAGE else "", room=40)
        picture.text(470, y + 20, AFTER[stage], size=13)
        picture.arrow(76, y - 16 if row else 48, 76, y - 1)
    return picture


def fields_of(kind: type[Any]) -> list[str]:
    """Return the names of the public fields of a class."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    names = [field.name for field in fields] or list(getattr(kind, "_fields", ()))
    return [name for name in names if not name.startswith("_")]


def wrapped(names: Sequence[str], room: float, size: float) -> list[str]:
    """Join names with commas into lines that fit into `room` pixels."""
    lines = [names[0]]
    for name in names[1:]:
        longer = f"{lines[-1]}, {name}"
        if width_of(longer + ",", size) > room:
            lines[-1] += ","
            lines.append(name)
        else:
            lines[-1] = longer
    return lines


def state_picture() -> Picture:
    """Draw three columns (the context of a compilation, the program, the plan), and below them the members of a module
    file.
    """
    kept = ["analyses, by graph", "programs that passes made", "the last large analysis"]
    decided = ["propagate: labels, costs", "chunks: chains, gains"]
    session = ["donated arguments", "state on the devices"]
    columns = (
        ("one compilation", "compilation.py", "green", [(Compilation, "Compilation"), (kept, "kept, and dropped with it"), (PassRecord, "PassRecord"), (decided, "decisions by stage")]),
        ("the program", "ir/graph.py", "blue", [(Module, "Module"), (Graph, "Graph"), (Node, "Node"), (Value, "Value")]),
        ("the plan", "runtime/plan.py", "orange", [(Schedule, "Schedule"), (Item, "Item"), (Buffer, "Buffer"), (session, "runtime/sessions: Session")]),
    )  # fmt: skip
    width, size, line = 240, 13, 18
    blocks = [[(title, wrapped(fields_of(what) if isinstance(what, type) else what, width - 36, size)) for what, title in parts]
              for *_, parts in columns]  # fmt: skip
    tallest = max(sum(34 + line * len(lines) for _, lines in column) for column in blocks)
    drawn = {name for names in MEMBERS for name in names.split(", ")} | {"manifest.sha256"}
    assert drawn == member_kinds(), drawn ^ member_kinds()
    picture = Picture(WIDTH, tallest + 148 + line * len(MEMBERS), "Where state is kept during a compilation")
    for column_index, ((title, path, color, _), column) in enumerate(zip(columns, blocks, strict=True)):
        x, y = 16 + column_index * (width + 14), 16
        picture.box(x, y, width, tallest + 54, color)
        picture.text(x + 12, y + 22, title, bold=True, room=width)
        picture.text(x + 12, y + 41, f"meshgen/{path}", size=size, color=GRAY, room=width)
        y += 54
        for name, lines in column:
            picture.box(x + 8, y, width - 16, 26 + line * len(lines))
            picture.text(x + 16, y + 17, name, size=size, bold=True, room=width - 24)
            for row, text in enumerate(lines):
                picture.text(x + 16, y + 35 + row * line, text, size=size, room=width - 24)
            y += 34 + line * len(lines)
    y = tallest + 94
    picture.arrow(WIDTH / 2, y - 23, WIDTH / 2, y - 2)
    picture.box(16, y, 748, 36 + line * len(MEMBERS), "purple")
    picture.text(28, y + 22, "the module file (.mgx)", bold=True)
    picture.text(240, y + 22, "meshgen/runtime/module_file", size=size, color=GRAY)
    for row, (names, what) in enumerate(MEMBERS.items()):
        picture.text(28, y + 44 + row * line, names, size=size)
        picture.text(240, y + 44 + row * line, what, size=size)
    return picture


def member_kinds() -> set[str]:
    """Return the names of the files and folders at the top of a module archive."""
    text = "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  %y = stablehlo.tanh %x : tensor<8xf32>\n  return %y : tensor<8xf32>\n}\n"
    members = mg.compile(text, {"x": 2}, target="cuda:sm_90").members()
    return {f"{name.partition('/')[0]}/" if "/" in name else name for name in members}


BACKWARD = """
func.func @main(%x: tensor<8192x1024xbf16>, %w1: tensor<1024x4096xbf16>, %w2: tensor<4096x1024xbf16>, %dy: tensor<8192x1024xbf16>)
    -> (tensor<1024x4096xbf16>, tensor<4096x1024xbf16>) {
  %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<8192x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<8192x4096xbf16>
  %dw2 = stablehlo.dot_general %h, %dy, contracting_dims = [0] x [0] : (tensor<8192x4096xbf16>, tensor<8192x1024xbf16>) -> tensor<4096x1024xbf16>
  %dh = stablehlo.dot_general %dy, %w2, contracting_dims = [1] x [1] : (tensor<8192x1024xbf16>, tensor<4096x1024xbf16>) -> tensor<8192x4096xbf16>
  %dw1 = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8192x1024xbf16>, tensor<8192x4096xbf16>) -> tensor<1024x4096xbf16>
  return %dw1, %dw2 : tensor<1024x4096xbf16>, tensor<4096x1024xbf16>
}
"""


def step_picture() -> Picture:
    """Draw the plan of a program with two gradients on 4 devices: launches on two streams with events, and the arena
    over the same time axis.
    """
    plan = mg.compile(BACKWARD, {"dp": 4}, in_specs={"x": mg.P("dp"), "dy": mg.P("dp")}, target="cpu").plan
    picture = Picture(WIDTH, 560, "A step: launches on two streams, and the arena over time")
    left, right = 112, 766
    scale = (right - left) / plan.step_seconds
    lanes = {0: ("compute", "orange", 52), 1: ("communicate", "green", 118)}
    picture.text(12, 26, "streams", bold=True)
    picture.text(left, 26, f"predicted step: {plan.step_seconds * 1e6:.0f} us on each of 4 devices (axis dp)", size=13, color=GRAY)  # fmt: skip
    for name, _, y in lanes.values():
        picture.text(12, y + 25, name, size=13, room=left - 14)
    records = {item.records: item for item in plan.items if item.records is not None}
    for item in plan.items:
        _, color, y = lanes[item.stream]
        x, width = left + item.start * scale, item.seconds * scale
        results = ", ".join(plan.buffers[index].name for index in item.outputs)
        picture.box(x + 1, y, width - 2, 40, color)
        picture.text(x + width / 2, y + 17, item.op if item.is_collective else item.kernel, size=13, room=width - 4, anchor="middle")  # fmt: skip
        picture.text(x + width / 2, y + 34, results, size=13, room=width - 4, color=GRAY, anchor="middle")
        for event in item.waits:
            event_x = left + records[event].end * scale
            picture.arrow(event_x - 12, 92, event_x + 8, 117)
            picture.text(event_x - 24, 110, f"event {event}", size=13, room=90, color=GRAY, anchor="end")
    _arena(picture, plan, left, scale, 196, 320)
    picture.text(left, 546, "time", size=13, color=GRAY)
    picture.arrow(left + 40, 541, right, 541)
    return picture


def _arena(picture: Picture, plan: Schedule, left: float, scale: float, top: float, height: float) -> None:
    """Draw each buffer of the arena as a rectangle: its bytes from top to bottom, its lifetime from left to right."""
    unit = height / plan.arena_bytes
    picture.text(12, top + 14, "arena", bold=True)
    picture.text(12, top + 34, "0 bytes", size=13, room=100, color=GRAY)
    picture.text(12, top + height - 2, f"{plan.arena_bytes / 1e6:.1f} MB", size=13, room=100, color=GRAY)
    colors = {"input": "gray", "temporary": "blue", "output": "purple"}
    for row, (kind, color) in enumerate(colors.items()):
        picture.labeled(12, top + 60 + 32 * row, 88, 24, kind, color, size=13)
    for index, (begin, end) in lifetimes(plan).items():
        buffer = plan.buffers[index]
        x, y, width, tall = left + begin * scale, top + buffer.offset * unit, (end - begin) * scale, buffer.type.nbytes * unit  # fmt: skip
        picture.box(x + 1, y + 1, width - 2, tall - 2, colors[buffer.kind])
        picture.text(x + 9, y + tall / 2 + 5, buffer.name, size=13, room=width - 10)


def lifetimes(plan: Schedule) -> Mapping[int, tuple[float, float]]:
    """Return, for each buffer, the predicted seconds at which its lifetime begins and ends."""
    spans: dict[int, tuple[float, float]] = dict.fromkeys(plan.inputs, (0.0, plan.step_seconds))
    for item in plan.items:
        for index in item.outputs:
            spans[index] = item.start, plan.step_seconds if plan.buffers[index].kind == "output" else item.end
        for index in item.inputs:
            begin, end = spans[index]
            replaced = any(plan.buffers[other].offset == plan.buffers[index].offset for other in item.outputs)
            spans[index] = begin, item.start if replaced else max(end, item.end)
    return spans


def layers_picture() -> Picture:
    """Draw the layers of imports in two columns. A module imports its own layer and lower layers."""
    layers, size, row_height = _layers(), 13, 30
    rows = -(-len(layers) // 2)
    picture = Picture(WIDTH, 52 + row_height * rows, "Layers of imports")
    picture.text(16, 26, "a package imports its own layer and the layers below it", size=size, color=GRAY)
    for layer, parts in enumerate(layers):
        column, row = divmod(layer, rows)
        x, y = 42 + column * 380.0, 40 + row * row_height
        picture.text(x - 28, y + 17, str(layer + 1), size=size, color=GRAY)
        for name in (part for part in parts if not part.startswith("__")):
            is_folder = (ROOT / "meshgen" / name).is_dir()
            label = name + "/" * is_folder
            picture.labeled(x, y, width_of(label, size) + 10, 24, label, COLORS.get(name, "gray" if is_folder else "white"), size=size)  # fmt: skip
            x += width_of(label, size) + 15
        assert x < 395 + column * 380, parts
    return picture


def _layers() -> tuple[tuple[str, ...], ...]:
    """Return the table that tests/test_layering.py checks."""
    tree = ast.parse((ROOT / "tests" / "test_layering.py").read_text())
    assigned = (node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS")
    return ast.literal_eval(next(assigned).value)


def pictures() -> dict[str, str]:
    """Return the texts of all pictures by file name."""
    drawn = {"pipeline": pipeline_picture, "state": state_picture, "step": step_picture, "layers": layers_picture}
    return {f"{name}.svg": draw().svg() for name, draw in drawn.items()}


if __name__ == "__main__":
    for name, text in pictures().items():
        (ROOT / "docs" / "images" / name).write_text(text)
