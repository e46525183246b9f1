"""Run ``reservoir check``."""

from mmseg_reservoir.cli.check import main

if __name__ == "__main__":
    raise SystemExit(main())
