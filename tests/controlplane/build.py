"""Builds a real Kubernetes control plane from Go modules: ``python -m tests.controlplane.build``.

No container engine and no release archives: the Go client downloads the sources, and checks
every module against the ``go.sum`` files that are committed next to this file
(``-mod=readonly``: a module that is not listed, or differs, stops the build).

The first build takes about ten minutes on two cores. Its result is kept outside the
tree, so that a fresh checkout or a ``git clean`` does not lose it:
``$GROUNDCREW_CONTROLPLANE_CACHE``, else ``$XDG_CACHE_HOME/groundcrew/controlplane``, else
``~/.cache/groundcrew/controlplane``; in there one folder for each set of pins and Go version.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GOMOD = Path(__file__).parent / "gomod"
BUILD_COMMAND = "python -m tests.controlplane.build"

# One module for each family: they need different versions of the same libraries.
PROGRAMS = {
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}
# kwok does nothing without stages. They come out of the pinned module, not out of this repository.
KWOK_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/general")
KWOK_STAGE_COUNT = 8

GO_FLAGS = ("-mod=readonly", "-trimpath")
# GOWORK: a go.work file in some folder above must not replace the pins.
# CGO_ENABLED: no C compiler needed, and the programs run on every Linux of this architecture.
GO_ENVIRONMENT = {"GOWORK": "off", "CGO_ENABLED": "0"}

EXIT_BUILD_FAILED = 1
EXIT_GO_MISSING = 3
PROGRESS_INTERVAL_SECONDS = 60


class GoMissingError(Exception):
    """There is no ``go`` on the PATH."""

    def __init__(self, command: str = BUILD_COMMAND) -> None:
        super().__init__(
            f"go is not on the PATH: install Go {_go_version_needed()} or later, "
            f"then run: {command}"
        )


class BuildError(Exception):
    """``go`` refused a pin or could not compile a program."""


@dataclass(frozen=True)
class Binaries:
    """A finished build: the six programs and kwok's stages in one folder."""

    folder: Path

    def __getitem__(self, program: str) -> Path:
        return self.folder / program

    @property
    def kwok_stages(self) -> Path:
        return self.folder / "kwok-stages.yaml"


def cached() -> Binaries | None:
    """The finished build of the committed pins, or None. Starts no build.

    Without Go any Go version's build of these pins will do: there is nothing to build it with.
    """
    folder = finished(_pins_digest())
    return Binaries(folder) if folder else None


def build() -> Binaries:
    """Build whatever is missing and return the result; two builds at once wait for each other."""
    return Binaries(build_once(_pins_digest(), _build_into))


def finished(pins: str) -> Path | None:
    """The folder of a finished build of these pins (their digest), with this Go if there is one."""
    try:
        folders = [_folder(pins)]
    except GoMissingError:
        folders = sorted(cache_root().glob(f"{pins}-go*"))
    return next((folder for folder in folders if folder.is_dir()), None)


def build_once(pins: str, build_into: Callable[[Path], None]) -> Path:
    """The folder of the finished build of ``pins``; what is missing is built by
    ``build_into(folder)``, by one process at a time."""
    target = _folder(pins)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target):
        if not target.is_dir():
            # A leading dot: finished() must not find it when it looks for any Go version's build.
            prefix = f".partial-{target.name}-"
            for abandoned in target.parent.glob(f"{prefix}*"):
                shutil.rmtree(abandoned)
            partial = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
            build_into(partial)
            # Only a complete build ever has the final name, so its existence is the proof.
            partial.rename(target)
    return target


def cache_root() -> Path:
    if chosen := os.environ.get("GROUNDCREW_CONTROLPLANE_CACHE"):
        return Path(chosen)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "groundcrew" / "controlplane"


def _folder(pins: str) -> Path:
    return cache_root() / f"{pins}-{go('env', 'GOVERSION', cwd=GOMOD / 'etcd')}"


def _pins_digest() -> str:
    """Everything that decides what is built, except the Go version."""
    digest = hashlib.sha256()
    for part in (*GO_FLAGS, *GO_ENVIRONMENT.values(), *KWOK_STAGES, platform.machine()):
        digest.update(part.encode() + b"\0")
    for pins in sorted(GOMOD.glob("*/go.*")):
        digest.update(pins.relative_to(GOMOD).as_posix().encode() + b"\0")
        digest.update(pins.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def digest_of(name: str, gomod: Path, package: str, *decides: str) -> str:
    """The same for a program of its own: its package, what else decides how it is built, and the
    pins in the folder ``gomod``."""
    digest = hashlib.sha256()
    for part in (package, *GO_FLAGS, *decides, *GO_ENVIRONMENT.values(), platform.machine()):
        digest.update(part.encode() + b"\0")
    for pins in ("go.mod", "go.sum"):
        digest.update((gomod / pins).read_bytes() + b"\0")
    return f"{name}-{digest.hexdigest()[:16]}"


def required(gomod: Path, module: str) -> str:
    """The version of ``module``, such as ``v1.14.1``: go.mod is the one place that names it."""
    pins = (gomod / "go.mod").read_text()
    found = re.search(rf"^require {re.escape(module)} (v\S+)$", pins, re.M)
    if found is None:
        raise BuildError(f"{gomod / 'go.mod'} does not require {module}")
    return found[1]


def run(say: Callable[[], str], command: str) -> int:
    """The exit code of a command that builds: prints what ``say`` returns, or what went wrong."""
    try:
        print(say())
    except GoMissingError:
        print(GoMissingError(command), file=sys.stderr)
        return EXIT_GO_MISSING
    except BuildError as failed:
        print(f"{failed}\nMend the cause named above, then run: {command}", file=sys.stderr)
        return EXIT_BUILD_FAILED
    return 0


def _build_into(folder: Path) -> None:
    started = time.monotonic()
    for number, (program, (module, package)) in enumerate(PROGRAMS.items(), start=1):
        label = f"[{number}/{len(PROGRAMS)}] {program}"
        print(f"{label}: building", flush=True)
        flags = [f"-ldflags={_linker_flags(module)}"]
        seconds = build_program(label, GOMOD / module, package, folder / program, flags)
        total = time.monotonic() - started
        print(f"{label}: built in {seconds:.0f} s ({total:.0f} s in all)", flush=True)
    (folder / "kwok-stages.yaml").write_text(_kwok_stages())


def build_program(
    label: str, module: Path, package: str, output: Path, flags: Sequence[str]
) -> float:
    """Run ``go build``, saying from time to time that it is still at work; seconds taken."""
    command = ["go", "build", *GO_FLAGS, *flags, "-o", str(output)]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*command, package], cwd=module, env=os.environ | GO_ENVIRONMENT, stderr=said
        )
        try:
            while process.poll() is None:
                try:
                    process.wait(PROGRESS_INTERVAL_SECONDS)
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - started
                    print(f"{label}: still building after {seconds:.0f} s", flush=True)
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            said.seek(0)
            last_lines = "".join(said.readlines()[-15:])
            raise BuildError(f"go build of {package} failed in {module}:\n{last_lines}")
    return time.monotonic() - started


def _linker_flags(module: str) -> str:
    """No debug tables (half the size), and for Kubernetes the version that clients are told."""
    flags = "-s -w"
    if module == "kubernetes":
        version = kubernetes_version()
        major, minor, _patch = version.removeprefix("v").split(".")
        stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        for name, value in stamps.items():
            flags += f" -X k8s.io/component-base/version.{name}={value}"
    return flags


def kubernetes_version() -> str:
    """The pinned version, such as ``v1.37.2``; go.mod is the one place that names it."""
    return _find(r"^require k8s\.io/kubernetes (v\S+)$", GOMOD / "kubernetes" / "go.mod")


def _go_version_needed() -> str:
    return _find(r"^go (\S+)$", GOMOD / "kubernetes" / "go.mod")


def _find(pattern: str, file: Path) -> str:
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{file} has no line like {pattern}")
    return found[1]


def _kwok_stages() -> str:
    """kwok's default stages as one YAML stream, read out of the module's own folder."""
    module = go("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok",
                 cwd=GOMOD / "kwok")  # fmt: skip
    files = [
        file
        for stage in KWOK_STAGES
        for file in sorted((Path(module) / "kustomize" / "stage" / stage).glob("*.yaml"))
        if file.name != "kustomization.yaml"
    ]
    if len(files) != KWOK_STAGE_COUNT:
        raise BuildError(f"{module} has {len(files)} stage files, not {KWOK_STAGE_COUNT}")
    return "---\n".join(file.read_text().rstrip() + "\n" for file in files)


def go(*arguments: str, cwd: Path) -> str:
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=cwd, env=os.environ | GO_ENVIRONMENT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise GoMissingError from None
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(arguments)} failed in {cwd}:\n{done.stderr}")
    return done.stdout.strip()


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build of the same pins is running: waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    return run(_built, BUILD_COMMAND)


def _built() -> str:
    found = cached()
    if found is None:
        print("building a control plane: about ten minutes on two cores, once", flush=True)
        found = build()
    return f"control plane {kubernetes_version()} is built: {found.folder}"


if __name__ == "__main__":
    sys.exit(main())
