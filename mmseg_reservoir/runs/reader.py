"""Read the runs on disk, group comparable runs, and name the groups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ReservoirError
from ..io.nested import differences, flatten
from .route_log import FILE, read_routes

Results = Mapping[str, Any]
"""The content of a ``results.json``."""

# Entries of a config that do not affect results.
_IRRELEVANT = (
    "work_dir",
    "log_level",
    "experiment_name",
    "visualizer",
    "default_hooks",
    "resume",
    "saving",
)
_ONLY_SHOW = ("PseudoLabelHook", "ProgressHook", "ResultsHook", "ResumeHook")


def read_runs(paths: Iterable[str | Path]) -> dict[Path, Results]:
    """Return the content of each ``results.json`` among the given files or below the folders.

    Routes of an unfinished run are read from the ``routes.jsonl`` beside it.
    """
    runs: dict[Path, Results] = {}
    for path in map(Path, paths):
        files = [path] if path.is_file() else sorted(path.rglob("results.json"))
        if not files:
            raise ReservoirError(
                f"no results.json in or below {path}: give work directories of 'reservoir "
                "test' or 'reservoir classify'"
            )
        runs |= {file: _read(file) for file in files}
    return runs


def _read(file: Path) -> Results:
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
        if "n_routes" in results and (file.parent / FILE).is_file():
            results["routes"] = read_routes(file.parent)[: results["n_routes"]]
        missing = {"complete", "seed", "config", "visits", "routes"} - set(results)
    except (ValueError, TypeError) as error:
        raise ReservoirError(f"{file} is not the JSON of a run ({error}): remove it") from error
    if missing:
        raise ReservoirError(
            f"{file} has no {', '.join(sorted(missing))}: it is not a results.json of "
            "'reservoir test'"
        )
    return results


def without_irrelevant(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without the entries that do not affect results."""
    relevant = {key: value for key, value in config.items() if key not in _IRRELEVANT}
    hooks = config.get("custom_hooks") or []
    return relevant | {"custom_hooks": [h for h in hooks if h["type"] not in _ONLY_SHOW]}


def _written(results: Results) -> dict[str, Any]:
    """Return the written options that affect results by dotted keys, without the seed."""
    config = without_irrelevant(results["config"])
    randomness = config.get("randomness") or {}
    config["randomness"] = {k: v for k, v in randomness.items() if k != "seed"}
    return flatten(config)


def _in_force(results: Results) -> dict[str, Any]:
    """Return the same with the resolved options, which include defaults.

    So configs are equal even if one repeats a default or an option of its preset.
    """
    written, options = _written(results), results.get("options") or {}
    kept = {key: v for key, v in written.items() if key.split(".")[0] not in options}
    # A part without a written seed uses the run's seed, which does not count here.
    return kept | {
        key: value
        for key, value in flatten(options).items()
        if key.split(".")[-1] != "seed" or key in written
    }


def group_key(results: Results) -> str:
    """Return a key that is equal for runs that differ only in the seed."""
    return json.dumps(_in_force(results), sort_keys=True)


def _stem(results: Results) -> str:
    """Return the name of the config and its row, or of the work directory in older records."""
    file = results.get("config_file") or results["config"].get("work_dir") or "unnamed config"
    stem, row = Path(file).name.removesuffix(".py"), results.get("row")
    return f"{stem}_{row}" if row else stem


def group_names(groups: Sequence[Mapping[Path, Results]]) -> list[str]:
    """Return a name for each group: the config, with the options in which its groups differ."""
    firsts = [next(iter(group.values())) for group in groups]
    stems = [_stem(results) for results in firsts]
    # Try the written options first, because they are fewer and make shorter names.
    ways = [[options_of(results) for results in firsts] for options_of in (_written, _in_force)]
    names = []
    for i, stem in enumerate(stems):
        alike = [j for j, other in enumerate(stems) if other == stem]
        differing = (_differing(options[i], [options[j] for j in alike]) for options in ways)
        shown = next(filter(None, differing), None)
        names.append(f"{stem} ({', '.join(shown)})" if shown else stem)
    return names


def _differing(options: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return up to three options, as ``key=value``, in which another group differs."""
    keys = sorted({key for other in others for key in other})
    differing = [k for k in keys if any(o.get(k) != options.get(k) for o in others)]
    differing.sort(key=lambda k: not k.endswith("type"))  # a type explains the other differences
    shown = [f"{key}={options.get(key)}" for key in differing[:3]]
    return shown + (["..."] if len(differing) > len(shown) else [])


def find_differences(name: str, group: Mapping[Path, Results]) -> list[str]:
    """Return warnings about runs of a group that differ from the first in more than the seed."""
    warnings = []
    facts = {file: _facts(results) for file, results in group.items()}
    first, *others = facts
    for what in facts[first]:
        for file in others:
            a, b = facts[first][what], facts[file][what]
            if a is None or b is None or a == b:  # older records have no data entry
                continue
            changes = list(differences(a, b))
            shown = "; ".join(f"{key}: {x} and {y}" for key, x, y in changes[:3])
            more = f"; and {len(changes) - 3} more" if len(changes) > 3 else ""
            warnings.append(f"{name}: different {what} in {first} and {file} ({shown}{more})")
    lengths = sorted({len(results["visits"]) for results in group.values()})
    if len(lengths) > 1:
        warnings.append(f"{name}: runs of {lengths} visits; only the common ones are shown")
    return warnings


def _facts(results: Results) -> dict[str, dict[str, Any] | None]:
    """Return facts that should be equal for all runs of a group."""
    data, loop = results.get("data"), results["config"].get("test_cfg") or {}
    shuffled = loop.get("shuffle", "never") != "never"
    return {
        "data": None if data is None else flatten(data),
        "versions": results.get("versions"),
        # The image at each position; only its domain if the seed shuffles images.
        "stream order": {
            f"image {i}": route["domain"] if shuffled else f"{route['domain']} {route.get('image')}"
            for i, route in enumerate(results["routes"], start=1)
        },
    }
