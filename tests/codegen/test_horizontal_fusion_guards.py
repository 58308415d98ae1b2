"""Tests of launches that horizontal fusion must not join, each in a program whose other launches are joined."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from bodies import Body, tensor

import meshgen.codegen.horizontal_fusion as pass_file
from meshgen.codegen.emit.plan import Template
from meshgen.codegen.horizontal_fusion import horizontal_fusion
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.donation import donated
from meshgen.codegen.scheduling.schedule import Steps
from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_kernel
from meshgen.mesh import Axis, Mesh
from meshgen.spec import Sharding
from tests.cost_models import use

PAIR = Mesh((Axis("x", 2),))
WIDE = "f32[{},1024]"  # A launch of at least 1400 rows is large: its template restricts its partners.


class Launches:
    """A builder of a fused program. Each launch computes what a function emits into its body."""

    def __init__(self, *inputs: str) -> None:
        self.main = Body(*inputs)
        self.kernels: dict[str, Graph] = {}

    @property
    def inputs(self) -> list[Value]:
        return self.main.inputs

    def launch(self, name: str, computed: Callable[..., Value], *operands: Value) -> Value:
        body = Body(*(f"{v.type.dtype}[{','.join(map(str, v.type.sizes))}]" for v in operands), name=f"k_{name}")
        self.kernels[body.graph.name] = body.done(computed(body, *body.inputs))
        result = Value(body.graph.outputs[0].type, name)
        self.main.graph.nodes.append(Node("kernel", list(operands), [result], {"kernel": body.graph.name}))
        return result

    def map(self, name: str, *operands: Value) -> Value:
        return self.launch(name, mapped, *operands)

    def sum(self, name: str, x: Value) -> Value:
        return self.launch(name, lambda b, x: b.reduce("add", x, 1), x)

    def dot(self, name: str, x: Value, y: Value) -> Value:
        return self.launch(name, lambda b, x, y: b.dot(x, y, ((1,), (0,))), x, y)

    def all_reduce(self, x: Value) -> Value:
        return self.main.graph.add("all_reduce", [x], [x.type], {"axes": ("x",), "kind": "sum"}).result

    def done(self, *outputs: Value, donations: dict[int, int | None] | None = None) -> Module:
        graph = self.main.done(*outputs)
        in_shardings, out_shardings = ([Sharding(())] * len(values) for values in (graph.inputs, graph.outputs))
        return Module(
            PAIR,
            graph,
            "fuse",
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            kernels=self.kernels,
            donations=donations or {},
        )


class MemoryBoundLaunches(Launches):
    """A program whose first GEMM takes more memory than everything later, and whose last GEMM takes more time."""

    def __init__(self, *inputs: str) -> None:
        super().__init__("f32[2048,8]", "f32[8,8192]", "f32[8192,8]", "bf16[4096,8192]", "bf16[8192,4096]", *inputs)
        x, y, z = super().inputs[:3]
        self.least = self.dot("least", self.dot("large", x, y), z)

    @property
    def inputs(self) -> list[Value]:
        return super().inputs[5:]

    def done(self, *outputs: Value, donations: dict[int, int | None] | None = None) -> Module:
        long = self.dot("long", *super().inputs[3:5])
        return super().done(*outputs, self.least, long, donations=donations)


def mapped(b: Body, x: Value, *more: Value) -> Value:
    """Emit an element-wise function of values of one shape."""
    for y in more:
        x = b.op("multiply", x, y)
    return b.op("tanh", x)


def joined(module: Module) -> list[list[str]]:
    """Return the results of each launch in program order. Checks def-use order, and that time and memory do not grow."""
    after = horizontal_fusion(module)
    assert sorted(names(module)) == sorted(names(after))
    defined = {*module.graph.inputs}
    for node in after.graph.nodes:
        assert defined.issuperset(node.operands)
        defined.update(node.results)
    original_steps, joined_steps = (Steps(program, default_costs(DEFAULT_TARGET)) for program in (module, after))
    assert joined_steps.sequential_bytes <= original_steps.sequential_bytes
    assert joined_steps.shortest_seconds <= original_steps.shortest_seconds
    return [[v.name for v in node.results] for node in after.graph.nodes if is_kernel(node)]


def names(module: Module) -> list[str]:
    return [v.name for node in module.graph.nodes for v in node.results]


def rows(*counts: int) -> list[str]:
    return [WIDE.format(count) for count in counts]


def together(module: Module) -> list[list[str]]:
    """Return the result names of each joined launch."""
    return [names for names in joined(module) if len(names) > 1]


def test_parallel_chains_are_joined_step_by_step() -> None:
    """Check two launches that have different users but wait for the same collectives, namely none."""
    p = MemoryBoundLaunches(*rows(1400, 1500))
    ends: list[Value] = []
    for n, x in zip("xy", p.inputs, strict=True):
        y = p.map(f"a{n}", x)
        z = p.launch(f"c{n}", lambda b, x, s: b.op("subtract", x, b.wide(s, x, (0,))), y, p.sum(f"b{n}", y))
        ends.append(p.sum(f"d{n}", z))
    assert together(p.done(*ends)) == [["ax", "ay"], ["bx", "by"], ["cx", "cy"], ["dx", "dy"]]


def test_launch_is_not_delayed_past_its_first_user() -> None:
    p = MemoryBoundLaunches(*rows(1400, 1500), "f32[1024,64]")
    x, y, w = p.inputs
    a = p.map("a", x)
    early, b, late = p.sum("early", a), p.map("b", y), p.dot("late", a, w)
    assert joined(p.done(early, b, late))[2:-1] == [["a", "b"], ["early"], ["late"]]


def test_launch_is_not_advanced_past_its_last_operand() -> None:
    p = MemoryBoundLaunches(*rows(1400, 1500, 1600), "f32[1024,1024]", "bf16[64,96]", "bf16[96,64]")
    x, y, z, w, v, u = p.inputs
    first = p.dot("first", x, w)
    between = p.map("between", y)
    user = p.sum("user", between)
    second = p.dot("second", v, u)
    c = p.map("c", first)
    d = p.launch("d", lambda b, z, s: b.op("add", z, b.op("convert", b.wide(b.op("slice", s, start=(0, 0), limit=(1, 1), stride=(1, 1)), z, (0, 1)), to="f32[1600,1024]")), z, second)  # fmt: skip
    assert joined(p.done(user, c, d))[3:] == [["between"], ["user"], ["second", "long"], ["c", "d"]]


def test_large_launches_of_unequal_templates_are_not_joined() -> None:
    p = MemoryBoundLaunches(*rows(1400, 1500, 3))
    x, y, z = p.inputs
    assert together(p.done(p.sum("sum", x), p.map("map", y), p.map("small", z))) == [["map", "small"]]


def updates(p: Launches, *names: str) -> list[Value]:
    """Return one launch per input, which waits for an all_reduce of that input. A launch named `s...` sums rows."""
    return [
        (p.sum if name.startswith("s") else p.map)(name, p.all_reduce(x))
        for name, x in zip(names, p.inputs, strict=False)
    ]


def test_last_launches_after_unequal_collectives_are_joined() -> None:
    """Check launches that wait for different messages. Joining them does not lengthen the step, since a GEMM starts
    last.
    """
    p = MemoryBoundLaunches(*rows(1400, 1500))
    assert together(p.done(*updates(p, "m", "n"))) == [["m", "n"]]


def test_last_launches_are_joined_by_template() -> None:
    p = MemoryBoundLaunches(*rows(1400, 1500, 1600, 1700))
    assert together(p.done(*updates(p, "m1", "s1", "m2", "s2"))) == [["m1", "m2"], ["s1", "s2"]]


def test_last_launches_are_joined_only_within_memory() -> None:
    """Check a program whose memory limit allows only two of the three GEMM results to be alive together."""
    p = MemoryBoundLaunches("f32[6000,8]", "f32[6100,8]", "f32[6200,8]", "f32[8,1024]")
    *messages, w = p.inputs
    products = [p.sum(f"s{n}", p.dot(f"p{n}", p.all_reduce(x), w)) for n, x in enumerate(messages)]
    assert together(p.done(*products)) == [["s0", "s2"]]


def test_launches_before_unequal_collectives_are_not_joined() -> None:
    """Check that the launches before two messages stay separate, so that the first message does not wait for both.

    Launches without a message are joined.
    """
    p = MemoryBoundLaunches(*rows(1400, 1500, 3, 4))
    x, y, z, w = p.inputs
    first, second = p.map("first", x), p.map("second", y)
    messages = p.all_reduce(first), p.all_reduce(second)
    assert together(p.done(p.map("a", z), p.map("b", w), *messages)) == [["a", "b"]]


def test_launches_after_unequal_collectives_are_not_joined() -> None:
    p = MemoryBoundLaunches(*rows(1400, 1500, 3, 4))
    x, y, z, w = p.inputs
    first, second = updates(p, "m", "n")
    x, y = (p.launch(f"sum of {v.name}", lambda b, x: b.reduce("add", x, 0), v) for v in (first, second))
    assert together(p.done(p.map("a", z), p.map("b", w), p.all_reduce(p.map("both", x, y)))) == [["a", "b"]]


def test_launch_that_is_not_joined_is_unchanged() -> None:
    p = Launches(*rows(3, 4), "f32[8,16]", "f32[16,8]")
    x, y, *factors = p.inputs
    module = p.done(p.dot("dot", *factors), p.map("a", x), p.map("b", y))
    assert module.graph.nodes[0] in horizontal_fusion(module).graph.nodes


def test_advanced_launches_read_before_overwriting() -> None:
    """Check a launch that reads a donated input, and a later launch that overwrites this input.

    The reader also needs a view that is computed late, so joining moves it close to the writer.
    """
    p = MemoryBoundLaunches(*rows(1400, 1500, 1500, 1500), "f32[1,8]", "f16[1024,8]", "f32[8,1024]")
    x, y, owned, step, row, w, v = p.inputs
    vector = p.dot("vector", row, v)
    a = p.sum("a", x)
    of_a = p.launch(
        "of a",
        lambda k, a, row: k.dot(k.op("reshape", a, to="f32[1400,1]"), row, ((1,), (0,)), precision=("HIGHEST",) * 2),
        a,
        row,
    )
    b = p.map("b", y)
    of_b = p.launch("of b", lambda k, b, w: k.dot(k.op("convert", b, to="f16[1500,1024]"), w, ((1,), (0,))), b, w)
    offset = p.main.graph.add("view", [vector], [tensor("f32[1024]")], {}).result
    read = p.launch("read", lambda k, x, v: k.reduce("add", k.op("add", x, k.wide(v, x, (1,))), 1), owned, offset)
    written = p.map("written", owned, step)
    module = p.done(of_a, of_b, read, written, donations={5 + 2: 3})
    assert together(module) == [["a", "read"], ["b", "written"]]
    assert donated(horizontal_fusion(module)).over


@pytest.mark.parametrize("counts", [(1, 1), (1, 2), (2, 2)])
def test_launches_of_a_branch_are_joined(counts: tuple[int, int]) -> None:
    p = Launches("i32[]", *rows(3, 4))
    index, x, y = p.inputs
    branches: list[Graph] = []
    for branch, count in enumerate(counts):
        p.main.graph.nodes = []
        mapped_values = [p.map(f"{branch} {n}", v) for n, v in enumerate([x, y])][-count:]
        branches.append(Graph("", [], p.main.graph.nodes[-count:], [x, y][:-count] + mapped_values))
    case = Node("case", [index], [Value(v.type) for v in (x, y)], {}, None, None, tuple(branches))
    p.main.graph.nodes = [case]
    module = p.done(*case.results, p.map("after", case.results[0]))
    after = horizontal_fusion(module)
    assert (after is module) == (counts == (1, 1))
    for before, now, count in zip(branches, after.graph.nodes[0].regions, counts, strict=True):
        assert len(now.nodes) == 1
        assert (now is before) == (count == 1)


def test_small_launch_joins_any_template_up_to_a_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def launches(limit: int) -> list[list[str]]:
        use(monkeypatch, {"fusion.sibling_bytes": limit}, pass_file)
        p = Launches(*rows(1400, 3))
        x, y = p.inputs
        return joined(p.done(p.sum("sum", x), p.map("map", y)))

    nbytes = 2 * 3 * 1024 * 4
    assert launches(nbytes) == [["sum", "map"]]
    assert launches(nbytes - 1) == [["sum"], ["map"]]


def test_gated_launches_do_not_prevent_other_joins() -> None:
    p = Launches("f32[64,96]", "f32[96,80]", "f32[96,80]", "f32[64,64]", "f32[64,48]")
    x, w, v, y, z = p.inputs
    first = p.dot("one", y, z)
    gated = p.launch("gated", lambda b, x, w, v: b.op("multiply", *(b.dot(x, weight, ((1,), (0,))) for weight in (w, v))), x, w, v)  # fmt: skip
    assert together(p.done(first, gated, p.dot("two", x, w))) == [["one", "two"]]


def test_empty_launches_do_not_prevent_other_joins() -> None:
    p = Launches("f32[0,4]", *rows(3, 4))
    assert together(p.done(*map(p.map, ("empty", "a", "b"), p.inputs))) == [["a", "b"]]


def test_launches_without_a_common_template_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Launches(*rows(3, 4))
    module = p.done(*(p.map(x.name, x) for x in p.inputs))
    template_of = pass_file.recorded_template

    def template_of_one(body: Graph) -> Template | None:
        return None if len(body.outputs) > 1 else template_of(body)

    monkeypatch.setattr(pass_file, "recorded_template", template_of_one)
    assert together(module) == []


def random_launches(seed: int) -> Module:
    """Return random maps, normalized rows and all_reduces of earlier values."""
    choices = random.Random(seed)
    p = Launches(*rows(1500) * choices.randint(3, 6))
    values, used = [*p.inputs], set[Value]()
    for n in range(choices.randint(6, 18)):
        x, y, share = choices.choice(values[-6:]), choices.choice(values), choices.random()
        used |= {x, y} if share >= 0.7 else {x}
        values.append(
            p.all_reduce(x)
            if share < 0.3
            else p.launch(f"r{n}", normalized, x)
            if share < 0.5
            else p.map(f"m{n}", *{x: 0, y: 0} if share >= 0.7 else (x,))
        )
    return p.done(*(v for v in values if v not in used and v not in p.inputs))


def normalized(b: Body, x: Value) -> Value:
    return b.op("multiply", x, b.wide(b.reduce("add", x, 1), x, (0,)))


@pytest.mark.parametrize("seed", [0, 1, 198, 412, 490, 1406])
def test_joined_step_is_not_longer(seed: int) -> None:
    """Check seeds for which a list schedule with fewer launches takes longer."""
    joined(random_launches(seed))
