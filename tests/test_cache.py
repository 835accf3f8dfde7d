"""Files of the cache: found again whole and under its own name or not at all, and never if others could write it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import warnings

import pytest

from accumulus import cache
from accumulus.errors import CacheWarning

POSIX = pytest.mark.skipif(os.name != "posix", reason="owners and modes are looked at on POSIX")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Return the folder of plans in a separate cache."""
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_written", {})
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "cache" / "plans"


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def quiet(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*arguments)


def test_stored_files_are_loaded(folder):
    assert cache.fetch("plans", "a") is None
    cache.store("plans", "a", b"first")
    cache.store("plans", "b", b"")
    cache.store("plans", "a", b"second")
    assert cache.fetch("plans", "a") == b"second"
    assert cache.fetch("plans", "b") == b""
    assert cache.fetch("kernels", "a") is None
    assert [file.name for file in files(folder)] == ["a", "b"]


@pytest.mark.parametrize("name", ["", "..", "../a", "a/b", ".hidden", "a\n", "ä", "a" * 129])
def test_names_stay_in_their_folder(name, folder):
    cache.store("plans", "a", b"")
    with pytest.raises(AssertionError):
        cache.fetch("plans", name)
    with pytest.raises(AssertionError):
        cache.store("plans", name, b"")


DAMAGES = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[:-1],
    "head alone": lambda content: content[:20],
    "a bit": lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
    "zeros": lambda content: bytes(len(content)),
    "more": lambda content: content + b"\n",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_as_good_as_none(damage, folder):
    cache.store("plans", "a", b"content of some length")
    (file,) = files(folder)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert quiet(cache.fetch, "plans", "a") is None
    cache.store("plans", "a", b"anew")
    assert cache.fetch("plans", "a") == b"anew"


def test_files_are_bound_to_their_names(folder):
    """Rotated, copied to another kind, or of another format."""
    for key in ("a", "b", "c"):
        cache.store("plans", key, key.encode())
        cache.store("kernels", key, key.encode())
    kernels = folder.parent / "kernels"
    (folder / "a").rename(folder / "other")
    (folder / "b").rename(folder / "a")
    (folder / "other").rename(folder / "b")
    (kernels / "c").write_bytes((folder / "c").read_bytes())
    assert cache.fetch("plans", "a") is cache.fetch("plans", "b") is cache.fetch("kernels", "c") is None
    assert cache.fetch("plans", "c") == b"c"


def test_another_format_is_not_read(folder, monkeypatch):
    cache.store("plans", "a", b"content")
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache.fetch("plans", "a") is None


@POSIX
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
@pytest.mark.parametrize("target", ["directory", "folder", "file"])
def test_files_writable_by_others_are_not_read(target, mode, folder):
    cache.store("plans", "a", b"content")
    path = {"directory": folder.parent, "folder": folder, "file": folder / "a"}[target]
    path.chmod(mode)
    with pytest.warns(CacheWarning, match=r"can be written by others \(mode ...; chmod go-w") as caught:
        assert cache.fetch("plans", "a") is None
    assert str(path) in str(caught[0].message)
    assert quiet(cache.fetch, "plans", "a") is None  # said once
    if target != "file":
        quiet(cache.store, "plans", "b", b"content")
        assert not (folder / "b").exists()
        assert "can be written by others" in cache.state()
    path.chmod(0o700)
    assert quiet(cache.fetch, "plans", "a") == b"content"


@POSIX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("target", ["directory", "folder", "file"])
def test_files_of_another_user_are_not_read(target, folder):
    cache.store("plans", "a", b"content")
    os.chown({"directory": folder.parent, "folder": folder, "file": folder / "a"}[target], 12345, -1)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert cache.fetch("plans", "a") is None


@POSIX
def test_only_the_cache_directory_itself_may_be_a_link(folder, tmp_path):
    cache.store("plans", "a", b"content")
    elsewhere = tmp_path / "elsewhere"
    folder.parent.rename(elsewhere)
    folder.parent.symlink_to(elsewhere)
    assert cache.fetch("plans", "a") == b"content"
    (folder / "a").rename(tmp_path / "a")
    (folder / "a").symlink_to(tmp_path / "a")
    assert cache.fetch("plans", "a") is None
    cache.store("plans", "a", b"a file again")
    assert (tmp_path / "a").read_bytes().endswith(b"content")
    assert cache.fetch("plans", "a") == b"a file again"
    folder.rename(tmp_path / "plans")
    folder.symlink_to(tmp_path / "plans")
    assert cache.fetch("plans", "a") is None


@POSIX
def test_entries_that_are_no_files(folder):
    cache.store("plans", "a", b"content")
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    assert cache.fetch("plans", "pipe") is None
    assert cache.fetch("plans", "folder") is None
    quiet(cache.store, "plans", "folder", b"content")
    assert cache.fetch("plans", "folder") is None


@POSIX
def test_files_are_the_users_alone(folder):
    before = os.umask(0)
    try:
        cache.store("plans", "a", b"content")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / "a")] == [0o700, 0o700, 0o600]


def test_where_nothing_can_be_written_nothing_is_stored(folder):
    folder.parent.write_text("a file where the folder should be")
    quiet(cache.store, "plans", "a", b"content")
    assert quiet(cache.fetch, "plans", "a") is None
    assert "nothing is stored" in cache.state()


@pytest.mark.skipif(sys.platform == "win32", reason="a home directory is POSIX's")
def test_without_a_home_directory(monkeypatch):
    import pwd

    def fail(_):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", fail)
    for name in ("ACCUMULUS_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    quiet(cache.store, "plans", "a", b"content")
    assert quiet(cache.fetch, "plans", "a") is None
    with pytest.raises(OSError, match="home directory"):
        cache.directory()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other places")
def test_cache_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("ACCUMULUS_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.directory() == tmp_path / ".cache" / "accumulus"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.directory() == tmp_path / "xdg" / "accumulus"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.directory() == tmp_path / ".cache" / "accumulus"


@pytest.mark.parametrize("function", ["replace", "fdopen", "scandir", "open"])
def test_a_full_disk(function, folder, monkeypatch):
    def fail(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(cache.os, function, fail)
        quiet(cache.store, "plans", "a", b"content")
    assert [file for file in files(folder) if file.suffix == ".part"] == []


def test_an_interrupt_leaves_nothing_behind(folder, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(cache.os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            cache.store("plans", "a", b"content")
    assert files(folder) == []


def test_the_longest_unused_are_dropped(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 8 * 4096)
    monkeypatch.setattr(cache, "_UNSEEN", 0.0)
    for k in range(8):
        cache.store("plans", str(k), b"content")
        for file in files(folder):  # each a second older than it was
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**9))
    assert len(files(folder)) == 8
    assert cache.fetch("plans", "2")
    cache.store("plans", "8", b"content")
    assert [file.name for file in files(folder)] == ["2", "4", "5", "6", "7", "8"]


def test_the_folder_is_looked_at_now_and_then_only(folder, monkeypatch):
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or scandir(path))
    monkeypatch.setattr(cache, "LIMIT", 64 * 4096)
    for k in range(9):
        cache.store("plans", str(k), b"content")
    assert len(looks) == 3


def test_files_larger_than_the_limit_are_not_stored(folder, monkeypatch):
    cache.store("plans", "a", b"x" * 9000)
    monkeypatch.setattr(cache, "LIMIT", 8192)
    cache.store("plans", "b", b"x" * 9000)
    assert cache.fetch("plans", "a") is cache.fetch("plans", "b") is None


def test_contents_and_clearing(folder):
    cache.store("plans", "a", b"content")
    cache.store("kernels", "a", b"x" * 5000)
    (folder.parent / "foreign").write_text("somebody else's")
    assert cache.state() == "usable"
    assert {kind: sizes for kind, sizes in cache.contents().items() if sizes} == {"plans": [4096], "kernels": [8192]}
    cache.clear()
    assert not any(cache.contents().values())
    assert (folder.parent / "foreign").exists()


KILLED_AT = """
import os, signal, sys
from accumulus import cache
def kill(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(cache.os if sys.argv[1] != "make_room" else cache._Folder, sys.argv[1], kill)
cache.store("plans", "a", b"content")
"""
WRITING = """
import sys
from accumulus import cache
print(flush=True)
for k in range(10**9):
    cache.store("plans", str(k % 3), bytes([k % 256]) * 200_000)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
@pytest.mark.parametrize("function", ["fdopen", "replace", "make_room"])
def test_a_process_that_is_killed_while_it_writes(function, folder):
    ran = subprocess.run([sys.executable, "-c", KILLED_AT, function], check=False, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    left = [file for file in files(folder) if file.suffix == ".part"]
    assert len(left) == (function != "make_room")
    assert cache.fetch("plans", "a") == (b"content" if function == "make_room" else None)
    for file in left:  # it may be somebody's who is still writing, until it is old
        cache.store("plans", "b", b"content")
        assert file.exists()
        os.utime(file, (0, 0))
    cache._written.clear()
    cache.store("plans", "a", b"content")
    assert not [file for file in files(folder) if file.suffix == ".part"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
def test_processes_killed_at_any_moment(folder):
    for k in range(12):
        with subprocess.Popen([sys.executable, "-c", WRITING], stdout=subprocess.PIPE) as process:
            process.stdout.read(1)
            threading.Event().wait(0.003 * k)
            process.kill()
        for key in "012":
            content = quiet(cache.fetch, "plans", key)
            assert content is None or content == content[:1] * 200_000
    assert files(folder)


def test_many_writers_and_readers(folder, monkeypatch):
    """Whoever reads finds nothing or a whole file, whatever others write, replace and drop meanwhile."""
    monkeypatch.setattr(cache, "LIMIT", 4 * 4096)
    monkeypatch.setattr(cache, "_UNSEEN", 0.0)
    actual, failures = [], []

    def work(start):
        try:
            for k in range(100):
                cache.store("plans", str((start + k) % 6), bytes([(start + k) % 6]) * 3000)
                content = cache.fetch("plans", str((start + k + 1) % 6))
                if content is not None:
                    actual.append(content == bytes([(start + k + 1) % 6]) * 3000)
        except BaseException as error:
            failures.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert actual
    assert all(actual)
    assert all(file.suffix != ".part" for file in files(folder))
