"""The options of `compile`, each declared once with type, default, meaning and command-line flags.

Python takes them as keywords (`with_options`), the command line as flags (`commands/options.py`), and pyproject.toml as
settings with the names of the flags (`commands/settings.py`). The reference pages are generated from the same
declarations.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.codegen.tuning.table import Tuning, loaded_table
from meshgen.frontend.arguments import Args
from meshgen.frontend.donate import Donate
from meshgen.frontend.option_checks import names_option, strict_option, text_option
from meshgen.frontend.specs import Specs
from meshgen.machine.profiles import MACHINES, Machine
from meshgen.mesh import Meshes
from meshgen.ops.precision import PRECISIONS
from meshgen.pipeline import Options, Progress

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
_DOC_WIDTH = 136  # chosen: width, in columns, of the option texts in generated docstrings


@dataclass(frozen=True)
class Flag:
    """The command-line flag of an option. Fields that are not listed here are arguments of
    `ArgumentParser.add_argument`.

    Attributes:
        repeats: the flag may be given several times.
        is_switch: the flag has no value.
        is_shared: `[tool.meshgen]` in pyproject.toml may set it for all commands that read a program.
    """

    name: str
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    repeats: bool = False
    is_switch: bool = False
    is_shared: bool = False


def _about(text: str, *flags: Flag) -> Mapping[str, Any]:
    """Return the metadata of a field: the meaning of the option, and its flags."""
    return {"help": text, "flags": flags}


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """The options of a compilation, besides the program and its mesh."""

    args: Args = field(
        default=None,
        metadata=_about(
            'for a Python function, the type of each parameter (`"bf16[8,512]"`, or anything with shape and dtype), nested in dicts, lists '
            "and tuples as the function takes them, which gets dicts with sorted keys; for other programs, types or shapes of inputs "
            "whose sizes they leave open, in order or by name.",
            Flag("--arg", "type of the Python function's next parameter, such as f32[8,16]", "TYPE", repeats=True),
            Flag(
                "--shape",
                "shape of an input with open sizes, such as x=8x64 (? keeps the size in the program); x=8x?|16x? lists several shapes",
                "NAME=SIZES",
                repeats=True,
            ),
            Flag(
                "--constant",
                "value of an input of an ONNX model, which becomes a constant: sr=16000, axes=0,2, or table=@table.npy",
                "NAME=VALUE",
                repeats=True,
            ),
        ),
    )
    in_specs: Specs = field(
        default=None,
        metadata=_about(
            "required shardings of inputs: by name (`params.w`, `params['w']`, `arg1.w`; `*` matches), one per input, or in the structure "
            "of the arguments; None leaves it open.",
            Flag(
                "--spec",
                "required sharding of an input, such as w1=_,tp (NAME may have the wildcard *); with several meshes w1=_,tp@first",
                "NAME=SPEC",
                repeats=True,
                is_shared=True,
            ),
        ),
    )
    out_specs: Specs = field(
        default=None,
        metadata=_about(
            "required shardings of outputs (`result`, `result.0`, ...), in the same forms; a single sharding applies to the only output.",
            Flag("--out-spec", "required sharding of an output (result, result.0, ...)", "NAME=SPEC", repeats=True),
        ),
    )
    target: str | None = field(
        default=None,
        metadata=_about(
            "`cuda:sm_90`, `cuda:sm_90,sm_80` (no GPU is needed), or `cpu`: no binaries; default: the machine's device, else "
            f"`{DEFAULT_TARGET}`.",
            Flag(
                "--target",
                f"cuda:sm_90[,sm_80] or cpu (default: the machine's, else {DEFAULT_TARGET})",
                is_shared=True,
            ),
        ),
    )
    arguments: str = field(
        default="local",
        metadata=_about(
            "`local`: each rank gets its shards; `global`: each gets the entire arrays.",
            Flag(
                "--arguments",
                "arguments of each rank: its shards (local), or entire arrays that it slices (global)",
                choices=("local", "global"),
            ),
        ),
    )
    sizes: Sequence[Mapping[str, Any]] = field(
        default=(),
        metadata=_about(
            "for a program with open sizes, the combinations of sizes to compile ahead of time: each has in `mesh` the sizes of open mesh axes, and in "
            '`args` the shapes (or types) of inputs with open sizes, as in `{"mesh": {"dp": 2}, "args": {"x": (8, 64)}}`.'
        ),
    )
    strict: bool | Sequence[str | int] = field(
        default=False,
        metadata=_about(
            "refuse (MG0210) values that are gathered although no annotation replicates them: True, or only these values (by name) and source lines.",
            Flag("--strict", "refuse values that are gathered although no annotation replicates them", is_switch=True),
            Flag("--strict-at", "like --strict, but only for one value or source line", "VALUE|LINE", repeats=True),
        ),
    )
    memory_limit: int | None = field(
        default=None,
        metadata=_about(
            "bytes per device that a step may use to hide more communication; default: the memory of the machine's device, without a "
            "machine the memory that the step needs without overlap.",
            Flag(
                "--memory-limit",
                "device memory, such as 80GB, that a step may use to hide communication (default: the memory of the machine's device; without a machine, what a step without overlap needs)",
                "SIZE",
                is_shared=True,
            ),
        ),
    )
    skip: Sequence[str] = field(
        default=(),
        metadata=_about(
            "names of passes to skip, such as `chunks` (docs/passes.md lists all passes).",
            Flag("--skip", "a pass to skip, such as chunks (meshgen opt --list-passes)", "NAME", repeats=True),
        ),
    )
    entry: str | Sequence[str] = field(
        default="",
        metadata=_about(
            "the function to compile, or a list of functions, if MLIR text has several public functions; default: @main, or else all of them. "
            'Several functions, also those of a dict as `graph` (`{"prefill": f, "decode": g}`), become one `EntriesExecutable` and one '
            "module; `args`, `in_specs`, `out_specs` and `donate` may then be dicts by their names.",
            Flag(
                "--entry",
                "the entry function, if IN has several functions (default: @main; compile accepts several names, and by default compiles all functions if none is @main)",
                "NAME",
                repeats=True,
            ),
        ),
    )
    donate: Donate = field(
        default=None,
        metadata=_about(
            "arguments whose memory results reuse, so that they are updated in place: names or numbers of parameters (as JAX's "
            "`donate_argnums`), each for the result that has its structure, or a dict from them to results: "
            '`{"params": 0, "opt": "result.1"}`. Programs may contain donations (`tf.aliasing_output`, `jax.buffer_donor`). The report '
            "lists unused ones.",
            Flag(
                "--donate",
                "an argument whose memory is reused by RESULT (params=result.0), by default by the result of the same structure",
                "NAME[=RESULT]",
                repeats=True,
            ),
        ),
    )
    machine: str | Path | Machine | None = field(
        default=None,
        metadata=_about(
            "the machine whose links and devices the program is planned for, as in `simulate`; devices are numbered through its hosts in the "
            "order of the mesh. Default: the machine of the program's mesh, else one host of NVLink 4.",
            Flag(
                "--machine",
                f"the machine that has the mesh's devices: {', '.join(MACHINES)}, or the path of a profile.json (default: the machine that the program names, else one host)",
                is_shared=True,
            ),
        ),
    )
    precision: str = field(
        default="",
        metadata=_about(
            "precision of all f32 matmuls on GPUs: `default` (tf32), `high` (three tf32 multiplications), `highest`; default: as in the program.",
            Flag(
                "--precision",
                "precision of all f32 dots and convolutions on GPUs: tf32, three tf32 multiplications, or f32 (default: as in the program)",
                choices=tuple(PRECISIONS),
                is_shared=True,
            ),
        ),
    )
    tuning: Tuning = field(
        default=None,
        metadata=_about(
            "a table that `meshgen tune` wrote: kernels with a row use the tile that was fastest on the target's (first) architecture.",
            Flag(
                "--tuning",
                "a table that meshgen tune wrote; kernels use the tiles that were measured as fastest",
                "FILE.json",
            ),
        ),
    )
    search: bool | float = field(
        default=False,
        metadata=_about(
            "choose the shardings of arguments without an annotation as `search` does: True, or the seconds that it may take."
        ),
    )
    progress: Progress | None = field(
        default=None,
        metadata=_about(
            "called as `progress(what, done, total)` when a stage, a pass of it or the build of a kernel begins."
        ),
    )

    def for_stages(self) -> Options:
        """Check the options, and return those of the stages. The target is the default target if none is set.

        Raises:
            UsageError: MG0001 for an invalid option.
        """
        target = DEFAULT_TARGET if self.target is None else self.target
        arguments, strict = text_option(self.arguments, "arguments"), strict_option(self.strict)
        skip = names_option(self.skip, "skip")
        return Options(target, arguments, strict, self.memory_limit, skip, loaded_table(self.tuning))

    def of_entry(self, name: str, entry: str, names: Collection[str]) -> CompileOptions:
        """Return the options for one of several entry functions. From an option that is a dict by entry names, its
        entry is taken.

        Args:
            name: the name of the entry.
            entry: the name of the function in the program that contains the entry.
            names: the names of all entries.
        """
        chosen: dict[str, Any] = {"entry": entry}
        for option in ("args", "in_specs", "out_specs", "donate", "machine", "precision"):
            value = getattr(self, option)
            if isinstance(value, Mapping) and value and {*cast("Mapping[Any, Any]", value)} <= {*names}:
                chosen[option] = cast("Mapping[Any, Any]", value).get(name)
        return replace(self, **chosen)


FLAGS: Mapping[str, tuple[Flag, ...]] = {
    each.name: each.metadata["flags"] for each in fields(cast("Any", CompileOptions))
}


class TakesOptions(Protocol[P, R_co]):
    """The type of functions that take a program, its mesh, and the options of `CompileOptions` as keywords."""

    def __call__(self, graph: Any, mesh: Meshes = None, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def with_options(
    options: Callable[P, CompileOptions],
) -> Callable[[Callable[[Any, Meshes, CompileOptions], R_co]], TakesOptions[P, R_co]]:
    """Wrap a function so that it takes the fields of `CompileOptions` as keywords instead of an options object.

    `{options}` in its docstring is replaced by the meanings of the options.
    """

    def decorated(function: Callable[[Any, Meshes, CompileOptions], R_co]) -> TakesOptions[P, R_co]:
        @wraps(function)
        def called(graph: Any, mesh: Meshes = None, *args: P.args, **kwargs: P.kwargs) -> R_co:
            return function(graph, mesh, options(*args, **kwargs))

        called.__dict__["__signature__"] = _signature_with_options()
        called.__doc__ = (inspect.getdoc(function) or "").replace("{options}", _described())
        return called

    return decorated


def _signature_with_options() -> inspect.Signature:
    """Return the signature of a wrapped function: a program, a mesh, and the options as keywords."""
    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    first = [inspect.Parameter("graph", positional), inspect.Parameter("mesh", positional, default=None)]
    declared = fields(cast("Any", CompileOptions))
    return inspect.Signature(
        [*first, *(inspect.Parameter(option.name, keyword, default=option.default) for option in declared)]
    )


def _described() -> str:
    """Return the meaning of each option as lines of the `Args` section of an unindented docstring."""
    texts = (f"{option.name}: {option.metadata['help']}" for option in fields(cast("Any", CompileOptions)))
    wrapper = textwrap.TextWrapper(_DOC_WIDTH, " " * 4, " " * 8, break_on_hyphens=False)
    wrapped = map(wrapper.wrap, texts)
    return "\n".join(line for lines in wrapped for line in lines).lstrip()
