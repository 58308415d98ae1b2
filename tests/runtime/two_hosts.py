"""Two hosts for ranks: network namespaces with a link between them."""

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
NAME = re.compile(r"\bmeshgen-(\d+)-[01]\b")  # of a namespace, with the process that made it


@dataclass(frozen=True)
class Hosts:
    """Where ranks run.

    Attributes:
        prefix: of the command of each rank.
        address: of the first one.
        link: the namespace and interface at one end of the link.
    """

    prefix: Mapping[int, Sequence[str]] = field(default_factory=dict)
    address: str = "127.0.0.1"
    link: tuple[str, str] = ("", "")

    def set_link(self, state: str) -> None:
        """`up` or `down`"""
        ip("-n", self.link[0], "link", "set", self.link[1], state)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def remove(name: str) -> None:
    """A namespace, with what still runs in it."""
    inside = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True)
    for number in inside.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def remove_abandoned() -> None:
    """The namespaces of processes that were killed before they could remove them."""
    shown = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for found in NAME.finditer(shown):
        if not Path("/proc", found[1]).exists():
            remove(found[0])


@contextlib.contextmanager
def two_hosts() -> Generator[Hosts]:
    """Namespaces with two ranks each, linked by a pair of virtual interfaces. For root. SIGTERM ends them too."""
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
