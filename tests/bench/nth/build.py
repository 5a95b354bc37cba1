"""Builds aws-node-termination-handler from its Go module: ``python -m tests.bench.nth.build``.

As the control plane is built (`tests.controlplane.build`): the Go client downloads the sources
and checks every module against the committed ``gomod/go.sum``, and the result, which takes some
two minutes of two cores, is kept beside the control plane's.
"""

import sys
from pathlib import Path

from tests.controlplane.build import (
    build_once,
    build_program,
    digest_of,
    finished,
    required,
    run,
)

GOMOD = Path(__file__).parent / "gomod"
BUILD_COMMAND = "python -m tests.bench.nth.build"
PROGRAM = "aws-node-termination-handler"
PACKAGE = "github.com/aws/aws-node-termination-handler/cmd"
FLAGS = ("-tags=nthlinux", "-ldflags=-s -w")
"""Those of its own Makefile."""


def cached() -> Path | None:
    """The program, if it was built. Starts no build."""
    folder = finished(_pins())
    return folder / PROGRAM if folder else None


def build() -> Path:
    return build_once(_pins(), _build_into) / PROGRAM


def version() -> str:
    return required(GOMOD, PACKAGE.removesuffix("/cmd"))


def _build_into(folder: Path) -> None:
    print(f"building {PROGRAM} {version()}: two minutes on two cores, once", flush=True)
    seconds = build_program(PROGRAM, GOMOD, PACKAGE, folder / PROGRAM, FLAGS)
    print(f"built in {seconds:.0f} s", flush=True)


def _pins() -> str:
    return digest_of("nth", GOMOD, PACKAGE, *FLAGS)


def main() -> int:
    return run(lambda: f"{PROGRAM} {version()} is built: {cached() or build()}", BUILD_COMMAND)


if __name__ == "__main__":
    sys.exit(main())
