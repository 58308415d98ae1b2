"""A program with open sizes: its signature, its open sizes, and its specialisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meshgen.calls.signature import Signature
from meshgen.errors import ArgumentError, Diagnostic, MissingError, ShardingError
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.arguments import Shapes as Shapes
from meshgen.runtime.arguments import shapes_given
from meshgen.runtime.module_file.stage_texts import stage_member
from meshgen.runtime.sizes import Sizes, axis_sizes, with_sizes

Digests = Mapping[str, str]  # of a module's members, by name
AHEAD, AT_LOAD = "ahead of time", "at load"  # when a specialisation was made, in a module's report


class Argument(NamedTuple):
    """An input or output; sizes that are open are None. `stored`: the module stores its value."""

    name: str
    type: TensorType
    stored: bool = False

    def takes(self, shape: Sequence[int | None]) -> bool:
        """Whether a shape matches the type; None stands for the type's size."""
        have = self.type.shape
        return len(have) == len(shape) and all(
            b is None or (a in (None, b) and b >= 0) for a, b in zip(have, shape, strict=True)
        )

    def filled(self, shape: Sequence[int | None]) -> tuple[int, ...]:
        """A shape that it takes, with the type's sizes for None; shorter where that has none either."""
        sizes = (a if b is None else b for a, b in zip(self.type.shape, shape, strict=True))
        return tuple(size for size in sizes if size is not None)


@dataclass(frozen=True)
class OpenProgram:
    """A program with open sizes.

    Attributes:
        axes: the mesh axes that specialisations have a size for. Another axis of unknown size has no influence.
        shapes: the inputs that they have a shape for; what else is open follows.
        stage: the stage of the text in the file; `arguments` and `target` are as in `Options`.
        held: per specialisation its sizes, and the digests of its members.
        call: what callers pass and get, where that is more than arrays in order.
    """

    name: str
    meshes: tuple[Mesh, ...]
    axes: tuple[str, ...]
    shapes: tuple[str, ...]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    stage: str
    arguments: str
    target: str
    held: Mapping[Sizes, Digests] = field(default_factory=dict[Sizes, Digests])
    call: Signature | None = None

    @property
    def text_member(self) -> str:
        """The member with the program's text."""
        return stage_member(self.stage)

    @property
    def signature(self) -> tuple[tuple[str, Argument], ...]:
        """Inputs, marked `in`, and outputs, marked `out`."""
        return (*(("in", each) for each in self.inputs), *(("out", each) for each in self.outputs))

    @property
    def is_open(self) -> bool:
        return bool(self.axes or self.shapes)

    def what_is_open(self) -> str:
        """A text for display."""
        kinds = {each.name: each.type for each in self.inputs}
        axes = [f"mesh axis {name}" for name in self.axes]
        return ", ".join([*axes, *(f"{name}: {kinds[name]}" for name in self.shapes)])

    def what_is_held(self) -> str:
        """A text for display."""
        return f"it has specialisations for {'; '.join(map(str, self.held)) or 'no sizes'}"

    def sizes(self, meshes: Sequence[Mesh], given: Shapes) -> Sizes:
        """The key of a specialisation, from bound meshes and shapes of inputs by name.

        None stands for the size that the program has.

        Raises:
            ShardingError: MG0201, sizes of mesh axes are missing.
            ArgumentError: MG0601, shapes are missing or contradict the signature.
        """
        shapes = shapes_given(given)
        if missing := self.missing_axes(meshes):
            raise ShardingError(*missing)
        table = {each.name: each for each in self.inputs}
        texts = [f"unknown argument '{name}'" for name in shapes if name not in table]
        texts += [f"the shape of argument '{name}' is missing" for name in self.shapes if name not in shapes]
        texts += [
            f"argument '{name}' is {table[name].type}, not {table[name].type.with_shape(shape)}"
            for name, shape in shapes.items()
            if name in table and not table[name].takes(shape)
        ]
        full = {name: table[name].filled(shapes[name]) for name in self.shapes if not texts}
        texts += [
            f"argument '{name}': {table[name].type.with_shape(shapes[name])} lacks a size"
            for name, shape in full.items()
            if len(shape) < len(shapes[name])
        ]
        if texts:
            hint = f"open is {self.what_is_open()}; {self.what_is_held()}"
            raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
        sizes = axis_sizes(meshes)
        axes = tuple((name, size) for name in self.axes if (size := sizes[name]) is not None)
        return Sizes(axes, tuple(full.items()))

    def sizes_of(self, sizes: Sizes) -> Sizes:
        """These sizes as the program has them. Raises as `sizes`."""
        return self.sizes(with_sizes(self.meshes, dict(sizes.axes)), dict(sizes.shapes))

    def missing_axes(self, meshes: Sequence[Mesh]) -> list[Diagnostic]:
        """A fault for each open mesh axis that has no size on these meshes."""
        sizes = axis_sizes(meshes)
        hint = "load(path, mesh={'%s': 2}) or meshgen run --mesh %s=2 gives it"
        return [
            Diagnostic(
                "MG0201",
                f"the size of mesh axis '{name}' is unknown until load",
                hint=f"{hint.replace('%s', name)}; {self.what_is_held()}",
            )
            for name in self.axes
            if sizes[name] is None
        ]

    def lacking(self, sizes: Sizes, reason: str = "") -> MissingError:
        """The error for sizes without a specialisation and without a compiler."""
        message = f"{self.name} has no specialisation for {sizes}: {self.what_is_held()}"
        hint = "compile the program for these sizes too, or install the compiler, which specialises it at load"
        notes = ((reason, None),) if reason else ()
        return MissingError(Diagnostic("MG0602", message, None, notes, hint))
