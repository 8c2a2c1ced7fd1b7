"""Every view of the page in a real browser: it shows what the server says, and nothing goes wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from tests.jobs.folders import make_job, say
from tests.web import canned
from tests.web.looking import DESK, PHONE, VIEWS, looking
from tests.web.page_server import Canned, Served, full, served
from tidegate.operate import Folder
from tidegate.operate.beat import JobState
from tidegate.web.application import build
from tidegate.web.site import Site

SHOWN = {
    "jobs": ("payments", "TG-SINK-LOST", "48.1 k/s", "hdfs://store/checkpoints"),
    "overview": (
        "topic 'lines' of kafka",
        "barrier passed",
        "waits for barrier",
        "Checkpoint 311",
        "Where the time goes",
        "Epoch 18,206",
    ),
    "checkpoints": ("Triggered", "10,003", "hdfs://store/savepoints/savepoint-4f2a91-20261114T0902"),
    "history": ("18,206", "recovered", "not measured"),
    "summary": ("Minimum", "99 %", "Pre-commit"),
    "configuration": ("exactly once", "rocksdb", "10 min"),
    "savepoints": ("hdfs://store/savepoints/savepoint-4f2a91-20261114T0902", "1.3 GB", "Inspect"),
    "sinks": ("table 'counts' of PostgreSQL", "each row exactly once", "tidegate txn commit would commit it"),
    "sources": ("topic 'lines'", "channel, 4 partitions"),
    "exceptions": ("TG-EXECUTOR-LOST", "a restart followed after 2.0 s", "no restart followed"),
    "settings": ("savepoints.dir", "the environment"),
    "log": ("TG-EXECUTOR-LOST", "driver-7.log"),
    "start": ("wordcount.py", "Savepoint path", "Check, then start"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(Canned(full()).app()) as server:
        yield server


def axe() -> str:
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Any) -> list[str]:
    """What axe finds, as `rule: element`."""
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{rule['id']}: {node['target']}" for rule in found for node in rule["nodes"]]


IN_BOTH_COLOURS = ("jobs", "overview", "savepoints", "exceptions", "start")
"""Together they have all parts; the other views in all colours and sizes are among the tests that `more` marks."""


@pytest.mark.parametrize(
    ("scheme", "screen", "judged"),
    [
        pytest.param("light", DESK, VIEWS, id="light-desk"),
        pytest.param("dark", PHONE, IN_BOTH_COLOURS, id="dark-phone"),
        pytest.param("dark", DESK, VIEWS, id="dark-desk", marks=pytest.mark.more),
        pytest.param("light", PHONE, VIEWS, id="light-phone", marks=pytest.mark.more),
    ],
)
def test_every_view_shows_its_values_and_is_for_everyone(
    chromium: Browser, server: Served, scheme: str, screen: dict[str, int], judged: Collection[str]
) -> None:
    with looking(chromium, screen=screen, scheme=scheme) as looked:
        for view, place in VIEWS.items():
            page = looked.at(server.address, place)
            for text in SHOWN[view]:
                expect(page.locator("main").get_by_text(text, exact=False).first).to_be_attached()
            assert not looked.is_wider_than_its_screen(), view
            assert looked.overfull_cells() == [], view
            assert view not in judged or violations(page) == [], view
            assert page.title().endswith("tidegate")
        assert (looked.wrong, looked.hosts) == ([], {"127.0.0.1"})


def test_failures_come_first_and_the_list_is_filtered(chromium: Browser, server: Served) -> None:
    with looking(chromium) as looked:
        page = looked.at(server.address, "#/")
        names = page.locator("tbody a.name")
        assert names.all_inner_texts()[:2] == ["payments", "sessions"]
        page.get_by_label("Filter jobs").fill("fraud")
        expect(names).to_have_text(["fraud-alerts"])
        page.get_by_label("Filter jobs").fill("")
        page.get_by_role("button", name="ended").click()
        expect(names).to_have_text(["nightly-report", "old-orders"])
        assert looked.wrong == []


def test_hostile_texts_are_only_texts(chromium: Browser) -> None:
    name = canned.HOSTILE
    quoted = "/jobs/" + name
    live = canned.live(name, problem=name)
    live = msgspec.structs.replace(live, graph=canned.graph(name), error=name)
    answers = {
        **{path.replace("/jobs/wordcount", quoted): value for path, value in full().items()},
        "/jobs/cards": canned.cards(canned.card(name, "FAILED", problem=name)),
        f"{quoted}/live": live,
        f"{quoted}/failures": canned.failures(name),
        f"{quoted}/log": msgspec.structs.replace(canned.log(), lines=(name,), path=name),
    }
    with served(Canned(answers).app()) as server, looking(chromium) as looked:
        page = looked.at(server.address, "#/")
        page.locator("a.name", has_text="<script>").click()
        expect(page.locator("h1")).to_have_text(name)
        assert name in page.locator(".trouble.wide").inner_text()
        for view in ("Exceptions", "Log", "Overview"):
            page.get_by_role("navigation", name="Views of the job").get_by_role("link", name=view, exact=True).click()
            expect(page.locator("main .waiting")).to_have_count(0)
            expect(page.locator("main").get_by_text("<script>").first).to_be_attached()
        assert page.evaluate("[window.broken, document.images.length, document.scripts.length]") == [None, 0, 1]
        assert looked.wrong == []


def test_between_two_checkpoints_the_graph_has_the_number_of_the_last_one(chromium: Browser) -> None:
    live = canned.live()
    nodes = tuple(msgspec.structs.replace(each, behind_barrier=None) for each in live.graph.nodes)
    rested = msgspec.structs.replace(live, graph=msgspec.structs.replace(live.graph, nodes=nodes))
    with served(Canned({**full(), "/jobs/wordcount/live": rested}).app()) as server, looking(chromium) as looked:
        page = looked.at(server.address, VIEWS["overview"])
        expect(page.locator(".graph .node.query .barrier")).to_have_text(["barrier 311", "barrier 311"])
        expect(page.locator(".graph .node.channel .barrier")).to_have_count(0)
        assert looked.wrong == []


def test_the_timeline_is_read_with_the_arrow_keys(chromium: Browser, server: Served) -> None:
    with looking(chromium) as looked:
        page = looked.at(server.address, "#/jobs/wordcount")
        slider = page.get_by_role("slider", name="Epochs in time")
        slider.focus()
        expect(slider).to_have_attribute("aria-valuetext", re.compile("^Epoch 18206 of words"))
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".readout")).to_contain_text("Epoch 18,205")
        for _ in range(60):
            place = slider.get_attribute("aria-valuenow") or ""
            page.keyboard.press("ArrowLeft")
            expect(slider).not_to_have_attribute("aria-valuenow", place)  # the page draws after the key
            if "restart" in (slider.get_attribute("aria-valuetext") or ""):
                break
        expect(page.locator(".readout.restart")).to_contain_text("TG-EXECUTOR-LOST")
        page.keyboard.press("End")
        expect(page.locator(".readout")).to_contain_text("Epoch 18,206")


def test_an_address_can_be_shared_and_the_skip_link_keeps_it(chromium: Browser, server: Served) -> None:
    with looking(chromium) as looked:
        page = looked.at(server.address, "#/jobs/wordcount/checkpoints/summary")
        expect(page.get_by_role("link", name="Summary")).to_have_attribute("aria-current", "page")
        page.keyboard.press("Tab")
        page.get_by_role("link", name="Skip to the content").press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        assert page.url.endswith("#/jobs/wordcount/checkpoints/summary")


def test_the_colours_follow_the_switch_and_are_kept(chromium: Browser, server: Served) -> None:
    with looking(chromium, scheme="light") as looked:
        page = looked.at(server.address, "#/")
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.get_by_role("button", name="Theme: auto").click()
        page.get_by_role("button", name="Theme: light").click()
        dark = page.evaluate(ground)
        assert light != dark
        page.reload()
        assert page.evaluate(ground) == dark


def test_a_server_without_the_newer_routes_gives_empty_views(chromium: Browser) -> None:
    answers = {"/jobs/cards": canned.cards(), "/jobs/wordcount/live": canned.live()}
    with served(Canned(answers).app()) as server, looking(chromium) as looked:
        for view, place in VIEWS.items():
            page = looked.at(server.address, place)
            if view not in ("jobs", "overview"):
                expect(page.locator("main .empty").first).to_be_visible()
        assert looked.wrong == []


def test_an_unknown_job_is_told_with_its_next_step(chromium: Browser, tmp_path: Path) -> None:
    with served(build(Site.of(Folder.of(tmp_path)))) as server, looking(chromium) as looked:
        page = looked.at(server.address, "#/jobs/nothing")
        expect(page.get_by_role("group", name="Problem")).to_contain_text("TG-JOB-UNKNOWN")
        assert looked.wrong == []


def test_the_real_server_shows_a_real_folder(chromium: Browser, tmp_path: Path) -> None:
    say(make_job(tmp_path, "wordcount"), JobState.FAILED, error="TG-SINK-LOST: its sink has lost a transaction")
    with served(build(Site.of(Folder.of(tmp_path)))) as server, looking(chromium) as looked:
        page = looked.at(server.address, "#/")
        expect(page.locator("main")).to_contain_text("TG-SINK-LOST")
        for place in VIEWS.values():
            looked.at(server.address, place)
        assert looked.wrong == []


def test_values_stay_fresh_and_a_tab_that_nobody_sees_asks_nothing(chromium: Browser) -> None:
    shown = Canned(full())
    with served(shown.app()) as server, looking(chromium) as looked:
        page = looked.at(server.address, "#/")
        shown.answers["/jobs/cards"] = canned.cards(canned.card("newcomer"))
        expect(page.locator("main")).to_contain_text("newcomer")
        page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        shown.paths.clear()
        time.sleep(2.5)
        assert shown.paths == []
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("main")).to_contain_text("newcomer")
        assert shown.paths
