"""Run ``reservoir classify``."""

from mmseg_reservoir.cli.classify import main

if __name__ == "__main__":
    raise SystemExit(main())
