"""Mutations that an attacker would choose: huge counts, deep nesting, overlapping buffers and extreme numbers."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

Json = Any
Change = Callable[[Json, random.Random, int], None]
EXTREME_NUMBERS = (0.0, 5e-324, 1e30, 1e31, 1e300, 1e308, 2**53, 2**61, 2**62)


def _plans(plan: Json) -> list[Json]:
    """Return a plan and, recursively, the plans of the regions in it."""
    return [
        plan,
        *(inner for item in plan["schedule"] for region in item.get("regions", ()) for inner in _plans(region)),
    ]


def _kernel(manifest: Json, rng: random.Random) -> Json:
    return manifest["kernels"][rng.choice(list(manifest["kernels"]))]


def huge_arena(manifest: Json, rng: random.Random, size: int) -> None:
    """Make a buffer, preferably scratch of a collective, larger than the memory of any machine, and extend the arena."""
    plan = rng.choice(_plans(manifest))
    count = 1 << rng.choice([31, 40, 50, 52, 53, 54, 61])
    buffer = rng.choice([item["scratch"] for item in plan["schedule"] if item.get("scratch") is not None] or [None])
    if buffer is None:
        buffer = len(plan["buffers"])
        plan["buffers"].append({"bytes": count, "dtype": "ui8", "kind": "temporary", "name": "room", "offset": plan["arena_bytes"], "shape": [count], "source": "", "storage": buffer})  # fmt: skip
    plan["buffers"][buffer] |= {"bytes": count, "shape": [count], "dtype": "ui8", "offset": -(-plan["arena_bytes"] // 256) * 256}  # fmt: skip
    plan["arena_bytes"] = plan["buffers"][buffer]["offset"] + count


def overlapping_views(manifest: Json, rng: random.Random, size: int) -> None:
    """Make buffers views of each other, or move them onto other buffers."""
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
    """Add `size` buffers that nothing uses, or that all view one storage."""
    plan = rng.choice(_plans(manifest))
    buffer = copy.deepcopy(rng.choice(plan["buffers"]))
    has_own_storage, first = rng.random() < 0.5, len(plan["buffers"])
    for number in range(first, first + size):
        plan["buffers"].append(buffer | ({"storage": number, "kind": "temporary"} if has_own_storage else {}))


def long_body(manifest: Json, rng: random.Random, size: int) -> None:
    """Append a chain of `size` operations to a kernel body. Each operation reads the result of the previous one."""
    body = _kernel(manifest, rng)["body"] if manifest["kernels"] else {"outputs": []}
    if not body["outputs"]:
        return
    nodes, count, region_values = body["nodes"], len(body["inputs"]), 0
    for node in nodes:
        if node.get("regions"):
            return  # values in regions are numbered together with those of the body
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
    """Append many copies of random items to the schedule."""
    plan = rng.choice(_plans(manifest))
    if plan["schedule"]:
        plan["schedule"] += [copy.deepcopy(rng.choice(plan["schedule"])) for _ in range(size)]


def many_waits(manifest: Json, rng: random.Random, size: int) -> None:
    """Add waits for many events to an item. Some of the events are never recorded."""
    plan = rng.choice(_plans(manifest))
    for item in plan["schedule"]:
        item["waits"] = [rng.choice([0, 1, rng.randrange(1 << 40)]) for _ in range(size)]


def many_operands(manifest: Json, rng: random.Random, size: int) -> None:
    """Add many operands to a kernel, to its launch, or to both."""
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
    """Nest a control-flow item inside its own region many times, partly as loops with huge trip counts."""
    plans = [p for p in _plans(manifest) for i in p["schedule"] if i.get("regions")]
    if not plans:
        return
    item = next(item for item in rng.choice(plans)["schedule"] if item.get("regions"))
    for _ in range(rng.choice([1, 2, 8, 63, 64, 65, 200])):
        inner = copy.deepcopy({name: value for name, value in item.items() if name != "regions"})
        region = item["regions"][-1]
        inner["regions"] = [
            {**inner_region, "schedule": list(inner_region["schedule"])} for inner_region in item["regions"]
        ]
        if rng.random() < 0.5:
            inner["attrs"] = {"trips": rng.choice([1, 1 << 20, 1 << 61])}
        region["schedule"] = [*region["schedule"][:1], inner]
        item = inner


def extreme_times(manifest: Json, rng: random.Random, size: int) -> None:
    """Set times, byte counts and operation counts to values that overflow when added."""
    for plan in _plans(manifest):
        for item in plan["schedule"]:
            for name in ("seconds", "start"):
                if rng.random() < 0.3:
                    item[name] = rng.choice(EXTREME_NUMBERS)
        for exposure in plan["exposures"]:
            exposure[rng.choice(["hidden", "exposed"])] = rng.choice(EXTREME_NUMBERS)
    for table, names in ((manifest, ["step_seconds"]), (_kernel(manifest, rng) if manifest["kernels"] else {}, ["flops", "nbytes"]), (manifest["report"], list(manifest["report"]))):  # fmt: skip
        for name in names:
            if isinstance(table.get(name), int | float) and rng.random() < 0.5:
                table[name] = rng.choice(EXTREME_NUMBERS)
    for axis in manifest["mesh"]["axes"]:
        axis[rng.choice(["bandwidth", "latency"])] = rng.choice(EXTREME_NUMBERS)


def many_axes(manifest: Json, rng: random.Random, size: int) -> None:
    """Add many mesh axes of size 1, or a few large ones."""
    axes = manifest["mesh"]["axes"]
    count = min(size, rng.choice([19, 40, 1023, 1025]))
    length = rng.choice([1, 1, 1, 2, 1 << 16])
    axes += [{"bandwidth": 1e11, "latency": 1e-6, "name": f"own{n}", "size": length} for n in range(count)]


def many_inputs(manifest: Json, rng: random.Random, size: int) -> None:
    """Add inputs that no item reads."""
    if not manifest["inputs"]:
        return
    original = manifest["inputs"][0]
    for number in range(size):
        buffer = len(manifest["buffers"])
        manifest["buffers"].append(manifest["buffers"][original["buffer"]] | {"storage": buffer, "offset": -(-manifest["arena_bytes"] // 256) * 256})  # fmt: skip
        manifest["arena_bytes"] = manifest["buffers"][-1]["offset"] + manifest["buffers"][-1]["bytes"]
        manifest["inputs"].append(copy.deepcopy(original) | {"name": f"own{number}", "buffer": buffer})


def high_ranks(manifest: Json, rng: random.Random, size: int) -> None:
    """Prepend dims of size 1 to all tensor types without adapting the attributes."""
    leading_dims = [1] * rng.choice([1, 28, 31, 32, 40, 58, 60, 61, 64])

    def grow(value: Json) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("shape"), list):
                value["shape"] = [*leading_dims, *value["shape"]]
            if isinstance(value.get("local_shape"), list):
                value["local_shape"] = [*leading_dims, *value["local_shape"]]
            if isinstance(value.get("dims"), list) and "sharding" not in value:
                value["dims"] = [*([[]] * len(leading_dims)), *value["dims"]]
            for name, entry in value.items():
                if name == "type" and isinstance(entry, list):
                    entry[1] = [*leading_dims, *entry[1]]
                else:
                    grow(entry)
        elif isinstance(value, list):
            for entry in value:
                grow(entry)

    grow(manifest)


CHANGES: tuple[Change, ...] = (
    huge_arena, overlapping_views, many_buffers, long_body, many_launches, many_waits, many_operands,
    regions_in_regions, extreme_times, many_axes, many_inputs, high_ranks,
)  # fmt: skip


def apply_hostile_changes(manifest: Json, rng: random.Random) -> None:
    """Apply one or two random changes of this file. Sizes are mostly small, because a large change takes seconds."""
    for _ in range(rng.choice([1, 1, 2])):
        rng.choice(CHANGES)(manifest, rng, rng.choice([1, 3, 20, 300, 3000]))
