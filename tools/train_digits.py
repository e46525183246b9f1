"""Run ``reservoir train-digits``."""

from mmseg_reservoir.cli.train_digits import main

if __name__ == "__main__":
    raise SystemExit(main())
