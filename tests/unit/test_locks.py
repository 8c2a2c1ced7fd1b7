"""One driver: two real processes, a killed one, a forked one, and the JVM that outlives its Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.storages.local import locks
from tidegate.storages.local.locks import JVM_LOCK, acquire, jvm_lock_is_free, read_holder, wait_for_jvm_lock

HOLD_THE_DRIVER_LOCK = """
import sys
from tidegate.storages.local.locks import acquire
lock = acquire(sys.argv[1], "words")
print("held", flush=True)
sys.stdin.read()
"""

HOLD_THE_JVM_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "wb")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_driver_is_refused_and_told_who_the_first_is(tmp_path: Path):
    with another_process(HOLD_THE_DRIVER_LOCK, tmp_path) as first:
        with pytest.raises(TidegateError) as caught:
            acquire(tmp_path, "words")
        assert caught.value.code == "TG-DRIVER-ALIVE"
        assert f"process {first.pid} on " in caught.value.found
        assert "tidegate stop words" in caught.value.next_step


def test_a_killed_driver_leaves_the_lock_free_and_its_name_behind(tmp_path: Path):
    with another_process(HOLD_THE_DRIVER_LOCK, tmp_path) as first:
        first.kill()
        first.wait()
        with acquire(tmp_path, "words") as lock:
            assert lock.predecessor is not None
            assert lock.predecessor.process == first.pid
            assert read_holder(tmp_path) == lock.holder
            assert lock.holder.process == os.getpid()


def test_a_refused_start_does_not_loosen_the_lock_of_the_first(tmp_path: Path):
    with acquire(tmp_path, "words"):
        with pytest.raises(TidegateError, match="this same process"):
            acquire(tmp_path, "words")
        assert "TG-DRIVER-ALIVE" in refusal_of_another_process(tmp_path)


def test_reading_the_holder_and_trying_the_jvm_lock_do_not_loosen_the_lock(tmp_path: Path):
    with acquire(tmp_path, "words"):
        read_holder(tmp_path)
        jvm_lock_is_free(tmp_path)
        wait_for_jvm_lock(tmp_path, timeout_seconds=0)
        assert "TG-DRIVER-ALIVE" in refusal_of_another_process(tmp_path)


def test_the_same_folder_under_another_name_is_the_same_job(tmp_path: Path):
    (tmp_path / "other-name").symlink_to(tmp_path / "job", target_is_directory=True)
    with acquire(tmp_path / "job", "words"), pytest.raises(TidegateError, match="this same process"):
        acquire(tmp_path / "other-name", "words")


def test_a_released_lock_can_be_taken_again_and_released_twice(tmp_path: Path):
    first = acquire(tmp_path, "words")
    first.release()
    with acquire(tmp_path, "words"):
        first.release()
        assert "TG-DRIVER-ALIVE" in refusal_of_another_process(tmp_path)


def test_two_jobs_do_not_hinder_each_other(tmp_path: Path):
    with acquire(tmp_path / "words", "words"), acquire(tmp_path / "sums", "sums"):
        pass


def test_a_forked_child_does_not_take_itself_for_the_holder(tmp_path: Path):
    with acquire(tmp_path, "words") as lock:
        found = in_a_forked_child(lambda: what_acquire_says(tmp_path))
        assert f"process {os.getpid()} on " in found
        assert "this same process" not in found
        in_a_forked_child(lambda: str(lock.release()))
        assert "TG-DRIVER-ALIVE" in refusal_of_another_process(tmp_path)


def test_the_lock_file_is_empty_and_the_holder_stands_beside_it(tmp_path: Path):
    with acquire(tmp_path, "words") as lock:
        assert os.stat(tmp_path / "locks" / "driver.lock").st_size == 0  # to open it would drop the lock
        assert lock.holder.job == "words"


def test_a_torn_holder_file_names_nobody_and_hinders_nobody(tmp_path: Path):
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "holder.json").write_bytes(b'{"job":"wo')
    assert read_holder(tmp_path) is None
    with acquire(tmp_path, "words") as lock:
        assert lock.predecessor is None


def test_a_folder_where_no_lock_can_be_is_an_error_of_the_storage(tmp_path: Path):
    (tmp_path / "locks").write_bytes(b"")
    with pytest.raises(TidegateError, match="TG-STORAGE-UNUSABLE"):
        acquire(tmp_path, "words")


def test_the_jvm_lock_is_free_until_a_jvm_takes_it_and_after_it_has_ended(tmp_path: Path):
    (tmp_path / "locks").mkdir()
    assert jvm_lock_is_free(tmp_path)
    with another_process(HOLD_THE_JVM_LOCK, tmp_path / JVM_LOCK) as jvm:
        assert not jvm_lock_is_free(tmp_path)
        jvm.kill()
        jvm.wait()
        assert jvm_lock_is_free(tmp_path)


def test_waiting_goes_on_until_the_jvm_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "locks").mkdir()
    with another_process(HOLD_THE_JVM_LOCK, tmp_path / JVM_LOCK) as jvm:
        waits: list[float] = []

        def jvm_ends_at_the_third(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                jvm.kill()
                jvm.wait()

        monkeypatch.setattr(locks.time, "sleep", jvm_ends_at_the_third)
        wait_for_jvm_lock(tmp_path, timeout_seconds=60)
        assert len(waits) == 3


def test_a_jvm_that_does_not_end_is_refused_with_the_name_of_its_driver(tmp_path: Path):
    with another_process(HOLD_THE_DRIVER_LOCK, tmp_path) as driver:
        driver.kill()
        driver.wait()
    with another_process(HOLD_THE_JVM_LOCK, tmp_path / JVM_LOCK), acquire(tmp_path, "words"):
        with pytest.raises(TidegateError) as caught:
            wait_for_jvm_lock(tmp_path, timeout_seconds=0)
        assert caught.value.code == "TG-DRIVER-ALIVE"
        assert f"process {driver.pid} on " in caught.value.found


@contextmanager
def another_process(program: str, argument: Path) -> Generator[subprocess.Popen[bytes], None, None]:
    """A Python process that runs `program` until it is killed; entered when it says that it holds its lock."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(argument)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def refusal_of_another_process(folder: Path) -> str:
    """What a process that wants the lock says when it is refused; empty when it gets the lock."""
    done = subprocess.run(
        [sys.executable, "-c", HOLD_THE_DRIVER_LOCK, str(folder)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def what_acquire_says(folder: Path) -> str:
    try:
        acquire(folder, "words")
    except TidegateError as error:
        return str(error)
    return "acquired"


def in_a_forked_child(action: Callable[[], object]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(action()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return text
