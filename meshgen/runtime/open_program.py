"""Programs whose mesh axes or tensor dims have open sizes: the signature, the open sizes and the specializations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from meshgen.calls.signature import Signature
from meshgen.errors import ArgumentError, Diagnostic, MissingError, ShardingError
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.arguments import Shapes as Shapes
from meshgen.runtime.arguments import validated_shapes
from meshgen.runtime.module_file.stage_texts import stage_member
from meshgen.runtime.sizes import Sizes, axis_sizes, with_sizes

Digests = Mapping[str, str]  # member name of a module -> digest
AHEAD, AT_LOAD = "ahead of time", "at load"  # how a specialization was compiled, as stated in the report of a module


class Argument(NamedTuple):
    """An input or output of the program.

    In its type, an open size is None.

    Attributes:
        stored: whether the module stores the value.
    """

    name: str
    type: TensorType
    stored: bool = False

    def takes(self, shape: Sequence[int | None]) -> bool:
        """Whether `shape` matches the shape of the type. A size None in `shape` stands for the size in the type."""
        sizes = self.type.shape
        return len(sizes) == len(shape) and all(
            b is None or (a in (None, b) and b >= 0) for a, b in zip(sizes, shape, strict=True)
        )

    def filled(self, shape: Sequence[int | None]) -> tuple[int, ...]:
        """Return `shape` with each None replaced by the size in the type. Sizes that remain unknown are left out."""
        sizes = (a if b is None else b for a, b in zip(self.type.shape, shape, strict=True))
        return tuple(size for size in sizes if size is not None)


@dataclass(frozen=True)
class OpenProgram:
    """A program with open sizes.

    Attributes:
        axes: mesh axes for which specializations have a size.

    Other axes of unknown size do not influence the code.
        shapes: inputs for which specializations have a shape, from which all other open sizes follow.
        stage: compilation stage of the text in the file.
        arguments, target: see `Options`.
        held: sizes of a specialization -> digests of its members.
        call: structures of arguments and results, or None if callers pass and get plain arrays in order.
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
        """Return the name of the member that contains the program's text."""
        return stage_member(self.stage)

    @property
    def signature(self) -> tuple[tuple[str, Argument], ...]:
        """Return all inputs and outputs as pairs ("in" or "out", argument)."""
        return (*(("in", argument) for argument in self.inputs), *(("out", argument) for argument in self.outputs))

    @property
    def is_open(self) -> bool:
        return bool(self.axes or self.shapes)

    def open_sizes_text(self) -> str:
        """Return the open axes and shapes as text, for display."""
        types = {argument.name: argument.type for argument in self.inputs}
        axes = [f"mesh axis {name}" for name in self.axes]
        return ", ".join([*axes, *(f"{name}: {types[name]}" for name in self.shapes)])

    def specializations_text(self) -> str:
        """Return the sizes of all specializations in the file as text, for display."""
        return f"it has specializations for {'; '.join(map(str, self.held)) or 'no sizes'}"

    def sizes(self, meshes: Sequence[Mesh], input_shapes: Shapes) -> Sizes:
        """Return the sizes that select the specialization for these meshes and shapes of inputs.

        None in a shape stands for the program's size.

        Args:
            meshes: the program's meshes with all axis sizes.
            input_shapes: shapes of inputs by name.
        Raises:
            ShardingError: MG0201, sizes of mesh axes are missing.
            ArgumentError: MG0601, shapes are missing or contradict the signature.
        """
        shapes = validated_shapes(input_shapes)
        if missing := self.missing_axes(meshes):
            raise ShardingError(*missing)
        table = {argument.name: argument for argument in self.inputs}
        texts = [f"unknown argument '{name}'" for name in shapes if name not in table]
        texts += [f"the shape of argument '{name}' is missing" for name in self.shapes if name not in shapes]
        texts += [
            f"argument '{name}' is {table[name].type}, not {table[name].type.with_shape(shape)}"
            for name, shape in shapes.items()
            if name in table and not table[name].takes(shape)
        ]
        filled_shapes = {name: table[name].filled(shapes[name]) for name in self.shapes if not texts}
        texts += [
            f"argument '{name}': {table[name].type.with_shape(shapes[name])} lacks a size"
            for name, shape in filled_shapes.items()
            if len(shape) < len(shapes[name])
        ]
        if texts:
            hint = f"open is {self.open_sizes_text()}; {self.specializations_text()}"
            raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
        sizes = axis_sizes(meshes)
        axes = tuple((name, size) for name in self.axes if (size := sizes[name]) is not None)
        return Sizes(axes, tuple(filled_shapes.items()))

    def sizes_of(self, sizes: Sizes) -> Sizes:
        """Return a specialization's sizes in the program's order, after checking them.

        Raises the same errors as `sizes`.
        """
        return self.sizes(with_sizes(self.meshes, dict(sizes.axes)), dict(sizes.shapes))

    def missing_axes(self, meshes: Sequence[Mesh]) -> list[Diagnostic]:
        """Return an error for each open axis of the program that has no size on `meshes`."""
        sizes = axis_sizes(meshes)
        hint = "load(path, mesh={'%s': 2}) or meshgen run --mesh %s=2 gives it"
        return [
            Diagnostic(
                "MG0201",
                f"the size of mesh axis '{name}' is unknown until load",
                hint=f"{hint.replace('%s', name)}; {self.specializations_text()}",
            )
            for name in self.axes
            if sizes[name] is None
        ]

    def lacking(self, sizes: Sizes, reason: str = "") -> MissingError:
        """Return the error for sizes without a specialization, if the compiler is missing."""
        message = f"{self.name} has no specialization for {sizes}: {self.specializations_text()}"
        hint = "compile the program for these sizes too, or install the compiler, which specializes it at load"
        notes = ((reason, None),) if reason else ()
        return MissingError(Diagnostic("MG0602", message, None, notes, hint))
