"""Run ``reservoir fleet``."""

from mmseg_reservoir.cli.fleet import main

if __name__ == "__main__":
    raise SystemExit(main())
