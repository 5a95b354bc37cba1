"""``groundcrew record``: keeps what a cluster is told, so that its week can be played again."""

import argparse
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from functions.rules.quantities import Duration
from infra.cli import connect, screen
from infra.cli.connect import Session

if TYPE_CHECKING:
    from infra.local.masking import Masker

DESCRIPTION = """\
Write down what a cluster is told: a server that takes CloudEvents (POST /) and sources' own bodies
(POST /from/<source>), writes each to DIR before it answers, and acts on none. Or, with
--from-cluster, how the cluster stands: nodes with their labels and taints, namespaces, pods,
disruption budgets, what controls the pods, and groundcrew's own policy, pauses and ledgers.
`groundcrew replay DIR` and `groundcrew backtest` play both again.

What is personal or secret is left out or gets a pseudonym (rules: infra/local/masking.yaml):
credentials, people, accounts, addresses, hosts, the values of labels that say nothing to us, and of
Kubernetes objects everything that a replay does not read. Names of machines and workloads are kept
unless --mask-identities is given."""

EPILOG = """\
examples:
  groundcrew record --from-cluster --to week        how it stands now
  groundcrew record --to week --watch               what its nodes say from now on; Ctrl-C ends it
  groundcrew record --to week --port 8080           what it is told by others
  groundcrew record --to week --gzip --max-size 5GiB --keep 30d --rotate 64MiB,1h
  groundcrew record --to week --forward http://cordon.groundcrew-system   in between, not beside
  groundcrew replay week                            the week once more

A line is in the file before its sender is answered, and on the disk a second later: a killed
recorder loses the event in flight, a power cut the last second. In a cluster it hears all that its
broker hears: infra/knative/record.yaml.

exit codes: 0 done, 2 wrong usage, or the folder, the port or the cluster cannot be had"""

_SIZE = re.compile(r"(\d+)(KiB|MiB|GiB|TiB)")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SMALLEST = 1 << 20
KEY_BYTES = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--to",
        type=Path,
        default=Path("groundcrew-history"),
        metavar="DIR",
        help="default: %(default)s",
    )
    parser.add_argument("--gzip", action="store_true", help="compress files when they are closed")
    server = parser.add_argument_group("the server")
    server.add_argument(
        "--port", type=_port, default=8080, help="default: %(default)s; 0: any free"
    )
    server.add_argument(
        "--bind",
        default="127.0.0.1",
        metavar="ADDR",
        help="default: %(default)s, this machine only",
    )
    server.add_argument(
        "--max-size",
        type=_size,
        default=1 << 30,
        metavar="SIZE",
        help="of all files; the oldest go first (default: 1GiB)",
    )
    server.add_argument(
        "--keep",
        type=_length,
        default=timedelta(days=14),
        metavar="TIME",
        help="older events go (default: 14d)",
    )
    server.add_argument(
        "--rotate",
        type=_rotation,
        default=(64 << 20, timedelta(days=1)),
        metavar="SIZE|TIME",
        help="begin a new file then; both with a comma between (default: 64MiB,1d)",
    )
    server.add_argument(
        "--forward",
        type=_url,
        metavar="URL",
        help="pass on what was written, and answer what is answered there",
    )
    masking = parser.add_argument_group("masking")
    masking.add_argument(
        "--mask-identities",
        action="store_true",
        help="pseudonyms for machines, namespaces and workloads, too",
    )
    masking.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="keep the key of the pseudonyms there (made if it is not), so that recordings can be "
        "joined; without it each has its own, kept nowhere",
    )
    masking.add_argument("--masking", type=Path, metavar="FILE", help="other rules than the usual")
    parser.add_argument(
        "--from-cluster", action="store_true", help="take the starting point, and end"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="besides, write down what the cluster says of its Nodes and of Events about them, as "
        "Knative's source would tell it: for clusters without Knative",
    )
    connect.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from infra.local.history import HistoryError
    from infra.local.masking_rules import MaskingError
    from infra.local.segments import FolderInUse

    try:
        masker = _masker(args)
        if args.from_cluster and args.watch:
            raise _Unusable("--from-cluster takes the starting point and ends; --watch comes after")
        if args.from_cluster:
            return connect.run(args, lambda session: _take(args, session, masker))
        if args.watch:
            return connect.run(args, lambda session: _serve(args, masker, session))
        return _serve(args, masker)
    except (_Unusable, MaskingError, HistoryError, FolderInUse) as problem:
        return _wrong(str(problem))
    except OSError as problem:
        where = problem.filename or args.to
        return _wrong(f"{where}: {problem.strerror or problem}")


class _Unusable(Exception):
    """What was asked for cannot be done; one sentence with the next step."""


def _wrong(text: str) -> int:
    print(f"groundcrew record: {text}", file=sys.stderr)
    return 2


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# the server


def _serve(args: argparse.Namespace, masker: "Masker", session: Session | None = None) -> int:
    """With ``session``, its cluster is watched, too."""
    from infra.local import sink
    from infra.local.feed import Feed
    from infra.local.segments import Limits, Segments
    from infra.local.world import TOLD

    limits = Limits(args.max_size, args.keep, *args.rotate)
    if limits.size < 2 * limits.rotate_size:
        # Else the file that is being written could not be kept within it.
        limits = Limits(limits.size, limits.keep, limits.size // 2, limits.rotate_age)
    listening = _listen(args.bind, args.port)
    try:
        segments = Segments(args.to, limits, packed=args.gzip)
    except BaseException:
        listening.close()
        raise
    forward = sink.forward_to(args.forward) if args.forward else None
    recorder = sink.Sink(segments, masker, forward)
    kinds = TOLD if session else ()
    feeds = [Feed(session.cluster, kind, recorder.told, _say) for kind in kinds if session]

    def started() -> None:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        _say(f"recording what comes to http://{shown}:{port} to {args.to}")
        _say(f"  keeps     {_shown(limits.size)} and {screen.span(limits.keep)} at most")
        _say(f"  masks     {_masks(args)}")
        if feeds:
            _say("  watches   Nodes, and Events about them")
        if args.forward:
            _say(f"  forwards  to {args.forward}, and answers what comes from there")
        _say("  Ctrl-C ends it")

    with listening:
        sink.serve(recorder, listening, started, feeds)
    _say(
        f"{screen.count(segments.written, 'event')} recorded; {args.to} holds "
        f"{_shown(segments.bytes)} in {screen.count(segments.files, 'file')}"
    )
    for count, what in (
        (recorder.left_out, "clocks and answers of groundcrew's own left out: a replay makes them"),
        (recorder.refused, "requests were not answered with success"),
        (segments.removed, "files of events were taken away to stay within the limits"),
    ):
        if count:
            _say(f"  {count:,} {what}")
    return 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as problem:
        raise _Unusable(
            f"{host}:{port} cannot be listened on: {problem}; choose another with --port and --bind"
        ) from problem
    # asyncio does so itself only where the socket names its protocol; without it each answer
    # waits 40 ms for the sender's delayed acknowledgement of its headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


# the starting point


def _take(args: argparse.Namespace, session: Session, masker: "Masker") -> int:
    from infra.local import starting_point

    tell = _Progress()
    taken = starting_point.take(
        session.cluster,
        args.to,
        masker,
        session.clock.now(),
        namespace=session.namespace,
        packed=args.gzip,
        progress=tell,
    )
    _say(f"written to {taken.path} ({_shown(taken.path.stat().st_size)}); masks {_masks(args)}")
    return 0


class _Progress:
    """A line for each list; on a terminal it counts while it is read."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._told = 0.0

    def __call__(self, title: str, count: int, done: bool) -> None:
        line = f"  {count:>7,} {title}"
        if done:
            print(f"\r{line}" if self._live else line, file=sys.stderr, flush=True)
        elif self._live and time.monotonic() - self._told > 0.1:
            self._told = time.monotonic()
            print(f"\r{line}", end="", file=sys.stderr, flush=True)


# masking


def _masker(args: argparse.Namespace) -> "Masker":
    from infra.local import masking_rules
    from infra.local.masking import Masker

    rules = masking_rules.load(args.masking)
    return Masker(rules, _key(args.key, args.to), identities=args.mask_identities)


def _key(file: Path | None, folder: Path) -> bytes:
    if file is None:
        return secrets.token_bytes(KEY_BYTES)
    if folder.resolve() in file.resolve().parents:
        raise _Unusable(
            f"--key {file} is in the folder of the recording, and would be given away with it"
        )
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(made, "w") as fresh:
            fresh.write(secrets.token_hex(KEY_BYTES) + "\n")
    text = file.read_text().strip()
    if not re.fullmatch(f"[0-9a-f]{{{2 * KEY_BYTES}}}", text):
        raise _Unusable(f"--key {file}: is to hold {2 * KEY_BYTES} hexadecimal digits")
    return bytes.fromhex(text)


def _masks(args: argparse.Namespace) -> str:
    what = "people, accounts, addresses, credentials"
    if args.mask_identities:
        what += ", names of machines and workloads"
    if args.key:
        return f"{what}; the key is in {args.key}"
    joined = " (a starting point taken by itself has others: use --key)"
    return f"{what}; pseudonyms of this run only{joined if args.mask_identities else ''}"


# options


def _port(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 512MiB or 5GiB")
    size = int(match[1]) * _UNITS[match[2]]
    if size < SMALLEST:
        raise argparse.ArgumentTypeError(f"{text} is less than 1MiB")
    return size


def _length(text: str) -> timedelta:
    try:
        length = Duration.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    if length < timedelta(minutes=1):
        raise argparse.ArgumentTypeError(f"{text} is less than 1m")
    return length


def _rotation(text: str) -> tuple[int, timedelta]:
    size, length = 64 << 20, timedelta(days=1)
    given: list[Callable[[str], object]] = []
    for part in text.split(","):
        parse: Callable[[str], object] = _size if _SIZE.fullmatch(part) else _length
        if parse in given:
            raise argparse.ArgumentTypeError(f"{text!r}: one size and one time at most")
        given.append(parse)
        if parse is _size:
            size = _size(part)
        else:
            length = _length(part)
    return size, length


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL: write http://host:port/path")
    return text


def _shown(size: int) -> str:
    for unit, factor in reversed(_UNITS.items()):
        if size >= factor:
            return f"{size / factor:.1f} {unit}".replace(".0 ", " ")
    return f"{size} bytes"
