"""``python -m infra.cli``: the command line without the installed script."""

import sys

from infra.cli import main

if __name__ == "__main__":
    sys.exit(main())
