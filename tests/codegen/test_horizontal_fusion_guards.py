"""Launches that horizontal fusion must leave alone, each in a program whose other launches are joined all the same."""

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
WIDE = "f32[{},1024]"  # of 1400 rows and more a launch is large: its template decides what it is joined with


class Launches:
    """A fused program under construction; each launch computes what a function adds to its body."""

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
        given, results = ([Sharding(())] * len(values) for values in (graph.inputs, graph.outputs))
        return Module(
            PAIR,
            graph,
            "fuse",
            in_shardings=given,
            out_shardings=results,
            kernels=self.kernels,
            donations=donations or {},
        )


class Roomy(Launches):
    """A program that begins with a product that takes more memory than all that comes later, and ends with one that takes more time."""

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
    """An element-wise function of values of one shape."""
    for y in more:
        x = b.op("multiply", x, y)
    return b.op("tanh", x)


def joined(module: Module) -> list[list[str]]:
    """The results of each launch in program order, after all that it needs; the step takes no more time or memory."""
    after = horizontal_fusion(module)
    assert sorted(names(module)) == sorted(names(after))
    there = {*module.graph.inputs}
    for node in after.graph.nodes:
        assert there.issuperset(node.operands)
        there.update(node.results)
    before, now = (Steps(each, default_costs(DEFAULT_TARGET)) for each in (module, after))
    assert now.sequential_bytes <= before.sequential_bytes
    assert now.shortest_seconds <= before.shortest_seconds
    return [[v.name for v in node.results] for node in after.graph.nodes if is_kernel(node)]


def names(module: Module) -> list[str]:
    return [v.name for node in module.graph.nodes for v in node.results]


def rows(*counts: int) -> list[str]:
    return [WIDE.format(count) for count in counts]


def together(module: Module) -> list[list[str]]:
    """The launches that are joined, each with its results."""
    return [names for names in joined(module) if len(names) > 1]


def test_chains_beside_each_other_are_joined_at_each_step() -> None:
    """Launches that different ones are needed for wait for the same collectives, none."""
    p = Roomy(*rows(1400, 1500))
    ends: list[Value] = []
    for n, x in zip("xy", p.inputs, strict=True):
        y = p.map(f"a{n}", x)
        z = p.launch(f"c{n}", lambda b, x, s: b.op("subtract", x, b.wide(s, x, (0,))), y, p.sum(f"b{n}", y))
        ends.append(p.sum(f"d{n}", z))
    assert together(p.done(*ends)) == [["ax", "ay"], ["bx", "by"], ["cx", "cy"], ["dx", "dy"]]


def test_a_launch_is_not_delayed_past_the_first_of_its_users() -> None:
    p = Roomy(*rows(1400, 1500), "f32[1024,64]")
    x, y, w = p.inputs
    a = p.map("a", x)
    early, b, late = p.sum("early", a), p.map("b", y), p.dot("late", a, w)
    assert joined(p.done(early, b, late))[2:-1] == [["a", "b"], ["early"], ["late"]]


def test_launches_are_not_advanced_past_the_last_that_one_of_them_needs() -> None:
    p = Roomy(*rows(1400, 1500, 1600), "f32[1024,1024]", "bf16[64,96]", "bf16[96,64]")
    x, y, z, w, v, u = p.inputs
    first = p.dot("first", x, w)
    between = p.map("between", y)
    user = p.sum("user", between)
    second = p.dot("second", v, u)
    c = p.map("c", first)
    d = p.launch("d", lambda b, z, s: b.op("add", z, b.op("convert", b.wide(b.op("slice", s, start=(0, 0), limit=(1, 1), stride=(1, 1)), z, (0, 1)), to="f32[1600,1024]")), z, second)  # fmt: skip
    assert joined(p.done(user, c, d))[3:] == [["between"], ["user"], ["second", "long"], ["c", "d"]]


def test_large_launches_of_unequal_templates_stay_apart() -> None:
    p = Roomy(*rows(1400, 1500, 3))
    x, y, z = p.inputs
    assert together(p.done(p.sum("sum", x), p.map("map", y), p.map("small", z))) == [["map", "small"]]


def updates(p: Launches, *names: str) -> list[Value]:
    """A launch for each input, after an all_reduce of its own: `s...` sum rows."""
    return [
        (p.sum if name.startswith("s") else p.map)(name, p.all_reduce(x))
        for name, x in zip(names, p.inputs, strict=False)
    ]


def test_last_launches_that_wait_for_unequal_messages_are_joined() -> None:
    """The step is not longer: a product begins last."""
    p = Roomy(*rows(1400, 1500))
    assert together(p.done(*updates(p, "m", "n"))) == [["m", "n"]]


def test_last_launches_are_joined_by_template() -> None:
    p = Roomy(*rows(1400, 1500, 1600, 1700))
    assert together(p.done(*updates(p, "m1", "s1", "m2", "s2"))) == [["m1", "m2"], ["s1", "s2"]]


def test_last_launches_take_no_more_memory_together() -> None:
    """There is room for two of the three products that are summed."""
    p = Roomy("f32[6000,8]", "f32[6100,8]", "f32[6200,8]", "f32[8,1024]")
    *messages, w = p.inputs
    products = [p.sum(f"s{n}", p.dot(f"p{n}", p.all_reduce(x), w)) for n, x in enumerate(messages)]
    assert together(p.done(*products)) == [["s0", "s2"]]


def test_launches_before_unequal_messages_stay_apart() -> None:
    """The first message would wait for both; others are joined all the same."""
    p = Roomy(*rows(1400, 1500, 3, 4))
    x, y, z, w = p.inputs
    first, second = p.map("first", x), p.map("second", y)
    messages = p.all_reduce(first), p.all_reduce(second)
    assert together(p.done(p.map("a", z), p.map("b", w), *messages)) == [["a", "b"]]


def test_launches_after_unequal_messages_stay_apart() -> None:
    p = Roomy(*rows(1400, 1500, 3, 4))
    x, y, z, w = p.inputs
    first, second = updates(p, "m", "n")
    x, y = (p.launch(f"sum of {v.name}", lambda b, x: b.reduce("add", x, 0), v) for v in (first, second))
    assert together(p.done(p.map("a", z), p.map("b", w), p.all_reduce(p.map("both", x, y)))) == [["a", "b"]]


def test_a_launch_that_is_not_joined_stays_as_it_is() -> None:
    p = Launches(*rows(3, 4), "f32[8,16]", "f32[16,8]")
    x, y, *factors = p.inputs
    module = p.done(p.dot("dot", *factors), p.map("a", x), p.map("b", y))
    assert module.graph.nodes[0] in horizontal_fusion(module).graph.nodes


def test_a_value_is_read_before_it_is_overwritten_where_both_launches_are_advanced() -> None:
    """The reader needs a view that stands behind the place of the writer."""
    p = Roomy(*rows(1400, 1500, 1500, 1500), "f32[1,8]", "f16[1024,8]", "f32[8,1024]")
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
    number, x, y = p.inputs
    branches: list[Graph] = []
    for branch, count in enumerate(counts):
        p.main.graph.nodes = []
        made = [p.map(f"{branch} {n}", v) for n, v in enumerate([x, y])][-count:]
        branches.append(Graph("", [], p.main.graph.nodes[-count:], [x, y][:-count] + made))
    case = Node("case", [number], [Value(v.type) for v in (x, y)], {}, None, None, tuple(branches))
    p.main.graph.nodes = [case]
    module = p.done(*case.results, p.map("after", case.results[0]))
    after = horizontal_fusion(module)
    assert (after is module) == (counts == (1, 1))
    for before, now, count in zip(branches, after.graph.nodes[0].regions, counts, strict=True):
        assert len(now.nodes) == 1
        assert (now is before) == (count == 1)


def test_a_small_launch_goes_with_either_template_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def launches(limit: int) -> list[list[str]]:
        use(monkeypatch, {"fusion.sibling_bytes": limit}, pass_file)
        p = Launches(*rows(1400, 3))
        x, y = p.inputs
        return joined(p.done(p.sum("sum", x), p.map("map", y)))

    nbytes = 2 * 3 * 1024 * 4
    assert launches(nbytes) == [["sum", "map"]]
    assert launches(nbytes - 1) == [["sum"], ["map"]]


def test_launches_of_several_products_each_keep_none_from_being_joined() -> None:
    p = Launches("f32[64,96]", "f32[96,80]", "f32[96,80]", "f32[64,64]", "f32[64,48]")
    x, w, v, y, z = p.inputs
    one = p.dot("one", y, z)
    gated = p.launch("gated", lambda b, x, w, v: b.op("multiply", *(b.dot(x, each, ((1,), (0,))) for each in (w, v))), x, w, v)  # fmt: skip
    assert together(p.done(one, gated, p.dot("two", x, w))) == [["one", "two"]]


def test_launches_of_nothing_keep_none_from_being_joined() -> None:
    p = Launches("f32[0,4]", *rows(3, 4))
    assert together(p.done(*map(p.map, ("empty", "a", "b"), p.inputs))) == [["a", "b"]]


def test_launches_without_a_common_template_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Launches(*rows(3, 4))
    module = p.done(*(p.map(x.name, x) for x in p.inputs))
    template_of = pass_file.recorded_template

    def template_of_one(body: Graph) -> Template | None:
        return None if len(body.outputs) > 1 else template_of(body)

    monkeypatch.setattr(pass_file, "recorded_template", template_of_one)
    assert together(module) == []


def random_launches(seed: int) -> Module:
    """Maps, normalized rows and messages of earlier values."""
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
def test_the_step_takes_no_longer(seed: int) -> None:
    """Of list schedules, some of fewer launches take longer."""
    joined(random_launches(seed))
