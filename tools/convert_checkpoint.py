"""Run ``reservoir convert``."""

from mmseg_reservoir.cli.convert import main

if __name__ == "__main__":
    raise SystemExit(main())
