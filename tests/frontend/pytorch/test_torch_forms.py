"""`.pt2` files of `forms.py`: names of inputs, tied tensors, structures of results, and optional results. Torch need
not be installed.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.calls.structure_forms import Form, constant_form, constant_of, rebuild_structure
from meshgen.cli import main
from meshgen.errors import ArgumentError, ProgramError
from meshgen.frontend.torch.nodes import named_results
from meshgen.runtime.module_file.call_json import call_from_json, call_to_json
from meshgen.runtime.module_file.tensors import encode
from meshgen.runtime.sessions.torch_archive import TorchArchive
from tests.frontend.pytorch.archives import DATA_FOLDER
from tests.frontend.pytorch.test_torch_archives import stored

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def tied() -> Any:
    specs = {"ids": mg.P("dp"), "head.weight": mg.P("dp"), "self.scale": mg.P("dp")}
    return mg.compile(DATA_FOLDER / "tied.pt2", {"dp": 2}, in_specs=specs, target="cpu")


@pytest.fixture(scope="module")
def saved(tied: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the paths of the module saved with weights and without weights."""
    folder = tmp_path_factory.mktemp("tied")
    tied.save(folder / "with.mgx")
    tied.save(folder / "bare.mgx", weights={})
    return folder / "with.mgx", folder / "bare.mgx"


REFERENCE = stored("tied")
IDS, SCALE, LOGITS = REFERENCE["arg0"], REFERENCE["arg1"], REFERENCE["result0"]


def require_logits(result: Any, logits: Array = LOGITS) -> None:
    np.testing.assert_allclose(np.asarray(result["logits"]), logits, rtol=1e-5, atol=1e-5)


def test_state_and_argument_of_same_name_bind_by_origin(tied: Any, saved: tuple[Path, Path]) -> None:
    for program in (tied, mg.load(saved[0])):
        require_logits(program(IDS, SCALE))
        require_logits(program(IDS, scale=SCALE))
        require_logits(program(scale=SCALE, ids=IDS))
    assert [*tied.signature.nodes] == ["ids", "scale", "embed.weight", "self.scale"]
    assert tied.signature.weight_names == ("embed.weight", "self.scale")
    result = tied(IDS, SCALE, **{"self.scale": np.zeros(8, np.float32)})
    require_logits(
        result, np.broadcast_to(SCALE @ TorchArchive(DATA_FOLDER / "tied.pt2").weights["head.weight"].T, LOGITS.shape)
    )


def test_session_weight_named_like_argument_is_state(saved: tuple[Path, Path]) -> None:
    weights = dict(TorchArchive(DATA_FOLDER / "tied.pt2").weights)
    for source in (
        weights,
        DATA_FOLDER / "tied.pt2",
        {name: weight for name, weight in weights.items() if name != "head.weight"},
    ):
        with mg.load(saved[1]).session(weights=source) as session:
            require_logits(session(IDS, SCALE))


def test_tied_tensor_with_two_specs_is_rejected() -> None:
    specs = {"embed.weight": mg.P(None, "dp"), "head.weight": mg.P("dp")}
    with pytest.raises(
        mg.MeshgenError, match=r"MG0001: 'embed.weight' and 'head.weight' are one input, with the specs"
    ):
        mg.compile(DATA_FOLDER / "tied.pt2", {"dp": 2}, in_specs=specs, target="cpu")
    same = dict.fromkeys(specs, mg.P("dp"))
    executable = mg.compile(DATA_FOLDER / "tied.pt2", {"dp": 2}, in_specs=same, target="cpu")
    assert executable.stages["import"].in_annotations[0].sharding.dims == (("dp",), ())


def test_tied_tensor_is_one_input_with_two_names(tied: Any, saved: tuple[Path, Path]) -> None:
    assert [value.name for value in tied.stages["import"].graph.inputs] == [
        "embed.weight",
        "self.scale",
        "ids",
        "scale",
    ]
    assert tied.explain("head.weight") == tied.explain("embed.weight")
    stored_names = {binding.name for binding in mg.load(saved[0]).bindings if binding.stored}
    assert stored_names == {"embed.weight", "self.scale"}
    weights = TorchArchive(DATA_FOLDER / "tied.pt2").weights
    doubled = {name: 2 * weights[name] for name in ("head.weight", "embed.weight")}
    expected = 2 * ((2 * weights["embed.weight"][IDS] * 10 + SCALE) @ weights["embed.weight"].T)
    for new_weights in (doubled, {"head.weight": doubled["head.weight"]}, {"embed.weight": doubled["embed.weight"]}):
        require_logits(tied(IDS, SCALE, **new_weights), expected)
        with mg.load(saved[0]).session(weights=new_weights) as session:
            require_logits(session(IDS, SCALE), expected)
            np.testing.assert_array_equal(session["head.weight"], doubled["head.weight"])
            session["head.weight"] = weights["head.weight"]
            require_logits(session(IDS, SCALE))


def test_tied_tensor_with_two_values_is_rejected(tied: Any, saved: tuple[Path, Path]) -> None:
    weight = TorchArchive(DATA_FOLDER / "tied.pt2").weights["head.weight"]
    values = {"embed.weight": weight, "head.weight": 2 * weight}
    with pytest.raises(ArgumentError, match="names of one tensor, but two different values"):
        tied(IDS, SCALE, **values)
    with pytest.raises(ArgumentError, match="names of one tensor, but two different values"):
        tied.save(saved[0].with_name("refused.mgx"), weights=values)
    with pytest.raises(ArgumentError, match=r"several tensors are for 'embed\.weight'"):
        mg.load(saved[1]).session(weights=values)


def test_run_accepts_checkpoint_with_either_tied_name(saved: tuple[Path, Path], tmp_path: Path) -> None:
    weights = TorchArchive(DATA_FOLDER / "tied.pt2").weights
    np.savez(tmp_path / "in.npz", ids=IDS, scale=SCALE)
    np.savez(tmp_path / "ref.npz", result=LOGITS)
    for name in ("embed.weight", "head.weight"):
        (tmp_path / "w.safetensors").write_bytes(encode({name: weights[name], "scale": weights["scale"]}))
        command = [
            "run",
            str(saved[1]),
            "--input",
            f"@{tmp_path / 'in.npz'}",
            "--weights",
            str(tmp_path / "w.safetensors"),
        ]
        assert main([*command, "--expect", str(tmp_path / "ref.npz")]) == 0


def test_results_include_numbers_texts_and_none(tied: Any, saved: tuple[Path, Path]) -> None:
    for program in (tied, mg.load(saved[0])):
        result = program(IDS, SCALE)
        assert [*result] == ["logits", "rate", "count", "kind", "none", "limit"]
        assert result["rate"] == 0.5 and result["count"] == (6, True) and type(result["count"][1]) is bool
        assert result["kind"] == "tied\n" and result["none"] is None and result["limit"] == float("inf")


@pytest.mark.parametrize("value", [True, -3, 10**30, 0.1, float("-inf"), 1 + 2j, "a\x00\u2028b", ""], ids=repr)
def test_constant_form_round_trips(value: Any) -> None:
    constant = constant_of(constant_form(value), {})
    assert type(constant) is type(value) and constant == value


def test_malformed_constant_or_alias_of_manifest_is_rejected(tied: Any) -> None:
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


def test_outputs_without_value_keep_names_of_others() -> None:
    outputs = [{"as_none": True}, {"as_tensor": {"name": "weight"}}, {"as_tensors": [{"name": "a"}, {"name": "b"}]}]
    assert named_results(outputs, [None, 1, [2, 3]]) == [("weight", 1), ("a", 2), ("b", 3)]
    assert named_results(outputs[2:], [2, 3]) == [("a", 2), ("b", 3)]


@pytest.fixture(scope="module")
def gradients() -> Any:
    return mg.compile(
        DATA_FOLDER / "gradients.pt2", {"dp": 2}, in_specs={"*.stem.W": mg.P("dp"), "x": mg.P("dp")}, target="cpu"
    )


def test_masked_gradients_and_error_checks_are_dropped(gradients: Any) -> None:
    reference = stored("gradients")
    params = {"stem.W": reference["arg0"], "stem.B": reference["arg1"], "mix.W": reference["arg2"]}
    results = gradients(params, reference["arg3"])
    assert [*results] == [*params]
    for index, gradient in enumerate(results.values()):
        np.testing.assert_allclose(gradient, reference[f"result{index}"], rtol=1e-4, atol=1e-5)


def test_inputs_have_structure_keys_and_exclude_lifted_constants(gradients: Any) -> None:
    names = [value.name for value in gradients.stages["import"].graph.inputs]
    assert names == ["params.stem.W", "params.stem.B", "params.mix.W", "x"]
    in_order = [{"stem.W": mg.P("dp"), "stem.B": None, "mix.W": None}, mg.P("dp")]
    for specs in (in_order, {"*.stem.W": mg.P("dp"), "x": mg.P("dp")}, {"params_stem_w": mg.P("dp"), "x": mg.P("dp")}):
        module = mg.lower(DATA_FOLDER / "gradients.pt2", {"dp": 2}, stage="import", in_specs=specs)
        annotated = {
            value.name
            for value, annotation in zip(module.graph.inputs, module.in_annotations, strict=True)
            if annotation
        }
        assert annotated == {"params.stem.W", "x"}


def test_use_of_masked_gradient_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "changed.pt2"
    with zipfile.ZipFile(DATA_FOLDER / "gradients.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name).replace(
                b'{"as_bools": [false, true, true]}', b'{"as_bools": [false, false, true]}'
            )
            new.writestr(name, content)
    with pytest.raises(ProgramError, match=r"MG0104.*is used, but the operation"):
        mg.compile(path, {"dp": 2}, target="cpu")


def test_object_of_missing_class_has_attributes_and_items() -> None:
    form = Form("object", "ModelOutput", origin=json.dumps(["absent.ModelOutput", '["logits", "items"]']))
    output = rebuild_structure(form, {"logits": 1, "items": 2}, {})
    assert (output.logits, output["logits"], output[0], output[-1], output[:1]) == (1, 1, 1, 2, (1,))
    assert output.to_tuple() == (1, 2) and [*output] == ["logits", "items"] and len(output) == 2
    with pytest.raises(KeyError):
        output["keys"]


def test_file_cannot_construct_arbitrary_classes() -> None:
    """The importer may only construct named tuples and classes that are registered with torch."""
    form = Form("named", "Popen", origin=json.dumps(["subprocess.Popen", "null"]))
    assert type(rebuild_structure(form, {"args": 1}, {})).__mro__[1] is tuple
    form = Form("object", "Popen", origin=json.dumps(["subprocess.Popen", "null"]))
    assert rebuild_structure(form, {"args": 1}, {}).args == 1
