"""Flame graphs of the benchmarks: what is counted, what is left out, what is drawn."""

from __future__ import annotations

from xml.etree import ElementTree

from bench.flames import drawn, panel_of
from bench.profiled import _of_python, _of_threads


def test_a_panel_counts_every_look_and_leaves_out_frames_without_a_name():
    panel = panel_of("JVM", [(["Thread.run", "Foo$$Lambda$12.apply", "Foo.work"], 30), (["Thread.run"], 20)], hertz=100)
    assert (panel.seconds, list(panel.root.inner)) == (0.5, ["Thread.run"])
    assert list(panel.root.inner["Thread.run"].inner) == ["Foo.work"]


def test_a_picture_has_a_bar_for_each_frame_that_is_wide_enough_to_be_seen():
    panel = panel_of("driver", [(["main", "busy"], 999), (["main", "<rare>"], 1)], hertz=100)
    picture = ElementTree.fromstring(drawn("2,000 events", [panel]))
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["2,000 events", "driver", "main", "busy"]


def test_a_worker_is_told_from_the_driver_that_has_started_it_and_waits_do_not_count():
    begun = 'process 1:"python -m bench.tidegate_program"'
    worker = 'process 2:"python -m tidegate.spark.worker_daemon"'
    driver, workers = _of_python(
        [([begun, "main"], 3), ([begun, worker, "read"], 5), ([begun, "main", "wait (threading.py:300)"], 7)]
    )
    assert (driver, workers) == ([(["main"], 3)], [(["read"], 5)])


def test_threads_of_one_kind_count_together():
    names = ["[C2 CompilerThre tid=7]", "[C1 CompilerThre tid=8]", "[Executor task launch worker-3 tid=9]"]
    found = [frames for frames, _ in _of_threads([([name, "java/lang/Thread.run"], 1) for name in names])]
    assert [frames[0] for frames in found] == ["compilers", "compilers", "Executor task launch worker"]
    assert found[0][1] == "Thread.run"
