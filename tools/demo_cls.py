"""Run ``reservoir demo-cls``."""

from mmseg_reservoir.cli.demo_cls import main

if __name__ == "__main__":
    raise SystemExit(main())
