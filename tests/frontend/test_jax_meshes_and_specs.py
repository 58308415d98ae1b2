"""JAX objects that meshgen accepts without conversion: `jax.jit(f)` with args, meshes of devices, `NamedSharding`, and
patterns of paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.errors import ShardingError, UsageError

jax = pytest.importorskip("jax")
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec  # noqa: E402

X = np.arange(8, dtype=np.float32)
MESH = AbstractMesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)


@jax.jit
def apply(params: Any, x: Any, *, scale: Any) -> Any:
    return {"y": (x * params["h"][0]["w"] + params["h"][1]["w"] - params["b"]) * scale}


PARAMS = {"h": [{"w": X}, {"w": 2 * X}], "b": 3 * X}


def annotations(specs: Any, program: Any = None, mesh: Any = MESH) -> dict[str, Any]:
    program = program if program is not None else apply.lower(PARAMS, X, scale=2.0)
    module, _ = read(program, mesh, in_specs=specs)
    pairs = zip(module.graph.inputs, module.in_annotations, strict=True)
    return {value.name: (annotation.sharding.dims, annotation.open_dims) for value, annotation in pairs if annotation}


@pytest.mark.parametrize(
    "args",
    [
        {"params": PARAMS, "x": X, "scale": 2.0},
        {"scale": "f32[]", "x": "f32[8]", "params": jax.tree.map(lambda _: "f32[8]", PARAMS)},
        {
            "params": jax.tree.map(lambda _: jax.ShapeDtypeStruct((8,), "float32"), PARAMS),
            "x": mg.spec("f32[8]"),
            "scale": 1.0,
        },
    ],
    ids=["arrays", "texts", "types"],
)
def test_jitted_function_compiles_for_args(args: Any) -> None:
    executable = mg.compile(apply, {"dp": 2}, args=args, target="cpu")
    expected = apply(PARAMS, X, scale=2.0)["y"]
    for actual in (executable(PARAMS, X, scale=2.0), executable(params=PARAMS, x=X, scale=2.0)):
        np.testing.assert_allclose(actual["y"], expected, rtol=1e-6)


def test_static_and_donated_arguments_of_jit_are_honored() -> None:
    jitted = jax.jit(lambda x, y, how: x + y if how == "add" else x - y, static_argnames=("how",), donate_argnums=1)
    executable = mg.compile(jitted, {"dp": 2}, args={"x": X, "y": X, "how": "subtract"}, target="cpu")
    np.testing.assert_array_equal(executable(3 * X, X), 2 * X)
    assert list(executable.stages["import"].donations) == [1]


@pytest.mark.parametrize(
    "program, args, texts",
    [
        (apply, None, "a function of jax.jit needs its arguments"),
        (apply, (PARAMS, X), "JAX cannot lower the function for these args.*scale"),
        (apply, {"params": PARAMS, "x": X[:3], "scale": 1.0}, "JAX cannot lower the function for these args.*shape"),
        (jax.jit(lambda x: x).lower(X).compile(), None, "a program that JAX has compiled"),
    ],
    ids=["no args", "a missing argument", "a bad shape", "compiled"],
)
def test_jax_lowering_error_has_diagnostic_code(program: Any, args: Any, texts: str) -> None:
    with pytest.raises(UsageError, match=f"MG0001.*{texts}"):
        mg.compile(program, {"dp": 2}, args=args, target="cpu")


def test_jax_meshes_are_accepted() -> None:
    devices = jax.make_mesh((1,), ("dp",))
    for mesh, axes in ((MESH, {"dp": 2, "tp": 4}), (devices, {"dp": 1}), ({"mesh": MESH}, {"dp": 2, "tp": 4})):
        module, _ = read(apply.lower(PARAMS, X, scale=2.0), mesh)
        assert module.mesh.by_name == axes


def test_named_shardings_are_accepted_as_specs() -> None:
    def named(*spec: Any) -> NamedSharding:
        return NamedSharding(MESH, PartitionSpec(*spec))

    trees = jax.tree.map(lambda _: named("tp"), PARAMS)
    expected = {f"params.{name}": ((("tp",),), (False,)) for name in ("b", "h.0.w", "h.1.w")}
    assert annotations({"params": trees}) == annotations([trees, None, None]) == expected
    assert annotations({"x": named(("dp", "tp"))}) == {"x": ((("dp", "tp"),), (False,))}
    assert annotations({"x": named(PartitionSpec.UNCONSTRAINED)}) == {"x": (((),), (True,))}
    with pytest.raises(ShardingError, match=r"MG0202.*'tp' has size 4, but here it has 2"):
        annotations({"x": named("tp")}, mesh={"tp": 2})


def test_specs_are_structured_like_registered_class() -> None:
    state = jax.tree_util.Partial(max, X, X)  # this class is registered with JAX and has two leaves here
    lowered = jax.jit(lambda s: s.args[0] + s.args[1]).lower(state)
    specs = jax.tree.map(lambda _: PartitionSpec("dp"), state)
    assert [*annotations({"s": specs}, lowered).values()] == [((("dp",),), (False,))] * 2


@pytest.mark.parametrize(
    "pattern, names",
    [
        ("params['h'][*]['w']", ["params.h.0.w", "params.h.1.w"]),
        ("params.h[*].w", ["params.h.0.w", "params.h.1.w"]),
        ("params['h'][*]", ["params.h.0.w", "params.h.1.w"]),
        ("params[*]", ["params.b", "params.h.0.w", "params.h.1.w"]),
        ("params['h'][1]['w']", ["params.h.1.w"]),
        ("params.*", ["params.b", "params.h.0.w", "params.h.1.w"]),
        ("*.w", ["params.h.0.w", "params.h.1.w"]),
        ("params.[ab]", ["params.b"]),
    ],
)
def test_path_pattern_selects_leaves(pattern: str, names: list[str]) -> None:
    assert list(annotations({pattern: "dp"})) == names


def test_pattern_with_wildcard_skips_scalars() -> None:
    state = {"w": X, "step": {"w": np.float32(0)}}
    step = jax.jit(lambda state: state["w"] * state["step"]["w"])
    assert [*annotations({"*.w": mg.P("dp")}, step.lower(state))] == ["state.w"]
    for name in ("*.step.w", "state.step.w"):
        with pytest.raises(ShardingError, match=r"MG0204: .*the tensor has rank 0"):
            mg.compile(step.lower(state), {"dp": 2}, in_specs={name: mg.P("dp")}, target="cpu")


def test_pattern_without_match_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"MG0001: unknown input 'params\['h'\]\[\*\]\['v'\]'"):
        annotations({"params['h'][*]['v']": "dp"})


def test_weights_in_files_are_named_by_path(tmp_path: Any) -> None:
    from meshgen.runtime.module_file import tensors

    executable = mg.compile(apply, {"dp": 2}, args={"params": PARAMS, "x": X, "scale": 1.0}, target="cpu")
    spellings = (["params.b", "params.h.0.w", "params.h.1.w"], ["b", "h.0.w", "h.1.w"], ["params/b", "params/h/0/w", "params/h/1/w"],
                 ["params['b']", "params['h'][0]['w']", "params['h'][1]['w']"])  # fmt: skip
    for names in spellings:
        weights = dict(zip(names, (3 * X, X, 2 * X), strict=True))
        (tmp_path / "w.safetensors").write_bytes(tensors.encode(weights))
        executable.save(tmp_path / "m.mgx", weights=tmp_path / "w.safetensors")
        np.testing.assert_array_equal(mg.load(tmp_path / "m.mgx")(X, scale=1.0)["y"], X * X - X)
        executable.save(tmp_path / "m.mgx")
        with mg.load(tmp_path / "m.mgx").session(weights=str(tmp_path / "w.safetensors")) as session:
            np.testing.assert_array_equal(np.asarray(session(X, scale=1.0)["y"]), X * X - X)
    (tmp_path / "w.safetensors").write_bytes(tensors.encode({"h.2.w": X}))
    with pytest.raises(mg.MeshgenError, match=r"MG0601.*unknown input 'h\.2\.w'"):
        executable.save(tmp_path / "m.mgx", weights=str(tmp_path / "w.safetensors"))


def test_abstract_mesh_of_jitted_function_is_used() -> None:
    placed = jax.jit(lambda x: x + 1, in_shardings=NamedSharding(MESH, PartitionSpec("tp")))
    for executable in (mg.compile(placed, args=[X], target="cpu"), mg.compile(placed.trace(X), target="cpu")):
        assert executable.mesh.size == 8
        np.testing.assert_array_equal(executable(X), X + 1)
    assert annotations(None, placed.trace(X), None) == {"x": ((("tp",),), ())}


def test_mesh_is_taken_from_named_shardings() -> None:
    sharding = jax.sharding.NamedSharding(jax.sharding.AbstractMesh((2,), ("dp",)), jax.sharding.PartitionSpec("dp"))
    for specs in ((sharding,), {"x": sharding}, ({"a": sharding},)):
        args = [{"a": "f32[8,8]"}] if isinstance(specs, tuple) and isinstance(specs[0], dict) else ["f32[8,8]"]
        program = jax.jit(lambda x: jax.tree.map(lambda a: a * 2, x))
        assert mg.compile(program, args=args, in_specs=specs, target="cpu").mesh == mg.make_mesh({"dp": 2})


def test_mesh_of_other_size_than_program_warns() -> None:
    mesh = jax.sharding.AbstractMesh((4, 2), ("dp", "tp"))
    program = jax.jit(lambda x: x * 2, in_shardings=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("dp")))
    with pytest.warns(UserWarning, match=r"MG0211: .*over Mesh\(dp=4, tp=2\).*compiled for Mesh\(dp=2, tp=4\)"):
        executable = mg.compile(program, {"dp": 2, "tp": 4}, args=["f32[8,8]"], target="cpu")
    assert [warning.code for warning in executable.warnings] == ["MG0211"]
    assert not mg.compile(program, {"dp": 4, "tp": 2}, args=["f32[8,8]"], target="cpu").warnings
