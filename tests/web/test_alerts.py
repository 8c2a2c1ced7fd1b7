"""Each alert rule, evaluated by `promtool` over an hour of made series: it fires where it is to, and nowhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.prometheus import promtool
from tidegate.web import monitoring

JOB = 'job_name="j"'
QUERY = f'{JOB},query="q"'
NO_EPOCH = f"tidegate_job_numberOfInProgressCheckpoints{{{JOB}}}"
DONE_AT = f"tidegate_job_lastCheckpointCompletedTimestamp{{{JOB}}}"

CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "TidegateJobFailed": (
        {f'tidegate_job_state{{{JOB},state="FAILED"}}': "1x70"},
        {f'tidegate_job_state{{{JOB},state="FAILED"}}': "0x70", f'tidegate_job_state{{{JOB},state="RUNNING"}}': "1x70"},
    ),
    "TidegateDriverSilent": (
        {f"tidegate_job_beat_age_seconds{{{JOB}}}": "0+60x70"},
        {f"tidegate_job_beat_age_seconds{{{JOB}}}": "1 40 1x70"},
    ),
    "TidegateNoEpochDone": (
        {NO_EPOCH: "1x70", DONE_AT: "0x70"},
        {NO_EPOCH: "1x70", DONE_AT: "0+60000x70"},
    ),
    "TidegateRestartsOften": (
        {f"tidegate_job_supervisor_restarts_total{{{JOB}}}": "0+1x70"},
        {f"tidegate_job_supervisor_restarts_total{{{JOB}}}": "7x57 8x20"},
    ),
    "TidegateEpochsFail": (
        {f"tidegate_job_numberOfFailedCheckpoints{{{JOB}}}": "0+1x70"},
        {f"tidegate_job_numberOfFailedCheckpoints{{{JOB}}}": "7x57 8x20"},
    ),
    "TidegateTransactionsWait": (
        {f"tidegate_job_open_transactions_age_seconds{{{QUERY}}}": "0+60x70"},
        {f"tidegate_job_open_transactions_age_seconds{{{QUERY}}}": "2x70"},
    ),
    "TidegateLagGrows": (
        {f"tidegate_job_pendingRecords{{{QUERY}}}": "100+50x70"},
        {f"tidegate_job_pendingRecords{{{QUERY}}}": "9000-100x70"},
    ),
    "TidegateDeadLetters": (
        {f"tidegate_job_dead_letters_total{{{QUERY}}}": "0+1x70"},
        {f"tidegate_job_dead_letters_total{{{QUERY}}}": "7x70"},
    ),
    "TidegateLeaseOld": (
        {f"tidegate_job_lease_age_seconds{{{JOB}}}": "0+10x70"},
        {f"tidegate_job_lease_age_seconds{{{JOB}}}": "9x70"},
    ),
}
"""By alert: series for which it fires, one value a minute; series for which nothing does."""


def test_each_alert_fires_for_what_it_names_and_for_nothing_else(tmp_path: Path) -> None:
    rules = monitoring.content_of(monitoring.ALERTS)
    assert re.findall(r"alert: (\w+)", rules) == list(CASES)
    (tmp_path / "alerts.yml").write_text(rules)
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "1h",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if fires else [],
                }
            ],
        }
        for alert, cases in CASES.items()
        for fires, series in zip((True, False), cases, strict=True)
    ]
    case = tmp_path / "case.yml"
    case.write_text(json.dumps({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}))
    code, said = promtool("test", "rules", str(case))
    assert code == 0, said
