"""Builds aws-node-termination-handler from its Go module: ``python -m tests.bench.nth.build``.

As the control plane is built (`tests.controlplane.build`): the Go client downloads the sources
and checks every module against the committed ``gomod/go.sum``, and the result, which takes some
two minutes of two cores, is kept beside the control plane's.
"""

import hashlib
import platform
import re
import sys
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
)

GOMOD = Path(__file__).parent / "gomod"
BUILD_COMMAND = "python -m tests.bench.nth.build"
PROGRAM = "aws-node-termination-handler"
PACKAGE = "github.com/aws/aws-node-termination-handler/cmd"
FLAGS = ("-tags=nthlinux", "-ldflags=-s -w")
"""Those of its own Makefile."""


def cached() -> Path | None:
    """The program, if it was built. Starts no build."""
    folder = finished(_pins_digest())
    return folder / PROGRAM if folder else None


def build() -> Path:
    return build_once(_pins_digest(), _build_into) / PROGRAM


def version() -> str:
    """``v1.25.6``; go.mod is the one place that names it."""
    pins = (GOMOD / "go.mod").read_text()
    found = re.search(rf"^require {re.escape(PACKAGE.removesuffix('/cmd'))} (v\S+)$", pins, re.M)
    if found is None:
        raise BuildError(f"{GOMOD / 'go.mod'} does not require {PROGRAM}")
    return found[1]


def _build_into(folder: Path) -> None:
    print(f"building {PROGRAM} {version()}: two minutes on two cores, once", flush=True)
    seconds = build_program(PROGRAM, GOMOD, PACKAGE, folder / PROGRAM, FLAGS)
    print(f"built in {seconds:.0f} s", flush=True)


def _pins_digest() -> str:
    digest = hashlib.sha256()
    for part in (PACKAGE, *GO_FLAGS, *FLAGS, *GO_ENVIRONMENT.values(), platform.machine()):
        digest.update(part.encode() + b"\0")
    for name in ("go.mod", "go.sum"):
        digest.update((GOMOD / name).read_bytes() + b"\0")
    return f"nth-{digest.hexdigest()[:16]}"


def main() -> int:
    try:
        print(f"{PROGRAM} {version()} is built: {cached() or build()}")
    except GoMissingError:
        print(GoMissingError(BUILD_COMMAND), file=sys.stderr)
        return EXIT_GO_MISSING
    except BuildError as failed:
        print(f"{failed}\nMend the cause named above, then run: {BUILD_COMMAND}", file=sys.stderr)
        return EXIT_BUILD_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
