"""Inspect, merge, prune and export the experts of saved runs.

A run saves them in WORK_DIR/reservoir.

reservoir experts inspect work_dirs/tent/reservoir
reservoir experts merge work_dirs/camera_1/reservoir work_dirs/camera_2/reservoir -o both
reservoir experts prune both --least 2 -o smaller
reservoir experts export smaller 1 -o fog.pth --checkpoint segformer.pth
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..errors import ReservoirError
from .command_line import Verb
from .options import Option, option, shared


def _find(folder: Path) -> Path:
    """Return ``folder``, or its subfolder ``reservoir`` if only this one has a manifest."""
    from ..snapshot.folder import MANIFEST

    inside = folder / "reservoir"
    has_one = not (folder / MANIFEST).is_file() and (inside / MANIFEST).is_file()
    return inside if has_one else folder


def _check_out(args: argparse.Namespace) -> None:
    if args.out.exists() and not args.overwrite:
        raise ReservoirError(f"{args.out} exists: add --overwrite, or choose another name for -o")


def _inspect(args: argparse.Namespace) -> None:
    from ..snapshot import read_folder
    from ..snapshot.overview import overview

    folder = _find(args.folder)
    print(overview(read_folder(folder), folder))


def _merge(args: argparse.Namespace) -> None:
    from ..snapshot import read_folder, write_folder
    from ..snapshot.merge import merge

    _check_out(args)
    folders = [_find(folder) for folder in args.folders]
    if folders[0].resolve() == folders[1].resolve():
        raise ReservoirError(f"{folders[0]} is named twice: name the reservoirs of two runs")
    one, other = map(read_folder, folders)
    merged = merge(one, other, args.k_max)
    write_folder(merged.snapshot, args.out)
    for index, match in enumerate(merged.matches):
        what = "is new" if match is None else f"became one with {match} of {folders[0]}"
        print(f"expert {index} of {folders[1]} {what}")
    print(f"{len(merged.snapshot.experts)} experts are in {args.out}")


def _prune(args: argparse.Namespace) -> None:
    from ..snapshot import read_folder, write_folder
    from ..snapshot.prune import least_used, prune, unused

    _check_out(args)
    snapshot = read_folder(_find(args.folder))
    if args.unused:
        experts = unused(snapshot)
    elif args.least is not None:
        experts = least_used(snapshot, args.least)
    else:
        experts = args.experts
    pruned = prune(snapshot, experts)
    write_folder(pruned, args.out)
    removed = ", ".join(map(str, sorted(experts))) or "none"
    print(f"removed: {removed}; {len(pruned.experts)} experts are in {args.out}")


def _export(args: argparse.Namespace) -> None:
    from ..snapshot import read_folder
    from ..snapshot.export import export_expert

    _check_out(args)
    snapshot = read_folder(_find(args.folder))
    checkpoint = args.checkpoint or snapshot.about.get("checkpoint")
    if not checkpoint:
        raise ReservoirError(f"{args.folder} has no checkpoint of its run: give --checkpoint FILE")
    path = export_expert(snapshot, args.expert, checkpoint, args.out)
    print(f"expert {args.expert} is in {path}")


def _add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, help: str, run: Callable, *options: Option) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help)
        command.set_defaults(run=run)
        for each in options:
            each.add_to(command)
        return command

    folder = option("folder", "a saved reservoir", type=Path)
    out = option("-o --out PATH", "write to this path", type=Path, required=True)
    overwrite = shared("--overwrite", help="replace what --out holds")
    add("inspect", "print a table of the experts", _inspect, folder)
    add(
        "merge",
        "merge two reservoirs into one",
        _merge,
        option("folders", "saved reservoirs", type=Path, nargs=2, metavar="FOLDER"),
        option("--k-max N", "leave room for N experts (default: the larger of the two)", type=int),
        *(out, overwrite),
    )
    prune = add("prune", "remove experts, never that of the source", _prune, folder, out, overwrite)
    which = prune.add_mutually_exclusive_group(required=True)
    which.add_argument("--experts", type=int, nargs="+", metavar="N", help="remove these")
    fewest = "remove the N that have seen the fewest images"
    which.add_argument("--least", type=int, metavar="N", help=fewest)
    which.add_argument("--unused", action="store_true", help="remove those that have seen none")
    add(
        "export",
        "write one expert as a plain checkpoint",
        _export,
        folder,
        option("expert", "number of the expert", type=int),
        option("--checkpoint FILE", "checkpoint of the source model (default: that of the run)"),
        *(out, overwrite),
    )


main = Verb(__doc__, lambda args: args.run(args), _add_commands)
