"""The compiler process: reads one JSON request per line, writes one JSON reply per line.

Triton and ptxas write to the file descriptors of stdout and stderr. Both are redirected to a file, and replies go to a
private copy of stdout. The source of a kernel comes with the request and is never read from a file. The process ends
when its input ends. It then removes its working directory, because its parent may have been killed.
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

_METADATA_FIELDS = ("name", "shared", "num_warps", "num_ctas", "global_scratch_size", "global_scratch_align",
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
    """Compile one kernel. Any exception becomes a reply, because the caller adds the name of the kernel to the message.

    If `assembled` is False in the request, the reply has the PTX and an empty cubin.
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
        (position,): [["tt.divisibility", request["divisor"]]]
        for position, name in enumerate(kernel.arg_names)
        if name in request["divisible"]
    }
    source = ASTSource(kernel, signature, constexprs=constants, attrs=hints)
    target = GPUTarget("cuda", int(request["arch"].removeprefix("sm_")), 32)
    # Triton puts source lines into the PTX, not into the cubin.
    options = request["options"] | {"ptx_options": "-suppress-debug-info"}
    settings: Any = knobs.runtime
    settings.add_stages_inspection_hook = hook = _Hook(request.get("assembled", True))
    # By default, Triton keys its cache by a hash of all of its files (400 MB). The cache directory serves this request
    # only.
    triton.runtime.cache.triton_key = lambda: triton.__version__
    built: Any = triton.compile(source, target=target, options=options)
    metadata = {name: getattr(built.metadata, name) for name in _METADATA_FIELDS if hasattr(built.metadata, name)}
    return {"cubin": base64.b64encode(built.asm["cubin"]).decode(), "ptx": hook.ptx, "metadata": metadata}


class _Hook:
    """Triton's hook on compilation stages. It makes ptxas assemble the portable PTX, or skips ptxas unless `assembled`."""

    def __init__(self, assembled: bool) -> None:
        self._assembled = assembled
        self.ptx = ""

    def __call__(self, *pipeline: Any) -> tuple[str, str] | None:
        """Replace Triton's compilation stages. `pipeline` is (backend, stages by name, ...).

        Newer versions of Triton also call the hook without arguments, to get the hook's cache key.
        """
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
    """Load the source as a module.

    Triton reads the source text back with `inspect`, which finds the lines in `linecache`.
    """
    name = f"meshgen_kernel_{hashlib.sha256(text.encode()).hexdigest()}"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__file__ = file = f"<{name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        sys.modules[name] = module
        try:
            exec(compile(text, file, "exec"), module.__dict__)
        except BaseException:
            # Remove the broken module, so that a second request for the same kernel fails in the same way.
            del sys.modules[name]
            raise
    return sys.modules[name]


if __name__ == "__main__":
    main()
