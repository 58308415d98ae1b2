"""Build the source distribution and the wheel, check both, install each in a fresh environment, and test it there. `make distribution` runs it.

    python .ci/distribution.py FOLDER

The environments get the wheels that requirements*.txt pin, by their hashes, as `make setup` installs them.
"""

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME, VERSION = PROJECT["name"], PROJECT["version"]
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
GENERATED = ("PKG-INFO", "setup.cfg")  # files of a source distribution that are not in the repository
TESTS = (
    "test_api.py",
    "test_packages.py",
    "test_pins.py",
    "test_spec.py",
    "frontend/test_mlir.py",
    "passes/test_pass_files.py",
)
PROGRAM = "transformer_block.mlir"


def run(*words, cwd, code=0):
    """Runs a command, and ends with its output where it does not give the exit code."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != code:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, words))}: exit code {done.returncode}, expected {code}")
    return done.stdout


def tracked():
    return run("git", "ls-files", cwd=ROOT).splitlines()


def source_distribution(folder):
    """Builds the archive from the tracked files, and unpacks it; it must have all of them. Returns the archive and the unpacked folder."""
    clean = folder / "clean"
    for name in tracked():
        (clean / name).parent.mkdir(parents=True, exist_ok=True)
        (clean / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-c", BUILD, "build_sdist", folder, cwd=clean)
    archive = folder / f"{NAME.replace('-', '_')}-{VERSION}.tar.gz"
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    files -= {name for name in files if name in GENERATED or ".egg-info/" in name}
    if differing := sorted(files ^ set(tracked())):
        sys.exit(f"{archive.name} and the repository differ: {', '.join(differing)}")
    return archive, unpacked


def wheel(folder, unpacked):
    """Builds the wheel from the unpacked source distribution. It must have all files of the package, and its metadata."""
    run(sys.executable, "-c", BUILD, "build_wheel", folder, cwd=unpacked)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as content:
        names = set(content.namelist())
        metadata = content.read(f"{built.name.split('-py3')[0]}.dist-info/METADATA").decode()
    if missing := [name for name in tracked() if name.startswith("meshgen/") and name not in names]:
        sys.exit(f"{built.name} lacks {', '.join(missing)}")
    expected = [
        f"Name: {NAME}",
        f"Version: {VERSION}",
        "License-File: LICENSE",
        "Description-Content-Type: text/markdown",
    ]
    expected += [f"Provides-Extra: {extra}" for extra in PROJECT["optional-dependencies"]]
    if lost := [line for line in expected if f"\n{line}\n" not in metadata]:
        sys.exit(f"{built.name}: its metadata lacks {lost}")
    return built


class Environment:
    """A fresh virtual environment with pinned wheels."""

    def __init__(self, place, requirements):
        venv.create(place, with_pip=False, symlinks=True)
        self.bin, self.empty = place / "bin", place / "empty"
        self.empty.mkdir()
        self.install("--require-hashes", "--only-binary=:all:", "-r", ROOT / requirements)

    def pip(self, *words):
        options = ["--quiet", "--disable-pip-version-check", "--python", self.bin / "python"]
        run(sys.executable, "-m", "pip", *options, *words, cwd=self.empty)

    def install(self, *words):
        self.pip("install", "--no-compile", *words)

    def meshgen(self, *words, code=0):
        return run(self.bin / "meshgen", *words, cwd=self.empty, code=code)


def main(folder):
    folder.mkdir(parents=True)
    archive, unpacked = source_distribution(folder)
    built = wheel(folder, unpacked)
    run(sys.executable, "-m", "twine", "check", "--strict", archive, built, cwd=folder)
    run(sys.executable, "-m", "check_wheel_contents", built, cwd=folder)
    program = unpacked / "examples" / PROGRAM
    compiler = Environment(folder / "compiler", "requirements.txt")
    for distribution in (built, archive):
        compiler.install("--no-deps", "--no-build-isolation", "--no-index", "--force-reinstall", distribution)
        compiler.pip("check")
        compiler.meshgen("doctor")
        compiler.meshgen("compile", program, "--target", "cpu", "-o", "block.mgx", "--report", "block.html")
    compiler.meshgen("run", "block.mgx", "--expect", program)
    runtime = Environment(folder / "runtime", "requirements-runtime.txt")
    runtime.install("--no-deps", "--no-index", built)
    runtime.meshgen("doctor", code=5)
    runtime.meshgen("doctor", "--run")
    runtime.meshgen("run", compiler.empty / "block.mgx")
    run(sys.executable, "-m", "pytest", "-p", "no:xdist", *(f"tests/{name}" for name in TESTS), cwd=unpacked)
    sys.stdout.write(f"{archive.name}, {built.name}: installed and tested in fresh environments\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
