"""Writes the MiniCity data set: street scenes in clear air, fog, night, rain and snow."""

import argparse
import sys

from mmseg_reservoir.cli.command_line import run_cli


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: What stands behind the program's name; `sys.argv` if left out.

    Returns:
        Exit code: 0, or 2 if the user has to mend something.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", help="folder to write, such as data/minicity")
    parser.add_argument("--seed", type=int, default=0, help="seed of all scenes")
    parser.add_argument("--train", type=int, default=800, help="clear pictures to train on")
    parser.add_argument("--val", type=int, default=100, help="clear pictures to validate on")
    parser.add_argument(
        "--per-condition",
        type=int,
        default=40,
        help="train pictures of fog, night, rain and snow each; val gets half as many",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace another MiniCity there")
    options = parser.parse_args(arguments)

    def write() -> None:
        from mmseg_reservoir.minicity import make_counts, write_dataset

        counts = make_counts(
            options.train, options.val, options.per_condition, options.per_condition // 2
        )
        written = write_dataset(options.root, options.seed, counts, options.overwrite)
        for condition, splits in written.counts.items():
            print(f"{condition:>6}: {splits['train']:4d} train, {splits['val']:4d} val")
        total = sum(sum(splits.values()) for splits in written.counts.values())
        done = "is there already, nothing written" if written.reused else "written"
        print(f"{total} pictures {done}: {written.root} ({written.seconds:.1f} s)")

    return run_cli(write)


if __name__ == "__main__":
    sys.exit(main())
