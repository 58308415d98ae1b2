"""`python -m bench.machines` compares the plan for a machine with the plan for one host, and says what each class of links carries."""

from __future__ import annotations

from bench.machines import chosen, measured, one_host, table
from meshgen.cost_model.model import DEFAULT
from meshgen.machine.profiles import MACHINES
from tests.programs import mlp


def test_programs_are_on_two_and_on_sixteen_hosts() -> None:
    found = [(program.name, program.mesh.by_name) for program in chosen()]
    assert ("train_dp_tp_4096_16", {"dp": 2, "tp": 8}) in found and (
        "train_dp_tp_4096_128",
        {"dp": 16, "tp": 8},
    ) in found
    assert ("train_zero3_4096_16", {"dp": 16, "tp": 1}) in found


def test_a_row_has_the_links_that_the_plan_uses() -> None:
    text = mlp(y=("", "")).replace('"x"=2', '"x"=8')
    row = measured(chosen()[0], text, "dgx-h100")
    assert [(link["name"], link["axes"]) for link in row.links] == [("nvlink", ["y"]), ("infiniband", ["x"])]
    assert row.aware <= row.unaware * DEFAULT.scheduling.same_step and row.step <= row.aware
    assert "infiniband (x): 1, " in table([row])


def test_one_host_holds_all_devices() -> None:
    (link,) = one_host(MACHINES["dgx-a100"]).links
    assert link.devices is None and link.bytes_per_second == MACHINES["dgx-a100"].links[0].bytes_per_second
