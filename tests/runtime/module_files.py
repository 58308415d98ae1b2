"""Helpers that save and load modules in tests."""

from __future__ import annotations

import numpy as np

from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.runtime.loading import load
from tests.codegen.programs import costs


def saved(path, program, plan=None, **options):
    write_module(path, program, plan or schedule(program, costs=costs()), **options)
    return load(path)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
