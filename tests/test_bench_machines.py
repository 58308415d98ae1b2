"""`python -m bench.machines`: it compares plans for a machine with plans for a single host, and lists collectives by
class of links.
"""

from __future__ import annotations

from bench.machines import chosen, measured, one_host, table
from meshgen.cost_model.model import DEFAULT
from meshgen.machine.profiles import MACHINES
from tests.programs import mlp


def test_chosen_programs_use_two_and_sixteen_hosts() -> None:
    meshes = [(program.name, program.mesh.by_name) for program in chosen()]
    assert ("train_dp_tp_4096_16", {"dp": 2, "tp": 8}) in meshes and (
        "train_dp_tp_4096_128",
        {"dp": 16, "tp": 8},
    ) in meshes
    assert ("train_zero3_4096_16", {"dp": 16, "tp": 1}) in meshes


def test_measured_row_lists_the_links_of_the_plan() -> None:
    text = mlp(y=("", "")).replace('"x"=2', '"x"=8')
    row = measured(chosen()[0], text, "dgx-h100")
    assert [(link["name"], link["axes"]) for link in row.links] == [("nvlink", ["y"]), ("infiniband", ["x"])]
    assert row.aware <= row.unaware * DEFAULT.scheduling.same_step and row.step <= row.aware
    assert "infiniband (x): 1, " in table([row])


def test_one_host_machine_holds_all_devices() -> None:
    (link,) = one_host(MACHINES["dgx-a100"]).links
    assert link.devices is None and link.bytes_per_second == MACHINES["dgx-a100"].links[0].bytes_per_second
