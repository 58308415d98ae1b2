"""Writes requirements*.txt: exact versions with the hashes of their wheels. `make pins` runs it.

    python .ci/pins.py [--upgrade]

pip resolves what pyproject.toml asks for, for each Python that is supported on Linux x86-64, and reports which wheels it
would install. Versions stay as the files have them unless --upgrade is given. Run it with the oldest Python of `PYTHONS`:
pip reads conditions on Python's version as those of the one that it runs in.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(5, 29)), "manylinux2014_x86_64", "linux_x86_64")
RUNTIME = ("numpy", "ml_dtypes")  # what running a module needs: `meshgen/packages.py`
HEAD = """# Made by `make pins`: what {goal} on Linux x86-64, with the hashes of the wheels for CPython {first} to {last}.
"""


def pinned(requirements, constraints):
    """`{name: (version, hashes)}` of all that the requirements need."""
    found = {}
    for python in PYTHONS:
        for name, version, digest in report(requirements, constraints, python):
            known, hashes = found.setdefault(name, (version, set()))
            if known != version:
                sys.exit(f"{name}: {known} for one Python, {version} for {python}; narrow it in pyproject.toml")
            hashes.add(digest)
    return found


def report(requirements, constraints, python):
    """Name, version and hash of each wheel that pip would install."""
    options = ["--dry-run", "--ignore-installed", "--only-binary=:all:", "--quiet", f"--python-version={python}"]
    options += [f"--platform={name}" for name in PLATFORMS]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "constraints.txt").write_text("\n".join(constraints) + "\n")
        options += [f"--report={place}/report.json", f"--constraint={place}/constraints.txt", f"--target={place}"]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *requirements], check=True)
        document = json.loads((Path(place) / "report.json").read_text())
    for each in document["install"]:
        metadata, archive = each["metadata"], each["download_info"]["archive_info"]
        yield metadata["name"], metadata["version"], f"sha256:{archive['hashes']['sha256']}"


def text_of(goal, found):
    lines = [HEAD.format(goal=goal, first=PYTHONS[0], last=PYTHONS[-1])]
    for name in sorted(found, key=str.lower):
        version, hashes = found[name]
        lines.append(" \\\n    --hash=".join([f"{name}=={version}", *sorted(hashes)]) + "\n")
    return "".join(lines)


def current():
    """The versions that the files have."""
    texts = [path.read_text() for path in ROOT.glob("requirements*.txt")]
    return sorted({pin for text in texts for pin in re.findall(r"^[\w.-]+==[\w.]+", text, re.MULTILINE)})


def main():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    core = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    constraints = [] if "--upgrade" in sys.argv[1:] else current()
    extras = project["project"]["optional-dependencies"]
    dev = pinned([*core, *extras["dev"]], constraints)
    versions = [f"{name}=={version}" for name, (version, _) in dev.items()]
    needed = pinned(core, versions)
    release = pinned(extras["release"], [*constraints, *versions])
    (ROOT / "requirements-dev.txt").write_text(text_of("`make setup` installs", dev))
    (ROOT / "requirements.txt").write_text(text_of("`make demo` installs", needed))
    (ROOT / "requirements-release.txt").write_text(text_of("`make distribution` and `make changelog` install", release))
    runtime = {name: pin for name, pin in needed.items() if name in RUNTIME}
    (ROOT / "requirements-runtime.txt").write_text(text_of("running modules needs, without a compiler,", runtime))


if __name__ == "__main__":
    main()
