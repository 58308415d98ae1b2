"""What each fault means and what to do about it, with a program that has it where one is short.

`docs/generate.py` runs the commands of an example in an empty directory and prints what meshgen says, so that
examples are never out of date. An entry for each number of `meshgen.errors.CODES`, no more: a test checks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fault_programs import BRANCHES, CHECK, REDUCTION, REPEATED, REVERSED, TWO_CANDIDATES, constraints, program


@dataclass(frozen=True)
class Fault:
    """`meaning` and `remedy` are sentences. The last of `commands` is refused with the fault."""

    meaning: str
    remedy: str
    commands: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict[str, str])


FAULTS: dict[str, Fault] = {
    "MG0001": Fault(
        "An option or an argument of a Python call does not exist, is malformed, or names something that the program does not have.",
        "The message lists what there is; `meshgen COMMAND --help` says what each option takes.",
        ("meshgen check p.mlir --spec q=x,_",),
        program(),
    ),
    "MG0002": Fault(
        "The program, an array or a module cannot be read: there is no such file, it may not be read, it is of another kind, or too large: "
        "a text has at most 2^29 bytes (512 MiB), arrays and modules must fit into the memory that is free, and arrays into their file.",
        "Check the path. Programs are `.mlir` text or `pkg.mod:function`; modules are `.mgx`; arrays are `.npy` and `.npz`.",
        ("meshgen check q.mlir",),
    ),
    "MG0003": Fault(
        "An output file or directory cannot be written, or standard output cannot: it is closed, or the disk behind it is full. A reader that "
        "has left (`| head`) is no fault.",
        "Check that the directory exists and may be written, and that there is room.",
        ("meshgen opt p.mlir -o nowhere/q.mlir",),
        program(),
    ),
    "MG0004": Fault(
        "A warning, on stderr: built kernels are not kept for the next time. What the cache holds runs on GPUs, so it is used only where it belongs to the "
        "user and nobody else may write to it; there may also be no home directory, or no room. The module is the same.",
        "Name a private directory with `MESHGEN_CACHE_DIR`; `chmod go-w` makes one private. `meshgen doctor` shows which is used.",
    ),
    "MG0005": Fault(
        "An allocation failed: the program, its constants or its simulated devices take more memory than there is.",
        "Use smaller sizes, or a machine with more memory.",
    ),
    "MG0006": Fault(
        "Calls or regions are nested more deeply than Python's stack goes.",
        "Nest the program less deeply.",
    ),
    "MG0007": Fault(
        "A file that should be a table of measured tiles is something else, or a table of another format.",
        "`meshgen tune OUT.mgx --table FILE` writes tables, and `--merge` joins them.",
        ("meshgen tune --merge p.mlir --table t.json",),
        program(),
    ),
    "MG0101": Fault(
        "The text is not MLIR that meshgen reads. The caret stands where reading stopped.",
        "Check the text before the caret too. MLIR bytecode is not read: print the module as text.",
        CHECK,
        program((" : tensor<8x4xf32>\n  return", " tensor<8x4xf32>\n  return")),
    ),
    "MG0102": Fault(
        "The text has no program.", "Give the text of a module or a function.", CHECK, {"p.mlir": "// nothing\n"}
    ),
    "MG0103": Fault(
        "The program uses an operation, element type or form that this version does not support. All of them are listed, "
        "before any work is done.",
        "Write the operation with others, or give a Python function a rule for it (`mg.op_rule`). `docs/ops.md` lists the supported ones.",
        CHECK,
        program(("stablehlo.tanh", "stablehlo.uniform_quantize")),
    ),
    "MG0104": Fault(
        "An operation does not match its definition: shapes or element types do not agree, an attribute is missing or "
        "out of range. Every stage is checked, so texts that were edited by hand are too.",
        "The message has both sides. Fix the operation at the caret.",
        CHECK,
        program(
            (
                "%b = stablehlo.tanh %a : tensor<8x4xf32>",
                "%b = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<8x4xf32>",
            )
        ),
    ),
    "MG0105": Fault(
        "A Python function is run once, on tensors that have a type but no elements, to record its operations. It raised an exception, or called `sys.exit`: "
        "the message has its kind and its text, the caret is at the innermost line of the user's own code. In Python the exception is the cause (`__cause__`).",
        "Fix the line. `mg.Tensor` has NumPy's operators and the usual methods; all other operations are functions of `meshgen`.",
    ),
    "MG0108": Fault(
        "A tensor has more than 32 dims or 8 PiB, or inlining calls makes a program of more than 200,000 operations "
        "(two calls of the function below at each level double it).",
        "Write repeated parts as `stablehlo.while`; split large tensors into several.",
        CHECK,
        program(("8x4", "8000000x4000000000")),
    ),
    "MG0109": Fault(
        "A warning, on stderr, in `--json` and in the report: `sdy.all_reduce` or `sdy.reduce_scatter` of a value that is not declared unreduced along its axes, "
        "and that no operation computes as a sum: an argument, a constant, or a map of such. The value is passed on unchanged; adding up equal copies would multiply it.",
        "Declare `unreduced={...}` on the producer, or remove the reduction.",
        CHECK,
        {"p.mlir": REDUCTION},
    ),
    "MG0110": Fault(
        "The donations of the program or of `donate` contradict each other: two arguments for one result, an unknown result, or one of another type.",
        "Name a result of the argument's type in `tf.aliasing_output`, a different one for each argument, or write `jax.buffer_donor = true`: any result that fits.",
        CHECK,
        program(("%a: tensor<8x4xf32>", "%a: tensor<8x4xf32> {tf.aliasing_output = 3 : i32}")),
    ),
    "MG0111": Fault(
        "A warning, on stderr, in `--json` and in the report: an argument is donated, but no result is written to its memory: no remaining one has its type and sharding, "
        "or the argument is read after the result is computed, or at other indices. The step is correct; it needs memory for both. A session copies the next value at the end of the step.",
        "Remove the obstacle that the message names, or do not donate the argument.",
        ("meshgen compile p.mlir --target cpu -o p.mgx --donate a",),
        {"p.mlir": REVERSED},
    ),
    "MG0112": Fault(
        "A warning; a session refuses the program. A donated argument is state that a session keeps, and the result that is its next value is found by structure: "
        "the result with the keys and types of the argument. Here several results have them and neither names nor order decide, or the result with the same keys has another type. "
        "Calls and `meshgen run` are right, because only sessions continue an argument.",
        'Name the result: `donate={"params": "result.1"}`, on the command line `--donate params=result.1`. Or return the next value under the name of the argument.',
        ("meshgen compile p.mlir --target cpu -o p.mgx --donate a",),
        {"p.mlir": TWO_CANDIDATES},
    ),
    "MG0201": Fault(
        "The mesh has a size below 1, an axis twice, differs from that of the compiled module, or lacks a size that is needed; or a name has characters that the text of a stage cannot represent. "
        "An axis of size `?` gets its size when the program is compiled, or when the module is loaded: from `--mesh`, or from the number of processes of a launcher.",
        "Give each axis one size, a positive integer; give open sizes with `--mesh dp=4`.",
        ("meshgen compile p.mlir --mesh 0=?,1=2 --target cpu -o p.mgx", "meshgen run p.mgx"),
        constraints("[[0], []]"),
    ),
    "MG0202": Fault(
        "A sharding, collective or option names a mesh axis that the mesh does not have.",
        "Use one of the axes in the message, or give another mesh with `--mesh`.",
        ("meshgen check p.mlir --spec a=dp,_",),
        program(),
    ),
    "MG0203": Fault(
        "A mesh axis splits two dims of one value, or splits a dim and makes it partial too. Each device has one coordinate along an axis.",
        "Use the axis once; parts of an axis (`x:(1)2` and `x:(2)4` of `x=8`) are different axes.",
        ("meshgen check p.mlir --spec a=x,x",),
        program(),
    ),
    "MG0204": Fault(
        "A sharding has another rank than its tensor, an unknown kind of partial value, a halo on a dim that is not split, or offsets "
        "that do not fit the dim.",
        "Give one entry per tensor dim, `_` where it is not split.",
        ("meshgen check p.mlir --spec a=x,_,_",),
        program(),
    ),
    "MG0205": Fault(
        "Two required annotations of the same value for its producer differ. A value has one producer.",
        "Keep one, make one a hint (`required = false`), or annotate for the users (`annotate_for_users`): then it is resharded.",
        CHECK,
        constraints("[[1], []]", "[[], [1]]"),
    ),
    "MG0206": Fault(
        "An operation or collective of a program that already has shardings cannot work on shards as they are, for instance because rows "
        "that belong together are on several devices. Propagation never makes such programs; texts of later stages may.",
        "Reshard the operand first, or compile the program from before propagation, which reshards it.",
    ),
    "MG0207": Fault(
        "A value cannot be resharded: a transfer would have to reduce, or sizes are unknown.",
        "Reduce first, with all_reduce or reduce_scatter, and give sizes.",
    ),
    "MG0208": Fault(
        "A tensor dim has size `?`. Programs are read with open sizes and modules keep them open, but shards, kernels and buffers need them; all open dims are listed. Or a program of PyTorch or ONNX depends on its open sizes otherwise than as sums of products.",
        "Give the inputs' shapes, `--shape a=8x4` or `args={'a': (8, 4)}`: all others follow. Without, `check` tries some.",
        ("meshgen explain p.mlir",),
        program(("8x4", "?x4")),
    ),
    "MG0209": Fault(
        "A value cannot be placed on the meshes of a program: an annotation names an unknown mesh, or a loop or branch that cannot be unrolled has values on several.",
        "Loops with a constant trip count are unrolled. Else keep a loop on one mesh and annotate its operands and results.",
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
        "With `--strict` (`strict=True`): a split value is gathered for a use, and no annotation replicates it. The notes name the annotations behind both sides.",
        '`meshgen explain --advise` lists annotations to drop or to add, and what each gains. A replicated annotation of the value for its users marks an intended gather. `--strict-at h` (`strict=["h", 42]`) is strict with one value or line only.',
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
        "A warning: a JAX program has shardings over a mesh, and is compiled for a mesh with the same axes in other sizes. "
        "Its shardings are kept by the names of their axes.",
        "Leave the mesh out to compile for the mesh of the program, or make the shardings over the mesh that is meant.",
    ),
    "MG0301": Fault(
        "No kernel can be generated for an operation with these element types; all such operations of the program are listed before any kernel is made, each with how often it runs. Or a loop has transfers between meshes and no constant trip count.",
        "Run it with `--target cpu` on the reference device; write loops around transfers with a constant trip count.",
    ),
    "MG0302": Fault(
        "Triton or its assembler refuses the source that meshgen generated.",
        "This is a fault of meshgen: report it as an issue of its repository, with the file that the message names and the output of `meshgen doctor`.",
    ),
    "MG0303": Fault(
        "A kernel needs more shared memory or threads than the architecture has, or a step needs more device memory than the limit.",
        "Split more values over more devices, or compile for another architecture.",
    ),
    "MG0401": Fault(
        "The order of launches on the streams of a schedule could deadlock. Schedules that meshgen makes are proven free of this; "
        "one that was edited may not be. Or a loop or branch that was written per device holds collectives, and its condition may differ between devices.",
        "Give every event a launch that records it before it is waited for; reduce a condition over the axes along which it may differ.",
    ),
    "MG0402": Fault(
        "Two launches of a schedule touch the same bytes, one of them writes, and no stream or event orders them.",
        "Let the later one wait for the earlier one's event.",
    ),
    "MG0403": Fault(
        "A warning, on stderr, in `--json` and in the report: an `if` or `case` holds collectives. A schedule is the same on all devices, so all of its branches "
        "are computed on all of them, and each device takes the results of the branch that it chose, also where devices of one group "
        "choose differently: no device waits for one that took another branch. Where a loop in a branch might not end, the branch that all devices choose is computed alone, "
        "and there is no warning. `check` gives this the same meaning at every stage.",
        "Move the collectives out of the branches if computing all branches is too expensive, or select between their results.",
        CHECK,
        {"p.mlir": BRANCHES},
    ),
    "MG0404": Fault(
        "A warning, on stderr, in `--json` and in the report: more than a third of the operations of a step are done alike by several devices, because no "
        "annotation reaches the ops that do them, or keeping their results whole was estimated to take less time than moving them. Steps whose kernels "
        "take less than 50 us besides their launches are not warned about.",
        "Annotate what the named op makes so that the idle mesh axis splits it. `meshgen explain --advise` tries such annotations, and names those that make the step shorter.",
        ("meshgen explain p.mlir c",),
        {"p.mlir": REPEATED},
    ),
    "MG0501": Fault(
        "The file is not a module that meshgen wrote.",
        "Write one with `meshgen compile`.",
        ("meshgen run p.mgx",),
        {"p.mgx": "not a module\n"},
    ),
    "MG0502": Fault(
        "The file is a module, but a digest, a bound or a value in it is wrong: it was damaged, truncated or changed.",
        "Copy it again, or write it again with `meshgen compile`.",
    ),
    "MG0503": Fault(
        "The module was written by a newer meshgen, in a format that this one does not know, or by an older one, in a format that this one no longer reads: meshgen reads its own format and the one before.",
        "Use the newer meshgen, or compile the program again.",
    ),
    "MG0504": Fault(
        "A module has limits: 65,536 inputs, 131,072 launches, 1,024 mesh axes and so on (`meshgen/runtime/module_file/limits.py`), and names without control characters.",
        "Use other names, or make the program smaller. Do not trust a file that meshgen did not write.",
    ),
    "MG0505": Fault(
        "The C loader was given a module without a launch table, which it needs and Python does not.",
        "`meshgen native OUT.mgx` adds the table; see [native.md](native.md).",
    ),
    "MG0506": Fault(
        "`verify`, `run --verify-key` or `load(verify_key=...)` requires a module signed by a key, and this one is not signed, is signed by another key, or was changed since.",
        "Get the module again from the signer, or sign it with `meshgen sign` if you trust it.",
    ),
    "MG0601": Fault(
        "An argument of a run, or the shape of one whose sizes are open, is missing, unknown, or has another shape or element type than the program takes.",
        "Pass global arrays as the signature in the message says.",
    ),
    "MG0602": Fault(
        "A Python package, NVIDIA's driver (CUDA 12.0 or later), NCCL (2.28 or later), a GPU or a kernel's code for its architecture is missing, or a module with open sizes was not compiled for these "
        "ahead of time and the compiler is missing.",
        "`meshgen doctor` shows missing packages and how to install them; `--device reference` needs none of it.",
    ),
    "MG0603": Fault(
        "The module needs another number of devices than are available, or these do not fill its mesh.",
        "Compile the program for a mesh of that many devices.",
        ("meshgen compile p.mlir --target cpu -o p.mgx", "meshgen run p.mgx --devices 3"),
        program(),
    ),
    "MG0604": Fault(
        "Something failed while a module ran: memory is too small, a kernel touched memory outside its arguments, ranks would deadlock, a call of CUDA or NCCL failed (the message has its number and text), or the operating system refused a file or process.",
        "Use fewer simulated ranks or smaller inputs; report kernels that fail, with the module. After a failure of a GPU the next step makes it ready again.",
    ),
    "MG0605": Fault(
        "Results differ from expected ones by more than the rounding bound.",
        "`meshgen check` names the output and the place; report programs that it rejects.",
    ),
    "MG0606": Fault(
        "The program on one device with the bounds of its errors, or all simulated devices together, take more memory than this "
        "machine has free, or than `--memory` allows. The estimate is a lower bound: values, without temporary memory of operations.",
        "Check the program with smaller sizes: its shardings stay valid. `--memory` overrides the limit.",
        ("meshgen check p.mlir --memory 1kB",),
        program(),
    ),
    "MG0607": Fault(
        "A warning: an array of f64, which NumPy makes unless told otherwise, met a tensor of narrower floats in a traced function, and the result is f64. "
        "Numbers of Python, and scalars such as `np.sqrt(8)`, widen nothing.",
        "Make the array with the tensor's type, as `np.ones(4, x.dtype)` does, or convert it with `astype`.",
    ),
    "MG0608": Fault(
        "An emulated GPU refuses an operation of a kernel or a step. A kernel touches memory outside its operands or at a misaligned address (`address`, "
        "`alignment`, `shared memory`), warps race in shared memory (`race`), threads deadlock (`barrier`), data that is "
        "copied or computed asynchronously is used before it was waited for (`async copy`), an instruction is unknown "
        "(`opcode`), or the kernel does not end (`time`). Launches of a step touch the same bytes and no stream, event or graph edge orders "
        "them (`race`), ranks call NCCL differently (`collective`), or deadlock (`deadlock`). The message names the "
        "kernel, the line of its Triton source and the PTX instruction; or both launches and the buffers; or the ranks and their waits.",
        "It is a bug of meshgen, unless the module was changed; please report it as an issue of its repository, with the module.",
    ),
    "MG0609": Fault(
        "A rank is lost: its process or machine is gone, it does not reply in time, or it failed and reported the reason. The message names the collective that this rank is in, "
        "the ranks that it waits for, and their known state. All ranks end with it.",
        "Look for the first failure: the message of a failed rank is in those of the others. Ranks that are only slow need more time: `--time-out`. "
        "[distributed.md](distributed.md) tells what is noticed how.",
    ),
    "MG0610": Fault(
        "A launcher has started ranks that do not run the same: the message says which of them have which module, by its digest, on which mesh and kind of device.",
        "Copy one module file to all machines, and give all ranks the same options.",
    ),
    "MG0611": Fault(
        "The variables by which a process knows which rank it is, and where the others are, are incomplete or contradict each other.",
        "Start with torchrun, mpiexec or srun; without a launcher set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each process.",
    ),
    "MG0612": Fault(
        "A warning of `meshgen tune`: with another tile a kernel computes something else than the kernel that the module has, by more than their rounding "
        "explains. The tile is not used; the message says how many elements differ.",
        "It is a bug of meshgen; please report it as an issue of its repository, with the module.",
    ),
}
