"""Changes of a module that a forger would think of: much of something, things in each other, numbers without measure."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

Json = Any
Change = Callable[[Json, random.Random, int], None]
MEASURELESS = (0.0, 5e-324, 1e30, 1e31, 1e300, 1e308, 2**53, 2**61, 2**62)


def _plans(plan: Json) -> list[Json]:
    """A step and those in its regions."""
    return [
        plan,
        *(inner for item in plan["schedule"] for region in item.get("regions", ()) for inner in _plans(region)),
    ]


def _kernel(manifest: Json, rng: random.Random) -> Json:
    return manifest["kernels"][rng.choice(list(manifest["kernels"]))]


def huge_arena(manifest: Json, rng: random.Random, size: int) -> None:
    """A buffer, often the room of a region, that no machine has; the arena holds it."""
    plan = rng.choice(_plans(manifest))
    count = 1 << rng.choice([31, 40, 50, 52, 53, 54, 61])
    place = rng.choice([item["scratch"] for item in plan["schedule"] if item.get("scratch") is not None] or [None])
    if place is None:
        place = len(plan["buffers"])
        plan["buffers"].append({"bytes": count, "dtype": "ui8", "kind": "temporary", "name": "room", "offset": plan["arena_bytes"], "shape": [count], "source": "", "storage": place})  # fmt: skip
    plan["buffers"][place] |= {"bytes": count, "shape": [count], "dtype": "ui8", "offset": -(-plan["arena_bytes"] // 256) * 256}  # fmt: skip
    plan["arena_bytes"] = plan["buffers"][place]["offset"] + count


def overlapping_views(manifest: Json, rng: random.Random, size: int) -> None:
    """Buffers that view each other, or lie where others lie."""
    buffers = rng.choice(_plans(manifest))["buffers"]
    for _ in range(rng.randrange(1, 4)):
        one, other = rng.randrange(len(buffers)), rng.randrange(len(buffers))
        if rng.random() < 0.5:
            buffers[one]["storage"] = other
        if rng.random() < 0.8:
            buffers[one]["offset"] = buffers[other]["offset"]
        if rng.random() < 0.5:
            buffers[one] |= {name: copy.deepcopy(buffers[other][name]) for name in ("bytes", "shape", "dtype")}
            buffers[one]["kind"] = rng.choice([buffers[one]["kind"], buffers[other]["kind"]])


def many_buffers(manifest: Json, rng: random.Random, size: int) -> None:
    """Buffers that nobody uses, or that all view one."""
    plan = rng.choice(_plans(manifest))
    one = copy.deepcopy(rng.choice(plan["buffers"]))
    own, first = rng.random() < 0.5, len(plan["buffers"])
    for number in range(first, first + size):
        plan["buffers"].append(one | ({"storage": number, "kind": "temporary"} if own else {}))


def long_body(manifest: Json, rng: random.Random, size: int) -> None:
    """A kernel of one operation after the other, each on the result of the last."""
    body = _kernel(manifest, rng)["body"] if manifest["kernels"] else {"outputs": []}
    if not body["outputs"]:
        return
    nodes, count, region_values = body["nodes"], len(body["inputs"]), 0
    for node in nodes:
        if node.get("regions"):
            return  # values are numbered through regions
        count += len(node["results"])
    last = body["outputs"][0]
    kinds = [value["type"] for value in (*body["inputs"], *(v for n in nodes for v in n["results"]))]
    if last >= len(kinds):
        return
    op = rng.choice(["negate", "abs", "add", "multiply", "reverse", "optimization_barrier"])
    for number in range(size):
        operands = [last] * (2 if op in ("add", "multiply") else 1)
        attrs = {"dims": {"tuple": []}} if op == "reverse" else {}
        nodes.append({"attrs": attrs, "op": op, "operands": operands, "results": [{"type": kinds[body["outputs"][0]]}]})
        last = count + number + region_values
    body["outputs"][0] = last


def many_launches(manifest: Json, rng: random.Random, size: int) -> None:
    """The same item again and again."""
    plan = rng.choice(_plans(manifest))
    if plan["schedule"]:
        plan["schedule"] += [copy.deepcopy(rng.choice(plan["schedule"])) for _ in range(size)]


def many_waits(manifest: Json, rng: random.Random, size: int) -> None:
    """Events that are waited for, recorded or not."""
    plan = rng.choice(_plans(manifest))
    for item in plan["schedule"]:
        item["waits"] = [rng.choice([0, 1, rng.randrange(1 << 40)]) for _ in range(size)]


def many_operands(manifest: Json, rng: random.Random, size: int) -> None:
    """A kernel that takes very much, and a launch that gives it."""
    plans = [(p, i) for p in _plans(manifest) for i in p["schedule"] if i["op"] == "kernel" and i["inputs"]]
    if plans:
        _, item = rng.choice(plans)
        body = manifest["kernels"][item["kernel"]]["body"]
        if rng.random() < 0.8 and not any(node.get("regions") for node in body["nodes"]):
            shift, first = size, len(body["inputs"])
            body["inputs"] += [copy.deepcopy(body["inputs"][-1]) for _ in range(size)]
            for node in body["nodes"]:
                node["operands"] = [n + shift if n >= first else n for n in node["operands"]]
            body["outputs"] = [n + shift if n >= first else n for n in body["outputs"]]
        if rng.random() < 0.8:
            item["inputs"] += item["inputs"][-1:] * size


def regions_in_regions(manifest: Json, rng: random.Random, size: int) -> None:
    """A step in a region of an item, in a region of an item, and so on; loops that run very often."""
    plans = [p for p in _plans(manifest) for i in p["schedule"] if i.get("regions")]
    if not plans:
        return
    item = next(item for item in rng.choice(plans)["schedule"] if item.get("regions"))
    for _ in range(rng.choice([1, 2, 8, 63, 64, 65, 200])):
        inner = copy.deepcopy({name: value for name, value in item.items() if name != "regions"})
        region = item["regions"][-1]
        inner["regions"] = [{**each, "schedule": list(each["schedule"])} for each in item["regions"]]
        if rng.random() < 0.5:
            inner["attrs"] = {"trips": rng.choice([1, 1 << 20, 1 << 61])}
        region["schedule"] = [*region["schedule"][:1], inner]
        item = inner


def measureless_times(manifest: Json, rng: random.Random, size: int) -> None:
    """Seconds, bytes and operations that no sum holds."""
    for plan in _plans(manifest):
        for item in plan["schedule"]:
            for name in ("seconds", "start"):
                if rng.random() < 0.3:
                    item[name] = rng.choice(MEASURELESS)
        for exposure in plan["exposures"]:
            exposure[rng.choice(["hidden", "exposed"])] = rng.choice(MEASURELESS)
    for table, names in ((manifest, ["step_seconds"]), (_kernel(manifest, rng) if manifest["kernels"] else {}, ["flops", "nbytes"]), (manifest["report"], list(manifest["report"]))):  # fmt: skip
        for name in names:
            if isinstance(table.get(name), int | float) and rng.random() < 0.5:
                table[name] = rng.choice(MEASURELESS)
    for axis in manifest["mesh"]["axes"]:
        axis[rng.choice(["bandwidth", "latency"])] = rng.choice(MEASURELESS)


def many_axes(manifest: Json, rng: random.Random, size: int) -> None:
    """Mesh axes of one device each, or of very many."""
    axes = manifest["mesh"]["axes"]
    count = min(size, rng.choice([19, 40, 1023, 1025]))
    length = rng.choice([1, 1, 1, 2, 1 << 16])
    axes += [{"bandwidth": 1e11, "latency": 1e-6, "name": f"own{n}", "size": length} for n in range(count)]


def many_inputs(manifest: Json, rng: random.Random, size: int) -> None:
    """Inputs that nobody reads."""
    if not manifest["inputs"]:
        return
    one = manifest["inputs"][0]
    for number in range(size):
        place = len(manifest["buffers"])
        manifest["buffers"].append(manifest["buffers"][one["buffer"]] | {"storage": place, "offset": -(-manifest["arena_bytes"] // 256) * 256})  # fmt: skip
        manifest["arena_bytes"] = manifest["buffers"][-1]["offset"] + manifest["buffers"][-1]["bytes"]
        manifest["inputs"].append(copy.deepcopy(one) | {"name": f"own{number}", "buffer": place})


def high_ranks(manifest: Json, rng: random.Random, size: int) -> None:
    """All tensors with dims of size 1 in front: attributes do not follow, but for what needs none."""
    more = [1] * rng.choice([1, 28, 31, 32, 40, 58, 60, 61, 64])

    def grow(value: Json) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("shape"), list):
                value["shape"] = [*more, *value["shape"]]
            if isinstance(value.get("local_shape"), list):
                value["local_shape"] = [*more, *value["local_shape"]]
            if isinstance(value.get("dims"), list) and "sharding" not in value:
                value["dims"] = [*([[]] * len(more)), *value["dims"]]
            for name, each in value.items():
                if name == "type" and isinstance(each, list):
                    each[1] = [*more, *each[1]]
                else:
                    grow(each)
        elif isinstance(value, list):
            for each in value:
                grow(each)

    grow(manifest)


CHANGES: tuple[Change, ...] = (
    huge_arena, overlapping_views, many_buffers, long_body, many_launches, many_waits, many_operands,
    regions_in_regions, measureless_times, many_axes, many_inputs, high_ranks,
)  # fmt: skip


def be_hostile(manifest: Json, rng: random.Random) -> None:
    """One or two of the changes; few of them large, since each takes seconds."""
    for _ in range(rng.choice([1, 1, 2])):
        rng.choice(CHANGES)(manifest, rng, rng.choice([1, 3, 20, 300, 3000]))
