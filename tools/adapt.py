"""Run ``reservoir adapt``."""

from mmseg_reservoir.cli.adapt import main

if __name__ == "__main__":
    raise SystemExit(main())
