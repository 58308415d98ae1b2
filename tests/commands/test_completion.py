"""Shell completion scripts name every command and option, and bash completes with them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from meshgen.cli import COMMANDS, main
from meshgen.commands.completion import SHELLS

pytest.importorskip("shtab")


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_names_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert all(name in text for name in COMMANDS)
    assert "memory-limit" in text and "emulate" in text


def test_bash_completes_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    file = tmp_path / "completion.bash"
    file.write_text(script("bash", capsys))
    commands = f"source {file}; COMP_WORDS=(meshgen run --dev); COMP_CWORD=2; COMP_LINE='meshgen run --dev'; _shtab_meshgen; echo ${{COMPREPLY[@]}}"
    completed = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, timeout=300)
    assert "--device" in completed.stdout, completed.stderr
