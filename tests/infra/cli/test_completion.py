"""Completion scripts: of every command, and ones that the shell can read."""

import shutil
import subprocess

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


@pytest.mark.parametrize("command", [c.name for c in COMMANDS])
def test_the_help_of_every_command_has_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser(command).parse_args([command, "--help"])
    assert f"groundcrew {command}" in capsys.readouterr().out.partition("example")[2]
