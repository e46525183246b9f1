"""Test a classifier on a recurring stream while it adapts.

reservoir classify cls/digits_convnet.py --method tent --with-reservoir
reservoir classify CONFIG --method eata --seed 1 --cfg-options stream.type=cdc
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..cls.rows import choose_row, row_label
from ..config.config_files import import_custom_modules, read_config, set_options, warm_start
from ..report.closing import closing_tables, run_warnings
from .command_line import Verb, show_log, warn
from .options import TEST, check_seed, option


def load(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the config, and apply the options of the command line.

    Returns:
        The options of the run, and the entries ``config_file`` and ``row`` of its record.
    """
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


def _run(args: argparse.Namespace) -> None:
    show_log()
    options, written = load(args)
    from ..cls.run import run as run_stream

    folder = options["work_dir"]
    results = run_stream(options, folder, **written, resume=args.resume, overwrite=args.overwrite)
    print(closing_tables(results, warn))
    for warning in run_warnings(results):
        warn(warning)
    print(f"Results are in {Path(folder) / 'results.json'} and .csv")


main = Verb(
    __doc__,
    _run,
    *TEST,
    option("--method", "row of the config, or a method without a row"),
    option(
        "--with-reservoir PRESET",
        "add a reservoir to the method: that of the config, or of this preset",
        nargs="?",
        const=True,
        default=False,
    ),
)
