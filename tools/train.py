"""Run ``reservoir train``."""

from mmseg_reservoir.cli.train import main

if __name__ == "__main__":
    raise SystemExit(main())
