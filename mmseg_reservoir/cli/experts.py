"""Inspect, merge, prune and export the experts of saved runs.

A run saves them in WORK_DIR/reservoir.

reservoir experts inspect work_dirs/tent/reservoir
reservoir experts merge work_dirs/camera_1/reservoir work_dirs/camera_2/reservoir -o both
reservoir experts prune both --least 2 -o smaller
reservoir experts export smaller 1 -o fog.pth --checkpoint segformer.pth
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import ReservoirError
from .command_line import Verb
from .options import share


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the commands and their options."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    inspect = commands.add_parser("inspect", help="print a table of the experts")
    inspect.add_argument("folder", type=Path, help="a saved reservoir")
    inspect.set_defaults(run=run_inspect)

    merge = commands.add_parser("merge", help="merge two reservoirs into one")
    merge.add_argument("folders", type=Path, nargs=2, metavar="FOLDER", help="saved reservoirs")
    merge.add_argument(
        "--k-max",
        type=int,
        metavar="N",
        help="leave room for N experts (default: the larger of the two)",
    )
    merge.set_defaults(run=run_merge)

    prune = commands.add_parser("prune", help="remove experts, never that of the source")
    prune.add_argument("folder", type=Path, help="a saved reservoir")
    which = prune.add_mutually_exclusive_group(required=True)
    which.add_argument("--experts", type=int, nargs="+", metavar="N", help="remove these")
    which.add_argument(
        "--least", type=int, metavar="N", help="remove the N that have seen the fewest images"
    )
    which.add_argument("--unused", action="store_true", help="remove those that have seen none")
    prune.set_defaults(run=run_prune)

    export = commands.add_parser("export", help="write one expert as a plain checkpoint")
    export.add_argument("folder", type=Path, help="a saved reservoir")
    export.add_argument("expert", type=int, help="number of the expert")
    export.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="checkpoint of the source model (default: that of the run)",
    )
    export.set_defaults(run=run_export)
    for command, metavar in ((merge, "FOLDER"), (prune, "FOLDER"), (export, "FILE")):
        command.add_argument(
            "-o", "--out", type=Path, required=True, metavar=metavar, help="write to this path"
        )
        share(command, "--overwrite", help="replace what --out holds")


def find_reservoir(folder: Path) -> Path:
    """Return the folder of a reservoir: the given one, or ``reservoir`` in a work directory."""
    from ..snapshot.folder import MANIFEST

    inside = folder / "reservoir"
    has_one = not (folder / MANIFEST).is_file() and (inside / MANIFEST).is_file()
    return inside if has_one else folder


def check_out(args: argparse.Namespace) -> None:
    """Refuse to replace a reservoir or a file without ``--overwrite``."""
    if args.out.exists() and not args.overwrite:
        raise ReservoirError(f"{args.out} exists: add --overwrite, or choose another name for -o")


def run_inspect(args: argparse.Namespace) -> None:
    """Print a table of the experts."""
    from ..snapshot import read_folder
    from ..snapshot.overview import overview

    folder = find_reservoir(args.folder)
    print(overview(read_folder(folder), folder))


def run_merge(args: argparse.Namespace) -> None:
    """Merge two reservoirs, and print which experts became one."""
    from ..snapshot import read_folder, write_folder
    from ..snapshot.merge import merge

    check_out(args)
    folders = [find_reservoir(folder) for folder in args.folders]
    if folders[0].resolve() == folders[1].resolve():
        raise ReservoirError(f"{folders[0]} is named twice: name the reservoirs of two runs")
    one, other = map(read_folder, folders)
    merged = merge(one, other, args.k_max)
    write_folder(merged.contents, args.out)
    for index, match in enumerate(merged.matches):
        what = "is new" if match is None else f"became one with {match} of {folders[0]}"
        print(f"expert {index} of {folders[1]} {what}")
    print(f"{len(merged.contents.experts)} experts are in {args.out}")


def run_prune(args: argparse.Namespace) -> None:
    """Remove experts."""
    from ..snapshot import read_folder, write_folder
    from ..snapshot.prune import least_used, prune, unused

    check_out(args)
    contents = read_folder(find_reservoir(args.folder))
    if args.unused:
        experts = unused(contents)
    elif args.least is not None:
        experts = least_used(contents, args.least)
    else:
        experts = args.experts
    pruned = prune(contents, experts)
    write_folder(pruned, args.out)
    removed = ", ".join(map(str, sorted(experts))) or "none"
    print(f"removed: {removed}; {len(pruned.experts)} experts are in {args.out}")


def run_export(args: argparse.Namespace) -> None:
    """Write a plain checkpoint."""
    from ..snapshot import read_folder
    from ..snapshot.export import export_expert

    check_out(args)
    contents = read_folder(find_reservoir(args.folder))
    checkpoint = args.checkpoint or contents.about.get("checkpoint")
    if not checkpoint:
        raise ReservoirError(
            f"{args.folder} does not say which checkpoint its run had: give --checkpoint FILE"
        )
    print(
        f"expert {args.expert} is in {export_expert(contents, args.expert, checkpoint, args.out)}"
    )


main = Verb(__doc__, add_options, lambda args: args.run(args))
