import csv
from importlib import resources

import pytest

from events import conditions, gpus
from events.notice import Cause, Kind, Severity
from events.sources import kubernetes_node
from functions.rules import keys, policy

TABLE = conditions.table()

AGENTS = {
    "kubelet": ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"],
    "node-problem-detector": [
        "KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "CperHardwareErrorFatal",
        "DiskBadBlock", "KubeletUnhealthy", "ContainerRuntimeUnhealthy", "NTPProblem",
        "FrequentUnregisterNetDevice", "FrequentKubeletRestart", "FrequentContainerdRestart",
        "FrequentDockerRestart",
    ],
    "eks-node-monitoring-agent": [
        "AcceleratedHardwareReady", "ContainerRuntimeReady", "KernelReady", "NetworkingReady",
        "StorageReady",
    ],
    "gke-device-plugin": ["XidCriticalError"],
    "aks": [
        "FilesystemCorruptionProblem", "KubeletProblem", "ContainerRuntimeProblem",
        "VMEventScheduled", "GPUMissing", "NVLinkStatusInactive", "XIDErrors", "IBLinkFlapping",
        "GPUClockThrottling", "UnhealthyNvidiaDevicePlugin",
    ],
    "nvsentinel": [
        "SysLogsXIDError", "SysLogsSXIDError", "SysLogsGPUFallenOff", "SysLogsNICDriverError",
        "GpuDcgmConnectivityFailure", "GpuDcgmUnresponsive", "GpuMemWatch", "GpuPowerWatch",
    ],
}  # fmt: skip
EVERY = [(agent, name) for agent, names in AGENTS.items() for name in names]


def rule_of(name: str) -> conditions.Rule:
    rule = TABLE.of_type(name)
    assert rule is not None, name
    return rule


@pytest.mark.parametrize(("agent", "name"), EVERY)
def test_every_condition_that_an_agent_sets_has_a_row(agent: str, name: str) -> None:
    assert rule_of(name).agent == agent


@pytest.mark.parametrize(("agent", "name"), EVERY)
def test_bad_when_false_is_what_is_called_ready_and_nothing_else(agent: str, name: str) -> None:
    bad_when_false = "False" in rule_of(name).bad
    assert bad_when_false == name.endswith("Ready")


def test_only_the_kubelets_ready_is_bad_when_unknown() -> None:
    assert [name for _, name in EVERY if "Unknown" in rule_of(name).bad] == ["Ready"]


def test_no_status_is_both_good_and_bad() -> None:
    for _, name in EVERY:
        rule = rule_of(name)
        assert rule.good
        assert not rule.bad & rule.good, name


@pytest.mark.parametrize("name", AGENTS["eks-node-monitoring-agent"] + ["XidCriticalError"])
def test_agents_that_clear_by_restart_or_reboot_are_latched(name: str) -> None:
    assert rule_of(name).latched


@pytest.mark.parametrize("name", ["KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown"])
def test_kernel_log_conditions_of_node_problem_detector_are_latched(name: str) -> None:
    assert rule_of(name).latched


@pytest.mark.parametrize("name", AGENTS["kubelet"])
def test_the_kubelets_conditions_are_live(name: str) -> None:
    assert not rule_of(name).latched


def test_only_conditions_that_are_taken_away_are_good_when_absent() -> None:
    assert TABLE.absent_is_good == ("XidCriticalError",)


def test_planned_maintenance_is_no_fault() -> None:
    rule = rule_of("VMEventScheduled")
    assert (rule.kind, rule.cause) == (Kind.MAINTENANCE, Cause.PROVIDER)


@pytest.mark.parametrize("name", ["MemoryPressure", "DiskPressure", "PIDPressure"])
def test_pressures_are_watched(name: str) -> None:
    assert rule_of(name).severity is Severity.WATCH


def test_broken_monitoring_is_not_the_hardwares_fault() -> None:
    for rule in (
        rule_of("GpuDcgmConnectivityFailure"),
        rule_of("GpuDcgmUnresponsive"),
        TABLE.of_reason("AcceleratedHardwareReady", "DCGMError"),
    ):
        assert rule is not None
        assert (rule.severity, rule.cause) == (Severity.CORDON, Cause.SOFTWARE)


def test_a_condition_known_by_its_name_alone_is_watched() -> None:
    for name in ("WarpReady", "WarpHealthy", "WarpUnhealthy", "WarpProblem", "WarpError"):
        rule = rule_of(name)
        assert rule.agent == "unknown"
        assert (rule.severity, rule.cause, rule.latched) == (
            Severity.WATCH, Cause.UNKNOWN, True,
        )  # fmt: skip
    assert rule_of("WarpUnhealthy").bad == {"True"}
    assert rule_of("WarpHealthy").bad == {"False"}


def test_of_other_names_nothing_is_known() -> None:
    assert TABLE.of_type("Flux") is None
    assert TABLE.of_reason("Flux", "High") is None


def test_a_row_that_refines_keeps_polarity_and_latch_of_its_type() -> None:
    text = (resources.files("events") / "conditions.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()[1:]))
    assert [row for row in rows if row["reason"]]
    for row in rows:
        of_type = next(r for r in rows if r["type"] == row["type"] and not r["reason"])
        same = ("agent", "bad", "good", "latched", "clears")
        assert [row[k] for k in same] == [of_type[k] for k in same], row


def test_the_gpu_counts_are_those_that_the_policy_waits_for() -> None:
    assert conditions.gpu_counts() == policy.default().recovery.gpus


def test_our_marks_and_labels_are_spelled_as_they_are_written() -> None:
    assert keys.INCIDENTS == kubernetes_node.INCIDENTS_ANNOTATION
    assert keys.STATE == kubernetes_node.STATE_LABEL
    assert (keys.GPU, keys.INSTANCE_TYPE) == (gpus.GPU, gpus.INSTANCE_TYPE)
