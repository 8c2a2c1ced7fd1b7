"""What a `spark.master` says about where the tasks run."""

from __future__ import annotations

import pytest

from tidegate.submit.masters import Master


@pytest.mark.parametrize(
    ("url", "kind", "this_machine", "one_jvm"),
    [
        ("local", Master.LOCAL, True, True),
        ("local[*]", Master.LOCAL, True, True),
        ("local[2,4]", Master.LOCAL, True, True),
        ("local-cluster[1,1,1024]", Master.LOCAL_CLUSTER, True, False),
        ("spark://one:7077,two:7077", Master.STANDALONE, False, False),
        ("yarn", Master.YARN, False, False),
        ("k8s://https://127.0.0.1:6443", Master.KUBERNETES, False, False),
        ("localhost:7077", Master.OTHER, False, False),
        ("armada://localhost", Master.OTHER, False, False),
        ("", Master.OTHER, False, False),
    ],
)
def test_a_master_says_where_its_tasks_run(url: str, kind: Master, this_machine: bool, one_jvm: bool):
    master = Master.of(url)
    assert (master, master.is_this_machine, master.is_one_jvm) == (kind, this_machine, one_jvm)
