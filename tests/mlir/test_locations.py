"""Tests of locations in text: source lines through aliases, value names, and scopes that a user named."""

from __future__ import annotations

import pytest

from meshgen.errors import Location, line_of_location, location_text
from meshgen.mlir.locations import Locations

ALIASES = """
#loc = loc(unknown)
#loc1 = loc("/src/model.py":31:9 to :40)
#loc2 = loc("attention"(#loc1))
#loc3 = loc(callsite(#loc2 at #loc))
#loc4 = loc("jit(f)/layer_3/attn/dot_general"(#loc3))
"""
SCOPES = {
    "jit(f)/layer_3/attn/dot_general": "layer_3/attn",
    "jit(main)/jit(f)/jvp(layer_3)/attn/jit(_softmax)/exp": "layer_3/attn",
    "jit(f)/transpose(jvp(layer_3))/attn/dot_general": "transpose(layer_3)/attn",
    "jit(f)/transpose(jvp())/mul": "transpose",
    "jit(f)/jvp()/mul": "",
    "jit(f)/while/body/closed_call/Block_0/mlp/tanh": "Block_0/mlp",
    "jit(f)/checkpoint/rematted_computation/layer/tanh": "layer",
    "jit(f)/tanh": "",
    "jit(f)/jvp(vmap())/mul": "",
    "jit(f)/jvp(jit(take_along_axis))/gather": "",
    "jit(f)/transpose(jvp(vmap(layer)))/branch_1_fun/tanh": "transpose(layer)",
    "jit(f)/jit(eval_jaxpr)/eval_jaxpr/cond/layer/tanh": "layer",
}


@pytest.mark.parametrize("name", SCOPES)
def test_scope_keeps_names_given_by_the_user(name: str) -> None:
    _, locations = Locations.extract_aliases("")
    assert locations.resolve(f'"{name}"("m.py":7:1)') == Location("m.py", 7, 1, SCOPES[name])


def test_location_alias_resolves_to_file_and_line() -> None:
    text, locations = Locations.extract_aliases(f"module {{}}{ALIASES}")
    assert text.strip() == "module {}" and len(text) == len(f"module {{}}{ALIASES}")
    assert locations.resolve("#loc4") == Location("/src/model.py", 31, 9, "layer_3/attn")
    assert locations.resolve("#loc") is None and locations.resolve("#loc9") is None


def test_cyclic_location_aliases_terminate() -> None:
    _, locations = Locations.extract_aliases("#loc1 = loc(#loc2)\n#loc2 = loc(#loc1)\n")
    assert locations.resolve("#loc1") is None


def test_argument_name_is_a_name_only_location() -> None:
    _, locations = Locations.extract_aliases("")
    assert locations.name("\"params['w']\"") == "params['w']"
    assert locations.name('"a"("m.py":7:1)') == ""


def test_location_text_contains_the_line() -> None:
    for loc in (Location("/a/model.py", 31, 2, "layer_3/attn"), Location("model.py", 31)):
        assert line_of_location(location_text(loc)) == 31
    assert location_text(Location("/a/model.py", 31, 2, "layer_3/attn")) == "model.py:31 in layer_3/attn"
    assert line_of_location("model.py") is None and location_text(None) == ""


CALLS = """
#loc1 = loc("/env/lib/python3.11/site-packages/flax/linear.py":422:8 to 428:5)
#loc2 = loc("/home/me/model.py":14:28 to :50)
#loc3 = loc("/home/me/main.py":9:1)
#loc4 = loc("/env/lib/python3.11/site-packages/flax/transforms.py":198:10)
#loc5 = loc("Linear.__call__"(#loc1))
#loc6 = loc(callsite("Block.__call__"(#loc2) at #loc9))
#loc7 = loc(callsite(#loc5 at #loc6))
#loc8 = loc("jit(step)/jvp(vmap())/dot_general"(#loc7))
#loc9 = loc(callsite(#loc4 at #loc3))
#loc10 = loc(callsite(#loc5 at #loc4))
"""


def test_call_chain_resolves_to_innermost_user_line() -> None:
    _, locations = Locations.extract_aliases(CALLS)
    assert locations.resolve("#loc8") == Location("/home/me/model.py", 14, 28)
    assert locations.resolve("#loc9") == Location("/home/me/main.py", 9, 1)
    assert locations.resolve("#loc10") == Location("/env/lib/python3.11/site-packages/flax/linear.py", 422, 8)
