"""Run ``reservoir sweep``."""

from mmseg_reservoir.cli.sweep import main

if __name__ == "__main__":
    raise SystemExit(main())
