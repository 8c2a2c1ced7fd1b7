"""What a person does on the page, in a real browser: actions, the token, a start; and a server that goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, expect
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.web import canned
from tests.web.looking import PHONE, VIEWS, give_token, looking
from tests.web.page_server import TOKEN, Canned, full, served, ticket
from tests.web.test_page_views import violations

JOB = "#/jobs/wordcount"
ACTIONS = "/jobs/wordcount/actions"
SAVED = "hdfs://store/savepoints/savepoint-9"


class Desk:
    """Answers to actions: the same id is the same request, as the real interface has it."""

    def __init__(self, answers: dict[str, Any], states: dict[int, dict[str, Any]]) -> None:
        self.ids: list[str] = []
        self._states = states
        self._answers = answers
        answers[ACTIONS] = self.post

    def post(self, request: Request) -> Any:
        return _Later(request, self)

    def take(self, request_id: str) -> dict[str, Any]:
        if request_id not in self.ids:
            self.ids.append(request_id)
            states = {number: {**state, "id": request_id} for number, state in self._states.items()}
            self._answers[f"{ACTIONS}/{request_id}"] = ticket(states)
        return {"id": request_id, "state": "pending", "waits_for": "the end of its epoch"}


class _Later(Response):
    """Reads the body first."""

    def __init__(self, request: Request, desk: Desk) -> None:
        super().__init__(status_code=202, media_type="application/json")
        self._request, self._desk = request, desk

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = json.loads(await self._request.body())
        await Response(json.dumps(self._desk.take(body["id"])), 202, media_type="application/json")(
            scope, receive, send
        )


PENDING = {
    "id": "x",
    "kind": "savepoint",
    "state": "pending",
    "stage": "ASKED",
    "waits_for": "the copy of its state",
    "progress": {"bytes": 400_000_000, "of": 1_600_000_000},
    "answer": None,
}
DONE = {
    **PENDING,
    "state": "done",
    "progress": None,
    "answer": {
        "outcome": "done",
        "detail": "the savepoint is complete",
        "epochs": {"counts": 18_207},
        "savepoint": SAVED,
    },
}
REFUSED = {
    **PENDING,
    "state": "refused",
    "progress": None,
    "answer": {"outcome": "refused", "detail": "the job runs no query", "epochs": {}, "savepoint": None},
}
FITS = {
    "id": "c1",
    "state": "done",
    "verdict": "ok",
    "changes": [],
    "reasons": [],
    "epochs": {"counts": 18_150},
    "problem": None,
}
STARTED = {
    "jobid": "0f1e2d3c" + "0" * 24,
    "name": "wordcount",
    "process": 4711,
    "log": "logs/supervisor.log",
    "notes": [],
}

VERIFY = "/savepoints/verify"
DISPOSAL = "/savepoint-disposal"
IN_PROGRESS = {"status": {"id": "IN_PROGRESS"}, "operation": None}
FOREIGN_FILES = {
    "status": {"id": "COMPLETED"},
    "operation": {"failure-cause": {"class": "SavepointAltered", "stack-trace": "foreign files lie in it"}},
}
DISPOSED = {"status": {"id": "COMPLETED"}, "operation": {}}


@pytest.fixture
def shown() -> Canned:
    return Canned(full())


@pytest.fixture
def address(shown: Canned) -> Iterator[str]:
    with served(shown.app()) as server:
        yield server.address


def test_a_savepoint_is_taken_with_the_keyboard_alone(chromium: Browser, shown: Canned, address: str) -> None:
    desk = Desk(shown.answers, {1: PENDING, 3: DONE})
    with looking(chromium) as looked:
        page = looked.at(address, JOB)
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Savepoint…":
                break
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Token")).to_be_visible()
        assert violations(page) == []
        page.keyboard.type("a wrong one")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("not the token")
        page.keyboard.press("Control+a")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Take a savepoint")
        expect(dialog).to_contain_text("the job goes on")
        assert shown.asked == []  # it says what it will do, and asks
        assert violations(page) == []
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("400 MB of 1.6 GB")
        expect(dialog).to_contain_text(SAVED)
        expect(page.locator("#said")).to_have_text("Take a savepoint, wordcount: done")
        assert violations(page) == []
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page.locator(".request")).to_contain_text(SAVED)
        assert page.evaluate("document.activeElement.textContent") == "Savepoint…"
        assert len(desk.ids) == 1
        assert [(path, body["kind"]) for _, path, body in shown.asked] == [(ACTIONS, "savepoint")]
        assert looked.wrong == []


@pytest.mark.parametrize(
    ("button", "kind"),
    [
        pytest.param("Stop with savepoint…", "stop-with-savepoint", id="stop with savepoint"),
        pytest.param("Drain…", "drain-with-savepoint", id="drain"),
        pytest.param("Stop…", "stop", id="stop"),
        pytest.param("Cancel…", "cancel", id="cancel"),
        pytest.param("Cancel with savepoint…", "cancel-with-savepoint", id="cancel with savepoint"),
    ],
)
def test_a_double_click_is_one_request(chromium: Browser, shown: Canned, address: str, button: str, kind: str) -> None:
    desk = Desk(shown.answers, {1: REFUSED})
    with looking(chromium, screen=PHONE) as looked:
        page = looked.at(address, JOB)
        page.locator("summary", has_text="Stop").click()
        page.get_by_role("button", name=button).click()
        give_token(page)
        dialog = page.get_by_role("dialog")
        assert not looked.is_wider_than_its_screen()
        dialog.locator("button.danger").dblclick()
        expect(dialog).to_contain_text("the job runs no query")
        assert len(desk.ids) == 1
        assert {body["kind"] for _, _, body in shown.asked} == {kind}
        assert looked.wrong == []


def test_a_lost_answer_is_asked_for_again_with_the_same_id(chromium: Browser, shown: Canned) -> None:
    desk = Desk(shown.answers, {1: DONE})
    with served(shown.app()) as server, looking(chromium) as looked:
        page = looked.at(server.address, JOB)
        page.evaluate(f"sessionStorage.setItem('tidegate-token', '{TOKEN}')")
        page.get_by_role("button", name="Checkpoint…").click()
        dialog = page.get_by_role("dialog", name="Take a checkpoint")
        page.route(f"**{ACTIONS}", lambda route: (route.fetch(), route.abort()))
        dialog.get_by_role("button", name="Take a checkpoint").click()
        expect(dialog).to_contain_text("The server does not answer")
        page.unroute(f"**{ACTIONS}")
        dialog.get_by_role("button", name="Take a checkpoint").click()
        expect(dialog).to_contain_text("the savepoint is complete")
        assert (len(shown.asked), len(desk.ids)) == (2, 1)


def test_a_server_that_only_shows_says_so(chromium: Browser, shown: Canned, address: str) -> None:
    with looking(chromium) as looked:
        page = looked.at(address, JOB)
        page.route(
            "**/access", lambda route: route.fulfill(json={"acting": "refused", "may_act": False, "programs": False})
        )
        page.get_by_role("button", name="Checkpoint…").click()
        expect(page.get_by_role("dialog")).to_contain_text("only shows")
        assert shown.asked == []


def test_the_token_stays_in_its_tab_and_can_be_forgotten(chromium: Browser, shown: Canned, address: str) -> None:
    Desk(shown.answers, {1: DONE})
    with looking(chromium) as looked:
        page = looked.at(address, JOB)
        page.get_by_role("button", name="Checkpoint…").click()
        give_token(page)
        expect(page.get_by_role("dialog", name="Take a checkpoint")).to_be_visible()
        page.keyboard.press("Escape")
        stored = page.evaluate("[JSON.stringify(localStorage), document.cookie, location.href]")
        assert not any(TOKEN in each for each in stored)
        page.get_by_role("button", name="Forget token").click()
        assert page.evaluate("sessionStorage.length") == 0


def test_a_server_goes_away_and_comes_back(chromium: Browser, shown: Canned) -> None:
    with served(shown.app()) as server, looking(chromium) as looked:
        page = looked.at(server.address, JOB)
        server.stop()
        banner = page.locator("#banner")
        expect(banner).to_contain_text("does not answer")
        expect(page.locator("main")).to_contain_text("1,342/s")  # the last values, grey
        assert page.locator("main").evaluate("each => getComputedStyle(each).filter") == "grayscale(1)"
        shown.answers["/jobs/wordcount/live"] = canned.live(rows_per_second=77.0)
        server.start()
        expect(banner).to_be_hidden(timeout=20_000)
        expect(page.locator("main")).to_contain_text("77/s")
        assert looked.wrong == []


def test_events_of_the_server_replace_the_asking(chromium: Browser, shown: Canned) -> None:
    resumed: list[str | None] = []
    newest = msgspec.structs.replace(canned.epochs(1).epochs[0], epoch=18_299, at=canned.NOW + 60)

    def events(request: Request) -> Response:
        resumed.append(request.headers.get("last-event-id"))

        async def told() -> AsyncIterator[bytes]:
            yield event("live", canned.live(rows_per_second=4321.0), 17)
            yield b": the server is still here\n\n"
            await asyncio.sleep(3.0 if len(resumed) == 1 else 30.0)
            yield event("epoch", newest, 18)

        return StreamingResponse(told(), media_type="text/event-stream")

    shown.answers["/jobs/wordcount/events"] = events
    with served(shown.app()) as server, looking(chromium) as looked:
        page = looked.at(server.address, JOB)
        expect(page.locator("main")).to_contain_text("4,321/s")
        shown.paths.clear()
        expect(page.locator(".readout")).to_contain_text("Epoch 18,299")
        assert "/jobs/wordcount/live" not in shown.paths
        page.wait_for_timeout(2_000)
        assert resumed[:2] == [None, "18"]
        expect(page.locator("#banner")).to_be_hidden()
        assert looked.wrong == []


def test_an_event_changes_no_number_of_epochs_that_a_view_has_read(chromium: Browser, shown: Canned) -> None:
    newest = msgspec.structs.replace(canned.epochs(1).epochs[0], epoch=18_299)

    async def told() -> AsyncIterator[bytes]:
        for _ in range(60):  # the view may not have read its epochs when the first one comes
            yield event("epoch", newest, 17)
            await asyncio.sleep(0.5)

    shown.answers["/jobs/wordcount/epochs"] = canned.epochs(1_000)
    shown.answers["/jobs/wordcount/events"] = lambda _: StreamingResponse(told(), media_type="text/event-stream")
    with served(shown.app()) as server, looking(chromium) as looked:
        page = looked.at(server.address, VIEWS["history"])
        expect(page.locator("tbody tr").first).to_contain_text("18,299")
        assert "of 1,000 that were read" in page.locator("main").inner_text()
        assert looked.wrong == []


def event(name: str, value: object, position: int) -> bytes:
    return f"id: {position}\nevent: {name}\ndata: {msgspec.json.encode(value).decode()}\n\n".encode()


def test_a_program_is_checked_before_it_starts_from_a_savepoint(chromium: Browser, shown: Canned, address: str) -> None:
    shown.answers["/jars/wordcount.py/check"] = {"id": "c1", "state": "pending"}
    shown.answers["/jars/wordcount.py/check/c1"] = ticket({1: FITS})
    shown.answers["/jars/wordcount.py/run"] = STARTED
    with looking(chromium) as looked:
        page = looked.at(address, VIEWS["start"])
        page.get_by_label("or one of these").select_option(canned.PATH)
        expect(page.get_by_label("Savepoint path")).to_have_value(canned.PATH)
        page.get_by_label("Parallelism").fill("4")
        page.get_by_role("button", name="Check, then start").click()
        give_token(page)
        expect(page.locator(".verdict")).to_contain_text("The program fits the savepoint")
        [(_, path, body)] = shown.asked
        assert (path, body["savepointPath"]) == ("/jars/wordcount.py/check", canned.PATH)
        page.get_by_role("button", name="Start the job").dblclick()
        expect(page.locator(".verdict")).to_contain_text("Process 4711 keeps the job alive")
        wanted = {"parallelism": 4, "savepointPath": canned.PATH, "allowNonRestoredState": False}
        assert [(path, body) for _, path, body in shown.asked[1:]] == [("/jars/wordcount.py/run", wanted)]
        assert (violations(page), looked.wrong) == ([], [])


def test_a_start_whose_answer_is_lost_may_have_happened(chromium: Browser, shown: Canned, address: str) -> None:
    shown.answers["/jars/wordcount.py/run"] = STARTED
    with looking(chromium) as looked:
        page = looked.at(address, VIEWS["start"])
        page.evaluate(f"sessionStorage.setItem('tidegate-token', '{TOKEN}')")
        page.get_by_label("Savepoint path").fill("")
        page.get_by_role("button", name="Check, then start").click()
        page.route("**/run", lambda route: (route.fetch(), route.abort()))
        page.get_by_role("button", name="Start the job").click()
        expect(page.locator(".verdict")).to_contain_text("The job may have been started: look at Jobs first")
        assert [path for _, path, _ in shown.asked] == ["/jars/wordcount.py/run"]


def test_a_program_that_does_not_fit_is_refused_with_its_reason(chromium: Browser, shown: Canned, address: str) -> None:
    shown.answers["/jars/wordcount.py/check"] = {
        **FITS,
        "verdict": "impossible",
        "reasons": ["operator 'count' is not in the program"],
    }
    with looking(chromium) as looked:
        page = looked.at(address, f"#/start/wordcount/{canned.PATH.replace('/', '%2F')}")
        expect(page.get_by_label("Savepoint path")).to_have_value(canned.PATH)
        page.get_by_role("button", name="Check, then start").click()
        give_token(page)
        expect(page.locator(".verdict")).to_contain_text("operator 'count' is not in the program")
        expect(page.get_by_role("button", name="Check, then start")).to_be_visible()
        assert looked.wrong == []


def test_savepoints_are_inspected_compared_verified_and_copied(chromium: Browser, shown: Canned, address: str) -> None:
    def verify(_: Request) -> Any:
        pending = {"id": shown.asked[-1][2]["id"], "path": canned.PATH, "state": "pending"}
        shown.answers[f"{VERIFY}/{pending['id']}"] = ticket(
            {1: pending, 2: {**pending, "state": "done", "whole": True}}
        )
        return pending

    shown.answers[VERIFY] = verify
    with looking(chromium, permissions=["clipboard-read", "clipboard-write"]) as looked:
        page = looked.at(address, VIEWS["savepoints"])
        page.get_by_role("button", name="Inspect").first.click()
        expect(page.locator(".inner")).to_contain_text("91,000 rows")
        boxes = page.get_by_role("checkbox")
        boxes.nth(0).check()
        boxes.nth(1).check()
        page.get_by_role("button", name="Compare the two that are picked").click()
        expect(page.locator(".inner")).to_contain_text("counts / epoch")
        page.evaluate(f"sessionStorage.setItem('tidegate-token', '{TOKEN}')")
        page.get_by_role("button", name="Verify").first.dblclick()
        page.get_by_role("button", name="Verify").first.click()
        expect(page.locator(".inner")).to_contain_text("Each file is as it was written")
        assert [path for _, path, _ in shown.asked] == [VERIFY]  # three clicks
        page.get_by_role("button", name="Copy the path").first.click()
        expect(page.locator("#said")).to_have_text("Copied: the path")
        assert page.evaluate("navigator.clipboard.readText()") == canned.PATH
        assert (violations(page), looked.wrong) == ([], [])


def test_a_savepoint_is_disposed_of_once_and_only_when_it_was_asked_for(
    chromium: Browser, shown: Canned, address: str
) -> None:
    listed: Any = shown.answers["/savepoints"]
    left = {**listed, "savepoints": listed["savepoints"][1:]}

    def begin(_: Request) -> Any:
        body = shown.asked[-1][2]
        ends = FOREIGN_FILES if len(shown.asked) == 1 else DISPOSED
        shown.answers[f"{DISPOSAL}/{body['triggerId']}"] = ticket({1: IN_PROGRESS, 2: ends})
        return {"request-id": body["triggerId"]}

    shown.answers[DISPOSAL] = begin
    with looking(chromium) as looked:
        page = looked.at(address, VIEWS["savepoints"])
        page.evaluate(f"sessionStorage.setItem('tidegate-token', '{TOKEN}')")
        page.get_by_role("button", name="Dispose…").first.click()
        dialog = page.get_by_role("dialog", name="Dispose of a savepoint")
        expect(dialog).to_contain_text(canned.PATH)
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        assert shown.asked == []  # the first button does nothing
        page.get_by_role("button", name="Dispose…").first.click()
        dialog.get_by_role("button", name="Dispose of it").dblclick()
        expect(dialog).to_contain_text("foreign files")
        assert violations(page) == []
        shown.answers["/savepoints"] = left
        dialog.get_by_role("button", name="Dispose of it").click()
        expect(dialog).to_have_count(0)
        expect(page.locator("#said")).to_have_text(f"Disposed of {canned.PATH}")
        expect(page.get_by_role("button", name="Dispose…")).to_have_count(1)
        assert {path for _, path, _ in shown.asked} == {DISPOSAL}
        assert len(shown.asked) == 2
        assert len({body["triggerId"] for _, _, body in shown.asked}) == 2  # the first one has ended
        assert looked.wrong == []


def test_a_server_that_shows_nothing_without_its_token_is_given_it(chromium: Browser, shown: Canned) -> None:
    def guarded(request: Request) -> Any:
        if request.headers.get("authorization") == f"Bearer {TOKEN}":
            return canned.cards()
        return Response(json.dumps({"title": "Unauthorized", "detail": "the request needs the token"}), 401)

    shown.answers["/jobs/cards"] = guarded
    with served(shown.app()) as server, looking(chromium) as looked:
        looked.page.goto(f"{server.address}/#/")
        give_token(looked.page)
        expect(looked.page.locator("main")).to_contain_text("payments")
        assert looked.wrong == []
