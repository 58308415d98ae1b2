"""Keys of `--json` documents are stable, because programs read them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.cli import COMMANDS as ALL
from tests.commands.json_keys import COMMANDS, FILE, HEAD, lines


def test_json_keys_match_the_promised_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before you remove a key, deprecate it (docs/compatibility.md). After you add a key, add it to `json_keys.txt`."""
    monkeypatch.chdir(tmp_path)
    promised, present = set(FILE.read_text().removeprefix(HEAD).splitlines()), set(lines())
    assert sorted(promised - present) == [], "keys vanished"
    assert sorted(present - promised) == [], "new keys: run python -m tests.commands.json_keys"


def test_every_command_has_promised_json_keys() -> None:
    assert {words[0] for words in COMMANDS} == {*ALL}
