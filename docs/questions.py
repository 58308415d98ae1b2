"""The page of questions: a program, and the command that answers each question about it, with what the command says."""

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
MADE = (
    f"meshgen compile stack:step {_TYPES} {_SPECS} --spec w3=dp,tp --target cpu -o a.mgx",
    f"meshgen compile stack:step {_TYPES} {_SPECS} --spec w3=_,tp --target cpu -o b.mgx",
)
QUESTIONS = {
    "Why is this gathered?": (
        "meshgen explain a.mgx --kind all_gather",
        "`--kind`, `--axis` and `--layer` choose among the collectives; `explain a.mgx w3` has the whole chain from the annotation to the value.",
    ),
    "What would I save?": (
        "meshgen explain a.mgx --what-if w3=_,tp",
        "Here you say what to try. `explain a.mgx --advise` tries removals and additions of annotations itself and lists those that pay.",
    ),
    "Where does the memory go?": (
        "meshgen explain a.mgx --memory",
        "The page of `meshgen report` draws it over time.",
    ),
    "What is exposed?": (
        "meshgen explain a.mgx --top 2",
        "Causes are sorted by how long the step waits for them. `explain a.mgx --show` adds the timeline.",
    ),
    "What changed between A and B?": (
        "meshgen diff a.mgx b.mgx --fail-on bytes:+5% --fail-on memory:+1%",
        "The exit code is 3 where a figure grew more than `--fail-on` allows, so that CI can refuse the change.",
    ),
}
_TEXT = """Each is one command, on a program or on a compiled module. The answers below are those of two plans of this program (`{file}`), which differ in
whether `w3` is stored in parts along `dp` too:

```python
{program}```
```console
{made}
```
"""


def questions_page(note: str) -> str:
    """The page; the commands run in a folder of their own."""
    here = Path.cwd()
    parts = [f"# Five questions\n\n{note}\n{_TEXT.format(file=FILE, program=PROGRAM, made=_prompted(MADE))}"]
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        Path(FILE).write_text(PROGRAM)
        sys.path.insert(0, place)
        try:
            for command in MADE:
                said(command)
            for question, (command, more) in QUESTIONS.items():
                shown = "\n".join(line.rstrip() for line in said(command).rstrip("\n").splitlines())
                parts.append(f"## {question}\n\n```console\n{_prompted([command])}\n{shown}\n```\n{more}\n")
        finally:
            sys.path.remove(place)
            sys.modules.pop(Path(FILE).stem, None)
    assert Path.cwd() == here
    return "\n".join(parts)


def _prompted(commands: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"$ {command}" for command in commands)


def said(command: str) -> str:
    """What a command prints."""
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        code = main(shlex.split(command)[1:])
    assert code in (0, 3), told.getvalue()
    return out.getvalue() + told.getvalue()
