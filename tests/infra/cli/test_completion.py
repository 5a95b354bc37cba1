"""Completion scripts: of every command, and ones that the shell can read."""

import argparse
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from infra.cli import COMMANDS, main, parser


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_command_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command.name in script


def test_bash_completes_commands_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    ask = (
        "COMP_WORDS=(groundcrew {words}); COMP_CWORD={place}; "
        '_shtab_groundcrew groundcrew; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    bash = shutil.which("bash")
    assert bash

    def complete(words: str, place: int) -> list[str]:
        asked = script + "\n" + ask.format(words=words, place=place)
        done = subprocess.run([bash, "-c", asked], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert "replay" in complete("re", 1)
    assert "--policy" in complete("replay --p", 2)


def _leaves(made: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands, also of those below others."""
    below = [a for a in made._actions if isinstance(a, argparse._SubParsersAction)]
    for action in below:
        for one in action.choices.values():
            yield one
            yield from _leaves(one)


@pytest.mark.parametrize("one", list(_leaves(parser(every=True))), ids=lambda one: one.prog)
def test_the_help_of_every_command_has_an_example(one: argparse.ArgumentParser) -> None:
    command = one.prog.removeprefix(parser().prog)
    assert f"groundcrew{command}" in one.format_help().partition("\nexamples:\n")[2]
