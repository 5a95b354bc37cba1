import re

import pytest

from events import xid
from events.notice import Cause, Severity

PROBE_LINES = (
    "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
    "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    "               NVRM: fallen off the bus and is not responding to commands."
)


@pytest.mark.parametrize(
    ("text", "check", "gpu"),
    [
        ("NVRM: Xid (PCI:0000:0f:00): 94, pid=25, name=python3, Ch 0", "xid-94", "0000:0f:00"),
        ("NVRM: Xid (0000:03:00): 14, x", "xid-14", "0000:03:00"),
        ("[  12.5] NVRM: Xid (PCI:0000:C1:00): 149 NETIR_LINK_EVT", "xid-149", "0000:c1:00"),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "xid-79", "0000:18:00"),
        (PROBE_LINES, "xid-79", "0000:b3:00"),
        (" ".join(PROBE_LINES.split()), "xid-79", "0000:b3:00"),
        ("nvidia-nvswitch2: SXid (PCI:0000:8a:00.0): 12028, Non-fatal", "sxid-12028", "0000:8a:00"),
        ("NvidiaXID79Error", "xid-79", ""),
        ("NvidiaXID31Warning: detected unknown XID-31 error", "xid-31", ""),
        ("Caught XID error, XID=48", "xid-48", ""),
        ('{"48":true}', "xid-48", ""),
        ("ErrorCode:79 PCI:0001:00:00 Recommended Action=RESTART_BM;", "xid-79", "0001:00:00"),
        ("ErrorCode:12028 PCI:0001:00:00", "sxid-12028", "0001:00:00"),
    ],
)  # fmt: skip
def test_every_shape_gives_code_and_address(text: str, check: str, gpu: str) -> None:
    found = xid.parse(text)
    assert found is not None
    assert (found.check, found.gpu) == (check, gpu)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Node ip-10-0-0-1 status is now: NodeReady",
        "ErrorCode:DCGM_FR_UNCORRECTABLE_ROW_REMAP GPU:3",
        "NVRM: Xid error: xyz, invalid data",
        "NVRM: Xid (PCI:0000:0f:00): " + "9" * 5000,
        "NVRM: GPU at PCI:0000:18:00: GPU-11111111-1111-1111-1111-111111111111",
        "the train has fallen off the bus",
        '{"48":false}',
    ],
)
def test_what_speaks_of_no_xid_gives_none(text: str) -> None:
    assert xid.parse(text) is None


@pytest.mark.parametrize(
    ("said", "pid", "process", "detail"),
    [
        ("pid=2503421, name=python3, Ch 00000008", 2503421, "python3", "Ch 00000008"),
        ("pid='<unknown>', name=<unknown>, GPU has fallen off", None, "", "GPU has fallen off"),
        ("pid=<unknown>, name='my app', x", None, "my app", "x"),
        ("pid=12, Ch 3", 12, "", "Ch 3"),
        ("pid=12", 12, "", ""),
        ("Ch 00000008, intr 1", None, "", "Ch 00000008, intr 1"),
    ],
)
def test_the_process_is_read_apart_from_the_detail(
    said: str, pid: int | None, process: str, detail: str
) -> None:
    found = xid.parse(f"NVRM: Xid (PCI:0000:0f:00): 94, {said}")
    assert found is not None
    assert (found.pid, found.process, found.detail) == (pid, process, detail)


def test_an_xid_named_as_the_cause_of_another_is_not_counted() -> None:
    text = "NVRM: Xid (PCI:0000:0f:00): 45, pid=1, name=x, caused by previous XID 149"
    assert [x.code for x in xid.parse_all(text)] == [45]


def test_a_burst_counts_each_code_of_each_gpu_once() -> None:
    line = "NVRM: Xid (PCI:0000:{}:00): {}, x"
    text = "\n".join(
        line.format(*said) for said in (("0f", 48), ("0f", 45), ("0f", 48), ("2a", 48))
    )
    assert [(x.code, x.gpu) for x in xid.parse_all(text)] == [
        (48, "0000:0f:00"),
        (45, "0000:0f:00"),
        (48, "0000:2a:00"),
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:0f:00", "0000:0f:00"),
        ("0000:0F:00.0", "0000:0f:00"),
        ("00000000:0F:00.0", "0000:0f:00"),
        ("00000009:01:00.0", "0009:01:00"),
        ("0f:00", "0000:0f:00"),
        ("0f:00.1", "0000:0f:00"),
        ("GPU-1111", ""),
        ("", ""),
    ],
)
def test_addresses_have_one_form(text: str, address: str) -> None:
    assert xid.pci_address(text) == address


RECOVERY = "GPU recovery action changed from 0x0 (None) to {}"


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        ("0x1 (GPU Reset Required)", Severity.CORDON),
        ("0x1 (GPU Reset)", Severity.CORDON),
        ("0x3 (Drain P2P)", Severity.CORDON),
        ("0x2 (Node Reboot Required)", Severity.EVICT),
        ("0x4 (Drain and Reset)", Severity.EVICT),
        ("0x9 (Call a Priest)", Severity.WATCH),
    ],
)
def test_154_goes_by_what_the_driver_recommends(value: str, severity: Severity) -> None:
    verdict = xid.classify(154, RECOVERY.format(value))
    assert (verdict.severity, verdict.clears) == (severity, False)


def test_154_to_none_takes_back_what_was_said() -> None:
    back = "GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)"
    verdict = xid.classify(154, back)
    assert (verdict.severity, verdict.clears) == (Severity.WATCH, True)


def test_154_without_its_value_is_watched() -> None:
    assert xid.classify(154) == xid.classify(154, "something else")
    assert xid.severity_of(154) is Severity.WATCH
    assert not xid.classify(154).clears


@pytest.mark.parametrize("code", range(144, 151))
@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("Fatal", Severity.CORDON),
        ("Link-fatal", Severity.CORDON),
        ("Nonfatal", Severity.WATCH),
        ("Non-fatal", Severity.WATCH),
        ("", Severity.WATCH),
    ],
)
def test_nvlink5_codes_go_by_the_word_fatal(code: int, word: str, severity: Severity) -> None:
    assert xid.classify(code, f"NETIR_LINK_EVT  {word}   XC0 i0 Link 01").severity is severity


def test_an_unknown_code_is_watched_never_more() -> None:
    for code in (0, 173, 999, 9_999):
        verdict = xid.classify(code, "Fatal")
        assert (verdict.severity, verdict.cause) == (Severity.WATCH, Cause.UNKNOWN)


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_application_codes_are_watched_and_marked(code: int) -> None:
    verdict = xid.classify(code)
    assert (verdict.severity, verdict.cause) == (Severity.WATCH, Cause.SOFTWARE)
    assert verdict.application


@pytest.mark.parametrize("code", [46, 48, 62, 79, 95, 119, 120, 140, 143, 158, 171, 172])
def test_codes_that_take_the_gpu_away_evict(code: int) -> None:
    verdict = xid.classify(code)
    assert (verdict.severity, verdict.cause) == (Severity.EVICT, Cause.HARDWARE)


def test_a_recorded_remap_is_watched_and_a_failed_one_cordons() -> None:
    assert xid.severity_of(63) is Severity.WATCH
    assert xid.severity_of(64) is Severity.CORDON


def test_the_table_has_every_code_of_the_catalogue_once() -> None:
    assert sorted(xid.table()) == list(range(1, 173))
    assert len(list(xid._read())) == 172
    assert {row.decode for row in xid.table().values()} == {"", "fatal-word", "recovery-action"}


def test_only_what_an_application_causes_is_called_so() -> None:
    assert {c for c, row in xid.table().items() if row.application} == {13, 31, 43, 45}


def test_what_evicts_is_hardware() -> None:
    assert {r.cause for r in xid.table().values() if r.severity is Severity.EVICT} == {
        Cause.HARDWARE
    }


def test_the_table_says_its_version() -> None:
    assert re.fullmatch(r"\d{4}-\d{2}", xid.version())
