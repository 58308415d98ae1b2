"""The explanation of each diagnostic number: its meaning, what to do, and a short program that causes it (if one
exists).

`docs/generate.py` runs the commands of each program in an empty directory and prints their output, so the page stays
current. A test checks that `FAULTS` has exactly the numbers of `meshgen.errors.CODES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fault_programs import BRANCHES, CHECK, REDUCTION, REPEATED, REVERSED, TWO_CANDIDATES, constraints, program


@dataclass(frozen=True)
class Fault:
    """The entry of one diagnostic number on the page.

    Attributes:
        meaning: sentences, in Markdown.
        remedy: sentences that follow "What to do".
        commands: commands to run in order; the last one reports this number.
        files: contents of the files that the commands read, by name.
    """

    meaning: str
    remedy: str
    commands: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict[str, str])


FAULTS: dict[str, Fault] = {
    "MG0001": Fault(
        "An option or an argument of a Python call does not exist, is malformed, or names something that the program "
        "does not have.",
        "The message lists the valid names. `meshgen COMMAND --help` describes each option.",
        ("meshgen check p.mlir --spec q=x,_",),
        program(),
    ),
    "MG0002": Fault(
        "The program, an array or a module cannot be read. The file is missing, not readable, of another kind, or too "
        "large. A text may have 2^29 bytes (512 MiB). Arrays and modules must fit into free memory. A truncated array "
        "file is refused too.",
        "Check the path. Programs are `.mlir` text or `pkg.mod:function`; modules are `.mgx`; arrays are `.npy` and "
        "`.npz`.",
        ("meshgen check q.mlir",),
    ),
    "MG0003": Fault(
        "An output file or directory cannot be written, or standard output cannot: it is closed, or its disk is full. "
        "A reader that closes the pipe early (`| head`) is no fault.",
        "Check that the directory exists, that you may write to it, and that the disk has space.",
        ("meshgen opt p.mlir -o nowhere/q.mlir",),
        program(),
    ),
    "MG0004": Fault(
        "A warning on stderr: the cache does not keep the built kernels. The contents of the cache run on GPUs, so "
        "meshgen uses a cache only if it belongs to the user and nobody else can write to it. Other causes are a "
        "missing home directory and a full disk. The module is the same as with a cache.",
        "Set `MESHGEN_CACHE_DIR` to a private directory; `chmod go-w` makes a directory private. `meshgen doctor` "
        "shows the directory in use.",
    ),
    "MG0005": Fault(
        "An allocation failed: the program, its constants or its simulated devices need more memory than the machine "
        "has.",
        "Use smaller sizes, or a machine with more memory.",
    ),
    "MG0006": Fault(
        "Calls, regions or structures of arguments are nested too deeply.",
        "Nest the program or its arguments less deeply.",
    ),
    "MG0007": Fault(
        "The file is not a table of measured tiles, or the table has another format.",
        "`meshgen tune OUT.mgx --table FILE` writes tables, and `--merge` joins them.",
        ("meshgen tune --merge p.mlir --table t.json",),
        program(),
    ),
    "MG0101": Fault(
        "The text is not MLIR that meshgen reads. The caret marks the place where reading stopped.",
        "Check also the text before the caret. meshgen does not read MLIR bytecode: print the module as text.",
        CHECK,
        program((" : tensor<8x4xf32>\n  return", " tensor<8x4xf32>\n  return")),
    ),
    "MG0102": Fault(
        "The text contains no program.",
        "Pass the text of a module or a function.",
        CHECK,
        {"p.mlir": "// nothing\n"},
    ),
    "MG0103": Fault(
        "The program uses an operation, element type or form that this version does not support. The message lists "
        "all of them before any work is done.",
        "Express the operation with supported ones ([ops.md](ops.md)), or give a Python function a sharding rule "
        "(`mg.op_rule`).",
        CHECK,
        program(("stablehlo.tanh", "stablehlo.uniform_quantize")),
    ),
    "MG0104": Fault(
        "An operation does not match its definition: shapes or element types disagree, or an attribute is missing or "
        "out of range. Every stage is checked, so this includes texts that were edited by hand.",
        "The message shows both sides. Fix the operation at the caret.",
        CHECK,
        program(
            (
                "%b = stablehlo.tanh %a : tensor<8x4xf32>",
                "%b = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<8x4xf32>",
            )
        ),
    ),
    "MG0105": Fault(
        "meshgen runs a Python function once to record its operations, on tensors that have a type but no elements. "
        "The function raised an exception or called `sys.exit`. The message has the kind and text of the exception. "
        "The caret marks the innermost line of the user's code. In Python the exception is the cause (`__cause__`).",
        "Fix the line. `mg.Tensor` has NumPy's operators and the usual methods; all other operations are functions of "
        "`meshgen`.",
    ),
    "MG0108": Fault(
        "A tensor has more than 32 dims or 8 PiB, or the program has more than 200,000 operations after inlining. "
        "Inlining can double a program at each level of calls.",
        "Write repeated parts as `stablehlo.while`, and split large tensors into several.",
        CHECK,
        program(("8x4", "8000000x4000000000")),
    ),
    "MG0109": Fault(
        "A warning, on stderr, in `--json` and in the report: `sdy.all_reduce` or `sdy.reduce_scatter` has an operand "
        "that is not a partial sum. The operand is not declared unreduced along the axes, and no operation computes "
        "it as a sum. Such an operand is an argument, a constant, or an element-wise function of these. The value is "
        "passed on unchanged, because adding equal copies would multiply it.",
        "Declare `unreduced={...}` on the producer, or remove the reduction.",
        CHECK,
        {"p.mlir": REDUCTION},
    ),
    "MG0110": Fault(
        "The donations of the program or of `donate` contradict each other. Two arguments name one result, or an "
        "argument names a result that does not exist or has another type.",
        "In `tf.aliasing_output` name a result of the argument's type, and a different one for each argument. With "
        "`jax.buffer_donor = true` meshgen chooses a result that fits.",
        CHECK,
        program(("%a: tensor<8x4xf32>", "%a: tensor<8x4xf32> {tf.aliasing_output = 3 : i32}")),
    ),
    "MG0111": Fault(
        "A warning, on stderr, in `--json` and in the report: an argument is donated, but no result can overwrite it. "
        "Either no remaining result has its type and sharding, or the argument is read after the result is computed, "
        "or at other indices. The step is correct but needs memory for both values. A session copies the next value "
        "at the end of the step.",
        "Remove the obstacle that the message names, or do not donate the argument.",
        ("meshgen compile p.mlir --target cpu -o p.mgx --donate a",),
        {"p.mlir": REVERSED},
    ),
    "MG0112": Fault(
        "A warning; a session refuses the program. A session keeps a donated argument as state, and its next value is "
        "the result with the same keys and types. Here the next value is ambiguous: several results match and neither "
        "names nor order decide, or the result with the same keys has another type. Calls and `meshgen run` are "
        "correct, because they do not continue an argument.",
        'Name the result: `donate={"params": "result.1"}`, or `--donate params=result.1` on the command line. Or '
        "return the next value under the name of the argument.",
        ("meshgen compile p.mlir --target cpu -o p.mgx --donate a",),
        {"p.mlir": TWO_CANDIDATES},
    ),
    "MG0201": Fault(
        "The mesh is invalid: a size is below 1, an axis occurs twice, the mesh differs from the mesh of the compiled "
        "module, or a size is missing. A name may also have characters that the text of a stage cannot represent. An "
        "axis of size `?` gets its size at compile time or at load time, from `--mesh` or from the number of "
        "processes of a launcher.",
        "Give each axis one positive integer size. Set open sizes with `--mesh dp=4`.",
        ("meshgen compile p.mlir --mesh 0=?,1=2 --target cpu -o p.mgx", "meshgen run p.mgx"),
        constraints("[[0], []]"),
    ),
    "MG0202": Fault(
        "A sharding, collective or option names a mesh axis that the mesh does not have.",
        "Use one of the axes in the message, or pass another mesh with `--mesh`.",
        ("meshgen check p.mlir --spec a=dp,_",),
        program(),
    ),
    "MG0203": Fault(
        "A mesh axis splits two dims of one value, or splits a dim and also makes the value partial. This is "
        "impossible, because each device has one coordinate along an axis.",
        "Use the axis once. Parts of an axis (`x:(1)2` and `x:(2)4` of `x=8`) count as different axes.",
        ("meshgen check p.mlir --spec a=x,x",),
        program(),
    ),
    "MG0204": Fault(
        "A sharding does not fit its tensor: it has another rank, an unknown kind of partial value, a halo on a dim "
        "that is not split, or unsuitable offsets.",
        "Write one entry per tensor dim, and `_` for a dim that is not split.",
        ("meshgen check p.mlir --spec a=x,_,_",),
        program(),
    ),
    "MG0205": Fault(
        "In a text, two required annotations of one value for its producer differ. The producer can compute the value "
        "in only one of these shardings.",
        "Keep one annotation, make one a hint (`required = false`), or annotate for the users (`annotate_for_users`), "
        "which reshards the value.",
        CHECK,
        constraints("[[1], []]", "[[], [1]]"),
    ),
    "MG0206": Fault(
        "An operation or collective cannot work on the shards that its annotation, its option or the shardings of the "
        "program require. An example is a sort along a split dim, where rows that belong together are on several "
        "devices. Propagation never chooses such shardings; annotations and texts of later stages may contain them.",
        "Annotate another dim or leave the choice to propagation. Compile texts of later stages from before "
        "propagation, which reshards operands.",
    ),
    "MG0207": Fault(
        "A value cannot be resharded: a transfer between meshes would have to reduce, or sizes are unknown.",
        "Reduce before the transfer with `all_reduce` or `reduce_scatter`, and set all sizes.",
    ),
    "MG0208": Fault(
        "A tensor dim has size `?`, and this command needs its size. Programs and modules may have open sizes, but "
        "shards, kernels and buffers may not. The message lists all open dims. In programs of PyTorch and ONNX, the "
        "number also refuses values that depend on open sizes in an unsupported way "
        "([torch.md](torch.md#open-sizes)).",
        "Set the shapes of the inputs with `--shape a=8x4` or `args={'a': (8, 4)}`; all other sizes follow. Without "
        "shapes, `check` tries several.",
        ("meshgen explain p.mlir",),
        program(("8x4", "?x4")),
    ),
    "MG0209": Fault(
        "A value cannot be placed on the meshes of a program. An annotation names an unknown mesh, or a loop or "
        "branch that cannot be unrolled has values on several meshes.",
        "Loops with a constant trip count are unrolled. Keep any other loop on one mesh and annotate its operands and "
        "results.",
        CHECK,
        {
            "p.mlir": """sdy.mesh @a = <["x"=2], device_ids=[0, 1]>
sdy.mesh @b = <["x"=2], device_ids=[2, 3]>
func.func @main(%a: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
  %r:2 = stablehlo.while(%i = %a, %go = %p) : tensor<8xf32>, tensor<i1>
   cond {
    stablehlo.return %go : tensor<i1>
   } do {
    %d = sdy.sharding_constraint %i <@a, [{"x"}]> : tensor<8xf32>
    %e = sdy.sharding_constraint %d <@b, [{"x"}]> : tensor<8xf32>
    stablehlo.return %e, %go : tensor<8xf32>, tensor<i1>
   }
  return %r#0 : tensor<8xf32>
}
"""
        },
    ),
    "MG0210": Fault(
        "With `--strict` (`strict=True`): a split value is gathered for a use, and no annotation replicates it. The "
        "notes name the annotations behind both sides.",
        "`meshgen explain --advise` lists annotations to remove or to add, with the gain of each. To allow one "
        'gather, annotate the value as replicated for its users. `--strict-at h` (`strict=["h", 42]`) checks one '
        "value or line only.",
        ("meshgen compile p.mlir --target cpu --strict -o p.mgx",),
        {
            "p.mlir": """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<64x16xf32> {
  %b = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  return %b : tensor<64x16xf32>
}
"""
        },
    ),
    "MG0211": Fault(
        "A warning: a JAX program has shardings over a mesh, and is compiled for a mesh with the same axis names and "
        "other sizes. The program keeps its shardings by axis name.",
        "Omit the mesh to compile for the mesh of the program, or write the shardings over the intended mesh.",
    ),
    "MG0301": Fault(
        "meshgen cannot generate a kernel for an operation with these element types. The message lists all such "
        "operations before any kernel is built, with the number of executions of each. The number also refuses a loop "
        "that has transfers between meshes and no constant trip count.",
        "Run the program with `--target cpu` on the reference device. Give loops around transfers a constant trip "
        "count.",
    ),
    "MG0302": Fault(
        "Triton or its assembler refuses source that meshgen generated.",
        "This is a bug in meshgen. Please report it as an issue of its repository, with the file that the message "
        "names and the output of `meshgen doctor`.",
    ),
    "MG0303": Fault(
        "A kernel needs more shared memory or threads than the architecture has, or a step needs more device memory "
        "than the limit.",
        "Split values over more devices, or compile for another architecture.",
    ),
    "MG0401": Fault(
        "The order of launches on the streams of a schedule can deadlock. meshgen proves its schedules free of "
        "deadlocks, but an edited schedule may have one. Or a loop or branch in per-device code contains collectives, "
        "and its condition may differ between devices.",
        "Record every event before a launch waits for it. Reduce the condition over the axes along which it may "
        "differ.",
    ),
    "MG0402": Fault(
        "Two launches of a schedule touch the same bytes, one of them writes, and neither a stream nor an event "
        "orders them.",
        "Let the later launch wait for the event of the earlier one.",
    ),
    "MG0403": Fault(
        "A warning, on stderr, in `--json` and in the report: an `if` or `case` contains collectives. A schedule is "
        "the same on all devices. All devices therefore compute all branches, and each device takes the results of "
        "the branch that it chose. Devices of one group may choose differently, and none waits for a device that took "
        "another branch. If a loop in a branch might not end, only the branch that all devices choose runs, and the "
        "warning is absent. `check` gives branches this meaning at every stage.",
        "If computing all branches is too expensive, move the collectives out of the branches, or select between "
        "their results.",
        CHECK,
        {"p.mlir": BRANCHES},
    ),
    "MG0404": Fault(
        "A warning, on stderr, in `--json` and in the report: several devices repeat more than a third of the "
        "operations of a step. Either no annotation reaches these operations, or a whole result was estimated to be "
        "faster than communication. The warning is absent if the kernels of the step take less than 50 us in addition "
        "to their launches.",
        "Annotate the result of the named operation so that the idle mesh axis splits it. `meshgen explain --advise` "
        "tries such annotations, and names those that make the step shorter.",
        ("meshgen explain p.mlir c",),
        {"p.mlir": REPEATED},
    ),
    "MG0501": Fault(
        "The file is not a module of meshgen.",
        "Write a module with `meshgen compile`.",
        ("meshgen run p.mgx",),
        {"p.mgx": "not a module\n"},
    ),
    "MG0502": Fault(
        "The file is a module, but a digest, a bound or a value in it is wrong. The file was damaged, truncated or "
        "changed.",
        "Copy the file again, or compile it again with `meshgen compile`.",
    ),
    "MG0503": Fault(
        "This version does not know the format of the module, which a newer meshgen wrote, or no longer reads it, "
        "because an older meshgen wrote it. meshgen reads its own format and the previous one.",
        "Use the newer meshgen, or compile the program again.",
    ),
    "MG0504": Fault(
        "The program exceeds a limit of modules, such as 65,536 inputs, 131,072 launches or 1,024 mesh axes "
        "(`meshgen/runtime/module_file/limits.py`). Names must not contain control characters.",
        "Use other names, or make the program smaller. Do not trust a file that meshgen did not write.",
    ),
    "MG0505": Fault(
        "The module has no launch table. The C loader needs this table; Python does not.",
        "`meshgen native OUT.mgx` adds the table; see [native.md](native.md).",
    ),
    "MG0506": Fault(
        "`verify`, `run --verify-key` or `load(verify_key=...)` requires a signature. The module is not signed, is "
        "signed by another key, or was changed after signing.",
        "Get the module again from the signer, or sign it with `meshgen sign` if you trust it.",
    ),
    "MG0601": Fault(
        "An argument of a run is missing or unknown, or its shape or element type differs from the signature. The "
        "same holds for a shape that closes open sizes.",
        "Pass global arrays as the signature in the message says.",
    ),
    "MG0602": Fault(
        "A Python package, NVIDIA's driver (CUDA 12.0 or later), NCCL (2.28 or later), a GPU, or the code of a kernel "
        "for its architecture is missing. A module with open sizes may also need sizes that were not compiled ahead "
        "of time, on a machine without the compiler.",
        "`meshgen doctor` shows missing packages and how to install them. `--device reference` needs no GPU, driver "
        "or NCCL.",
    ),
    "MG0603": Fault(
        "The number of available devices does not fit the mesh of the module.",
        "Compile the program for a mesh of that many devices.",
        ("meshgen compile p.mlir --target cpu -o p.mgx", "meshgen run p.mgx --devices 3"),
        program(),
    ),
    "MG0604": Fault(
        "Something failed while a module ran. Possible causes are too little memory, a kernel that touched memory "
        "outside its arguments, and ranks that would deadlock. A call of CUDA or NCCL may also have failed; the "
        "message then has its number and text. The operating system may also have refused a file or process.",
        "Use fewer simulated ranks or smaller inputs. Report kernels that fail, with the module. After a failure of a "
        "GPU the next step makes the GPU ready again.",
    ),
    "MG0605": Fault(
        "Results differ from the expected ones by more than the rounding bound.",
        "`meshgen check` names the output and the element. Please report programs that `check` rejects.",
    ),
    "MG0606": Fault(
        "The check needs more memory than this machine has free, or than `--memory` allows. Memory is needed for the "
        "program on one device with its error bounds, or for all simulated devices together. The estimate is a lower "
        "bound: it counts values, but no temporary memory of operations.",
        "Check the program with smaller sizes: its shardings stay valid. `--memory` overrides the limit.",
        ("meshgen check p.mlir --memory 1kB",),
        program(),
    ),
    "MG0607": Fault(
        "A warning: in a traced function an f64 array met a tensor of narrower floats, so the result is f64. NumPy "
        "creates f64 arrays by default. Python numbers, and scalars such as `np.sqrt(8)`, do not widen a tensor.",
        "Create the array with the tensor's type, as in `np.ones(4, x.dtype)`, or convert it with `astype`.",
    ),
    "MG0608": Fault(
        "An emulated GPU refuses an operation of a kernel or a step. The message has the kind of fault:\n"
        "\n"
        "| kind | fault |\n"
        "| --- | --- |\n"
        "| `address`, `alignment`, `shared memory` | a kernel touches memory outside its operands, or at a misaligned "
        "address |\n"
        "| `race` in a kernel | warps race in shared memory |\n"
        "| `barrier` | threads deadlock |\n"
        "| `async copy` | a kernel uses data of an asynchronous copy or computation before it waits for it |\n"
        "| `opcode` | an instruction is unknown |\n"
        "| `time` | a kernel does not end |\n"
        "| `race` in a step | launches touch the same bytes, and no stream, event or graph edge orders them |\n"
        "| `collective` | ranks call NCCL differently |\n"
        "| `deadlock` | ranks deadlock |\n"
        "\n"
        "For a kernel the message names the kernel, the line of its Triton source and the PTX instruction. For a race "
        "in a step it names both launches and their buffers. For a deadlock it names the ranks and their waits.",
        "This is a bug in meshgen, unless the module was changed. Please report it as an issue of its repository, "
        "with the module.",
    ),
    "MG0609": Fault(
        "A rank is lost: its process or machine ended, it does not reply in time, or it failed and reported the "
        "reason. The message names the collective of this rank, the ranks that it waits for, and their known state. "
        "All ranks end with this number.",
        "Look for the first failure: the other ranks repeat the message of a failed rank. If a rank is only slow, "
        "raise `--time-out`. [distributed.md](distributed.md) describes how failures are detected.",
    ),
    "MG0610": Fault(
        "A launcher has started ranks that run different modules, or different meshes or kinds of device. The message "
        "lists the module of each rank by its digest.",
        "Copy one module file to all machines, and pass the same options to all ranks.",
    ),
    "MG0611": Fault(
        "The variables that tell a process its rank and the address of the others are incomplete or contradict each "
        "other.",
        "Start the program with torchrun, mpiexec or srun. Without a launcher set RANK, WORLD_SIZE, LOCAL_RANK, "
        "MASTER_ADDR and MASTER_PORT for each process.",
    ),
    "MG0612": Fault(
        "A warning of `meshgen tune`: with another tile a kernel's result differs from the result of the module's "
        "kernel by more than rounding explains. `tune` does not use the tile. The message says how many elements "
        "differ.",
        "This is a bug in meshgen. Please report it as an issue of its repository, with the module.",
    ),
}
