"""Bad days of HDFS: lost answers, a writer that is killed, a NameNode that is away, in safe mode, or refuses."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hdfs_native
import pytest

from tests.support.hdfs import HdfsServer
from tests.support.proxy import Proxy
from tests.support.today import turn
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.hdfs import publish
from tidegate.storages.hdfs.client import Waits, client_of
from tidegate.storages.hdfs.publish import NewFile
from tidegate.storages.hdfs.storage import HdfsStorage
from tidegate.storages.leases import open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.renewal import renewing
from tidegate.storages.schemes import Folder

SHORT = Waits(call_seconds=2.0, first_seconds=1.0, total_seconds=1.0)


@pytest.fixture
def place(hdfs: HdfsServer) -> Folder:
    """A folder of a test's own."""
    return Folder.of(f"{hdfs.uri}/faults/{secrets.token_hex(4)}")


@pytest.fixture
def proxy(hdfs: HdfsServer) -> Iterator[Proxy]:
    with Proxy(hdfs.port) as proxy:
        yield proxy


def by_way_of(proxy: Proxy, place: Folder, waits: Waits | None = None) -> HdfsStorage:
    return HdfsStorage(Folder.of(f"hdfs://127.0.0.1:{proxy.port}{place.path}"), waits)


@contextmanager
def refused(code: Code, *parts: str) -> Iterator[None]:
    """The body raises this error, whose text has these parts."""
    with pytest.raises(TidegateError) as caught:
        yield
    assert caught.value.catalogue_entry is code
    for part in parts:
        assert part in str(caught.value)


# --- lost answers --------------------------------------------------------------------------------------------


def test_a_put_whose_answer_is_lost_is_known_as_ours(place: Folder, proxy: Proxy) -> None:
    lost = proxy.lose_answer(b"rename2")
    storage = by_way_of(proxy, place)
    assert storage.put_if_absent("decided/7", b"same") is True
    assert lost.struck == 1
    assert storage.put_if_absent("decided/7", b"same") is False
    assert open_storage(place).list("decided") == ["7"]


def test_the_same_content_of_another_driver_is_not_taken_for_ours(place: Folder, proxy: Proxy) -> None:
    lost = proxy.lose_request(b"rename2", before=lambda: open_storage(place).put_if_absent("decided/7", b"same"))
    assert by_way_of(proxy, place).put_if_absent("decided/7", b"same") is False
    assert lost.struck == 1


def test_a_put_that_was_swept_as_left_over_is_not_taken_for_done(place: Folder, proxy: Proxy) -> None:
    """The hidden file is gone and the target is there, with the same content: and still it is another's."""

    def another_driver() -> None:
        open_storage(place).remove_leftovers("decided")
        open_storage(place).put_if_absent("decided/7", b"same")

    proxy.lose_request(b"rename2", before=another_driver)
    assert by_way_of(proxy, place).put_if_absent("decided/7", b"same") is False


def test_a_replace_that_never_came_is_done_again(place: Folder, proxy: Proxy) -> None:
    storage = by_way_of(proxy, place)
    storage.replace("job.json", b"first")
    lost = proxy.lose_request(b"rename2", count=2)
    storage.replace("job.json", b"second")
    assert lost.struck == 2
    assert open_storage(place).read("job.json") == b"second"
    assert hidden_in(place, "") == []


def test_a_large_file_survives_lost_renames(place: Folder, proxy: Proxy) -> None:
    client = client_of(Folder.of(f"hdfs://127.0.0.1:{proxy.port}"), Waits())
    for number, lose in enumerate((proxy.lose_request, proxy.lose_answer)):
        lost = lose(b"rename2")
        file = NewFile(client, f"{place.path}/{number}")
        file.write(bytes(5 << 20))
        assert file.publish() is True
        assert lost.struck == 1
    assert open_storage(place).list("") == ["0", "1"]


def test_a_put_that_never_came_is_done_again(place: Folder, proxy: Proxy) -> None:
    lost = [proxy.lose_request(method) for method in (b"rename2", b"addBlock", b"complete", b"create")]
    assert by_way_of(proxy, place).put_if_absent("decided/7", b"content") is True
    assert [each.struck for each in lost] == [1, 1, 1, 1]
    assert open_storage(place).read("decided/7") == b"content"
    assert hidden_in(place, "decided") == []


def test_a_hidden_file_that_could_not_be_removed_is_removed_when_the_server_answers_again(
    place: Folder, proxy: Proxy
) -> None:
    storage = by_way_of(proxy, place)
    for write in (storage.put_if_absent, storage.replace):
        lost = [proxy.lose_answer(b"addBlock", count=2), proxy.lose_request(b"delete", count=2)]
        write("lease/1.beat", write.__name__.encode())
        assert [each.struck for each in lost] == [2, 2]
        assert hidden_in(place, "lease") == []
        storage.delete("lease/1.beat")


def test_a_replace_and_a_set_aside_survive_lost_answers(place: Folder, proxy: Proxy) -> None:
    storage = by_way_of(proxy, place)
    storage.put_if_absent("job.json", b"first")
    proxy.lose_answer(b"rename2")
    storage.replace("job.json", b"second")
    assert storage.read("job.json") == b"second"
    proxy.lose_answer(b"rename2")
    assert storage.set_aside("job.json") == ".aside-job.json-0"
    assert open_storage(place).list("") == [".aside-job.json-0"]


def test_a_silent_name_node_is_given_up_and_the_next_try_counts(place: Folder, proxy: Proxy) -> None:
    proxy.swallow(b"rename2")
    waits = Waits(call_seconds=0.5, first_seconds=5.0, total_seconds=5.0)
    assert by_way_of(proxy, place, waits).put_if_absent("decided/7", b"content") is True
    proxy.swallow(b"getFileInfo", count=1000)
    with refused(Code.STORAGE_UNUSABLE, "no answer"):
        by_way_of(proxy, place, Waits(call_seconds=0.2, first_seconds=0.5, total_seconds=0.5)).look("decided/7")


@turn(2, of=3)
def test_threads_never_wait_for_each_other_when_connections_break(place: Folder, hdfs: HdfsServer) -> None:
    """A thread of the client that tells of a broken connection holds a lock, and wants Python's. The thread that holds
    Python's must never want the first one."""
    program = [sys.executable, "-m", "tests.storages.broken_connections", place.path, str(hdfs.port), "60"]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.stdout.strip(), ended.returncode) == ("60", 0), ended.stderr


def test_the_first_call_of_a_process_is_tried_again_when_it_gets_no_answer(place: Folder, proxy: Proxy) -> None:
    """Although the wait for it is longer than the patience with a NameNode that has never answered."""
    lost = proxy.swallow(b"getFileInfo")
    assert by_way_of(proxy, place, Waits(call_seconds=1.0, first_seconds=0.5)).look("decided/7") is None
    assert lost.struck == 1


@turn(2, of=3)
def test_a_lease_is_kept_although_a_call_of_its_renewal_gets_no_answer(place: Folder, proxy: Proxy) -> None:
    held = open_lease(Folder.of(f"hdfs://127.0.0.1:{proxy.port}{place.path}"), 12.0).take("words", 0)
    with renewing(held):
        lost = proxy.swallow(b"getListing")
        for _ in range(20):
            time.sleep(0.5)
            assert held.lost_here() is None
        assert lost.struck == 1
    held.release()


ENDING = """
import sys, threading, time
from tidegate.storages.opening import open_storage
threading.Thread(target=open_storage(sys.argv[1]).look, args=("runs/0",), daemon=True).start()
time.sleep(1)
print("the last word", file=sys.stderr)
"""


def test_a_process_that_ends_while_a_thread_waits_for_a_silent_name_node_says_nothing_more(
    place: Folder, proxy: Proxy
) -> None:
    proxy.swallow(b"getFileInfo", count=1000)
    where = f"hdfs://127.0.0.1:{proxy.port}{place.path}"
    ended = subprocess.run([sys.executable, "-c", ENDING, where], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"the last word\n")


# --- a writer that is killed ---------------------------------------------------------------------------------

DYING = """
import os, signal, sys
from tidegate.storages.hdfs import client, publish
from tidegate.storages.opening import open_storage

die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
match sys.argv[2]:
    case "before the sync":
        publish._finish = die
    case "before the rename":
        client.HdfsClient.rename = die
open_storage(sys.argv[1]).put_if_absent("decided/7", b"content" * 100_000)
"""


@pytest.mark.parametrize("moment", ["before the sync", "before the rename"])
def test_a_writer_killed_in_a_put_leaves_no_record(moment: str, place: Folder) -> None:
    dead = subprocess.run([sys.executable, "-c", DYING, str(place), moment], timeout=60, check=False)
    assert dead.returncode == -signal.SIGKILL
    storage = open_storage(place)
    assert (storage.read("decided/7"), storage.list("decided")) == (None, [])
    assert len(hidden_in(place, "decided")) == 1
    assert storage.put_if_absent("decided/7", b"next") is True
    storage.remove_leftovers("decided", "8")
    assert len(hidden_in(place, "decided")) == 1
    storage.remove_leftovers("decided", "7")
    assert hidden_in(place, "decided") == []
    assert storage.list("decided") == ["7"]


def hidden_in(place: Folder, folder: str) -> list[str]:
    """The files of unfinished puts."""
    client = hdfs_native.Client(f"hdfs://{place.authority}")
    names = (each.path.rpartition("/")[2] for each in client.list_status(f"{place.path}/{folder}"))
    return [name for name in names if name.endswith(publish.TEMPORARY_SUFFIX)]


# --- a NameNode that is away, in safe mode, or refuses --------------------------------------------------------


@pytest.mark.more
def test_puts_wait_for_a_name_node_that_is_killed_and_started_again(place: Folder, hdfs: HdfsServer) -> None:
    storage = open_storage(place)
    storage.put_if_absent("runs/0", b"0")
    hdfs.kill_name_node()
    try:
        with refused(Code.STORAGE_UNUSABLE, "refused", "hdfs dfsadmin -report"):
            HdfsStorage(place, SHORT).put_if_absent("runs/0", b"0")
    finally:
        restart = threading.Thread(target=hdfs.start_name_node)
        restart.start()
    won = [storage.put_if_absent(f"runs/{number}", b"%d" % number) for number in range(3)]
    restart.join()
    assert won == [False, True, True]
    assert [open_storage(place).read(f"runs/{number}") for number in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.more
def test_safe_mode_and_a_quota_are_named(place: Folder, hdfs: HdfsServer) -> None:
    storage = HdfsStorage(place, SHORT)
    storage.put_if_absent("decided/7", b"content")
    hdfs.admin("-setSpaceQuota", "1m", place.path)
    with refused(Code.STORAGE_FULL, "quota", "-setSpaceQuota"):
        storage.put_if_absent("decided/8", b"content")
    hdfs.admin("-clrSpaceQuota", place.path)
    hdfs.admin("-safemode", "enter")
    try:
        with refused(Code.STORAGE_UNUSABLE, "safe mode", "hdfs dfsadmin -safemode leave"):
            storage.put_if_absent("decided/8", b"content")
        assert HdfsStorage(place, Waits(first_seconds=1.5)).read("decided/7") == b"content"
    finally:
        hdfs.admin("-safemode", "leave")
    assert storage.put_if_absent("decided/8", b"content") is True


def test_a_user_without_rights_reads_and_is_refused_a_write(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    open_storage(place).put_if_absent("decided/7", b"content")
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    storage = open_storage(place)
    assert (storage.read("decided/7"), storage.list("decided")) == (b"content", ["7"])
    for act in (lambda: storage.put_if_absent("decided/8", b""), lambda: storage.delete("decided/7")):
        with refused(Code.STORAGE_UNUSABLE, "stranger", "HADOOP_USER_NAME"):
            act()


def test_files_belong_to_the_user_of_the_environment(
    place: Folder, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = hdfs_native.Client(hdfs.uri)
    client.mkdirs(place.path, create_parent=True)
    client.set_permission(place.path, 0o777)
    monkeypatch.setenv("HADOOP_USER_NAME", "flink")
    open_storage(place).put_if_absent("job.json", b"{}")
    assert client.get_file_info(f"{place.path}/job.json").owner == "flink"


@pytest.mark.parametrize(
    ("authority", "parts"),
    [
        ("127.0.0.1:1", ("refused", "host and port")),
        ("no-such-host.invalid:8020", ("lookup", "name resolution")),
        ("", ("No NameNode", "HADOOP_CONF_DIR")),
    ],
)
def test_a_wrong_address_is_named_soon(
    authority: str, parts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "<configuration><property><name>dfs.ha.namenodes.ns</name><value></value></property></configuration>"
    (tmp_path / "hdfs-site.xml").write_text(settings)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with refused(Code.STORAGE_UNUSABLE, *parts):
        HdfsStorage(Folder.of(f"hdfs://{authority or 'ns'}/jobs"), SHORT).read("job.json")


# --- names of the storage, processes, large files ------------------------------------------------------------


def test_the_default_file_system_and_a_mount_table_lead_to_the_same_folder(
    place: Folder, hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_storage(place).put_if_absent("job.json", b"{}")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
    by_default = open_storage(f"hdfs://{place.path}")
    assert by_default.where() == str(place)
    assert by_default.read("job.json") == b"{}"
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.viewfs.mounttable.cluster.link./jobs</name>"
        f"<value>{place}</value></property><property><name>fs.viewfs.mounttable.cluster.linkFallback</name>"
        f"<value>{hdfs.uri}/</value></property></configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    mounted = open_storage("viewfs://cluster/jobs")
    assert mounted.list("") == ["job.json"]
    assert mounted.put_if_absent("runs/0", b"0") is True
    assert mounted.set_aside("runs/0") == "runs/.aside-0-0"
    assert by_default.list("runs") == [".aside-0-0"]


def test_a_name_service_leads_to_the_name_node_that_answers(
    place: Folder, hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "dfs.ha.namenodes.service": "one,two",
        "dfs.namenode.rpc-address.service.one": "127.0.0.1:1",
        "dfs.namenode.rpc-address.service.two": f"127.0.0.1:{hdfs.port}",
    }
    properties = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert open_storage(f"hdfs://service{place.path}").put_if_absent("job.json", b"{}") is True
    assert open_storage(place).read("job.json") == b"{}"


def test_a_forked_process_has_a_client_of_its_own(place: Folder) -> None:
    storage = open_storage(place)
    storage.put_if_absent("runs/0", b"parent")
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if storage.put_if_absent("runs/1", b"child") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert storage.read("runs/1") == b"child"


@turn(0, of=2)
def test_a_file_of_several_blocks_is_published_whole(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_SMALLEST_BLOCK", 1_500_007)  # no multiple of anything
    client = client_of(place, Waits())
    data = os.urandom(1 << 20)
    monkeypatch.setattr(publish, "_TOKENS", 1000)
    first, second = (NewFile(client, f"{place.path}/large") for _ in range(2))
    for file in (first, second):
        for _ in range(5):
            file.write(data)
        assert client.status(f"{place.path}/large") is None or file is second
        assert file.publish() is (file is first)
        file.abandon()
    assert client.read(f"{place.path}/large") == data * 5
    assert hidden_in(place, "") == []


def test_a_close_that_is_given_up_too_early_is_done_again(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_CLOSE_SECONDS", 1e-6)
    storage = open_storage(place)
    assert all(storage.put_if_absent(f"runs/{number}", b"content") for number in range(3))
    assert hidden_in(place, "runs") == []
