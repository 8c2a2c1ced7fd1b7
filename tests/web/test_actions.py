"""Long actions are tickets: the same id is the same request, from each client, on each page, however often."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.jobs.folders import another_driver, make_job, say
from tests.web.by_hand import ID, SAVED_ID, TRIGGER, ended_job, page, running_job, until
from tidegate import operate
from tidegate.operate import Folder, Kind, TicketState
from tidegate.operate.beat import JobState
from tidegate.operate.control import Desk
from tidegate.web import tickets
from tidegate.web.tickets import Tickets, WantedAction

SAVEPOINTS = f"/jobs/{ID}/savepoints"


def test_a_savepoint_is_followed_by_the_trigger_id_that_the_caller_chose(tmp_path: Path) -> None:
    with running_job(tmp_path) as driver, page(tmp_path) as client:
        body = {"target-directory": str(tmp_path / "saved"), "formatType": "CANONICAL", "triggerId": TRIGGER}
        asked = client.post(SAVEPOINTS, json=body)
        assert (asked.status_code, asked.json()) == (202, {"request-id": TRIGGER})
        assert client.get(f"{SAVEPOINTS}/{TRIGGER}").json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
        (request,) = driver.requests()
        assert (request.kind, request.format.value) == (Kind.SAVEPOINT, "canonical")
        driver.answer(request)
        client.post(SAVEPOINTS, json=body)
        assert client.get(f"{SAVEPOINTS}/{TRIGGER}").json()["status"] == {"id": "COMPLETED"}
        assert driver.requests() == []


def test_a_double_click_is_one_request(tmp_path: Path) -> None:
    with running_job(tmp_path) as driver, page(tmp_path) as client:
        body = {"kind": "stop", "id": "once"}
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.post(f"/jobs/{ID}/actions", json=body), range(8)))
        assert {each.status_code for each in answers} == {202}
        assert {each.json()["id"] for each in answers} == {"once"}
        assert [each.id for each in driver.requests()] == ["once"]


def test_two_pages_at_once_send_one_request_and_both_see_its_end(tmp_path: Path) -> None:
    with running_job(tmp_path) as driver, page(tmp_path) as one, page(tmp_path) as other:
        both_ready = threading.Barrier(2)

        def click(client: TestClient) -> None:
            both_ready.wait()
            client.post(f"/jobs/{ID}/checkpoints", json={"triggerId": TRIGGER})

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(click, (one, other)))
        (request,) = driver.requests()
        driver.answer(request)
        for client in (one, other):
            ended = until(client, f"/jobs/{ID}/checkpoints/{TRIGGER}", "status.id", "COMPLETED")
            assert ended["operation"] == {"checkpointId": 7}


def test_a_new_page_finds_the_request_of_one_that_has_died(tmp_path: Path) -> None:
    with running_job(tmp_path) as driver:
        with page(tmp_path) as dead:
            dead.post(f"/jobs/{ID}/actions", json={"kind": "checkpoint", "id": "left"})
        with page(tmp_path) as client:
            found = client.get(f"/jobs/{ID}/actions/left").json()
            assert (found["state"], found["stage"], found["kind"]) == ("pending", "asked", "checkpoint")
            driver.answer(driver.requests()[0])
            ended = until(client, f"/jobs/{ID}/actions/left", "state", "done")
        assert ended["answer"]["epochs"] == {"query": 7}


def test_a_new_page_learns_that_the_driver_died_as_well(tmp_path: Path) -> None:
    with running_job(tmp_path):
        operate.open(tmp_path, "job").checkpoint(id="left")  # the page sent it so, and no thread of it lives on
    with page(tmp_path) as client:
        until(client, f"/jobs/{ID}/actions/left", "state", "unknown")


def test_the_page_sends_a_request_that_waits_for_the_next_start_though_nobody_asks_again(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with another_driver(job) as process, page(tmp_path) as client:  # it holds the lock, and has not reported yet
        asked = client.post(f"/jobs/{ID}/actions", json={"kind": "checkpoint", "id": "early"}).json()
        assert (asked["state"], asked["stage"]) == ("pending", "unasked")
        assert Desk(job).standing("early") is None
        say(job, JobState.RUNNING, process=process)
        sent = threading.Event()
        while not sent.wait(0.05):
            if Desk(job).standing("early") is not None:
                sent.set()


def test_an_ended_job_is_saved_by_the_page_after_its_client_is_gone(tmp_path: Path) -> None:
    ended_job(tmp_path)
    with page(tmp_path) as client:
        client.post(f"/jobs/{SAVED_ID}/stop", json={"targetDirectory": str(tmp_path / "saved"), "triggerId": TRIGGER})
        ended = until(client, f"/jobs/{SAVED_ID}/savepoints/{TRIGGER}", "status.id", "COMPLETED")
    (saved,) = operate.list_savepoints(tmp_path / "saved").savepoints
    assert ended["operation"] == {"location": saved.path}
    assert not operate.verify_savepoint(saved.path).problems


def test_looking_at_an_old_trigger_takes_no_new_savepoint(tmp_path: Path) -> None:
    """A savepoint that was removed since is taken again by who asks for it again, not by who looks."""
    with running_job(tmp_path) as driver:
        with page(tmp_path) as client:
            client.post(SAVEPOINTS, json={"target-directory": str(tmp_path / "saved"), "triggerId": TRIGGER})
            driver.answer(driver.requests()[0], savepoint=str(tmp_path / "saved" / "removed-since"))
        with page(tmp_path) as client:
            for _ in range(3):
                assert client.get(f"{SAVEPOINTS}/{TRIGGER}").json()["status"] == {"id": "COMPLETED"}
        assert driver.requests() == []


def test_an_id_that_belongs_to_another_request_is_refused(tmp_path: Path) -> None:
    with running_job(tmp_path) as driver, page(tmp_path) as one, page(tmp_path) as other:
        one.post(f"/jobs/{ID}/actions", json={"kind": "checkpoint", "id": "mine"})
        for client in (one, other):
            refused = client.post(f"/jobs/{ID}/actions", json={"kind": "cancel", "id": "mine"})
            assert (refused.status_code, refused.headers["content-type"]) == (409, "application/problem+json")
            assert refused.json()["errors"]
        assert [each.kind for each in driver.requests()] == [Kind.CHECKPOINT]


def test_a_driver_is_canceled_once_however_often_it_is_asked(tmp_path: Path) -> None:
    with running_job(tmp_path) as driver, page(tmp_path) as one, page(tmp_path) as other:
        for client in (one, one, other):
            canceled = client.patch(f"/v1/jobs/{ID}?mode=cancel")
            assert (canceled.status_code, canceled.json()) == (202, {})
        assert [each.kind for each in driver.requests()] == [Kind.CANCEL]
        assert one.patch(f"/jobs/{ID}?mode=stop").status_code == 400


def test_what_does_not_run_is_not_canceled_and_the_failure_of_a_savepoint_says_why(tmp_path: Path) -> None:
    say(make_job(tmp_path), JobState.FINISHED)
    with page(tmp_path) as client:
        assert client.patch(f"/jobs/{ID}").status_code == 409
        client.post(SAVEPOINTS, json={"triggerId": TRIGGER})
        ended = client.get(f"{SAVEPOINTS}/{TRIGGER}").json()
        assert ended["status"] == {"id": "COMPLETED"}
        assert "does not run" in ended["operation"]["failure-cause"]["message"]
        assert client.get(f"{SAVEPOINTS}/{'d' * 32}").status_code == 404


def test_each_of_flinks_requests_is_the_kind_that_it_says(tmp_path: Path) -> None:
    asked = {
        (f"/jobs/{ID}/checkpoints", "{}"): Kind.CHECKPOINT,
        (SAVEPOINTS, "{}"): Kind.SAVEPOINT,
        (SAVEPOINTS, '{"cancel-job": true}'): Kind.CANCEL_WITH_SAVEPOINT,
        (f"/jobs/{ID}/stop", '{"drain": false}'): Kind.STOP_WITH_SAVEPOINT,
        (f"/jobs/{ID}/stop", '{"drain": true, "triggerId": null}'): Kind.DRAIN_WITH_SAVEPOINT,
        (SAVEPOINTS, '{"cancel-job": null, "target-directory": null, "formatType": null}'): Kind.SAVEPOINT,
        (f"/jobs/{ID}/stop", '{"drain": null, "targetDirectory": null}'): Kind.STOP_WITH_SAVEPOINT,
    }
    with running_job(tmp_path) as driver, page(tmp_path) as client:
        for path, body in asked:
            assert client.post(path, content=body).status_code == 202
        assert sorted(each.kind.value for each in driver.requests()) == sorted(each.value for each in asked.values())
        for body in ('{"triggerId": "short"}', '{"no-such-field": 1}', "[]", "not json"):
            assert client.post(SAVEPOINTS, content=body).status_code == 400


def test_an_id_in_capitals_is_the_same_job_and_the_same_request(tmp_path: Path) -> None:
    with running_job(tmp_path) as driver, page(tmp_path) as client:
        for job, trigger in ((ID, TRIGGER), (ID.upper(), TRIGGER.upper())):
            for asked in ("savepoints", "stop"):
                body = {"triggerId": f"{'a' if asked == 'stop' else 'b'}{trigger[1:]}"}
                answer = client.post(f"/jobs/{job}/{asked}", json=body)
                assert answer.json() == {"request-id": body["triggerId"].lower()}
                followed = client.get(f"/jobs/{job}/savepoints/{body['triggerId'].upper()}")
                assert followed.json()["status"] == {"id": "IN_PROGRESS"}
        assert len(driver.requests()) == 2
        client.post(f"/jobs/{ID}/checkpoints", json={"triggerId": "AB" * 16})
        assert client.get(f"/jobs/{ID}/checkpoints/{'Ab' * 16}").json()["status"] == {"id": "IN_PROGRESS"}


def test_no_thread_stays_when_no_request_is_open(tmp_path: Path) -> None:
    changes: list[int] = []
    tickets = Tickets(lambda: changes.append(1))
    with running_job(tmp_path) as driver:
        client = operate.open(Folder.of(tmp_path), "job")
        tickets.ask(client, WantedAction(kind=Kind.CHECKPOINT, id="one"))
        assert tickets.open_count == 1
        driver.answer(driver.requests()[0])
        for thread in threading.enumerate():
            if thread.name == "tidegate-page-tickets":
                thread.join(20.0)
        assert not [each for each in threading.enumerate() if each.name == "tidegate-page-tickets"]
        assert tickets.look(client, "one").state is TicketState.DONE
        assert len(changes) >= 2, "the views are read anew after the request, and after its end"


def test_a_request_that_there_is_no_room_for_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "OPEN_AT_MOST", 2)
    with running_job(tmp_path) as driver, page(tmp_path) as client:
        asked = [client.post(f"/jobs/{ID}/actions", json={"kind": "checkpoint", "id": f"n{n}"}) for n in range(3)]
        assert [each.status_code for each in asked] == [202, 202, 503]
        assert {each.id for each in driver.requests()} == {"n0", "n1"}
