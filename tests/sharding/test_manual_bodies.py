"""Partly manual computations with reshards of free axes in their bodies: collectives, all stages, text, and execution."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.ir.graph import Module, TensorType
from meshgen.ir.regions import all_nodes
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages, verify_program
from meshgen.testing.generators import OPS, Writer, collectives
from meshgen.testing.generators.shardings import open_body, random_annotation, random_mesh
from meshgen.testing.oracle import check
from meshgen.testing.random_programs import find_fault
from tests.trials import trials


def computation(body: str, shape: str, ends: tuple[str, str], *, mesh: str = '"x"=2, "y"=2, "z"=2', axes: str = '"x"',
                tile: str = "") -> str:  # fmt: skip
    """Return a program with one manual computation from %b to %r, both of one shape."""
    tile = tile or shape
    return f"""sdy.mesh @mesh = <[{mesh}]>
func.func @main(%a: tensor<{shape}>) -> tensor<{shape}> {{
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{ends[0]}]>] out_shardings=[<@mesh, [{ends[1]}]>] manual_axes={{{axes}}} (%b: tensor<{tile}>) {{
    {body}
    sdy.return %r : tensor<{tile}>
  }} : (tensor<{shape}>) -> tensor<{shape}>
  return %0 : tensor<{shape}>
}}"""


def constrained(shape: str, *dims: str) -> str:
    """Return lines that constrain %b to each of `dims` in turn, with a tanh after each."""
    lines, value = list[str](), "%b"
    for number, spec in enumerate(dims):
        lines.append(f"%c{number} = sdy.sharding_constraint {value} <@mesh, [{spec}]> : tensor<{shape}>")
        lines.append(f"%v{number} = stablehlo.tanh %c{number} : tensor<{shape}>")
        value = f"%v{number}"
    return "\n    ".join([*lines, f"%r = stablehlo.abs {value} : tensor<{shape}>"])


ABS = "%r = stablehlo.abs %b : tensor<{}>"
PLAIN = ('{"x"}', '{"x"}')
PROGRAMS = {  # name -> (program, ops that the manual body must contain)
    "a constraint over y, then z": (computation(constrained("8xf32", '{"y"}', '{"z"}'), "16xf32", PLAIN, tile="8xf32"), "retile"),
    "parts of a tile in another order": (
        computation(constrained("8xf32", '{"y", "z"}', '{"z", "y"}'), "16xf32", PLAIN, tile="8xf32"), "permute"),
    "axes of other sizes": (
        computation(constrained("12xf32", '{"y"}', '{"z"}'), "24xf32", PLAIN, mesh='"x"=2, "y"=2, "z"=3', tile="12xf32"), "retile"),
    "uneven tiles": (computation(constrained("7xf32", '{"y"}', '{"z", "y"}'), "14xf32", PLAIN, tile="7xf32"), "retile"),
    "empty tiles of an integer": (
        computation(constrained("3xi32", '{"y", "z"}', '{"z", "y"}').replace("tanh", "negate"), "6xi32", PLAIN, tile="3xi32"), "permute"),
    "another dim": (
        computation(constrained("4x6xf32", '{"y"}, {}', '{}, {"y"}'), "8x6xf32", ('{"x"}, {}',) * 2, tile="4x6xf32"), "all_to_all"),
    "ends over other free axes": (
        computation(ABS.format("8xf32"), "16xf32", ('{"x", "y"}', '{"x", "z"}'), tile="8xf32"), "retile"),
    "no manual axes": (computation(ABS.format("4x4xf32"), "4x4xf32", ('{"y", ?}, {?}', '{"z", ?}, {?}'), axes=""), "permute"),
    "rows of neighbors": (
        computation("""%c = sdy.sharding_constraint %b <@mesh, [{"y", "z"}]> : tensor<13xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %w = "stablehlo.reduce_window"(%c, %zero) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<1x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<13xf32>, tensor<f32>) -> tensor<13xf32>
    %r = sdy.sharding_constraint %w <@mesh, [{"y", "z"}]> : tensor<13xf32>""", "26xf32", PLAIN, tile="13xf32"), "fetch_rows"),
    "a halo": (
        computation("""%s0 = shard.sharding @mesh split_axes = [[1]] : !shard.sharding
    %t = shard.shard %b to %s0 : tensor<8xf32>
    %u = stablehlo.tanh %t : tensor<8xf32>
    %s1 = shard.sharding @mesh split_axes = [[1]] halo_sizes = [1, 2] : !shard.sharding
    %v = shard.shard %u to %s1 annotate_for_users : tensor<8xf32>
    %r = stablehlo.abs %v : tensor<8xf32>""", "16xf32", PLAIN, tile="8xf32"), "update_halo"),
    "a sum over free axes, without what is padding": (
        computation("""%c = sdy.sharding_constraint %b <@mesh, [{}, {"y", "z"}]> : tensor<10x10xf32>
    %d = stablehlo.dot_general %c, %c, contracting_dims = [1] x [1] : (tensor<10x10xf32>, tensor<10x10xf32>) -> tensor<10x10xf32>
    %r = sdy.sharding_constraint %d <@mesh, [{"z", "y"}, {}]> : tensor<10x10xf32>""", "20x10xf32", ('{"x"}, {}',) * 2, tile="10x10xf32"), "reduce_scatter, mask_padding"),
}  # fmt: skip
MIXED = """sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
func.func @main(%a: tensor<16x4xf32>) -> tensor<16x4xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<8x4xf32>) {
    %1 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{"y"}, {?}]>] out_shardings=[<@mesh, [{"y"}, {?}]>] manual_axes={"y"} (%c: tensor<4x4xf32>) {
      %2 = sdy.sharding_constraint %c <@mesh, [{"z"}, {}]> : tensor<4x4xf32>
      %3 = stablehlo.sine %2 : tensor<4x4xf32>
      %4 = sdy.sharding_constraint %3 <@mesh, [{}, {"z"}]> : tensor<4x4xf32>
      %5 = stablehlo.tanh %4 : tensor<4x4xf32>
      sdy.return %5 : tensor<4x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %6 = sdy.sharding_constraint %1 <@mesh, [{"z"}, {"y"}]> : tensor<8x4xf32>
    %7 = stablehlo.sine %6 : tensor<8x4xf32>
    %8 = sdy.sharding_constraint %7 <@mesh, [{"y"}, {"z"}]> : tensor<8x4xf32>
    sdy.return %8 : tensor<8x4xf32>
  } : (tensor<16x4xf32>) -> tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}"""


def checked_stages(module: Module) -> dict[str, Module]:
    """Return the stages of a program after checking each: its text parses back, and later stages compute the same
    results.
    """
    stages = run_stages(module, Options("cpu"), Timing(), "fuse")
    for name, stage in stages.items():
        text = print_text(stage)
        assert print_text(parse_text(text)) == text
        if name in ("import", "propagate", "materialize", "optimize"):
            result = check(parse_text(text), pipeline=_to_partition)
            assert result.ok and not result.outputs[0].unbounded, (name, result.faults)
    return stages


def _to_partition(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_manual_body_contains_collective_over_free_axes(name: str) -> None:
    text, op = PROGRAMS[name]
    module = parse_text(text)
    stages = checked_stages(module)
    assert set(op.split(", ")) <= {node.op for node in all_nodes(stages["materialize"].graph)}
    assert find_fault(module, Options("cpu")) is None  # all remaining stages: schedule, file, and reference device


def test_nested_manual_computations_keep_axes_separate() -> None:
    stages = checked_stages(parse_text(MIXED))
    moved = [node for node in all_nodes(stages["partition"].graph) if node.op in ("permute", "retile")]
    partial = [{axis for axis, _ in node.attrs.source.partial} for node in moved]
    assert moved and all("x" in axes for axes in partial)
    assert all(node.attrs.source.partial == node.attrs.target.partial for node in moved)


LOOP = """%n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %c = START) : tensor<i32>, tensor<SHAPE> cond {
    %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    STEP
    stablehlo.return %j, %m : tensor<i32>, tensor<SHAPE>
  }"""
TURNED = constrained("4x4xf32", '{"y"}, {}', '{}, {"y"}')
INSIDE = (
    LOOP.replace("STEP", TURNED.replace("%b", "%c").replace("%r", "%m"))
    .replace("START", "%b")
    .replace("SHAPE", "4x4xf32")
)
ROWS = ('{"x"}, {}', '{"x"}, {?}')
PLACES = {  # programs around a partly manual computation, and other features combined with it
    "a loop in a body": computation(f"{INSIDE}\n    %r = stablehlo.tanh %w#1 : tensor<4x4xf32>", "8x4xf32", ROWS, tile="4x4xf32"),
    "uneven tiles in a loop": computation(
        f"{INSIDE}\n    %r = stablehlo.tanh %w#1 : tensor<4x4xf32>", "8x4xf32", ROWS, tile="4x4xf32", mesh='"x"=2, "y"=3'),
    "donated": computation(TURNED, "8x4xf32", ROWS, tile="4x4xf32").replace("%a: tensor<8x4xf32>", "%a: tensor<8x4xf32> {tf.aliasing_output = 0 : i32}"),
    "unused": computation(TURNED, "8x4xf32", ROWS, tile="4x4xf32").replace("(%a) in_shardings=[", "(%z, %a) in_shardings=[<@mesh, [{?}]>, ").replace(
        "(%b: ", "(%y: tensor<3xi32>, %b: ").replace(": (tensor<8x4xf32>) ->", ": (tensor<3xi32>, tensor<8x4xf32>) ->").replace("@main(", "@main(%z: tensor<3xi32>, "),
    "no rows": computation(TURNED.replace("4x4", "0x4"), "0x4xf32", ROWS, tile="0x4xf32"),
    "no axes": computation(TURNED, "4x4xf32", ("{}, {}", "{?}, {?}"), axes=""),
    "one in another, which says nothing of free axes": MIXED.replace('{"z"}', "{}").replace("{?}", "{}").replace('[{}, {"y"}]', "[{}, {}]").replace('[{"y"}, {}]> : tensor<8x4xf32>', "[{}, {}]> : tensor<8x4xf32>"),
    "in a loop": f"""sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {{
  {LOOP.replace("STEP", computation(TURNED, "8x4xf32", ROWS, tile="4x4xf32").splitlines()[2].replace("%0", "%m").replace("(%a)", "(%c)") + TURNED
                + " sdy.return %r : tensor<4x4xf32> } : (tensor<8x4xf32>) -> tensor<8x4xf32>").replace("START", "%a").replace("SHAPE", "8x4xf32")}
  return %w#1 : tensor<8x4xf32>
}}""",
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_partly_manual_computation_is_supported_in_context(name: str) -> None:
    module = parse_text(PLACES[name])
    checked_stages(module)
    assert find_fault(module, Options("cpu")) is None


def test_sharding_group_in_manual_body_is_supported() -> None:
    text = """sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"a"}, {}]>, <@mesh, [{"b"}, {}]>] out_shardings=[<@mesh, [{"b"}, {}]>] manual_axes={} (%p: tensor<8x8xf32>, %q: tensor<8x8xf32>) {
    sdy.sharding_group %p group_id = 0 : tensor<8x8xf32>
    sdy.sharding_group %q group_id = 0 : tensor<8x8xf32>
    sdy.return %p : tensor<8x8xf32>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}"""
    checked_stages(parse_text(text))


def test_explicit_permute_in_partly_manual_body_is_rejected() -> None:
    """Check a reshard between shardings of the whole mesh. It has no meaning in a body whose free axes are not lowered
    yet.
    """
    body = """%p = meshgen.permute %b on @mesh {source = #meshgen.split<@mesh, [["y"]]>, target = #meshgen.split<@mesh, [["z"]]>, shape = array<i64: 16>} : tensor<8xf32> -> tensor<8xf32>
    %r = stablehlo.abs %p : tensor<8xf32>"""
    with pytest.raises(ProgramError, match="'permute' is not allowed in its body"):
        verify_program(parse_text(computation(body, "16xf32", ('{"x", ?}', '{"x", ?}'), tile="8xf32")))


@pytest.mark.parametrize("sizes", [(1, 2, 2), (2, 1, 2), (1, 1, 2), (1, 2, 1), (2, 1, 1), (1, 1, 1)])
@pytest.mark.parametrize("axes", ['"x"', '"x", "y"', '"z"'])
def test_manual_and_free_axes_of_one_device_are_supported(sizes: tuple[int, int, int], axes: str) -> None:
    """Check axes of one device, manual or free, in boundary shardings and in the body. Another argument is sharded."""
    mesh = ", ".join(f'"{name}"={size}' for name, size in zip("xyz", sizes, strict=True))
    by_name = dict(zip("xyz", sizes, strict=True))
    manual = [name for name in "xyz" if f'"{name}"' in axes]
    free = [name for name in "xyz" if name not in manual]
    end = f"{{{axes}}}, {{?}}"
    tile = f"{8 // int(np.prod([by_name[name] for name in manual]))}x6xf32"
    body = constrained(tile, f'{{"{free[0]}"}}, {{}}', f'{{}}, {{"{free[-1]}"}}')
    text = computation(body, "8x6xf32", (end, end), mesh=mesh, axes=axes, tile=tile)
    text = text.replace("%a: tensor<8x6xf32>", f'%a: tensor<8x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{{axes}}}, {{"{free[0]}"}}]>}}')  # fmt: skip
    checked_stages(parse_text(text))


def random_partly_manual(seed: int) -> Module | None:
    """Return a program of computations with constraints over their free axes, or None if none has free axes."""
    rng = np.random.default_rng([seed, 77])
    writer = Writer(rng, random_mesh(rng), OPS)
    for _ in range(writer.integer(1, 3)):
        writer.new_input(TensorType(writer.shape(writer.integer(1, 4)), writer.one_of(writer.variety.dtypes)))
    for _ in range(3):
        collectives.manual(writer)
    graph, mesh = writer.graph, writer.mesh
    partly_manual = [node for node in graph.nodes if "in_free" in node.attrs.given]
    if not partly_manual:
        return None
    for node in partly_manual:
        open_body(Writer(rng, mesh, OPS, node.regions[0]), node)
    graph.outputs = [graph.nodes[-1].results[-1]]
    annotations = [random_annotation(writer, mesh, value) if writer.chance(0.6) else None for value in graph.inputs]
    return Module(mesh, graph, in_annotations=annotations, out_annotations=[None])


def test_random_partly_manual_programs_are_correct() -> None:
    """The test counts the collectives in the bodies, to ensure that the random programs still contain each kind."""
    op_counts = Counter[str]()
    for seed in trials(24):
        if module := random_partly_manual(seed):
            assert (fault := find_fault(module, Options("cpu"), seed)) is None, (seed, fault)
            stages = run_stages(module, Options("cpu"), Timing(), "materialize")
            op_counts.update(node.op for node in all_nodes(stages["materialize"].graph))
            back = parse_text(print_text(stages["materialize"]))
            assert check(back, pipeline=_to_partition, seed=seed).ok, seed
    assert {"retile", "all_to_all", "all_gather", "all_slice", "all_reduce"} <= set(op_counts), op_counts
