"""A pool of compiler processes that serve requests in parallel and live across builds.

`multiprocessing` is not used: its spawn imports the user's main script again, which breaks scripts without a main
guard. A worker that crashes or takes too long is replaced, and its request gets an error.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from meshgen.codegen.building.scratch import Scratch

SECONDS_PER_KERNEL = 600.0  # seconds; chosen: far longer than any compilation, so only a compiler that hangs is stopped
# Environment variables of Triton and LLVM (dumps, overrides, debugging, plugins) that must not affect builds.
_COMPILER_PREFIXES = ("TRITON_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "DISABLE_", "ALLOW_", "USE_IR_")
_INHERITED_VARIABLES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
_idle: list[Worker] = []
_living: list[Worker] = []
_lock = threading.Lock()

Reply = dict[str, Any]


class Worker:
    """A compiler process and its scratch directory."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        scratch_path = str(self._scratch.path)
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(_COMPILER_PREFIXES) or k in _INHERITED_VARIABLES
        }
        environment |= {
            "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
            "TMPDIR": scratch_path,
            "TRITON_CACHE_DIR": os.path.join(scratch_path, "cache"),
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_DUMP_PTXAS_LOG": "1",
            "TRITON_STORE_BINARY_ONLY": "1",  # Triton does not store intermediate forms.
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "meshgen.codegen.building.build_worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=scratch_path,
        )  # fmt: skip

    def compile(self, request: dict[str, Any]) -> Reply:
        """Send a request to the process, and return its reply.

        The reply is `{"error": ...}` if the process died or was stopped after `SECONDS_PER_KERNEL`.
        """
        assert self._process.stdin and self._process.stdout
        timer = threading.Timer(SECONDS_PER_KERNEL, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return json.loads(line)
        code = self._process.wait()
        return {"error": f"the compiler process exited with status {code}", "log": ""}

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process and remove its scratch directory."""
        assert self._process.stdin and self._process.stdout
        if self.is_alive:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._scratch.remove()


def compile_all(requests: Sequence[dict[str, Any]], workers: int, done: Callable[[int, Reply], None]) -> None:
    """Compile all requests. Calls `done(index, reply)` as each request completes, never from two threads at a time."""
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(requests)):
        pending.put(index)
    failures: list[BaseException] = []
    callback_lock = threading.Lock()

    def serve() -> None:
        try:
            while not failures:
                index = pending.get_nowait()
                reply = _with_worker(requests[index])
                with callback_lock:
                    done(index, reply)
        except queue.Empty:
            return
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(workers, len(requests)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _with_worker(request: dict[str, Any]) -> Reply:
    with _lock:
        if not _idle:
            _idle.append(Worker())
            _living.append(_idle[-1])
        worker = _idle.pop()
    reply = worker.compile(request)
    with _lock:
        if worker.is_alive:
            _idle.append(worker)
        else:
            _living.remove(worker)
            worker.close()
    return reply


@atexit.register
def close_all() -> None:
    """End all workers. The next build starts new ones."""
    with _lock:
        _idle.clear()
        while _living:
            _living.pop().close()


def _forget() -> None:
    """Forget the workers in a forked child process, which must not communicate with the workers of its parent."""
    _idle.clear()
    _living.clear()


os.register_at_fork(after_in_child=_forget)
