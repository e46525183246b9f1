"""Run ``reservoir minicity``."""

from mmseg_reservoir.cli.minicity import main

if __name__ == "__main__":
    raise SystemExit(main())
