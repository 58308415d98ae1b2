"""A server loop on a module: weights are loaded once, a cache stays on the devices, and each request is one step.

    python examples/server.py

Each line of standard input is a request: the features of a token. Answers go to standard output.
"""

import sys
from collections.abc import Iterable

import numpy as np

import meshgen as mg

LENGTH, MODEL = 32, 16


def decode(w, cache, position, token):
    """Compute the attention of one token to all previous tokens. The argument `cache` is donated, so it is updated in
    place.
    """
    cache = mg.dynamic_update_slice(cache, token, (position, 0))
    scores = mg.where(mg.arange(LENGTH) <= position, (cache @ token[0]) / MODEL**0.5, -1e9)
    return cache, (mg.softmax(scores) @ cache) @ w


def build(path: str, target: str = "cpu") -> None:
    types = [f"f32[{MODEL},{MODEL}]", f"f32[{LENGTH},{MODEL}]", "i32[]", f"f32[1,{MODEL}]"]
    specs = {"w": mg.P(None, "tp"), "cache": mg.P(None, "tp")}
    exe = mg.compile(decode, {"tp": 4}, args=types, in_specs=specs, donate={"cache": 0}, target=target)
    exe.save(path, weights={"w": np.eye(MODEL, dtype=np.float32)})


def serve(path: str, requests: Iterable[str]) -> None:
    with mg.load(path).session() as session:  # pass device="cuda" to run on GPUs
        session["cache"] = np.zeros((LENGTH, MODEL), np.float32)
        for position, line in enumerate(requests):
            token = np.resize(np.array(line.split(), np.float32), (1, MODEL))
            answer = session(np.int32(position), token)
            sys.stdout.write(f"{np.asarray(answer).sum():.4f}\n")


if __name__ == "__main__":
    build("server.mgx", *sys.argv[1:])
    serve("server.mgx", sys.stdin if not sys.stdin.isatty() else ["1 2", "3 4"])
