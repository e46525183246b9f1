"""``python -m mmseg_reservoir.cli`` is the command ``reservoir``."""

from .app import main

if __name__ == "__main__":
    raise SystemExit(main())
