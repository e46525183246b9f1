"""Run ``reservoir demo``."""

from mmseg_reservoir.cli.demo import main

if __name__ == "__main__":
    raise SystemExit(main())
