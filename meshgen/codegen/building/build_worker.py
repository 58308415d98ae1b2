"""The process that compiles: one JSON request per line in, one JSON reply per line out.

Triton and ptxas write to stdout and stderr below Python; here both go to a file, and the replies to a private
copy of stdout. The source of a kernel comes with the request and is read from nowhere else. The process ends when its
input does, and removes its working directory, because the parent may have been killed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import linecache
import os
import re
import shutil
import sys
import tempfile
import time
import types
from typing import IO, Any

from meshgen.codegen.building.ptx_text import portable_ptx

_KEPT = ("name", "shared", "num_warps", "num_ctas", "global_scratch_size", "global_scratch_align",
         "profile_scratch_size", "profile_scratch_align", "tmem_size", "launch_cooperative_grid", "launch_pdl")  # fmt: skip
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def main() -> None:
    """Serve requests until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    try:
        with tempfile.TemporaryFile() as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            for line in sys.stdin:
                replies.write(json.dumps(_serve(json.loads(line), log)) + "\n")
                replies.flush()
    except BrokenPipeError:
        pass
    finally:
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


def _serve(request: dict[str, Any], log: IO[bytes]) -> dict[str, Any]:
    """Compile one kernel; any exception becomes a reply, because the caller must name the kernel.

    A request whose `assembled` is False gets its PTX, and an empty cubin.
    """
    log.seek(0)
    log.truncate()
    began = time.perf_counter()
    try:
        reply = _compile(request)
    except Exception as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.flush()
    sys.stderr.flush()
    log.seek(0)
    text = log.read().decode(errors="replace")
    shutil.rmtree(os.environ["TRITON_CACHE_DIR"], ignore_errors=True)
    if "error" in reply:
        return {"error": reply["error"], "log": text}
    spills = [(int(store), int(load)) for store, load in _SPILLS.findall(text)]
    return reply | {
        "seconds": time.perf_counter() - began,
        "spill_bytes": max((store + load for store, load in spills), default=None),
    }


def _compile(request: dict[str, Any]) -> dict[str, Any]:
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(_load(request["text"]), request["entry"])
    constants = request["constants"]
    signature = {name: "constexpr" if name in constants else request["signature"][name] for name in kernel.arg_names}
    hints = {
        (place,): [["tt.divisibility", request["divisor"]]]
        for place, name in enumerate(kernel.arg_names)
        if name in request["divisible"]
    }
    source = ASTSource(kernel, signature, constexprs=constants, attrs=hints)
    target = GPUTarget("cuda", int(request["arch"].removeprefix("sm_")), 32)
    # Lines of the source go into the PTX, not into the cubin.
    options = request["options"] | {"ptx_options": "-suppress-debug-info"}
    settings: Any = knobs.runtime
    settings.add_stages_inspection_hook = hook = _Hook(request.get("assembled", True))
    # Triton keys its own cache, a directory of this request alone, by a hash of all of its files, 400 MB.
    triton.runtime.cache.triton_key = lambda: triton.__version__
    built: Any = triton.compile(source, target=target, options=options)
    metadata = {name: getattr(built.metadata, name) for name in _KEPT if hasattr(built.metadata, name)}
    return {"cubin": base64.b64encode(built.asm["cubin"]).decode(), "ptx": hook.ptx, "metadata": metadata}


class _Hook:
    """Triton's hook on the stages of a compilation: ptxas assembles the text that modules keep, or nothing where no cubin is asked for."""

    def __init__(self, assembled: bool) -> None:
        self._assembled = assembled
        self.ptx = ""

    def __call__(self, *pipeline: Any) -> tuple[str, str] | None:
        """Change the stages (`pipeline` is a backend, stages by name, ...); newer versions of Triton also ask without arguments, for their key."""
        if not pipeline:
            return _Hook.__name__, _Hook.__name__
        stages = pipeline[1]
        make_ptx = stages["ptx"]

        def portable(*parts: Any) -> str:
            self.ptx = portable_ptx(make_ptx(*parts))
            return self.ptx

        stages["ptx"] = portable
        if not self._assembled:
            stages["cubin"] = lambda *_: b""
        return None


def _load(text: str) -> types.ModuleType:
    """The source as a module. Triton reads it back with `inspect`, which finds its lines in `linecache`."""
    name = f"meshgen_kernel_{hashlib.sha256(text.encode()).hexdigest()}"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__file__ = file = f"<{name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        sys.modules[name] = module
        try:
            exec(compile(text, file, "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]  # a second request for it fails alike
            raise
    return sys.modules[name]


if __name__ == "__main__":
    main()
