"""`records.dataclass` does what the standard library's does."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from meshgen.records import dataclass, replace, sharing_methods


def _classes(decorate: Any) -> dict[str, type]:
    """Classes that use all that the package uses, with one decorator."""

    @decorate(frozen=True)
    class Point:
        x: int
        y: int = 2
        note: str = field(default="", compare=False, repr=False)

    @decorate(frozen=True)
    class Deep(Point):
        z: tuple[int, ...] = ()

    @decorate(frozen=True, eq=False)
    class Alone:
        _set: int

    @decorate
    class Bag:
        size: int
        items: list[int] = field(default_factory=list)
        total: int = field(init=False)
        seen: set[int] = field(init=False, default_factory=set)

        def __post_init__(self) -> None:
            self.total = self.size + len(self.items)

    @decorate(frozen=True, kw_only=True)
    class Named:
        name: str
        rank: int = 0

    @decorate(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    @decorate(frozen=True)
    class Empty:
        pass

    return {each.__name__: each for each in (Point, Deep, Alone, Bag, Named, Own, Empty)}


OURS, STANDARD = _classes(dataclass), _classes(dataclasses.dataclass)
MADE = [
    ("Point", (1,), {}), ("Point", (1, 3), {"note": "n"}), ("Point", (), {"y": 5, "x": 1}), ("Deep", (1,), {"z": (4,)}),
    ("Bag", (3,), {}), ("Bag", (3, [1, 2]), {}), ("Named", (), {"name": "n"}), ("Own", (1,), {}), ("Empty", (), {}),
    ("Alone", (1,), {}),
]  # fmt: skip
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (), {}), ("Point", (1, 2, "", 4), {}), ("Point", (1,), {"w": 1}), ("Named", ("n",), {}), ("Empty", (1,), {}),
]  # fmt: skip


def _made(classes: dict[str, type], case: tuple[str, tuple[Any, ...], dict[str, Any]]) -> Any:
    name, args, kwargs = case
    return classes[name](*args, **kwargs)


@pytest.mark.parametrize("case", MADE, ids=str)
def test_instances_hold_and_show_the_same(case: Any) -> None:
    ours, standard = _made(OURS, case), _made(STANDARD, case)
    assert dataclasses.asdict(ours) == dataclasses.asdict(standard)
    assert repr(ours) == repr(standard)
    assert [each.name for each in dataclasses.fields(ours)] == [each.name for each in dataclasses.fields(standard)]


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_wrong_arguments_are_refused_alike(case: Any) -> None:
    for classes in (OURS, STANDARD):
        with pytest.raises(TypeError):
            _made(classes, case)


@pytest.mark.parametrize("one", MADE, ids=str)
@pytest.mark.parametrize("other", MADE, ids=str)
def test_equality_is_the_same(one: Any, other: Any) -> None:
    assert (_made(OURS, one) == _made(OURS, other)) == (_made(STANDARD, one) == _made(STANDARD, other))


@pytest.mark.parametrize("case", MADE, ids=str)
def test_what_is_equal_and_frozen_has_equal_hashes(case: Any) -> None:
    if STANDARD[case[0]].__hash__ is None:
        with pytest.raises(TypeError):
            hash(_made(OURS, case))
    else:
        one, other = _made(OURS, case), _made(OURS, case)
        assert (hash(one) == hash(other)) == (one == other)


@pytest.mark.parametrize("name", OURS)
def test_classes_say_the_same_of_themselves(name: str) -> None:
    ours, standard = OURS[name], STANDARD[name]
    assert ours.__match_args__ == standard.__match_args__  # pyright: ignore[reportAttributeAccessIssue]
    kinds = ("name", "type", "default", "init", "repr", "hash", "compare", "kw_only")
    for one, other in zip(dataclasses.fields(ours), dataclasses.fields(standard), strict=True):  # pyright: ignore[reportArgumentType]
        assert [getattr(one, kind) for kind in kinds] == [getattr(other, kind) for kind in kinds]
    defaults = [
        {each: vars(cls)[each] for each in cls.__annotations__ if each in vars(cls)} for cls in (ours, standard)
    ]
    assert defaults[0] == defaults[1]


def test_a_mutable_default_is_refused() -> None:
    for decorate in (dataclass, dataclasses.dataclass):
        with pytest.raises(ValueError, match="mutable default"):
            decorate(type("Wrong", (), {"__annotations__": {"items": "list[int]"}, "items": []}))


def test_what_annotations_may_say_beside_types() -> None:
    """`ClassVar`, by text or not, is no field; `InitVar` and `KW_ONLY` are left to the standard library."""
    plain: dict[str, Any] = {"x": "int", "name": "ClassVar[str]", "kind": ClassVar[str], "y": int}
    for kinds in (plain, {**plain, "_": dataclasses.KW_ONLY, "z": int}):
        members = {"__module__": __name__, "__annotations__": kinds, "name": field(init=False), "y": 3, "z": 4}
        found: Any = dataclass(type("Found", (), members))
        assert [each.name for each in dataclasses.fields(found)] == [
            each for each in kinds if len(each) == 1 and each != "_"
        ]
        assert found(1).y == 3 and not isinstance(getattr(found, "name", None), dataclasses.Field)


def test_frozen_instances_cannot_be_changed() -> None:
    point = OURS["Point"](1)
    for name in ("x", "new"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(point, name, 3)
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    bag = OURS["Bag"](1)
    bag.size = 4
    assert bag.size == 4


def test_replace_makes_another_instance_and_runs_post_init() -> None:
    assert dataclasses.replace(OURS["Deep"](1, z=(3,)), y=5) == OURS["Deep"](1, 5, z=(3,))
    assert dataclasses.replace(OURS["Bag"](1, [1]), size=5).total == 6


def test_each_instance_has_defaults_of_its_own() -> None:
    first, second = OURS["Bag"](1), OURS["Bag"](1)
    first.items.append(1)
    assert second.items == []


def test_a_field_that_is_the_same_object_is_equal_to_itself() -> None:
    """As in tuples: a NaN, or an array, is not compared with itself."""

    @dataclass(frozen=True)
    class Held:
        value: Any

    for value in (float("nan"), np.zeros(3)):
        assert Held(value) == Held(value)


def test_a_class_that_holds_itself_is_shown() -> None:
    bag = OURS["Bag"](1)
    bag.items.append(bag)
    assert "..." in repr(bag)


@pytest.mark.parametrize("case", MADE, ids=str)
def test_replace_does_what_the_standard_library_does(case: Any) -> None:
    ours = _made(OURS, case)
    changes = {each.name: 9 for each in dataclasses.fields(ours)[:1]}
    assert repr(replace(ours, **changes)) == repr(dataclasses.replace(ours, **changes))
    with pytest.raises(TypeError):
        replace(ours, unknown=1)


PACKAGE = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Base:
    x: int

@dataclass(frozen=True)
class Deep(Base):
    y: list[int] = field(default_factory=list, compare=False)

class Undecorated(Base):
    def __init__(self):
        super().__init__(1)
        self.note = "kept"

@dataclass(order=True)
class Ordered:
    x: int
"""


def test_a_package_is_imported_with_shared_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "shared_in_test"
    place.mkdir()
    (place / "__init__.py").touch()
    (place / "inner.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    standard = dataclasses.dataclass
    with sharing_methods("shared_in_test"):
        inner = importlib.import_module("shared_in_test.inner")
    assert dataclasses.dataclass is standard
    assert inner.Deep(1, [2]) == inner.Deep(1) and hash(inner.Deep(1, [2])) == hash(inner.Deep(1))
    assert inner.Undecorated().note == "kept" and inner.Ordered(1) < inner.Ordered(2)
    for made in (inner.Deep(1), inner.Undecorated()):
        with pytest.raises(FrozenInstanceError):
            made.x = 2
    later = standard(frozen=True)(type("Later", (inner.Deep,), {}))  # as a user's own dialect has it
    assert later(1, [2]) == later(1, [3])


def test_a_package_that_was_imported_stays_as_it_is() -> None:
    standard = dataclasses.dataclass
    with sharing_methods("numpy"):
        assert dataclasses.dataclass is standard


def test_the_signature_of_a_class_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes long, and the standard library of Python 3.11.0 to 3.11.3 fails where an exception has none."""

    asked: list[Any] = []
    monkeypatch.setattr(inspect, "signature", asked.append)

    @dataclass
    class Fault(Exception):
        code: int

    @dataclass
    class Place(Exception):
        code: int
        _: dataclasses.KW_ONLY
        line: int = 7

    assert Fault(3).code == 3 and Place(3, line=8).line == 8 and not asked
