from __future__ import annotations

import dataclasses
import json
import random
from types import SimpleNamespace

import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.codegen.scheduling import schedule as scheduling
from meshgen.codegen.scheduling.assembly import find_waits
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.memory import join
from meshgen.codegen.scheduling.orders import Budget, Storage, list_order
from meshgen.codegen.scheduling.timeline import Task, start_times
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import CodegenError, Location, UsageError
from meshgen.ir.attributes.base import NO_ATTRIBUTES
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.plan import ALIGNMENT, COMMUNICATION, COMPUTE, STREAMS
from meshgen.runtime.validation.checker import check
from tests.codegen.programs import costs, layers, mixed


def plan_of(module, **options):
    return scheduling.schedule(module, costs=options.pop("costs", costs()), **options)


@pytest.mark.parametrize("module", [layers(), layers(1), layers(0), mixed()], ids=["4", "1", "0", "mixed"])
def test_schedules_pass_the_checker(module):
    plan = plan_of(module)
    check(plan, module.mesh)
    assert [plan.buffers[n].type for n in plan.inputs] == [v.type for v in module.graph.inputs]
    assert [plan.buffers[n].type for n in plan.outputs] == [v.type for v in module.graph.outputs]


def test_collectives_start_as_soon_as_their_input_is_ready():
    plan = plan_of(layers(4))
    # 4 tanh kernels take 1 s each and 4 all-reduces 3 s each. The link is busy from 1 to 13 s; one more kernel follows.
    assert plan.step_seconds == pytest.approx(14.0)
    starts = [i.start for i in plan.items if i.is_collective]
    assert starts == pytest.approx([1.0, 4.0, 7.0, 10.0])


def test_kernels_that_wait_are_issued_late():
    plan = plan_of(layers(3), costs=costs(kernel=4.0))
    kernels = [i.kernel for i in plan.items if not i.is_collective]
    assert kernels == ["tanh", "tanh", "tanh", "add", "add", "add"]
    program_order = start_times(*_in_program_order(layers(3), costs(kernel=4.0)))[1]
    assert plan.step_seconds < program_order


def _in_program_order(module, model):
    tasks = scheduling.Steps(module, model).program.tasks
    return tasks, range(len(tasks))


def test_hidden_and_exposed_seconds_add_up_to_duration():
    plan = plan_of(layers(4))
    for e in plan.exposures:
        assert e.hidden + e.exposed == pytest.approx(plan.items[e.item].seconds)
    # Three kernels run beside the first all-reduce, from 1 to 4 s, and one kernel beside each of the other all-reduces.
    assert [e.hidden for e in plan.exposures] == pytest.approx([3.0, 1.0, 1.0, 1.0])
    assert plan.exposed_seconds == pytest.approx(6.0)


def test_events_are_recorded_only_across_streams():
    plan = plan_of(layers(4))
    recorder = {item.records: n for n, item in enumerate(plan.items) if item.records is not None}
    waited = [event for item in plan.items for event in item.waits]
    assert sorted(recorder) == sorted(set(waited))
    for item in plan.items:
        assert all(plan.items[recorder[event]].stream != item.stream for event in item.waits)


def test_implied_waits_are_omitted():
    tasks = [Task(COMPUTE, 1, ()), Task(COMPUTE, 1, ()), Task(COMMUNICATION, 1, (0, 1)), Task(COMMUNICATION, 1, (0,))]
    assert find_waits(tasks, range(4)) == [[], [], [1], []]


def test_offsets_are_aligned_and_signature_buffers_are_not_shared():
    plan = plan_of(mixed())
    signature_buffers = [b for n, b in enumerate(plan.buffers) if b.storage == n and b.kind != "temporary"]
    assert all(b.offset % ALIGNMENT == 0 for b in plan.buffers)
    for left in signature_buffers:
        assert all(left is r or left.end <= r.offset or r.end <= left.offset for r in signature_buffers)


def test_views_share_the_storage_of_their_operand():
    plan = plan_of(mixed())
    viewed = [b for n, b in enumerate(plan.buffers) if b.storage != n]
    assert len(viewed) == 3
    assert all(b.offset == plan.buffers[b.storage].offset for b in viewed)


def test_schedule_is_deterministic():
    assert dataclasses.replace(plan_of(layers(5)), kernels={}) == dataclasses.replace(plan_of(layers(5)), kernels={})


def test_memory_limit_selects_smaller_orders_or_is_reported():
    plan = plan_of(layers(6))
    with pytest.raises(CodegenError, match=r"MG0303.*limit of 100"):
        plan_of(layers(6), memory_limit=100)
    assert plan_of(layers(6), memory_limit=plan.arena_bytes).arena_bytes <= plan.arena_bytes


def test_unfused_ops_become_one_kernel_each():
    module = layers(1)
    for node in module.graph.nodes:
        if node.op == "kernel":
            node.op, node.attrs = node.attrs.kernel, NO_ATTRIBUTES
    module.kernels = {}
    plan = plan_of(module)
    check(plan, module.mesh)
    assert [i.kernel.split("_")[0] for i in plan.items if not i.is_collective] == ["tanh", "add"]
    assert len(plan.items[-1].inputs) == 1  # the repeated operand is passed once


def test_schedule_keeps_launched_kernels_with_unique_names():
    module = layers(1)
    module.kernels["spare"] = module.kernels["add"]
    module.kernels["tanh_0"] = module.kernels["add"]
    module.graph.nodes[0].op = "tanh"
    plan = plan_of(module)
    assert sorted(plan.kernels) == ["add", "tanh_1"]
    check(plan, module.mesh)


def shortest_step(tasks, order=()):
    """Return the minimum step time over all issue orders."""
    if len(order) == len(tasks):
        return start_times(tasks, order)[1]
    ready = [n for n, t in enumerate(tasks) if n not in order and set(t.needs) <= set(order)]
    return min(shortest_step(tasks, (*order, n)) for n in ready)


def test_list_schedules_are_near_the_optimum():
    rng, total, optimal = random.Random(2), 0.0, 0.0
    for _ in range(40):
        tasks = [
            Task(rng.choice([COMPUTE, COMPUTE, COMMUNICATION]), rng.choice([1, 2, 3, 5]), tuple(sorted(rng.sample(range(n), min(n, rng.choice([0, 1, 2]))))))
            for n in range(6)
        ]  # fmt: skip
        orders = [range(6), *(list_order(tasks, way).numbers for way in scheduling.priorities(tasks))]
        total += min(start_times(tasks, order)[1] for order in orders)
        optimal += shortest_step(tasks)
    assert optimal <= total <= 1.02 * optimal


def test_task_is_ready_when_its_last_predecessor_ends():
    # Task 1 starts after task 3 and ends before task 0. Task 2 needs tasks 0 and 1. Task 4 is on the same stream as
    # task 2 and is ready earlier.
    tasks = [Task(COMPUTE, 10, ()), Task(COMMUNICATION, 1, (3,)), Task(COMMUNICATION, 5, (0, 1)), Task(COMMUNICATION, 1, ()), Task(COMMUNICATION, 8, (3,))]  # fmt: skip
    order = list_order(tasks, lambda n: (0.0, n)).numbers
    assert order.index(4) < order.index(2)
    assert start_times(tasks, order)[1] == 15


def step_of(seconds, nbytes):
    return SimpleNamespace(
        seconds=seconds, arena_bytes=nbytes, least_bytes=nbytes - 0.05, exceeds=lambda cap: nbytes > cap
    )


@pytest.mark.parametrize(
    ("plans", "chosen"),
    [
        ([(100.0, 10), (101.9, 5)], 1),  # the plan with the fewest bytes among those within 2 % of the shortest
        ([(100.0, 10), (102.1, 5)], 0),
        ([(100.0, 10), (101.9, 9.9)], 0),  # saving 1 % of the bytes does not justify 2 % of the time
        ([(100.0, 10), (99.0, 10)], 1),  # for equal bytes, the shortest plan
    ],
)
def test_order_prefers_less_memory_when_times_tie(plans, chosen):
    steps = [step_of(seconds, nbytes) for seconds, nbytes in plans]
    assert scheduling.best_order_within(steps, 10) is steps[chosen]
    assert scheduling.best_order_within(steps, 7) is (steps[1] if plans[1][1] == 5 else None)


def branches(count, nbytes, seconds):
    """Return branches that each gather a weight and use it once.

    If all weights are gathered ahead of their use, all of them are alive at the same time.
    """
    kernel, gather = (Task(stream, time, ()) for stream, time in ((COMPUTE, seconds), (COMMUNICATION, 1.0)))
    tasks, storages = [], []
    for branch in range(count):
        needs = (2 * branch, 2 * branch - 1) if branch else (0,)
        tasks += [gather, kernel._replace(needs=needs)]
        storages += [
            Storage(nbytes, 2 * branch, (2 * branch + 1,)),
            Storage(1, 2 * branch + 1, (2 * branch + 3,) if branch < count - 1 else ()),
        ]
    return tasks, tuple(storages)


def most_alive(order, tasks, storages):
    """Return the maximum number of bytes alive at the same time.

    A storage counts until the vector clock of a task shows that all reads have finished.
    """
    ends, alive, peak, now = {}, set(), 0, [(0,) * STREAMS] * STREAMS
    for index in order.numbers:
        task = order.tasks(tasks)[index]
        clock = join([now[task.stream], *(ends[need] for need in task.needs)])

        def ended(user, clock=clock):
            return user in ends and clock[tasks[user].stream] >= ends[user][tasks[user].stream]

        alive = {s for s in alive if s.stays or not all(map(ended, (s.maker, *(u for u in s.users if u < len(tasks)))))}
        alive |= {s for s in storages if s.maker == index}
        peak = max(peak, sum(s.nbytes for s in alive))
        now[task.stream] = ends[index] = tuple(c + (s == task.stream) for s, c in enumerate(clock))
    return peak


@pytest.mark.parametrize("held", [1, 2, 3])
@pytest.mark.parametrize("seconds", [0.5, 1.0, 4.0])
def test_memory_budget_delays_prefetched_weights(held, seconds):
    tasks, storages = branches(8, 100, seconds)
    budget = Budget(100 * held + 10, storages)
    free, capped = (list_order(tasks, lambda n: (0.0, n), budget_or_none) for budget_or_none in (None, budget))
    assert sorted(capped.numbers) == sorted(free.numbers) == list(range(16))
    assert most_alive(capped, tasks, storages) <= budget.nbytes
    assert seconds < 4 or budget.nbytes < most_alive(free, tasks, storages)
    step = start_times(capped.tasks(tasks), capped.numbers)[1]
    sequential_seconds = 8 * (1 + seconds)
    assert step == pytest.approx(sequential_seconds if held == 1 else 1 + 7 * max(1, seconds) + seconds)


def test_random_programs_are_issued_in_dependence_order():
    rng = random.Random(5)
    for _ in range(200):
        count = rng.randrange(1, 20)
        tasks = [Task(rng.randrange(2), rng.choice([0, 1, 2]), tuple(sorted(rng.sample(range(n), min(n, rng.randrange(3)))))) for n in range(count)]  # fmt: skip
        users = [tuple(u for u in range(count) if n in tasks[u].needs) for n in range(count)]
        storages = tuple(Storage(rng.randrange(4), n, users[n], rng.random() < 0.1) for n in range(count))
        order = list_order(tasks, lambda n: (0.0, n), Budget(rng.randrange(8), storages))
        positions = {number: positions for positions, number in enumerate(order.numbers)}
        assert sorted(order.numbers) == list(range(count))
        assert all(positions[need] < positions[n] for n, task in enumerate(order.tasks(tasks)) for need in task.needs)


def _gradients(count):
    """Return the text of a program that sums the squares of all-reduced gradients.

    Running all GEMMs first hides more communication but keeps more bytes alive.
    """
    matrix = "tensor<2048x2048xf32>"
    sharding = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
    lines = [
        'sdy.mesh @mesh = <["x"=8]>',
        f"func.func @main(%x: {matrix} {sharding}, %g: {matrix} {sharding}) -> tensor<f32> {{",
    ]
    lines.append("  %zero = stablehlo.constant dense<0.0> : tensor<f32>")
    total = "%zero"
    for n in range(count):
        lines += [
            f"  %c{n} = stablehlo.constant dense<{n + 1}.0> : {matrix}",
            f"  %x{n} = stablehlo.multiply %x, %c{n} : {matrix}",
            f"  %d{n} = stablehlo.dot_general %x{n}, %g, contracting_dims = [0] x [0] : ({matrix}, {matrix}) -> {matrix}",
            f"  %t{n} = stablehlo.tanh %d{n} : {matrix}",
            f"  %s{n} = stablehlo.reduce(%t{n} init: %zero) applies stablehlo.add across dimensions = [0, 1] : ({matrix}, tensor<f32>) -> tensor<f32>",
            f"  %a{n} = stablehlo.add {total}, %s{n} : tensor<f32>",
        ]
        total = f"%a{n}"
    return "\n".join([*lines, f"  return {total} : tensor<f32>", "}"])


GRADIENTS = _gradients(3)


def test_overlap_uses_more_memory_only_if_allowed():
    executable = mg.compile(GRADIENTS, target="cpu")
    fused = executable.fused
    steps = scheduling.Steps(fused, default_costs("cuda:sm_90"))
    # If the program runs in chunks, its memory limit is the memory of the program without chunks.
    cap = steps.sequential_bytes if fused.memory_cap is None else fused.memory_cap
    assert executable.memory.peak_bytes <= cap
    assert executable.cost.step_seconds <= steps.in_order.seconds
    shorter = executable.cost.shorter
    assert shorter and shorter.step_seconds < executable.cost.step_seconds / DEFAULT.scheduling.same_step
    assert shorter.memory_bytes > cap
    allowed = mg.compile(GRADIENTS, target="cpu", memory_limit=shorter.memory_bytes)
    # Chunks may shorten the step further. Step times within the factor `same_step` count as equal.
    assert allowed.cost.step_seconds <= DEFAULT.scheduling.same_step * shorter.step_seconds
    assert allowed.memory.peak_bytes <= shorter.memory_bytes
    with pytest.raises(CodegenError, match=r"MG0303.*the limit of 1 kB"):
        mg.compile(GRADIENTS, target="cpu", memory_limit=1000)


def test_memory_limit_option_is_applied(tmp_path, capsys):
    (tmp_path / "p.mlir").write_text(GRADIENTS)
    words = ["explain", str(tmp_path / "p.mlir"), "--json"]

    def explain(*options):
        assert main([*words, *options]) == 0
        return json.loads(capsys.readouterr().out)

    default = explain()
    shorter = default["shorter_with_memory"]
    allowed = explain("--memory-limit", f"{shorter['memory_bytes']}")
    assert allowed["step_seconds"] <= DEFAULT.scheduling.same_step * shorter["step_seconds"]
    assert shorter["step_seconds"] < default["step_seconds"]
    assert main([*words[:2], "--memory-limit", "1MB"]) == 1
    assert main([*words[:2], "--memory-limit", "much"]) == 2
    with pytest.raises(UsageError, match="memory_limit='1' is not a number of bytes"):
        mg.compile(GRADIENTS, target="cpu", memory_limit="1")


def test_unbounded_loop_with_transfers_is_rejected_with_location():
    """Check a loop without a constant trip count.

    Such a loop cannot be unrolled, and transfers inside a schedule item cannot be paired.
    """
    kind = TensorType((), "i32")
    condition, body = (Graph(name, [Value(kind)]) for name in ("condition", "body"))
    body.nodes.append(Node("transfer_send", [body.inputs[0]], [], {"channel": 0}))
    body.outputs = list(body.inputs)
    graph = Graph("main", [Value(kind)])
    graph.nodes.append(
        Node("while", [graph.inputs[0]], [Value(kind)], {}, Location("a.py", 3), None, (condition, body))
    )
    with pytest.raises(CodegenError, match=r"a.py:3: error MG0301: 'while' has transfers to or from another mesh"):
        plan_of(Module(make_mesh({"x": 2}), graph))
