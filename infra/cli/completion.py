"""`groundcrew completion SHELL`: a completion script, made from the commands' own parsers.

A script of the shell's, so that a Tab starts no Python.
"""

import argparse

EXAMPLE = """examples:
  groundcrew completion bash > ~/.local/share/bash-completion/completions/groundcrew
  groundcrew completion zsh > "${fpath[1]}/_groundcrew"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print a script that completes commands and options in your shell."
    parser.epilog = EXAMPLE
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def run(args: argparse.Namespace) -> int:
    import shtab

    from infra import cli

    print(shtab.complete(cli.parser(every=True), args.shell))
    return 0
