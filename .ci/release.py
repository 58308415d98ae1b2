"""Collect the files of a release, after checking that the repository is ready for it. `make release` runs it.

    python .ci/release.py TAG DISTRIBUTIONS FOLDER

The tag is `v` with the version of pyproject.toml. CHANGELOG.md must have a dated section for it, and changelog.d no fragments that are
left over. FOLDER gets the source distribution, the wheel, the section as notes.md, and the SHA-256 of both files.
"""

import hashlib
import re
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(changelog, version):
    """Return the text of a version's section of the changelog. Raises ValueError if it is missing or has no date."""
    sections = re.split(r"^## (.+)$", changelog, flags=re.MULTILINE)[1:]
    titles, texts = sections[::2], sections[1::2]
    for title, text in zip(titles, texts, strict=True):
        if title.split()[0] == version:
            if not re.fullmatch(r"[\w.]+ \(\d{4}-\d{2}-\d{2}\)", title):
                raise ValueError(f"the section '{title}' of CHANGELOG.md has no date: '{version} (YYYY-MM-DD)'")
            return text.strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no section {version}; run `make changelog VERSION={version}`")


def faults(tag, root):
    """Return what the repository lacks for a release."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    found = [] if tag == f"v{version}" else [f"the tag '{tag}' is not that of version {version} in pyproject.toml"]
    fragments = sorted(path.name for path in (root / "changelog.d").glob("*.md") if path.name != "README.md")
    if fragments:
        found.append(f"changelog.d has fragments that are in no release: {', '.join(fragments)}")
    changelog = (root / "CHANGELOG.md").read_text()
    found += [
        f"CHANGELOG.md has the section '{title}'"
        for title in re.findall(r"^## (.*\(unreleased\))$", changelog, re.MULTILINE)
    ]
    try:
        notes(changelog, version)
    except ValueError as error:
        found.append(str(error))
    return found


def main(tag, distributions, folder):
    if missing := faults(tag, ROOT):
        sys.exit("\n".join(missing))
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "dist").mkdir(parents=True)
    archives = sorted([*distributions.glob("*.whl"), *distributions.glob("*.tar.gz")])
    if len(archives) != 2:
        sys.exit(f"{distributions} must have one wheel and one source distribution; run `make distribution`")
    for path in archives:
        shutil.copy2(path, folder / "dist")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in archives]
    (folder / "SHA256SUMS").write_text("".join(sums))
    (folder / "notes.md").write_text(notes((ROOT / "CHANGELOG.md").read_text(), tag.removeprefix("v")))
    sys.stdout.write(f"{folder}: {', '.join(path.name for path in archives)}, notes.md, SHA256SUMS\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("make release TAG=v0.1.0")
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
