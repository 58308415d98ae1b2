"""Find the next value of each donated argument: the subtree of the results that has its structure.

    step(state, x) -> (loss, {"w": ..., "lr": ...})      state.w -> result.1.w, state.lr -> result.1.lr
    step(params, x) -> (grads, new_params)               ambiguous: both results have the structure of params

JAX's `tf.aliasing_output` pairs arrays by their types, in order. It says which memory may be reused, and not which result
continues an argument. The rules here, for the largest structures first:

1. A result fits an argument if both have the same keys and the types of their leaves agree.
2. Among several results, one whose keys end like the path of the argument is its next value (`{"params": ..., "grads": ...}`).
3. As many results as arguments of one structure are paired in order (`params, velocity`).
4. Where more or fewer results than arguments are left, nothing is paired, and a session refuses the program.
5. An argument that no result fits is paired leaf by leaf: with the result that has its keys, else by these rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from meshgen.calls.nodes import Branch, Node, Slot, slots_of, tree_of
from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.calls.trees import Path, canonical, dotted
from meshgen.errors import Diagnostic
from meshgen.ir.graph import Module, TensorType


def with_next_values(module: Module, signature: Signature) -> tuple[Module, Signature]:
    """The module with an output for each donated input whose next value is known, and the signature with its state.

    Donations that have an output already are kept. MG0112 warns of each argument with several candidates.
    """
    if not module.donations or module.stage != "import":
        return module, replace(signature, state=_given_state(module, signature))
    pairing = _Pairing(module, _results(module, signature))
    pairing.run(signature)
    donations = {number: pairing.decided.get(number) for number in module.donations}
    state = State(pairing.next_values, {each.message: each.hint for each in pairing.undecided})
    found = replace(signature, state=state, warnings=(*signature.warnings, *pairing.undecided))
    return replace(module, donations=donations, result_paths={}), found


def _given_state(module: Module, signature: Signature) -> State:
    """The state that the donations name."""
    pairs = {slot.name: module.donations.get(slot.number) for slot in signature.slots if slot.number is not None}
    return State({name: output for name, output in pairs.items() if output is not None})


def _results(module: Module, signature: Signature) -> Node:
    """The structure of the results: as the program returns it, or as JAX's text names it (`result[0]['w']`)."""
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
    """A structure of arguments or of results, with its path."""

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
        """This structure and every one in it, in order."""
        yield self
        for child in self.children():
            yield from child.all()

    def common_keys(self, other: _Tree) -> int:
        """How many keys both paths end with, if one of these is a name and not the number of an element."""
        count = 0
        for here, there in zip(reversed(self.path), reversed(other.path), strict=False):
            if here != there:
                break
            count += 1
        keys = self.path[len(self.path) - count :]
        return 0 if all(key.isdecimal() for key in keys) else count


class _Pairing:
    """Pairs of donated inputs and outputs, by number, as they are decided."""

    def __init__(self, module: Module, results: Node) -> None:
        self.module = module
        self.decided = {number: output for number, output in module.donations.items() if output is not None}
        self.taken = {output: number for number, output in self.decided.items()}
        self.next_values: dict[str, int] = {}
        self.undecided: list[Diagnostic] = []
        self._results = list(_Tree(("result",), results).all())
        self._leaves: dict[object, list[_Tree]] = {}  # the arrays among them, by type
        for tree in self._results:
            if isinstance(tree.node, Slot):
                self._leaves.setdefault(module.graph.outputs[tree.node.number or 0].type, []).append(tree)
        self._contested: set[int] = set()  # outputs that are candidates of undecided arguments

    def run(self, signature: Signature) -> None:
        """Decide all donated arguments, those with most arrays first."""
        roots = (_Tree((name,), node) for name, node in signature.nodes.items())
        waiting = [tree for root in roots for tree in self._donated(root)]
        while waiting:
            most = max(_size(tree.node) for tree in waiting)
            largest = [tree for tree in waiting if _size(tree.node) == most]
            waiting = [tree for tree in waiting if _size(tree.node) < most]
            for arguments, results in self._groups(largest):
                waiting += self._decide(arguments, results)
        for slot in signature.slots:
            if slot.number in self.decided:
                self.next_values[slot.name] = self.decided[slot.number]

    def _donated(self, tree: _Tree) -> Iterator[_Tree]:
        """The largest structures in a parameter whose arrays are all donated."""
        slots = list(slots_of(tree.node))
        numbers = [slot.number for slot in slots if slot.number is not None]
        if numbers and all(number in self.module.donations for number in numbers):
            if not all(slot.number in self.decided for slot in slots):
                yield tree
            return
        for child in tree.children():
            yield from self._donated(child)

    def _groups(self, trees: Sequence[_Tree]) -> list[tuple[list[_Tree], list[_Tree]]]:
        """The structures that the same results fit, with these results."""
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
        """The type of an array; None for a structure."""
        number = self._number(node)
        return None if number is None else self.module.graph.inputs[number].type

    @staticmethod
    def _number(node: Node) -> int | None:
        return node.number if isinstance(node, Slot) else None

    def _fits(self, argument: Node, result: Node) -> bool:
        """Whether a result can be the next value of an argument."""
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
        """Pair arguments of one structure with the results that fit; returns the structures that are to be tried alone."""
        if not results:
            return [tree for argument in arguments for tree in self._by_keys(argument)]
        arguments, results = self._pair_by_name(arguments, results)
        if len(results) > len(arguments):
            alike = (
                [result for result in results if _form(result.node) == _form(arguments[0].node)] if arguments else []
            )
            results = alike if len(alike) == len(arguments) else results
        if len(results) == len(arguments):
            for argument, result in zip(arguments, results, strict=True):
                self._pair(argument.node, result.node)
        elif arguments:
            self._leave_undecided(arguments, results)
        return []

    def _pair_by_name(self, arguments: list[_Tree], results: list[_Tree]) -> tuple[list[_Tree], list[_Tree]]:
        """Pair arguments and results that have more keys in common than with any other; returns the rest of both."""
        best = {argument.path: _most_alike(argument, results) for argument in arguments}
        for argument in arguments:
            result = best[argument.path]
            if result is not None and _most_alike(result, arguments) is argument:
                self._pair(argument.node, result.node)
                arguments = [each for each in arguments if each is not argument]
                results = [each for each in results if each is not result]
        return arguments, results

    def _by_keys(self, argument: _Tree) -> list[_Tree]:
        """Pair the leaves of an argument with those of the only result that has its keys; else its children are tried alone."""
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
        """Whether two structures have the same keys, and some leaves fit."""
        return _keys(argument) == _keys(result) and any(
            self._leaf_fits(own, other)
            for own, other in zip(_sorted_slots(argument), _sorted_slots(result), strict=True)
        )

    def _pair(self, argument: Node, result: Node) -> None:
        for own, other in zip(_sorted_slots(argument), _sorted_slots(result), strict=True):
            if not self._leaf_fits(own, other):
                continue
            output = other.number or 0
            self.next_values[own.name] = output
            if own.number is not None:
                self.decided[own.number], self.taken[output] = output, own.number

    def _note_other_types(self, argument: _Tree, result: _Tree) -> None:
        """Note the arrays that have another type in the result which has the keys of an argument."""
        arrays = {tree.path[len(result.path) :]: tree for tree in result.all() if isinstance(tree.node, Slot)}
        for tree in argument.all():
            number = self._number(tree.node)
            if number is None or number in self.decided:
                continue
            other = arrays[tree.path[len(argument.path) :]]
            value = self.module.graph.inputs[number]
            have = self.module.graph.outputs[self._number(other.node) or 0].type
            text = f"donated argument '{tree.name}' is {value.type}, but its next value {other.name} is {have}"
            hint = f"return it as {value.type}, or do not donate '{argument.name}'"
            self.undecided.append(Diagnostic("MG0112", text, value.loc, hint=hint))

    def _leave_undecided(self, arguments: Sequence[_Tree], results: Sequence[_Tree]) -> None:
        self._contested.update(slot.number or 0 for result in results for slot in slots_of(result.node))
        candidates = _listed([result.name for result in results])
        for argument in arguments:
            text = f"the next value of donated argument '{argument.name}' is ambiguous: {candidates} fit"
            if len(results) == 1:
                others = _listed([f"'{other.name}'" for other in arguments if other is not argument])
                text = f"the next value of donated argument '{argument.name}' is ambiguous: {candidates} fits {others} as well"
            hint = f'name it: donate={{"{argument.name}": "{results[-1].name}"}}'
            where = next(
                (self.module.graph.inputs[s.number].loc for s in slots_of(argument.node) if s.number is not None), None
            )
            self.undecided.append(Diagnostic("MG0112", text, where, hint=hint))


def _most_alike(tree: _Tree, others: Iterable[_Tree]) -> _Tree | None:
    """The only one of these whose path has most keys in common with that of a structure; None if there is none."""
    counts = [(tree.common_keys(other), other) for other in others]
    most = max((count for count, _ in counts), default=0)
    best = [other for count, other in counts if count == most]
    return best[0] if most and len(best) == 1 else None


def _size(node: Node) -> tuple[int, int]:
    """How many arrays a structure has, and how deep they are in it: a structure is larger than every one in it."""
    if isinstance(node, Slot):
        return 1, 0
    sizes = [_size(branch) for branch in node.values()]
    return sum(count for count, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)


def _form(node: Node) -> tuple[str, str]:
    return ("", "") if isinstance(node, Slot) else (node.form.kind, node.form.title)


def _keys(node: Node) -> object:
    return None if isinstance(node, Slot) else {key: _keys(branch) for key, branch in node.items()}


def _sorted_slots(node: Node) -> list[Slot]:
    """The leaves in the order of their keys: dicts with the same keys may have them in another order."""
    if isinstance(node, Slot):
        return [node]
    return [slot for key in sorted(node) for slot in _sorted_slots(node[key])]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def key_pairs(argument: Node, result: Node) -> list[tuple[Slot, Slot]] | None:
    """The leaves of two structures with the same keys, by key; None for other structures."""
    if _keys(argument) != _keys(result):
        return None
    return list(zip(_sorted_slots(argument), _sorted_slots(result), strict=True))
