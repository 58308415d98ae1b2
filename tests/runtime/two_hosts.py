"""Two hosts for ranks: two network namespaces with a link between them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

RANKS = 4
# name of a namespace, which contains the id of the process that created it
NAME = re.compile(r"\bmeshgen-(\d+)-[01]\b")


@dataclass(frozen=True)
class Hosts:
    """Two hosts on which ranks run.

    Attributes:
        prefix: words before the command of each rank.
        address: IP address of the first host.
        link: namespace and interface at one end of the link.
    """

    prefix: Mapping[int, Sequence[str]] = field(default_factory=dict)
    address: str = "127.0.0.1"
    link: tuple[str, str] = ("", "")

    def set_link(self, state: str) -> None:
        """Take the link `up` or `down`, as `state` says."""
        ip("-n", self.link[0], "link", "set", self.link[1], state)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def remove(name: str) -> None:
    """Kill all processes in a namespace and delete it."""
    inside = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True)
    for process_id in inside.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process_id), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def remove_abandoned() -> None:
    """Delete the namespaces of processes that no longer exist."""
    listing = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for match in NAME.finditer(listing):
        if not Path("/proc", match[1]).exists():
            remove(match[0])


@contextlib.contextmanager
def two_hosts() -> Generator[Hosts]:
    """Create two namespaces, each for two ranks, linked by a veth pair. Delete them at the end or on SIGTERM.

    Requires root.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    remove_abandoned()
    names = [f"meshgen-{os.getpid()}-{number}" for number in range(2)]
    links = [f"mg{os.getpid() % 100_000}v{number}" for number in range(2)]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", links[0], "netns", names[0], "type", "veth", "peer", "name", links[1], "netns", names[1])
        for number, (name, link) in enumerate(zip(names, links, strict=True)):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield Hosts(
            {rank: ("ip", "netns", "exec", names[rank // 2]) for rank in range(RANKS)},
            "10.77.0.1",
            (names[0], links[0]),
        )
    finally:
        signal.signal(signal.SIGTERM, before)
        for name in names:
            remove(name)
