"""Run ``reservoir warmup``."""

from mmseg_reservoir.cli.warmup import main

if __name__ == "__main__":
    raise SystemExit(main())
