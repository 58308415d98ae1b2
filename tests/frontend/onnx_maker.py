"""Builder of random ONNX models. It keeps the values that a model already has, and appends nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.frontend.random_models import CannotBuild, Draws, Steps
from tests.onnx_models import Builder, reference

Array = np.ndarray[Any, Any]
OPSET = 21  # opset of the models; it defines all operators that the steps use
MOST_ELEMENTS = 4096  # elements of a value (chosen: models stay fast to evaluate)
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


class RandomBuilder(Draws):
    """A model under construction. For each name it has the value that the reference computed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.builder = Builder()
        self.values: dict[str, Array] = {}
        self.inputs: dict[str, Array] = {}
        self.exact: set[str] = set()
        self.used: set[str] = set()

    def input(self, array: Array) -> str:
        """Add an input to the model and return its name."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = array
        if array.dtype != np.float32 or (array * 4 == np.round(array * 4)).all():
            self.exact.add(name)
        return name

    def weight(self, *shape: int) -> str:
        """Add a weight of this shape, or sometimes an input instead, and return its name."""
        array = self.numbers(*shape)
        return self.input(array) if self.integer(0, 2) == 0 else self.constant(array)

    def constant(self, array: Any) -> str:
        name = self.builder.array(f"c{len(self.builder.weights)}", np.asarray(array))
        self.values[name] = np.asarray(array)
        self.exact.add(name)
        self.used.add(name)
        return name

    def pick(self, fits: Callable[[Array], bool] = lambda array: True, *, exact: bool = False) -> str:
        """Return the name of a random float value for which `fits` holds."""
        names = [name for name, array in self.values.items() if array.dtype == np.float32 and fits(array) and name not in self.builder_constants]  # fmt: skip
        names = [name for name in names if not exact or name in self.exact]
        if not names:
            raise CannotBuild
        return self.one_of(names[-6:] if self.integer(0, 3) else names)

    @property
    def builder_constants(self) -> set[str]:
        return {weight.name for weight in self.builder.weights}

    def of_rank(self, rank: int, most: int = 6, *, exact: bool = False) -> str:
        """Return the name of a random value whose rank is between `rank` and `most`."""
        return self.pick(lambda array: rank <= array.ndim <= most and array.size > 0, exact=exact)

    def add(
        self,
        op: str,
        *operands: str,
        results: int = 1,
        keeps: bool = False,
        reads: Sequence[str] = (),
        **attributes: Any,
    ) -> Any:
        """Append a node and compute its results.

        Args:
            keeps: whether the results are exact if the operands are.
            reads: names of the values that subgraphs of the node read.
        """
        outputs = self.builder(op, *operands, results=results, **attributes)
        names = [outputs] if results == 1 else outputs
        node = self.builder.nodes[-1]
        try:
            results_of_node = one_node(node, {name: self.values[name] for name in (*operands, *reads) if name})
        except (
            IndexError,
            ValueError,
            TypeError,
        ) as error:  # the reference implementation has bugs, so nodes on which it fails are skipped
            self.builder.nodes.pop()
            raise CannotBuild from error
        if any(
            array.size > MOST_ELEMENTS or (array.dtype == np.float32 and not (np.abs(array) < 1e4).all())
            for array in results_of_node
        ):
            self.builder.nodes.pop()
            raise CannotBuild
        is_exact = keeps and all(name in self.exact for name in operands if name)
        for name, array in zip(names, results_of_node, strict=True):
            self.values[name] = array
            if (is_exact and np.abs(array).max(initial=0) < 64) or array.dtype != np.float32:
                self.exact.add(name)
        self.used.update((*operands, *reads))
        return outputs

    def model(self) -> tuple[Any, list[str]]:
        """Return the model and the names of its results: all values without a user."""
        outs = [name for name in self.values if name not in self.used and name not in self.inputs] or [*self.values][
            -1:
        ]
        infos = [helper.make_tensor_value_info(name, TYPES[array.dtype.name], array.shape) for name, array in self.inputs.items()]  # fmt: skip
        kinds = [helper.make_tensor_value_info(name, TYPES[self.values[name].dtype.name], None) for name in outs]
        graph = helper.make_graph(self.builder.nodes, "random", infos, kinds, self.builder.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10), outs


def one_node(node: Any, values: dict[str, Array]) -> list[Array]:
    """Return the results that the reference implementation computes for a node."""
    infos = [
        helper.make_tensor_value_info(name, TYPES[result.dtype.name], result.shape) for name, result in values.items()
    ]
    outs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output]
    model = helper.make_model(
        helper.make_graph([node], "g", infos, outs), opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [np.asarray(result) for result in reference(model, *values.values())]


STEPS = Steps[RandomBuilder]()
step = STEPS.step
