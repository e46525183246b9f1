"""Run ``reservoir report``."""

from mmseg_reservoir.cli.report import main

if __name__ == "__main__":
    raise SystemExit(main())
