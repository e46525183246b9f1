"""Run ``reservoir summarize``."""

from mmseg_reservoir.cli.summarize import main

if __name__ == "__main__":
    raise SystemExit(main())
