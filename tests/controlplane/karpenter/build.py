"""Builds Karpenter with its kwok provider: ``python -m tests.controlplane.karpenter.build``.

As the control plane is built (`tests.controlplane.build`): the Go client downloads the sources
and checks every module against the committed ``gomod/go.sum``. The result, with the CRDs that
belong to it, is kept beside the control plane's. Some four and a half minutes of one core; the
versions after the pinned one want a newer Go than the control plane does.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.build import (
    build_once,
    build_program,
    digest_of,
    finished,
    go,
    required,
    run,
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
    folder = finished(_pins())
    return Built(folder) if folder else None


def build() -> Built:
    return Built(build_once(_pins(), _build_into))


def version() -> str:
    return required(GOMOD, MODULE)


def _build_into(folder: Path) -> None:
    print(f"building Karpenter {version()}: some minutes on two cores, once", flush=True)
    seconds = build_program("karpenter", GOMOD, PACKAGE, folder / "karpenter", FLAGS)
    sources = go("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE, cwd=GOMOD)
    (folder / "crds").mkdir()
    for name in CRDS:
        shutil.copyfile(Path(sources) / name, folder / "crds" / Path(name).name)
    print(f"built in {seconds:.0f} s", flush=True)


def _pins() -> str:
    return digest_of("karpenter", GOMOD, PACKAGE, *FLAGS, *CRDS)


def main() -> int:
    return run(
        lambda: f"Karpenter {version()} is built: {(cached() or build()).folder}", BUILD_COMMAND
    )


if __name__ == "__main__":
    sys.exit(main())
