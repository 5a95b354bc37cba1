"""Builds Karpenter with its kwok provider: ``python -m tests.controlplane.karpenter.build``.

As the control plane is built (`tests.controlplane.build`): the Go client downloads the sources
and checks every module against the committed ``gomod/go.sum``. The result, with the CRDs that
belong to it, is kept beside the control plane's. Some four and a half minutes of one core; the
versions after the pinned one want a newer Go than the control plane does.
"""

import hashlib
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.build import (
    EXIT_BUILD_FAILED,
    EXIT_GO_MISSING,
    GO_ENVIRONMENT,
    GO_FLAGS,
    BuildError,
    GoMissingError,
    build_once,
    build_program,
    finished,
    go,
)

GOMOD = Path(__file__).parent / "gomod"
BUILD_COMMAND = "python -m tests.controlplane.karpenter.build"
MODULE = "sigs.k8s.io/karpenter"
PACKAGE = f"{MODULE}/kwok"
FLAGS = ("-ldflags=-s -w",)
CRDS = (
    "kwok/charts/crds/karpenter.sh_nodeclaims.yaml",
    "kwok/charts/crds/karpenter.sh_nodepools.yaml",
    "kwok/charts/crds/karpenter.sh_nodeoverlays.yaml",
    "kwok/charts/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
    "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
)
"""In the module's own folder: taken from there, not kept in this repository."""


@dataclass(frozen=True)
class Built:
    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "karpenter"

    @property
    def crds(self) -> Path:
        """One file for each kind."""
        return self.folder / "crds"


def cached() -> Built | None:
    """The program, if it was built. Starts no build."""
    folder = finished(_pins_digest())
    return Built(folder) if folder else None


def build() -> Built:
    return Built(build_once(_pins_digest(), _build_into))


def version() -> str:
    """``v1.14.1``; go.mod is the one place that names it."""
    pins = (GOMOD / "go.mod").read_text()
    found = re.search(rf"^require {re.escape(MODULE)} (v\S+)$", pins, re.M)
    if found is None:
        raise BuildError(f"{GOMOD / 'go.mod'} does not require {MODULE}")
    return found[1]


def _build_into(folder: Path) -> None:
    print(f"building Karpenter {version()}: some minutes on two cores, once", flush=True)
    seconds = build_program("karpenter", GOMOD, PACKAGE, folder / "karpenter", FLAGS)
    sources = go("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE, cwd=GOMOD)
    (folder / "crds").mkdir()
    for name in CRDS:
        shutil.copyfile(Path(sources) / name, folder / "crds" / Path(name).name)
    print(f"built in {seconds:.0f} s", flush=True)


def _pins_digest() -> str:
    digest = hashlib.sha256()
    for part in (PACKAGE, *GO_FLAGS, *FLAGS, *CRDS, *GO_ENVIRONMENT.values(), platform.machine()):
        digest.update(part.encode() + b"\0")
    for name in ("go.mod", "go.sum"):
        digest.update((GOMOD / name).read_bytes() + b"\0")
    return f"karpenter-{digest.hexdigest()[:16]}"


def main() -> int:
    try:
        print(f"Karpenter {version()} is built: {(cached() or build()).folder}")
    except GoMissingError:
        print(GoMissingError(BUILD_COMMAND), file=sys.stderr)
        return EXIT_GO_MISSING
    except BuildError as failed:
        print(f"{failed}\nMend the cause named above, then run: {BUILD_COMMAND}", file=sys.stderr)
        return EXIT_BUILD_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
