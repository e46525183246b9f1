"""Run ``reservoir figures``."""

from mmseg_reservoir.cli.figures import main

if __name__ == "__main__":
    raise SystemExit(main())
