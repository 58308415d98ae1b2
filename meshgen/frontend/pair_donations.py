"""Find the next value of each donated argument: the subtree of the results that has the argument's structure.

    step(state, x) -> (loss, {"w": ..., "lr": ...})      state.w -> result.1.w, state.lr -> result.1.lr
    step(params, x) -> (grads, new_params)               ambiguous: both results have the structure of params

JAX's `tf.aliasing_output` pairs arrays by type, in order. It states which memory may be reused, but not which result
continues an argument. This module applies the following rules, to the largest structures first:

1. A result fits an argument if both have the same keys and the types of their leaves agree.
2. If several results fit, the next value is the one whose path ends with the same keys as the argument's path
   (`{"params": ..., "grads": ...}`).
3. If as many results as arguments of one structure remain, they are paired in order (`params, velocity`).
4. If their counts differ, they stay unpaired, and a session rejects the program.
5. An argument that no result fits is paired leaf by leaf with the result that has its keys. If there is none, the
   rules apply to its children.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.calls.argument_tree import Branch, Node, Slot, slots_of, tree_of
from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.calls.trees import Path, canonical, dotted
from meshgen.errors import Diagnostic
from meshgen.ir.graph import Module, TensorType


def with_next_values(module: Module, signature: Signature) -> tuple[Module, Signature]:
    """Return the module with the donated inputs paired with the outputs that are their next values, and the signature.

    The signature gets these pairs as its state. Donations that already name an output do not change. MG0112 warns of
    each argument with several candidate results.
    """
    if not module.donations or module.stage != "import":
        return module, replace(signature, state=_given_state(module, signature))
    pairing = _Pairing(module, _results(module, signature))
    pairing.run(signature)
    donations = {number: pairing.decided.get(number) for number in module.donations}
    state = State(pairing.next_values, {warning.message: warning.hint for warning in pairing.undecided})
    completed = replace(signature, state=state, warnings=(*signature.warnings, *pairing.undecided))
    return replace(module, donations=donations, result_paths={}), completed


def _given_state(module: Module, signature: Signature) -> State:
    """Return the state (pairs of input and next value) that the module's own donations describe."""
    pairs = {slot.name: module.donations.get(slot.number) for slot in signature.slots if slot.number is not None}
    return State({name: output for name, output in pairs.items() if output is not None})


def _results(module: Module, signature: Signature) -> Node:
    """Return the result structure from the signature, or else from JAX's names of the results (`result[0]['w']`)."""
    if signature.result is not None:
        return signature.result
    count, paths = len(module.graph.outputs), module.result_paths
    slots = [Slot(f"result.{number}", number) for number in range(count)]
    if len(paths) == count:
        keys = [tuple(filter(None, canonical(paths[number]).split(".")))[1:] for number in range(count)]
        if all(keys) and (tree := tree_of(zip(keys, slots, strict=True))) is not None:
            return tree
    return slots[0] if count == 1 else Branch((str(number), slot) for number, slot in enumerate(slots))


class _Tree(NamedTuple):
    """A subtree of the arguments or of the results, with its path from the root."""

    path: Path
    node: Node

    @property
    def name(self) -> str:
        return dotted(self.path)

    def children(self) -> Iterator[_Tree]:
        if isinstance(self.node, Branch):
            for key, branch in self.node.items():
                yield _Tree((*self.path, key), branch)

    def all(self) -> Iterator[_Tree]:
        """Yield this subtree and all subtrees nested in it, in preorder."""
        yield self
        for child in self.children():
            yield from child.all()

    def common_keys(self, other: _Tree) -> int:
        """Return the length of the common suffix of both paths, or 0 if all keys in the suffix are list indices."""
        count = 0
        for here, there in zip(reversed(self.path), reversed(other.path), strict=False):
            if here != there:
                break
            count += 1
        keys = self.path[len(self.path) - count :]
        return 0 if all(key.isdecimal() for key in keys) else count


class _Pairing:
    """Assigns an output to each donated input by the rules of this module; inputs and outputs are given by number."""

    def __init__(self, module: Module, results: Node) -> None:
        self.module = module
        self.decided = {number: output for number, output in module.donations.items() if output is not None}
        self.taken = {output: number for number, output in self.decided.items()}
        self.next_values: dict[str, int] = {}
        self.undecided: list[Diagnostic] = []
        self._results = list(_Tree(("result",), results).all())
        self._leaves: dict[object, list[_Tree]] = {}  # The results that are single arrays, by type.
        for tree in self._results:
            if isinstance(tree.node, Slot):
                self._leaves.setdefault(module.graph.outputs[tree.node.number or 0].type, []).append(tree)
        # Numbers of the outputs that are candidates for arguments with an ambiguous next value.
        self._contested: set[int] = set()

    def run(self, signature: Signature) -> None:
        """Pair all donated arguments with outputs, starting with the structures that contain the most arrays."""
        roots = (_Tree((name,), node) for name, node in signature.nodes.items())
        waiting = [tree for root in roots for tree in self._donated(root)]
        while waiting:
            largest_size = max(_size(tree.node) for tree in waiting)
            largest = [tree for tree in waiting if _size(tree.node) == largest_size]
            waiting = [tree for tree in waiting if _size(tree.node) < largest_size]
            for arguments, results in self._groups(largest):
                waiting += self._decide(arguments, results)
        for slot in signature.slots:
            if slot.number in self.decided:
                self.next_values[slot.name] = self.decided[slot.number]

    def _donated(self, tree: _Tree) -> Iterator[_Tree]:
        """Yield the largest subtrees of `tree` whose arrays are all donated, except subtrees that are already paired."""
        slots = list(slots_of(tree.node))
        numbers = [slot.number for slot in slots if slot.number is not None]
        if numbers and all(number in self.module.donations for number in numbers):
            if not all(slot.number in self.decided for slot in slots):
                yield tree
            return
        for child in tree.children():
            yield from self._donated(child)

    def _groups(self, trees: Sequence[_Tree]) -> list[tuple[list[_Tree], list[_Tree]]]:
        """Group the argument trees that have the same fitting results.

        Return (argument trees, fitting results) for each group.
        """
        groups: dict[object, tuple[list[_Tree], list[_Tree]]] = {}
        for tree in trees:
            key: object = self._type_of(tree.node)
            if key is None:
                fitting = [result for result in self._results if self._fits(tree.node, result.node)]
                key = tuple(result.path for result in fitting) or tree.path
            elif key not in groups:
                fitting = [result for result in self._leaves.get(key, ()) if self._fits(tree.node, result.node)]
            else:
                fitting = groups[key][1]
            groups.setdefault(key, ([], fitting))[0].append(tree)
        return list(groups.values())

    def _type_of(self, node: Node) -> TensorType | None:
        """Return the type of the input if `node` is a single array, or None for a structure."""
        number = self._number(node)
        return None if number is None else self.module.graph.inputs[number].type

    @staticmethod
    def _number(node: Node) -> int | None:
        return node.number if isinstance(node, Slot) else None

    def _fits(self, argument: Node, result: Node) -> bool:
        """Whether `result` can be the next value of `argument`: both have the same keys, with leaves of the same types."""
        if isinstance(argument, Slot) or isinstance(result, Slot):
            return isinstance(argument, Slot) and isinstance(result, Slot) and self._leaf_fits(argument, result)
        return argument.keys() == result.keys() and all(self._fits(argument[key], result[key]) for key in argument)

    def _leaf_fits(self, argument: Slot, result: Slot) -> bool:
        output = result.number or 0
        kind = self.module.graph.outputs[output].type
        if argument.number in self.decided:
            return self.decided[argument.number] == output
        if output in self.taken or output in self._contested:
            return False
        if argument.number is None:
            return argument.shape == kind.shape
        return self.module.graph.inputs[argument.number].type == kind

    def _decide(self, arguments: list[_Tree], results: list[_Tree]) -> list[_Tree]:
        """Pair `arguments`, which all have the same structure, with `results`, which all fit each of them.

        Returns the subtrees that are left for a later round: the children of the arguments if nothing fits.
        """
        if not results:
            return [tree for argument in arguments for tree in self._by_keys(argument)]
        arguments, results = self._pair_by_name(arguments, results)
        if len(results) > len(arguments):
            same_form = (
                [result for result in results if _form(result.node) == _form(arguments[0].node)] if arguments else []
            )
            results = same_form if len(same_form) == len(arguments) else results
        if len(results) == len(arguments):
            for argument, result in zip(arguments, results, strict=True):
                self._pair(argument.node, result.node)
        elif arguments:
            self._leave_undecided(arguments, results)
        return []

    def _pair_by_name(self, arguments: list[_Tree], results: list[_Tree]) -> tuple[list[_Tree], list[_Tree]]:
        """Pair an argument and a result if each has the longest common path suffix with the other among all candidates.

        Returns the remaining arguments and results.
        """
        best = {argument.path: _most_alike(argument, results) for argument in arguments}
        for argument in arguments:
            result = best[argument.path]
            if result is not None and _most_alike(result, arguments) is argument:
                self._pair(argument.node, result.node)
                arguments = [candidate for candidate in arguments if candidate is not argument]
                results = [candidate for candidate in results if candidate is not result]
        return arguments, results

    def _by_keys(self, argument: _Tree) -> list[_Tree]:
        """Pair the leaves of `argument` with the leaves of the result that has the same keys, if there is only one.

        Without such a result, returns the donated children of `argument`, to be paired in a later round.
        """
        if isinstance(argument.node, Slot):
            return []
        similar = [result for result in self._results if self._overlap(argument.node, result.node)]
        best = similar[0] if len(similar) == 1 else _most_alike(argument, similar)
        if best is not None:
            self._pair(argument.node, best.node)
            self._note_other_types(argument, best)
            return []
        return [tree for child in argument.children() for tree in self._donated(child)]

    def _overlap(self, argument: Node, result: Node) -> bool:
        """Whether `argument` and `result` have the same keys, and at least one pair of leaves fits."""
        return _keys(argument) == _keys(result) and any(
            self._leaf_fits(argument_slot, result_slot)
            for argument_slot, result_slot in zip(_sorted_slots(argument), _sorted_slots(result), strict=True)
        )

    def _pair(self, argument: Node, result: Node) -> None:
        for argument_slot, result_slot in zip(_sorted_slots(argument), _sorted_slots(result), strict=True):
            if not self._leaf_fits(argument_slot, result_slot):
                continue
            output = result_slot.number or 0
            self.next_values[argument_slot.name] = output
            if argument_slot.number is not None:
                self.decided[argument_slot.number], self.taken[output] = output, argument_slot.number

    def _note_other_types(self, argument: _Tree, result: _Tree) -> None:
        """Record an MG0112 warning for each array of `argument` whose counterpart in `result` has another type."""
        arrays = {tree.path[len(result.path) :]: tree for tree in result.all() if isinstance(tree.node, Slot)}
        for tree in argument.all():
            number = self._number(tree.node)
            if number is None or number in self.decided:
                continue
            result_leaf = arrays[tree.path[len(argument.path) :]]
            value = self.module.graph.inputs[number]
            result_type = self.module.graph.outputs[self._number(result_leaf.node) or 0].type
            text = f"donated argument '{tree.name}' is {value.type}, but its next value {result_leaf.name} is {result_type}"
            hint = f"return it as {value.type}, or do not donate '{argument.name}'"
            self.undecided.append(Diagnostic("MG0112", text, value.loc, hint=hint))

    def _leave_undecided(self, arguments: Sequence[_Tree], results: Sequence[_Tree]) -> None:
        self._contested.update(slot.number or 0 for result in results for slot in slots_of(result.node))
        candidates = _listed([result.name for result in results])
        for argument in arguments:
            text = f"the next value of donated argument '{argument.name}' is ambiguous: {candidates} fit"
            if len(results) == 1:
                other_arguments = _listed([f"'{other.name}'" for other in arguments if other is not argument])
                text = f"the next value of donated argument '{argument.name}' is ambiguous: {candidates} fits {other_arguments} as well"
            hint = f'name it: donate={{"{argument.name}": "{results[-1].name}"}}'
            location = next(
                (self.module.graph.inputs[s.number].loc for s in slots_of(argument.node) if s.number is not None), None
            )
            self.undecided.append(Diagnostic("MG0112", text, location, hint=hint))


def _most_alike(tree: _Tree, candidates: Iterable[_Tree]) -> _Tree | None:
    """Return the candidate whose path has the longest common suffix with the path of `tree`, or None in case of a tie."""
    counts = [(tree.common_keys(candidate), candidate) for candidate in candidates]
    most_keys = max((count for count, _ in counts), default=0)
    longest = [candidate for count, candidate in counts if count == most_keys]
    return longest[0] if most_keys and len(longest) == 1 else None


def _size(node: Node) -> tuple[int, int]:
    """Return (number of arrays, depth) of a structure. Structures are paired in this order, the largest ones first."""
    if isinstance(node, Slot):
        return 1, 0
    sizes = [_size(branch) for branch in node.values()]
    return sum(count for count, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)


def _form(node: Node) -> tuple[str, str]:
    return ("", "") if isinstance(node, Slot) else (node.form.kind, node.form.title)


def _keys(node: Node) -> object:
    return None if isinstance(node, Slot) else {key: _keys(branch) for key, branch in node.items()}


def _sorted_slots(node: Node) -> list[Slot]:
    """Return the leaves sorted by key, because dicts with the same keys may be ordered differently."""
    if isinstance(node, Slot):
        return [node]
    return [slot for key in sorted(node) for slot in _sorted_slots(node[key])]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def pair_by_key(argument: Node, result: Node) -> list[tuple[Slot, Slot]] | None:
    """Pair the leaves of two structures that have the same key. Returns None if the sets of keys differ."""
    if _keys(argument) != _keys(result):
        return None
    return list(zip(_sorted_slots(argument), _sorted_slots(result), strict=True))
