"""Check that the subjects of commits have the form `area: imperative summary`.

python .ci/subjects.py --since main        the commits since a branch; `make subjects` runs it
python .ci/subjects.py FILE                the message that an editor wrote; pre-commit runs it
"""

import re
import subprocess
import sys
from pathlib import Path

FORM = re.compile(r"[a-z0-9][\w.,/ -]*: [a-z0-9`'][^\n]*[^.\s]")
# Endings of verbs that are no imperative ("added", "adding", "adds"), and imperatives that have such an ending.
NOT_IMPERATIVE = re.compile(r".{2,}(?<!s)s|.{3,}ed|.{3,}ing")
IMPERATIVES = {
    "alias",
    "bias",
    "bring",
    "canvas",
    "embed",
    "feed",
    "focus",
    "need",
    "proceed",
    "seed",
    "speed",
    "string",
}
LONGEST = 72


def fault(subject):
    """Return what is wrong with a subject; empty if nothing is."""
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return ""
    if len(subject) > LONGEST:
        return f"has {len(subject)} characters; the limit is {LONGEST}"
    if not FORM.fullmatch(subject):
        return "must have the form 'area: imperative summary', without a final period"
    verb = re.match(r"\w*", subject.partition(": ")[2])[0]
    if NOT_IMPERATIVE.fullmatch(verb) and verb not in IMPERATIVES:
        return f"must be imperative ('add', not 'adds', 'added' or 'adding'), got '{verb}'"
    return ""


def main(words):
    if words[:1] == ["--since"]:
        command = ["git", "log", "--format=%s", f"{words[1]}..HEAD"]
        subjects = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    else:
        subjects = Path(words[0]).read_text().splitlines()[:1]
    faults = [f"{subject}\n    {text}\n" for subject in subjects if (text := fault(subject))]
    sys.stderr.writelines(faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
