"""``python -m slewrl`` is ``slewrl``."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the folder one stands in, which Python puts there: its modules would replace installed ones

from slewrl.cli import main

if __name__ == "__main__":
    main()
