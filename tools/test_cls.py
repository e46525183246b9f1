"""Test a classifier on a recurring stream while it adapts.

python tools/test_cls.py configs/cls/digits_convnet.py --method tent --with-reservoir
python tools/test_cls.py CONFIG --method eata --seed 1 --cfg-options stream.type=cdc
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mmseg_reservoir.cli.command_line import (
    add_config_options,
    add_warm_start,
    check_seed,
    parse,
    run_cli,
    show_log,
)
from mmseg_reservoir.cls.rows import choose_row, row_label
from mmseg_reservoir.config.config_files import (
    import_custom_modules,
    read_config,
    set_options,
    warm_start,
)
from mmseg_reservoir.report.closing import closing_tables, run_warnings


def load(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain options of the run, the command line over the row; and where they were written."""
    from mmengine.config import Config

    table = read_config(args.config, {})
    import_custom_modules(table)
    names_reservoir = any(key.split(".")[0] == "reservoir" for key in args.cfg_options)
    wanted = args.with_reservoir or names_reservoir or args.start_from is not None
    row = choose_row(table.to_dict(), args.method, wanted)
    if args.method and args.method not in (table.get("rows") or {}):
        print(
            f"note: {args.config} has no row {args.method!r} and nothing is published for it: it "
            "runs with the method's defaults and the optimizer that the config has for all"
        )
    cfg = Config(row)
    set_options(cfg, args.cfg_options)
    options = cfg.to_dict()
    if args.start_from or args.frozen:
        reservoir = options.get("reservoir")
        options["reservoir"] = warm_start(reservoir, args.start_from, args.frozen)
    file, label = Path(table.filename).resolve(), row_label(args.method, options)
    name = f"{file.stem}_{label}" if label else file.stem
    options["work_dir"] = args.work_dir or options.get("work_dir") or f"work_dirs/{name}"
    if args.seed is not None:
        options["randomness"] = {**(options.get("randomness") or {}), "seed": args.seed}
    check_seed((options.get("randomness") or {}).get("seed") or 0)
    return options, {"config_file": str(file), "row": label}


def make_parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_config_options(parser)
    add_warm_start(parser)
    parser.add_argument("--method", help="row of the config, or a method without a row")
    parser.add_argument(
        "--with-reservoir",
        nargs="?",
        const=True,
        default=False,
        metavar="PRESET",
        help="put a reservoir around the method: the config's, or that preset",
    )
    return parser


def warn(text: str) -> None:
    """One line for what the user should know."""
    print(f"warning: {text}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""

    def test() -> None:
        args = parse(make_parser(), argv)
        show_log()
        options, written = load(args)
        from mmseg_reservoir.cls.run import run

        kept = {"resume": args.resume, "overwrite": args.overwrite}
        results = run(options, options["work_dir"], **written, **kept)
        print(closing_tables(results, warn))
        for warning in run_warnings(results):
            warn(warning)
        print(f"Results are in {Path(options['work_dir']) / 'results.json'} and .csv")

    return run_cli(test)


if __name__ == "__main__":
    sys.exit(main())
