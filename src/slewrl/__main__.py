"""``python -m slewrl`` is ``slewrl``."""

from slewrl.cli import main

if __name__ == "__main__":
    main()
