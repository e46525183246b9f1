"""Run ``reservoir experts``."""

from mmseg_reservoir.cli.experts import main

if __name__ == "__main__":
    raise SystemExit(main())
