"""``groundcrew notices``, called as the shell calls it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from events import recording
from infra.cli import COMMANDS, main
from tests.support.processes import running

RECORDED = Path(recording.__file__).parent / "recorded"
SPOT = RECORDED / "ec2_spot" / "terminate.json"


def _body(path: Path) -> bytes:
    return recording.load(path.read_bytes()).body


def _notices(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, list[str], str]:
    code = main(["notices", *map(str, argv)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_prints_one_json_line_for_each_notice(capsys: pytest.CaptureFixture[str]) -> None:
    health = RECORDED / "aws_health" / "multi_entity_one_page.json"
    code, lines, err = _notices(capsys, SPOT, health)
    assert (code, len(lines), err) == (0, 7, "")
    assert json.loads(lines[0]) == {
        "kind": "interruption",
        "severity": "evict",
        "cause": "provider",
        "source": "aws.ec2",
        "check": "spot-interruption",
        "identity": {
            "instance_id": "i-0123456789abcdef0",
            "account": "111122223333",
            "region": "us-east-1",
        },
        "since": "2026-01-15T10:00:00Z",
        "deadline": "2026-01-15T10:02:00Z",
        "evidence": "EC2 Spot Instance Interruption Warning: terminate in two minutes",
        "reason": "terminate",
        "dedup": "11111111-2222-3333-4444-555555555555",
        "file": str(SPOT),
    }


def test_a_time_that_the_event_does_not_say_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, _ = _notices(capsys, RECORDED / "ec2_rebalance" / "recommendation.json")
    assert json.loads(lines[0])["deadline"] is None


def test_says_on_stderr_why_an_event_yields_none(capsys: pytest.CaptureFixture[str]) -> None:
    ebs = RECORDED / "aws_health" / "other_service_ebs.json"
    assert _notices(capsys, ebs) == (
        0,
        [],
        f"{ebs}: no notice: about EBS, not about EC2 instances\n",
    )


def test_says_on_stderr_which_part_of_an_event_is_no_notice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, lines, err = _notices(capsys, RECORDED / "alertmanager" / "many_alerts.json")
    assert (code, len(lines)) == (0, 3)
    assert "no notice from a part of it: alerts[3] TargetDown: no label names a node" in err


def test_a_refused_event_is_named_with_its_field_and_the_others_are_still_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = RECORDED / "aws_health" / "unknown_status.json"
    code, lines, err = _notices(capsys, bad, SPOT)
    assert (code, len(lines)) == (2, 1)
    assert err.startswith(f"{bad}: refused: detail.statusCode:")


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _notices(capsys, "nowhere.json")
    assert (code, err) == (2, "nowhere.json: cannot be read: No such file or directory\n")


def test_a_bare_body_needs_to_be_told_whose_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "spot.json"
    bare.write_bytes(_body(SPOT))
    code, lines, err = _notices(capsys, bare)
    assert (code, lines) == (2, [])
    assert "|eventbridge|" in err.partition("--source ")[2]
    code, lines, _ = _notices(capsys, bare, "--source", "eventbridge")
    assert (code, len(lines)) == (0, 1)


def test_a_dash_is_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SPOT.read_bytes())))
    code, lines, _ = _notices(capsys, "-")
    assert (code, json.loads(lines[0])["file"]) == (0, "-")


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"path": 1, "headers": {}}', b"\xff", b"7"])
def test_a_file_that_is_no_recording_is_refused(
    text: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_bytes(text)
    code, lines, err = _notices(capsys, broken)
    assert (code, lines) == (2, [])
    assert err.startswith(f"{broken}: refused: ")


def test_expectations_beside_recorded_events_are_passed_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    beside = SPOT.with_name("terminate.notices.json")
    assert _notices(capsys, beside) == (0, [], "")


def test_the_table_shows_what_an_event_says_and_takes_no_markup_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = RECORDED / "alertmanager" / "firing.json"
    mean = tmp_path / "mean.json"
    mean.write_text(path.read_text().replace("KubeNodeNotReady", "[/red]Mean"))
    code, lines, _ = _notices(capsys, mean, SPOT, "--table")
    assert code == 0
    assert lines[0].split() == ["machine", "kind", "severity", "check", "until", "file"]
    assert "[/red]Mean" in lines[1]
    assert "2026-01-15 10:02Z" in lines[2]


def test_a_source_that_nobody_knows_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["notices", str(SPOT), "--source", "gossip"])
    assert caught.value.code == 2
    assert "invalid choice: 'gossip'" in capsys.readouterr().err


def test_help_names_every_command_and_loads_none() -> None:
    check = (
        "import sys; from infra.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'rich', 'kubernetes', 'boto3', 'yaml', 'msgspec', 'infra.cli.notices'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=60
    )
    for command in COMMANDS:
        assert f"    {command.name}" in done.stdout.replace("\n", " \n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    recorded = sorted(map(str, (RECORDED / "aws_health").glob("*.json"))) * 20
    command = [sys.executable, "-m", "infra.cli", "notices", *recorded]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as call:
        assert call.stdout is not None
        assert call.stderr is not None
        call.stdout.readline()
        call.stdout.close()
        errors = call.stderr.read()
        assert call.wait(timeout=60) == 0
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors
