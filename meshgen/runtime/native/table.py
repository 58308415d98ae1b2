"""Construction of a module's launch table: kernels, arguments, results, and the operations of each rank in a step.

    meshgen native OUT.mgx          adds the table to the file, with the PTX of the copies and reductions that it uses

One table serves all ranks and GPUs. Equal operations of several ranks are stored once, and so are equal lists of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from meshgen.errors import Diagnostic, MissingError
from meshgen.kernels.copy_ptx import THREADS
from meshgen.runtime.cuda.code import Code, CodeOf, Launcher, number_of, scratch_bytes, target_of
from meshgen.runtime.cuda.communicators import Communicators
from meshgen.runtime.cuda.frames import FrameMaker, axes_of
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Kernel
from meshgen.runtime.native import table_format as words
from meshgen.runtime.native.bindings import Files, Part, put_arguments, put_constants, put_results
from meshgen.runtime.native.control import PartRecorder
from meshgen.runtime.native.recording import RecordingApi, RecordingDevice
from meshgen.runtime.native.table_format import Pool, Words

_PLACEHOLDER = (
    b"kernel "  # prefix of the placeholder for a kernel's image; index of the part and name of the kernel follow
)

_AS_LAUNCHED = 0, 0, 0  # grid of a code variant that has the grid of the launch


def native_members(module: LoadedModule) -> dict[str, bytes]:
    """Return the additional members that the C loader needs.

    Raises:
        MissingError: MG0602, a kernel has no code for GPUs, or a result is partial.
        ShardingError: MG0201, the size of a mesh axis is open.
    """
    module.require_sizes()
    api, files, added, body = RecordingApi(), Files(), dict[str, bytes](), Words()
    recorders = _record_parts(module, api)
    parts = [
        Part(part, f"parts/{part_index:02}/" if len(module.parts) > 1 else "", recorder.frame, recorder.kept)
        for part_index, (part, recorder) in enumerate(zip(module.parts, recorders, strict=True))
    ]
    _put_functions(body, api, parts, files, added)
    _put_communicators(body, api, module.ranks)
    body.put(len(parts))
    for recorder in recorders:
        _put_part(body, api, recorder)
    put_constants(body, parts, files)
    put_arguments(body, module, parts, files)
    put_results(body, module, parts)
    header = Words()
    header.put(words.MAGIC, words.VERSION, module.ranks)
    header.put_texts(files.names)
    return added | {words.TABLE: header.encode() + body.encode()}


def _record_parts(module: LoadedModule, api: RecordingApi) -> list[PartRecorder]:
    """Record a step of the module of each mesh, and return one recorder per mesh."""
    firsts = list(accumulate((part.ranks for part in module.parts), initial=0))
    devices = {rank: RecordingDevice(api, rank) for rank in range(firsts[-1])}
    by_name = {part.mesh.name: first for part, first in zip(module.parts, firsts, strict=False)}
    frames = {}
    for part, first in zip(module.parts, firsts, strict=False):
        manifest, plan = part.manifest, part.manifest.plan
        launcher = Launcher(
            api, manifest.mesh, manifest.kernels, plan.kernels, _placeholders_of(manifest.kernels, len(frames))
        )
        arenas = {r: devices[r].allocate(plan.arena_bytes, "arena") for r in range(first, first + part.ranks)}
        donated = {n: {r: start + plan.buffers[n].offset for r, start in arenas.items()} for n in plan.donated}
        frames[first] = FrameMaker(manifest.mesh, by_name, devices, launcher).frame(plan, arenas, donated)
    calls = [
        (part.mesh, first, axes)
        for part, first in zip(module.parts, firsts, strict=False)
        for axes in sorted(axes_of(part.manifest.plan, part.mesh, by_name))
    ]
    comms = Communicators(api, devices, calls)
    recorders = [
        PartRecorder(api, frame, {rank: devices[rank] for rank in frame.ranks}, comms) for frame in frames.values()
    ]
    for recorder in recorders:
        recorder.record()
    return recorders


def _placeholders_of(kernels: Mapping[str, Kernel], part: int) -> CodeOf:
    """Return a function that returns placeholders for the code of a part's kernels, because the GPU is not known yet."""

    def find(name: str, capability: tuple[int, int]) -> Code | None:
        kernel = kernels[name]
        if not kernel.source:
            return None
        if not kernel.binaries:
            hint = "compile again with --target cuda:sm_90"
            raise MissingError(Diagnostic("MG0602", f"kernel '{name}' was compiled for no GPU", hint=hint))
        sizes = [scratch_bytes(kernel.on(arch), binary) for arch, binary in kernel.binaries.items()]
        scratch_sizes = max(first for first, _ in sizes), max(second for _, second in sizes)
        return Code(_PLACEHOLDER + f"{part} {name}".encode(), kernel.entry, kernel.grid, 0, 0, scratch_sizes)

    return find


def _put_functions(
    table: Words, api: RecordingApi, parts: Sequence[Part], files: Files, added: dict[str, bytes]
) -> None:
    """Write each kernel with its code variants, best first.

    Copy and reduction kernels are added to `added` as PTX members.
    """
    table.put(len(api.tape.functions))
    for image, entry in api.tape.functions:
        table.put_text(entry)
        if image.startswith(_PLACEHOLDER):
            number, name = image.removeprefix(_PLACEHOLDER).decode().split(" ", 1)
            part = parts[int(number)]
            table.put_lists(list(_codes(part.module.manifest.kernels[name], part, files)))
        else:
            member = f"native/{entry}.ptx"
            added[member] = image
            table.put_lists(
                [
                    (
                        words.Code.PTX,
                        number_of(target_of(image.decode())),
                        0,
                        files.number(member),
                        THREADS,
                        0,
                        *_AS_LAUNCHED,
                    )
                ]
            )


def _codes(kernel: Kernel, part: Part, files: Files) -> Iterator[words.Record]:
    """Yield a kernel's code variants as records, in the order in which a loader should try them."""
    for arch in sorted(kernel.binaries, key=number_of, reverse=True):
        binary = kernel.binaries[arch]
        grid = kernel.forms[arch].grid if arch in kernel.forms else _AS_LAUNCHED
        configuration = binary.threads, binary.shared, *grid
        yield words.Code.CUBIN, number_of(arch), 0, files.number(part.folder + binary.file), *configuration
        text = bytes(part.module.members[binary.ptx]).decode() if binary.ptx else ""
        if target := target_of(text):
            exact = int(target.endswith("a"))
            yield words.Code.PTX, number_of(target), exact, files.number(part.folder + binary.ptx), *configuration


def _put_communicators(table: Words, api: RecordingApi, ranks: int) -> None:
    """Write each split of the communicator of all ranks: color (-1 for no group) and key of each rank."""
    table.put_lists([[word for rank in range(ranks) for word in split[rank]] for split in api.tape.splits])


def _put_part(table: Words, api: RecordingApi, recorder: PartRecorder) -> None:
    """Write a part: ranks, memory size, event count, operations, lists of operations, segments, control words.

    A segment has the index of one list of operations per rank.
    """
    ranks = recorder.frame.ranks
    operations, programs = Pool(), Pool()
    segments = [
        [programs.number(operations.number(record) for record in segment.work.get(rank, ())) for rank in ranks]
        for segment in recorder.segments
    ]
    memory, events = api.recorder.used.get(ranks[0], 0), api.recorder.events.get(ranks[0], 0)
    table.put(ranks[0], len(ranks), memory, events)
    table.put_lists(operations.records)
    table.put_lists(programs.records)
    table.put_lists(segments)
    table.put_list(recorder.words)
