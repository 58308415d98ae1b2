"""Tests of the kernel cache: lookup, concurrent writers, corrupt entries, and files of other users."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from meshgen.codegen.building.cache import Cache, default_directory

KEY, OTHER = "ab" * 32, "cd" * 32
CONTENT = (b"cubin\n\0", {"regs": 1})


def entry_of(cache: Cache, key: str = KEY) -> Path:
    assert cache.directory
    return cache.directory / "kernels" / key[:2] / f"{key}.bin"


def sealed(rest: bytes) -> bytes:
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def test_cache_directory_follows_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESHGEN_CACHE_DIR", "/somewhere")
    assert default_directory() == Path("/somewhere")
    monkeypatch.delenv("MESHGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/other")
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_directory() == Path("/other/meshgen")


def test_unknown_home_directory_disables_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MESHGEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache = Cache()
    cache.put(KEY, *CONTENT)
    assert cache.get(KEY) is None
    assert (
        cache.warning
        and "the home directory is unknown" in str(cache.warning)
        and "MESHGEN_CACHE_DIR" in cache.warning.hint
    )


def test_stored_entry_is_found_and_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        cache = Cache(tmp_path / "a" / "b")
        cache.put(KEY, *CONTENT)
    finally:
        os.umask(old)
    assert cache.warning is None and cache.get(KEY) == CONTENT
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert stat.S_IMODE(entry_of(cache).stat().st_mode) == 0o600


def test_unwritable_directory_disables_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        cache = Cache(directory)
        cache.put(KEY, *CONTENT)
        assert cache.get(KEY) is None
        assert cache.warning and "not a directory" in cache.warning.message.lower()


def test_circular_symlinks_disable_the_cache(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert Cache(tmp_path / "a").warning


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_directory_writable_by_others_is_not_used(mode: int, tmp_path: Path) -> None:
    Cache(tmp_path / "cache").put(KEY, *CONTENT)
    (tmp_path / "cache").chmod(mode)
    cache = Cache(tmp_path / "cache")
    cache.put(OTHER, *CONTENT)
    assert cache.get(KEY) is None
    assert cache.warning and f"its mode is {mode:o}" in cache.warning.message
    assert len(list((tmp_path / "cache").rglob("*.bin"))) == 1


def test_directory_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    cache = Cache(tmp_path)
    assert cache.warning and f"belongs to user {owner}, not to {owner + 1}" in cache.warning.message


def test_symlink_is_followed_unless_owned_by_another_user(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    cache = Cache(link / "below")
    cache.put(KEY, *CONTENT)
    assert cache.get(KEY) == CONTENT and cache.directory == tmp_path / "real" / "below"
    if os.geteuid():
        pytest.skip("only root can give a link away")
    os.lchown(link, 65534, 65534)
    assert "belongs to user 65534" in str(Cache(link / "below").warning)


@pytest.mark.parametrize("threat", ["mode", "owner", "link", "pipe"])
def test_entry_writable_by_another_user_is_not_read(
    threat: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, *CONTENT)
    entry = entry_of(cache)
    if threat == "mode":
        entry.chmod(0o620)
    elif threat == "owner":
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    elif threat == "link":
        entry.rename(tmp_path / "held")
        entry.symlink_to(tmp_path / "held")
    else:
        entry.unlink()
        os.mkfifo(entry)
    assert cache.get(KEY) is None


def test_entry_under_another_key_is_deleted(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, *CONTENT)
    entry_of(cache, OTHER).parent.mkdir()
    entry_of(cache).rename(entry_of(cache, OTHER))
    assert cache.get(OTHER) is None
    assert not entry_of(cache, OTHER).exists()


HEADS = [b"", b"{}", b"nonsense", b"[]", b"null", b"1e999", b"[" * 100_000, b"\xff\xfe", b'{"key": 1}',
         json.dumps({"key": KEY, "description": 1}).encode(),
         json.dumps({"key": KEY, "description": {}, "more": 1}).encode()]  # fmt: skip


@pytest.mark.parametrize("head", HEADS, ids=range(len(HEADS)))
def test_malformed_entry_is_deleted(head: bytes, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, *CONTENT)
    for content in (sealed(head + b"\ncubin"), sealed(head), head, b""):
        entry_of(cache).write_bytes(content)
        assert cache.get(KEY) is None
        assert not entry_of(cache).exists()


def test_file_of_a_killed_writer_is_deleted(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, *CONTENT)
    leftover, entry = entry_of(cache).parent / ".0123.new", entry_of(cache)
    leftover.write_bytes(b"")
    cache.put(KEY, *CONTENT)
    assert list(entry.parent.iterdir()) == [entry]


def test_concurrent_writers_leave_a_valid_entry(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from meshgen.codegen.building.cache import Cache\n"
        "cache = Cache(Path(sys.argv[1]))\n"
        "for i in range(200):\n"
        "    cache.put('cd' * 32, b'x' * 100000, {'n': 1})\n"
        "    assert cache.get('cd' * 32) == (b'x' * 100000, {'n': 1})\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    processes = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=environment) for _ in range(3)]
    assert [p.wait() for p in processes] == [0, 0, 0]
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [f"{'cd' * 32}.bin"]


def age(path: Path, days: float) -> None:
    mtime = time.time() - days * 24 * 3600
    os.utime(path, (mtime, mtime))


def test_unused_entries_are_deleted_after_a_month(tmp_path: Path) -> None:
    """Check that entries unread for a month are deleted.

    Other versions use other keys, so their entries expire as well.
    """
    cache, used_key = Cache(tmp_path), "ef" * 32
    for key in (KEY, used_key):
        cache.put(key, *CONTENT)
    old_format = entry_of(cache).with_suffix(".json")
    old_format.write_text("{}")
    for path in (entry_of(cache), entry_of(cache, used_key), old_format):
        age(path, 40)
    assert cache.get(used_key) == CONTENT
    cache.put(OTHER, *CONTENT)
    assert old_format.exists(), "cleanup runs once a day"
    age(tmp_path / "kernels", 2)
    cache.put(OTHER, *CONTENT)
    assert not old_format.exists() and cache.get(KEY) is None
    assert cache.get(used_key) == cache.get(OTHER) == CONTENT and cache.warning is None


def test_cache_cleanup_does_not_follow_symlinks(tmp_path: Path) -> None:
    linked = tmp_path / "own"
    linked.mkdir()
    (linked / "file").write_text("x")
    age(linked / "file", 400)
    cache = Cache(tmp_path / "cache")
    (tmp_path / "cache" / "kernels").mkdir()
    (tmp_path / "cache" / "kernels" / "zz").symlink_to(linked)
    cache.put(KEY, *CONTENT)
    age(tmp_path / "cache" / "kernels", 2)
    cache.put(KEY, *CONTENT)
    assert (linked / "file").exists() and cache.get(KEY) == CONTENT
