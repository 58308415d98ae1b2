"""Names of inputs by their origin, tied tensors, structures of results and optional results, from `.pt2` files that `forms.py` wrote; without torch."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.calls.classes import Form, constant_form, constant_of, made_of
from meshgen.cli import main
from meshgen.errors import ArgumentError, ProgramError
from meshgen.frontend.torch.nodes import named_results
from meshgen.runtime.module_file.call_json import call_from_json, call_to_json
from meshgen.runtime.module_file.tensors import encode
from meshgen.runtime.sessions.torch_archive import TorchArchive
from tests.frontend.pytorch.archives import PLACE
from tests.frontend.pytorch.test_torch_archives import stored

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def tied() -> Any:
    specs = {"ids": mg.P("dp"), "head.weight": mg.P("dp"), "self.scale": mg.P("dp")}
    return mg.compile(PLACE / "tied.pt2", {"dp": 2}, in_specs=specs, target="cpu")


@pytest.fixture(scope="module")
def saved(tied: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The module with its weights, and without."""
    folder = tmp_path_factory.mktemp("tied")
    tied.save(folder / "with.mgx")
    tied.save(folder / "bare.mgx", weights={})
    return folder / "with.mgx", folder / "bare.mgx"


KNOWN = stored("tied")
IDS, SCALE, LOGITS = KNOWN["arg0"], KNOWN["arg1"], KNOWN["result0"]


def require_logits(result: Any, logits: Array = LOGITS) -> None:
    np.testing.assert_allclose(np.asarray(result["logits"]), logits, rtol=1e-5, atol=1e-5)


def test_state_and_argument_of_one_name_are_bound_by_origin(tied: Any, saved: tuple[Path, Path]) -> None:
    for program in (tied, mg.load(saved[0])):
        require_logits(program(IDS, SCALE))
        require_logits(program(IDS, scale=SCALE))
        require_logits(program(scale=SCALE, ids=IDS))
    assert [*tied.signature.nodes] == ["ids", "scale", "embed.weight", "self.scale"]
    assert tied.signature.weight_names == ("embed.weight", "self.scale")
    other = tied(IDS, SCALE, **{"self.scale": np.zeros(8, np.float32)})
    require_logits(
        other, np.broadcast_to(SCALE @ TorchArchive(PLACE / "tied.pt2").weights["head.weight"].T, LOGITS.shape)
    )


def test_weights_of_the_name_of_an_argument_are_state(saved: tuple[Path, Path]) -> None:
    weights = dict(TorchArchive(PLACE / "tied.pt2").weights)
    for held in (weights, PLACE / "tied.pt2", {name: each for name, each in weights.items() if name != "head.weight"}):
        with mg.load(saved[1]).session(weights=held) as session:
            require_logits(session(IDS, SCALE))


def test_names_of_a_tied_tensor_take_one_spec() -> None:
    specs = {"embed.weight": mg.P(None, "dp"), "head.weight": mg.P("dp")}
    with pytest.raises(
        mg.MeshgenError, match=r"MG0001: 'embed.weight' and 'head.weight' are one input, with the specs"
    ):
        mg.compile(PLACE / "tied.pt2", {"dp": 2}, in_specs=specs, target="cpu")
    same = dict.fromkeys(specs, mg.P("dp"))
    executable = mg.compile(PLACE / "tied.pt2", {"dp": 2}, in_specs=same, target="cpu")
    assert executable.stages["import"].in_annotations[0].sharding.dims == (("dp",), ())


def test_tied_tensors_are_one_input_with_two_names(tied: Any, saved: tuple[Path, Path]) -> None:
    assert [value.name for value in tied.stages["import"].graph.inputs] == [
        "embed.weight",
        "self.scale",
        "ids",
        "scale",
    ]
    assert tied.explain("head.weight") == tied.explain("embed.weight")
    stored_names = {binding.name for binding in mg.load(saved[0]).bindings if binding.stored}
    assert stored_names == {"embed.weight", "self.scale"}
    weights = TorchArchive(PLACE / "tied.pt2").weights
    doubled = {name: 2 * weights[name] for name in ("head.weight", "embed.weight")}
    expected = 2 * ((2 * weights["embed.weight"][IDS] * 10 + SCALE) @ weights["embed.weight"].T)
    for held in (doubled, {"head.weight": doubled["head.weight"]}, {"embed.weight": doubled["embed.weight"]}):
        require_logits(tied(IDS, SCALE, **held), expected)
        with mg.load(saved[0]).session(weights=held) as session:
            require_logits(session(IDS, SCALE), expected)
            np.testing.assert_array_equal(session["head.weight"], doubled["head.weight"])
            session["head.weight"] = weights["head.weight"]
            require_logits(session(IDS, SCALE))


def test_two_values_for_one_tied_tensor_are_refused(tied: Any, saved: tuple[Path, Path]) -> None:
    weight = TorchArchive(PLACE / "tied.pt2").weights["head.weight"]
    given = {"embed.weight": weight, "head.weight": 2 * weight}
    with pytest.raises(ArgumentError, match="names of one tensor, but two different values"):
        tied(IDS, SCALE, **given)
    with pytest.raises(ArgumentError, match="names of one tensor, but two different values"):
        tied.save(saved[0].with_name("refused.mgx"), weights=given)
    with pytest.raises(ArgumentError, match=r"several tensors are for 'embed\.weight'"):
        mg.load(saved[1]).session(weights=given)


def test_run_takes_a_checkpoint_with_either_name(saved: tuple[Path, Path], tmp_path: Path) -> None:
    weights = TorchArchive(PLACE / "tied.pt2").weights
    np.savez(tmp_path / "in.npz", ids=IDS, scale=SCALE)
    np.savez(tmp_path / "ref.npz", result=LOGITS)
    for name in ("embed.weight", "head.weight"):
        (tmp_path / "w.safetensors").write_bytes(encode({name: weights[name], "scale": weights["scale"]}))
        words = [
            "run",
            str(saved[1]),
            "--input",
            f"@{tmp_path / 'in.npz'}",
            "--weights",
            str(tmp_path / "w.safetensors"),
        ]
        assert main([*words, "--expect", str(tmp_path / "ref.npz")]) == 0


def test_numbers_texts_and_none_are_results(tied: Any, saved: tuple[Path, Path]) -> None:
    for program in (tied, mg.load(saved[0])):
        result = program(IDS, SCALE)
        assert [*result] == ["logits", "rate", "count", "kind", "none", "limit"]
        assert result["rate"] == 0.5 and result["count"] == (6, True) and type(result["count"][1]) is bool
        assert result["kind"] == "tied\n" and result["none"] is None and result["limit"] == float("inf")


@pytest.mark.parametrize("value", [True, -3, 10**30, 0.1, float("-inf"), 1 + 2j, "a\x00\u2028b", ""], ids=repr)
def test_constants_are_read_as_they_were_written(value: Any) -> None:
    found = constant_of(constant_form(value), {})
    assert type(found) is type(value) and found == value


def test_malformed_constants_and_aliases_of_manifests_are_refused(tied: Any) -> None:
    call = call_to_json(tied.signature)
    inputs = ["embed.weight", "self.scale", "ids", "scale"]
    assert call_from_json(call, inputs, 1) is not None
    for old, new in (
        ('"0.5"', '"half"'),
        ('["head.weight", "embed.weight"]', '["head.weight", "x"]'),
    ):
        text = json.dumps(call)
        assert old in text
        with pytest.raises(ValueError, match=r"call: .*(not a constant|aliases)"):
            call_from_json(json.loads(text.replace(old, new)), inputs, 1)


def test_outputs_without_a_value_shift_no_others() -> None:
    outputs = [{"as_none": True}, {"as_tensor": {"name": "weight"}}, {"as_tensors": [{"name": "a"}, {"name": "b"}]}]
    assert named_results(outputs, [None, 1, [2, 3]]) == [("weight", 1), ("a", 2), ("b", 3)]
    assert named_results(outputs[2:], [2, 3]) == [("a", 2), ("b", 3)]


@pytest.fixture(scope="module")
def gradients() -> Any:
    return mg.compile(
        PLACE / "gradients.pt2", {"dp": 2}, in_specs={"*.stem.W": mg.P("dp"), "x": mg.P("dp")}, target="cpu"
    )


def test_gradients_outside_of_an_output_mask_and_checks_of_errors_are_left_out(gradients: Any) -> None:
    known = stored("gradients")
    params = {"stem.W": known["arg0"], "stem.B": known["arg1"], "mix.W": known["arg2"]}
    found = gradients(params, known["arg3"])
    assert [*found] == [*params]
    for number, gradient in enumerate(found.values()):
        np.testing.assert_allclose(gradient, known[f"result{number}"], rtol=1e-4, atol=1e-5)


def test_inputs_have_the_keys_of_structures_and_lifted_constants_are_none(gradients: Any) -> None:
    names = [value.name for value in gradients.stages["import"].graph.inputs]
    assert names == ["params.stem.W", "params.stem.B", "params.mix.W", "x"]
    in_order = [{"stem.W": mg.P("dp"), "stem.B": None, "mix.W": None}, mg.P("dp")]
    for specs in (in_order, {"*.stem.W": mg.P("dp"), "x": mg.P("dp")}, {"params_stem_w": mg.P("dp"), "x": mg.P("dp")}):
        module = mg.lower(PLACE / "gradients.pt2", {"dp": 2}, stage="import", in_specs=specs)
        annotated = {value.name for value, each in zip(module.graph.inputs, module.in_annotations, strict=True) if each}
        assert annotated == {"params.stem.W", "x"}


def test_a_result_that_was_not_read_but_is_used_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "changed.pt2"
    with zipfile.ZipFile(PLACE / "gradients.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for each in old.namelist():
            content = old.read(each).replace(
                b'{"as_bools": [false, true, true]}', b'{"as_bools": [false, false, true]}'
            )
            new.writestr(each, content)
    with pytest.raises(ProgramError, match=r"MG0104.*is used, but the operation"):
        mg.compile(path, {"dp": 2}, target="cpu")


def test_objects_of_classes_that_are_not_there_have_attributes_and_items() -> None:
    form = Form("object", "ModelOutput", origin=json.dumps(["absent.ModelOutput", '["logits", "items"]']))
    found = made_of(form, {"logits": 1, "items": 2}, {})
    assert (found.logits, found["logits"], found[0], found[-1], found[:1]) == (1, 1, 1, 2, (1,))
    assert found.to_tuple() == (1, 2) and [*found] == ["logits", "items"] and len(found) == 2
    with pytest.raises(KeyError):
        found["keys"]


def test_classes_of_files_are_made_only_where_they_are_structures() -> None:
    """A module names classes: only named tuples, and what is registered with torch, are called."""
    form = Form("named", "Popen", origin=json.dumps(["subprocess.Popen", "null"]))
    assert type(made_of(form, {"args": 1}, {})).__mro__[1] is tuple
    form = Form("object", "Popen", origin=json.dumps(["subprocess.Popen", "null"]))
    assert made_of(form, {"args": 1}, {}).args == 1
