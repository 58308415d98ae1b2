"""Tests that network namespaces are removed when the process that created them ends, even if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator

import pytest

from tests.runtime.launchers import PATIENCE, ROOT
from tests.runtime.two_hosts import ip, remove_abandoned

CREATOR_PROGRAM = """
import subprocess, sys, time
from tests.runtime.two_hosts import two_hosts
with two_hosts() as hosts:
    subprocess.Popen(["ip", "netns", "exec", hosts.link[0], "sleep", "60"])
    print(hosts.link[0], flush=True)
    time.sleep(60)
"""


def names() -> str:
    return subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def creator() -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process that has created two namespaces, and the name of the one in which another process runs."""
    try:
        ip("netns", "add", f"meshgen-test-{os.getpid()}")
        ip("netns", "del", f"meshgen-test-{os.getpid()}")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("no network namespaces can be made here")
    with subprocess.Popen(
        [sys.executable, "-c", CREATOR_PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process, process.stdout.readline().strip()
        process.kill()
    remove_abandoned()


def test_terminated_process_removes_its_namespaces(creator: tuple[subprocess.Popen[str], str]) -> None:
    process, name = creator
    assert name in names()
    process.terminate()
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert name not in names()


def test_namespaces_of_killed_process_are_removed_later(
    creator: tuple[subprocess.Popen[str], str],
) -> None:
    """Processes in these namespaces are killed, too. Namespaces of other running processes stay."""
    process, name = creator
    remove_abandoned()
    assert name in names()
    process.kill()
    process.wait()
    assert name in names()
    remove_abandoned()
    assert name not in names()
