"""Test a classifier on a recurring stream while it adapts.

python tools/test_cls.py configs/cls/digits/digits_convnet_tent_reservoir.py
python tools/test_cls.py CONFIG --seed 1 --cfg-options stream.type=cdc
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mmseg_reservoir.cls.run import known_keys, run
from mmseg_reservoir.command_line import add_config_options, end_in_one_line, parse, read_config
from mmseg_reservoir.report.closing import closing_tables


def load(args: argparse.Namespace) -> dict[str, Any]:
    """The config as plain options, with the command line merged in."""
    cfg = read_config(args.config, args.cfg_options, known_keys())
    options = cfg.to_dict()
    options["work_dir"] = args.work_dir or options.get("work_dir") or f"work_dirs/{_stem(args)}"
    if args.seed is not None:
        options["randomness"] = {**(options.get("randomness") or {}), "seed": args.seed}
    return options


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_config_options(parser)

    def test() -> None:
        args = parse(parser, argv)
        options = load(args)
        results = run(options, options["work_dir"], config_file=str(Path(args.config).resolve()))
        print(closing_tables(results, lambda text: print(f"warning: {text}", file=sys.stderr)))
        print(f"Results are in {Path(options['work_dir']) / 'results.json'} and .csv")

    return end_in_one_line(test)


def _stem(args: argparse.Namespace) -> str:
    return Path(args.config).stem


if __name__ == "__main__":
    sys.exit(main())
