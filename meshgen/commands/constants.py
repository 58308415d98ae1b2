"""Values of inputs on the command line: `--constant sr=16000`, `--constant axes=0,2`, `--constant table=@table.npy`."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.commands.arrays import load_arrays
from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.constants import Constant, constant

_WORDS = {"true": True, "false": False}


def constants_option(texts: Sequence[str]) -> dict[str, Constant]:
    """Parse the values of `--constant`, and return them by input name.

    Raises:
        UsageError: MG0001, one diagnostic per malformed or repeated value.
    """
    constants: dict[str, Constant] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        name, _, value = text.partition("=")
        if name in constants:
            faults.append(Diagnostic("MG0001", f"two values of '{name}' are given", hint="give one"))
        try:
            constants[name] = _constant(value)
        except ValueError:
            hint = "write for example sr=16000, axes=0,2, flag=true, or table=@table.npy"
            faults.append(Diagnostic("MG0001", f"'{text}' is not NAME=VALUE", hint=hint))
    if faults:
        raise UsageError(*faults)
    return constants


def _constant(text: str) -> Constant:
    """Parse the value of a constant: a number, numbers separated by commas, or `@FILE` with a single array.

    Raises:
        ValueError: the text is malformed.
    """
    if text.startswith("@"):
        (array,) = load_arrays(text[1:]).values()
        return constant(array)
    numbers = [_scalar(word.strip()) for word in text.split(",")]
    return constant(numbers if "," in text else numbers[0])


def _scalar(word: str) -> bool | int | float:
    if word in _WORDS:
        return _WORDS[word]
    try:
        return int(word)
    except ValueError:
        return float(word)
