"""Tests of the PTX parser: properties of the parsed program, and invalid texts."""

from __future__ import annotations

import pytest

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.parse import parse
from meshgen.emulator.program import Address, Immediate, Pair, Register, Symbol, Vector
from tests.emulator.snippets import ptx

ENTRY = """.version 8.7
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.shared .align 8 .b8 static_smem[24];
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5};
.visible .entry add(
	.param .u64 .ptr .global .align 1 add_param_0,
	.param .u32 add_param_1,
	.param .align 64 .b8 add_param_2[128],
	.param .u64 add_param_3
)
.reqntid 128
{
	.local .align 8 .b8 __local_depot0[40];
	.reg .pred %p<3>;
	.reg .b32 %r<5>;
	.loc	1 7 3
	@!%p1 ld.global.v2.b32 {%r1, %r2}, [%r3+-8];
	shfl.sync.bfly.b32 %r1|%p2, %r2, 16, 31, -1;
	{ .reg .b32 %r1; mov.u32 %r1, 0x10; loop: @%p1 bra loop; }
	{ .reg .b32 %r1; mov.u32 %r1, 0f3F800000; loop: @%p1 bra loop; }
	mov.b32 %r4, global_smem+16;
	ret;
}
	.file	1 "kernel.py"
"""


def test_parsed_entry_has_launch_properties() -> None:
    program = parse(ENTRY)
    entry = program.entries["add"]
    assert program.target == "sm_80"
    parameters = [(p.name, p.type, p.offset, p.size, p.alignment) for p in entry.parameters]
    assert parameters == [("add_param_0", "u64", 0, 8, 8), ("add_param_1", "u32", 8, 4, 4), ("add_param_2", "b8", 64, 128, 64),
                      ("add_param_3", "u64", 192, 8, 8)]  # fmt: skip
    # The dynamic shared array follows the static one, at its alignment.
    assert (entry.parameter_bytes, entry.max_threads, entry.exact_threads, entry.shared_bytes) == (200, 128, True, 32)
    assert entry.variables["table"].initial == bytes([1, 2, 3, 4, 5, 0, 0, 0])
    assert entry.variables["__local_depot0"].size == 40


def test_parsed_instruction_has_operands_and_source_line() -> None:
    code = parse(ENTRY).entries["add"].code
    load, shuffle, first, _, second, _, address, _ = code
    assert (load.opcode, load.modifiers) == ("ld", ("global", "v2", "b32")) and str(load.source) == "kernel.py:7"
    assert load.operands == (Vector((Register("%r1", 4), Register("%r2", 4))), Address(Register("%r3", 4), -8))
    assert shuffle.operands[0] == Pair(Register("%r1", 4), Register("%p2", 0))
    assert first.operands[1] == Immediate(16) and second.operands[1] == Immediate(0x3F800000, 4)
    assert address.operands[1] == Symbol("global_smem", 16)


def test_names_are_scoped_by_braces() -> None:
    """Two blocks of inline assembly use the same register and label names."""
    entry = parse(ENTRY).entries["add"]
    outer, first, second = (entry.code[n].operands[0] for n in (0, 2, 4))
    assert isinstance(outer, Vector) and len({outer.parts[0], first, second}) == 3
    jumps = [instruction for instruction in entry.code if instruction.opcode == "bra"]
    assert [entry.labels[instruction.operands[0].name] for instruction in jumps] == [3, 5]


FUNCTION = """.version 8.7
.target sm_80
.visible .entry main(.param .u64 p0)
.reqntid 32
{
	.reg .b64 %rd<9>;
	ld.param.b64 %rd1, [p0];
	{
	.param .b64 param0;
	.param .b64 retval0;
	st.param.b64 [param0], %rd1;
	call.uni (retval0), twice, (param0);
	ld.param.b64 %rd2, [retval0];
	}
	st.global.b64 [%rd1], %rd2;
	ret;
}
.func (.param .b64 func_retval0) twice(.param .b64 twice_param_0)
{
	.reg .b64 %rd<3>;
	ld.param.b64 %rd1, [twice_param_0];
	add.s64 %rd2, %rd1, %rd1;
	st.param.b64 [func_retval0], %rd2;
	ret;
}
"""


def test_function_call_is_inlined() -> None:
    code = parse(FUNCTION).entries["main"].code
    assert [instruction.opcode for instruction in code] == ["ld", "mov", "mov", "add", "mov", "bra", "mov", "st", "ret"]
    inner = code[3].operands[0]
    assert isinstance(inner, Register) and inner.name != "%rd2"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [("call.uni (retval0), twice", "call.uni (retval0), thrice", "does not support the function called by"),
     ("add.s64 %rd2, %rd1, %rd1;", "call.uni (func_retval0), twice, (twice_param_0);", "does not support the function called by"),
     ("call.uni (retval0), twice, (param0)", "call.uni (retval0), twice", "do not match the function"),
     (".target sm_80", "", "not PTX"), ("\tret;\n}\n.func", "\tret;\n\n.func", "no end"),
     ("%rd<9>", "%rd<99999999>", "declared at once"), ("[%rd1], %rd2", "[%rd1 * 4], %rd2", "cannot read")],
)  # fmt: skip
def test_invalid_ptx_is_rejected(before: str, after: str, text: str) -> None:
    assert before in FUNCTION
    with pytest.raises(DeviceFault, match=text) as caught:
        parse(FUNCTION.replace(before, after, 1))
    assert caught.value.kind == "opcode" and caught.value.diagnostics[0].code == "MG0608"


def test_snippet_text_is_valid_ptx() -> None:
    assert parse(ptx("", 2, 64)).entries["snippet"].max_threads == 64


PAIRED = """.version 8.7
.target sm_90
.address_size 64
.func (.param .align 16 .b8 func_retval0[16]) twice(
	.param .b64 twice_param_0
)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	ld.param.b64 %rd1, [twice_param_0];
	mov.b32 %r1, 3;
	st.param.b32 [func_retval0+8], %r1;
	st.param.b64 [func_retval0], %rd1;
	ret;
}
.visible .entry f()
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<2>;
	{ .param .b64 param0; .param .align 16 .b8 retval0[16];
	st.param.b64 [param0], %rd1;
	call.uni (retval0), twice, (param0);
	ld.param.b32 %r1, [retval0+8];
	ld.param.b64 %rd2, [retval0]; }
	ret;
}
"""


def test_function_returns_several_values_in_one_parameter() -> None:
    """Since Triton 3.9, the argument reduction of libdevice returns an angle and its quadrant."""
    code = [instruction for instruction in parse(PAIRED).entries["f"].code if instruction.opcode == "mov"]
    written, read = (
        [instruction.operands for instruction in code[-4:-2]],
        [instruction.operands for instruction in code[-2:]],
    )
    quadrant, angle = Register("retval0@1+8", 4), Register("retval0@1+0", 8)
    assert [first for first, _ in written] == [quadrant, angle]
    assert read == [(Register("%r1", 4), quadrant), (Register("%rd2", 8), angle)]
