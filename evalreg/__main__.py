"""``python -m evalreg``, the same as the command ``evalreg``."""

import sys

from evalreg.cli import main

if __name__ == "__main__":
    sys.exit(main())
