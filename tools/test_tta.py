"""Run ``reservoir test``."""

from mmseg_reservoir.cli.test import main

if __name__ == "__main__":
    raise SystemExit(main())
