"""Tests of whole programs on emulated GPUs.

All ranks are in one CUDA graph, which runs in random orders with race checks. Results match the reference bitwise.

`make gpu` runs these tests on real GPUs (`steps.REAL`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import Diagnostic, MissingError, RuntimeFailure
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Kernel
from meshgen.runtime.plan import COMMUNICATION, COMPUTE, NETWORK
from tests.programs import HOSTS, NETWORKED, mlp
from tests.runtime.cuda.steps import (
    arguments,
    assert_same_bits,
    executor_of,
    filled,
    gpus,
    inspects_emulated_gpus,
    on_gpus,
    planned,
    programs,
    save,
)
from tests.runtime.test_control_flow import BRANCH, SCALE, SUMS, A
from tests.runtime.test_control_flow_by_rank import HALVES

MLIR = Path(__file__).parents[2] / "data" / "mlir"
FILES = [
    "a06_mlp_sequence_parallel", "a09_mlp_dp_tp", "b06_k_scatter_cols", "b11_summa", "b12b_uneven_k", "c08_swap", "c16_gather_both_one_dim",
    "c17_move_both", "c22_uneven_gather", "c30_even_to_offsets", "c37_three_cycle", "h06b_reduce_scatter_order",
    "h07c_all_to_all_two_axes", "h10f_shift_whole_turn", "h14_send_recv", "h15b_update_halo_2d",
]  # fmt: skip


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> LoadedModule:
    return planned(mlp(), tmp_path_factory.mktemp("mlp"))


@pytest.mark.parametrize("name", FILES)
def test_program_matches_reference_bitwise_in_every_order(name: str, tmp_path: Path) -> None:
    module = planned(str(MLIR / f"{name}.mlir"), tmp_path)
    inputs = arguments(module)
    expected = module.run(inputs)
    for seed in range(3):
        assert_same_bits(on_gpus(module, inputs, seed), expected)


COMPLEX_PRODUCT = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%z: tensor<10x3xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3xcomplex<f32>> {
  %one = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
  %0 = stablehlo.reduce(%z init: %one) applies stablehlo.multiply across dimensions = [0]
    : (tensor<10x3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
  return %0 : tensor<3xcomplex<f32>>
}
"""


def test_complex_product_reduces_over_devices(tmp_path: Path) -> None:
    module = planned(COMPLEX_PRODUCT, tmp_path)
    assert [item.op for item in module.parts[0].schedule.items if item.communicates] == ["all_reduce"]
    parts = np.random.default_rng(0).standard_normal((2, 10, 3)).astype(np.float32)
    inputs = {"z": parts[0] + 1j * parts[1]}
    (result,) = on_gpus(module, inputs)
    np.testing.assert_allclose(result, np.prod(inputs["z"].astype(np.complex128), axis=0), rtol=1e-5)


@pytest.mark.parametrize("specs", [
    {"x": ("x", ""), "w1": ("", "y"), "w2": ("y", ""), "y": ("x", "")},  # all_reduce
    {"x": ("x", ""), "w1": ("", "y"), "w2": ("y", ""), "y": ("x", "y")},  # reduce_scatter along columns
    {"x": ("", "x"), "w1": ("x", "y"), "w2": ("y", "x"), "y": ("", "")},  # reduce_scatter and all_gathers
])  # fmt: skip
def test_step_of_all_ranks_is_one_graph(specs: dict[str, tuple[str, str]], tmp_path: Path) -> None:
    module = planned(mlp(**specs), tmp_path)
    inputs, expected = arguments(module), module.run(arguments(module))
    executor = executor_of(module)
    for _ in range(3):
        assert_same_bits(executor.run(filled(module, inputs))[0], expected)
    (graph,) = executor.parts[0].graphs.values()
    launches = sum(item.op == "kernel" for item in module.schedule.items)
    assert graph.nodes >= module.ranks * len(module.schedule.items) >= module.ranks * launches
    executor.close()


@pytest.mark.parametrize("use_graphs", [True, False])
def test_networked_hosts_use_two_communication_streams(use_graphs: bool, tmp_path: Path) -> None:
    module = planned(NETWORKED, tmp_path, mesh=HOSTS)
    assert {item.stream for item in module.schedule.items} == {COMPUTE, COMMUNICATION, NETWORK}
    inputs = arguments(module)
    expected = module.run(inputs)
    for seed in range(2):
        assert_same_bits(on_gpus(module, inputs, seed, steps=2, use_graphs=use_graphs), expected)


def test_execution_without_graphs_matches_reference(module: LoadedModule) -> None:
    inputs = arguments(module)
    assert_same_bits(on_gpus(module, inputs, steps=2, use_graphs=False), module.run(inputs))


def test_warm_up_step_precedes_capture(module: LoadedModule) -> None:
    inputs, expected = filled(module, arguments(module)), module.run(arguments(module))
    executor = executor_of(module, warm_up=True)
    for graphs in (0, 1, 1):
        assert_same_bits(executor.run(inputs)[0], expected)
        assert len(executor.parts[0].graphs) == graphs


def test_stored_arguments_are_uploaded_once(tmp_path: Path) -> None:
    (tmp_path / "mlp.mlir").write_text(mlp())
    weights = {"w1": np.ones((12, 16), np.float32), "w2": np.ones((16, 12), np.float32)}
    save(tmp_path / "mlp.mgx", tmp_path / "mlp.mlir", weights=weights)
    module = mg.load(tmp_path / "mlp.mgx")
    assert module.input_names == ["x"]
    executor = executor_of(module)
    uploads: list[int] = []
    for step in range(3):
        inputs = arguments(module, seed=step)
        before = [device.upload for device in executor.devices]
        for device, upload in zip(executor.devices, before, strict=True):
            device.upload = lambda address, array, upload=upload: (uploads.append(address), upload(address, array))[1]
        assert_same_bits(executor.run(filled(module, inputs))[0], module.run(inputs))
        for device, upload in zip(executor.devices, before, strict=True):
            device.upload = upload
    assert len(uploads) == 4 * (3 + 2)  # in three steps, four ranks upload x each time, and both weights only once


@inspects_emulated_gpus
def test_executor_close_frees_all_memory(module: LoadedModule) -> None:
    api = gpus(module)
    executor = Executor(programs(module), api)
    executor.run(filled(module, arguments(module)))
    executor.close()
    assert api.machine and api.machine.memory.live == () and api.machine.used == [0] * module.ranks


@inspects_emulated_gpus
def test_abort_destroys_graphs_before_communicators(tmp_path: Path) -> None:
    module = planned(mlp(y=("x", "y")), tmp_path)
    api = gpus(module)
    assert api.machine
    executor = Executor(programs(module), api)
    executor.run(filled(module, arguments(module)))
    assert executor.graph_nodes
    executor.abort()
    assert api.machine.fault is None and api.machine.memory.live == ()


@inspects_emulated_gpus
def test_failed_executor_setup_frees_all_memory(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    api, allocate = gpus(module), Device.allocate

    def full(self: Device, nbytes: int, name: str) -> int:
        if name == "staging of rank 3":
            raise RuntimeFailure(Diagnostic("MG0604", "out of memory"))
        return allocate(self, nbytes, name)

    monkeypatch.setattr(Device, "allocate", full)
    with pytest.raises(RuntimeFailure, match="out of memory"):
        Executor(programs(module), api)
    assert api.machine and api.machine.memory.live == () and api.machine.fault is None


def test_executor_restores_current_context_of_caller(module: LoadedModule) -> None:
    """Another library, such as PyTorch, may have made a context on GPU 2 current in this thread."""
    api, inputs = gpus(module), filled(module, arguments(module))
    caller_context = api.cuda("cuDevicePrimaryCtxRetain", 2)
    api.cuda("cuCtxSetCurrent", caller_context)
    executor = Executor(programs(module), api)
    contexts = [api.cuda("cuCtxGetCurrent")]
    executor.run(inputs)
    contexts.append(api.cuda("cuCtxGetCurrent"))
    issue = executor.step_launcher()
    assert issue
    issue()
    contexts.append(api.cuda("cuCtxGetCurrent"))
    executor.wait()
    executor.close()
    assert [*contexts, api.cuda("cuCtxGetCurrent")] == [caller_context] * 4


def test_captured_step_is_one_graph_launch(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = filled(module, arguments(module))
    executor = executor_of(module)
    for _ in range(2):  # the graph is captured in the first step, on real GPUs in the second one
        executor.run(inputs)
    calls: list[str] = []
    cuda = Api.cuda
    monkeypatch.setattr(Api, "cuda", lambda self, name, *args: (calls.append(name), cuda(self, name, *args))[1])
    executor.run(inputs)
    copies = {"cuMemcpyHtoD", "cuMemcpyDtoH"}  # copies of arguments and results are allowed
    assert [name for name in calls if name not in copies and "Ctx" not in name] == ["cuGraphLaunch"]


# --- control flow --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 1, 9])
def test_host_driven_loop_matches_reference(most: int, tmp_path: Path) -> None:
    module = planned(SUMS, tmp_path)
    inputs = {"a": A, "scale": SCALE, "most": np.int32(most)}
    inputs = dict(zip(module.input_names, inputs.values(), strict=True))
    expected = module.run(inputs)
    for seed in range(3):
        assert_same_bits(on_gpus(module, inputs, seed, steps=2), expected)


def test_ranks_branch_independently_without_collectives(tmp_path: Path) -> None:
    module = planned(HALVES, tmp_path, in_specs={"a": mg.P("x")})
    rows = np.array([[1.0], [4.0], [0.1], [30.0]], np.float32)
    inputs = {module.input_names[0]: np.repeat(rows, 8, axis=1)}
    assert_same_bits(on_gpus(module, inputs), module.run(inputs))


LOOP = """func.func @main(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%x = %a, %y = %b, %i = %zero) : tensor<8x4xf32>, tensor<8x4xf32>, tensor<i32>
  cond {
    %n = stablehlo.constant dense<TRIPS> : tensor<i32>
    %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.tanh %x : tensor<8x4xf32>
    stablehlo.return %y, %t, %next : tensor<8x4xf32>, tensor<8x4xf32>, tensor<i32>
  }
  func.return %r#0, %r#1 : tensor<8x4xf32>, tensor<8x4xf32>
}
"""


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
def test_loop_with_known_trip_count_is_captured(trips: int, tmp_path: Path) -> None:
    """The two loop-carried values swap positions in every iteration."""
    module = planned(
        LOOP.replace("TRIPS", str(trips)), tmp_path, mesh={"x": 2}, in_specs={"a": mg.P("x"), "b": mg.P("x")}
    )
    inputs = arguments(module)
    executor = executor_of(module)
    for _ in range(2):
        assert_same_bits(executor.run(filled(module, inputs))[0], module.run(inputs))
    if trips > 1:  # a loop of zero or one iteration may be inlined
        assert len(executor.parts[0].graphs) == 1


@pytest.mark.parametrize(
    "op, kind, which", [("if", "i1", True), ("if", "i1", False), ("case", "i32", 0), ("case", "i32", 9)]
)
def test_host_driven_branch_matches_reference(op: str, kind: str, which: int, tmp_path: Path) -> None:
    """One branch contains a loop that the host drives, with a collective in its body."""
    module = planned(BRANCH.replace("OP", op).replace("TYPE", kind), tmp_path)
    chosen = np.array(which, np.bool_ if op == "if" else np.int32)
    inputs = dict(zip(module.input_names, (A, np.int32(3), chosen), strict=True))
    assert_same_bits(on_gpus(module, inputs), module.run(inputs))


# --- several meshes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_program_on_two_meshes_matches_reference(seed: int, tmp_path: Path) -> None:
    from tests.sharding.multi_mesh.meshes_programs import MESHES, TYPES, two_stages

    save(tmp_path / "two.mgx", two_stages, MESHES, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")})
    module = mg.load(tmp_path / "two.mgx")
    inputs = arguments(module)
    assert_same_bits(on_gpus(module, inputs, seed, steps=2), module.run(inputs))


# --- errors ---------------------------------------------------------------------------------------------------------


@inspects_emulated_gpus
def test_kernel_without_code_is_rejected_on_real_gpus(module: LoadedModule) -> None:
    api = gpus(module)
    with pytest.raises(MissingError, match=r"MG0602: kernel '.*' has no code for any GPU"):
        Executor(programs(module), Api(api.driver, None, api.nccl))


@inspects_emulated_gpus
def test_kernel_compiled_for_other_gpu_is_rejected(module: LoadedModule) -> None:
    from meshgen.runtime.cuda.code import code_of

    kernels = {name: Kernel(source="kernel.py") for name in module.kernel_names}
    program = Program(module.manifest, {}, code_of(kernels, lambda name: b"", gpus(module)))
    with pytest.raises(MissingError, match="compiled for no GPU; the device is sm_90"):
        Executor([program], gpus(module))


@inspects_emulated_gpus
def test_emulated_gpu_rejects_kernel_without_ptx(module: LoadedModule) -> None:
    from meshgen.runtime.cuda.code import code_of
    from meshgen.runtime.module_file.manifest import Binary

    binaries = {"sm_90": Binary("kernel.cubin", 32, 0, 0, 0, 128)}
    kernels = {name: Kernel(source="kernel.py", binaries=binaries) for name in module.kernel_names}
    program = Program(module.manifest, {}, code_of(kernels, lambda name: b"", gpus(module)))
    with pytest.raises(MissingError, match=r"(?s)no PTX of kernel '.*', which emulated GPUs execute.*compile it again"):
        Executor([program], gpus(module))


# --- devices that hang ----------------------------------------------------------------------------------------------


@inspects_emulated_gpus
def test_hung_local_devices_are_aborted_after_timeout(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated devices detect at once that all of them wait. The test disables this (`is_stuck`), as on real devices."""
    api = gpus(module)
    executor = Executor(programs(module), api, time_out=0.05)
    args = [np.ones(b.type.sizes, b.type.numpy_dtype) for b in module.inputs]
    monkeypatch.setattr(type(api), "is_idle", lambda *_: False)
    monkeypatch.setattr(type(api), "is_stuck", False)
    with pytest.raises(RuntimeFailure, match=r"(?s)MG0609: no device finished .* within 0.05 s.*MESHGEN_TIME_OUT"):
        executor.run([args])
    executor.abort()
    assert api.machine and api.machine.memory.live == ()
