"""Write a page of questions about a program. Each has the command that answers it, and the output of the command."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import tempfile
from pathlib import Path

from meshgen.cli import main

FILE, PROGRAM = (
    "stack.py",
    """# stack.py
import meshgen as mg

def step(x, w1, w2, w3, w4):
    x = x + mg.tanh(x @ w1) @ w2
    return x + mg.tanh(x @ w3) @ w4
""",
)
_TYPES = "--arg f32[8192,1024] --arg f32[1024,4096] --arg f32[4096,1024] --arg f32[1024,4096] --arg f32[4096,1024]"
_SPECS = "--mesh dp=2,tp=4 --spec x=dp,_ --spec w1=_,tp --spec w2=tp,_ --spec w4=tp,_"
COMPILES = (
    f"meshgen compile stack:step {_TYPES} {_SPECS} --spec w3=dp,tp --target cpu -o a.mgx",
    f"meshgen compile stack:step {_TYPES} {_SPECS} --spec w3=_,tp --target cpu -o b.mgx",
)
QUESTIONS = {
    "Why is this gathered?": (
        "meshgen explain a.mgx --kind all_gather",
        "`--kind`, `--axis` and `--layer` select collectives. `explain a.mgx w3` shows the whole chain from the annotation to the value.",
    ),
    "What would I save?": (
        "meshgen explain a.mgx --what-if w3=_,tp",
        "`--what-if` plans the program with your change. `explain a.mgx --advise` removes and adds annotations itself, and lists the changes that save time.",
    ),
    "Where does the memory go?": (
        "meshgen explain a.mgx --memory",
        "`meshgen report` draws memory over time.",
    ),
    "What is exposed?": (
        "meshgen explain a.mgx --top 2",
        "Exposed communication is time that the step waits for collectives. The causes with the longest waits come first. `explain a.mgx --show` adds the timeline.",
    ),
    "What changed between A and B?": (
        "meshgen diff a.mgx b.mgx --fail-on bytes:+5% --fail-on memory:+1%",
        "If a figure grew by more than `--fail-on` allows, the exit code is 3, so CI can refuse the change.",
    ),
}
_TEXT = """One command answers each question, for a program or a compiled module. The answers below compare two plans of this program (`{file}`).
In `a.mgx` both `dp` and `tp` split `w3`; in `b.mgx` only `tp` splits it.

```python
{program}```
```console
{compiles}
```
"""


def questions_page(note: str) -> str:
    """Return the text of the page. The commands run in a temporary folder."""
    here = Path.cwd()
    parts = [f"# Five questions\n\n{note}\n{_TEXT.format(file=FILE, program=PROGRAM, compiles=_prompted(COMPILES))}"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(FILE).write_text(PROGRAM)
        sys.path.insert(0, folder)
        try:
            for command in COMPILES:
                output_of(command)
            for question, (command, note_below) in QUESTIONS.items():
                shown = "\n".join(line.rstrip() for line in output_of(command).rstrip("\n").splitlines())
                parts.append(f"## {question}\n\n```console\n{_prompted([command])}\n{shown}\n```\n{note_below}\n")
        finally:
            sys.path.remove(folder)
            sys.modules.pop(Path(FILE).stem, None)
    assert Path.cwd() == here
    return "\n".join(parts)


def _prompted(commands: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"$ {command}" for command in commands)


def output_of(command: str) -> str:
    """Run a command, and return its standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(shlex.split(command)[1:])
    assert code in (0, 3), err.getvalue()
    return out.getvalue() + err.getvalue()
