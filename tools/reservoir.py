"""Look at, merge, prune and export the experts that runs have saved (WORK_DIR/reservoir).

python tools/reservoir.py inspect work_dirs/tent/reservoir
python tools/reservoir.py merge work_dirs/camera_1/reservoir work_dirs/camera_2/reservoir -o both
python tools/reservoir.py prune both --least 2 -o smaller
python tools/reservoir.py export smaller 1 -o fog.pth --checkpoint segformer.pth
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmseg_reservoir.cli.command_line import run_cli
from mmseg_reservoir.errors import ReservoirError


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    show = commands.add_parser("inspect", help="a table of the experts")
    show.add_argument("folder", type=Path)
    show.set_defaults(run=run_inspect)

    both = commands.add_parser("merge", help="make one of two reservoirs")
    both.add_argument("folders", type=Path, nargs=2, metavar="FOLDER")
    both.add_argument("-o", "--out", type=Path, required=True, help="the folder to write")
    both.add_argument("--k-max", type=int, help="room for experts (default: the larger of the two)")
    both.set_defaults(run=run_merge)

    fewer = commands.add_parser("prune", help="remove experts, never that of the source")
    fewer.add_argument("folder", type=Path)
    which = fewer.add_mutually_exclusive_group(required=True)
    which.add_argument("--experts", type=int, nargs="+", metavar="N", help="these")
    which.add_argument("--least", type=int, metavar="N", help="N that have seen the fewest images")
    which.add_argument("--unused", action="store_true", help="those that have seen none")
    fewer.add_argument("-o", "--out", type=Path, required=True, help="the folder to write")
    fewer.set_defaults(run=run_prune)

    plain = commands.add_parser("export", help="write one expert as a plain checkpoint")
    plain.add_argument("folder", type=Path)
    plain.add_argument("expert", type=int)
    plain.add_argument("-o", "--out", type=Path, required=True, help="FILE.pth or .safetensors")
    plain.add_argument("--checkpoint", help="that of the source model (default: the run's)")
    plain.set_defaults(run=run_export)
    for command in (both, fewer, plain):
        command.add_argument("--overwrite", action="store_true", help="replace what --out holds")
    return parser.parse_args(argv)


def find_reservoir(folder: Path) -> Path:
    """Return the folder of a reservoir: the given one, or ``reservoir`` in a work directory."""
    from mmseg_reservoir.snapshot.folder import MANIFEST

    inside = folder / "reservoir"
    has_one = not (folder / MANIFEST).is_file() and (inside / MANIFEST).is_file()
    return inside if has_one else folder


def check_out(args: argparse.Namespace) -> None:
    """Refuse to replace a reservoir or a file that nobody said should be replaced."""
    if args.out.exists() and not args.overwrite:
        raise ReservoirError(f"{args.out} exists: add --overwrite, or choose another name for -o")


def run_inspect(args: argparse.Namespace) -> None:
    """Print a table of the experts."""
    from mmseg_reservoir.snapshot import read_folder
    from mmseg_reservoir.snapshot.overview import overview

    folder = find_reservoir(args.folder)
    print(overview(read_folder(folder), folder))


def run_merge(args: argparse.Namespace) -> None:
    """Merge two reservoirs, and tell which experts became one."""
    from mmseg_reservoir.snapshot import read_folder, write_folder
    from mmseg_reservoir.snapshot.merge import merge

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
    from mmseg_reservoir.snapshot import read_folder, write_folder
    from mmseg_reservoir.snapshot.prune import least_used, prune, unused

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
    from mmseg_reservoir.snapshot import read_folder
    from mmseg_reservoir.snapshot.export import export_expert

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


def main(argv: list[str] | None = None) -> int:
    """Run a command; mistakes of the user end in one line and exit code 2."""
    args = parse_args(argv)
    return run_cli(lambda: args.run(args))


if __name__ == "__main__":
    sys.exit(main())
