"""Test a segmentation model on a recurring stream while it adapts.

reservoir test minicity/segformer-tiny_tent_reservoir.py
reservoir test CONFIG CHECKPOINT --show-dir panels --cfg-options reservoir.k_max=8
reservoir test CONFIG CHECKPOINT --resume
reservoir test CONFIG CHECKPOINT --protocol fair --lr-grid 1e-6 1e-5 1e-4
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.config_files import import_custom_modules, read_config, warm_start
from ..errors import ReservoirError
from ..io.files import make_work_dir
from ..report.rate_choice import LR_GRID
from .command_line import Verb
from .options import TEST, check_seed, option, switch

if TYPE_CHECKING:  # mmseg takes seconds to import: only what runs a stream does
    from mmengine.config import Config

    from ..config.builder import RunBuilder

KNOWN_KEYS = (
    *("method", "params", "statistics", "reservoir", "source_images"),
    *("model", "work_dir", "train_dataloader", "val_dataloader", "test_dataloader", "train_cfg"),
    *("val_cfg", "test_cfg", "auto_scale_lr", "optim_wrapper", "param_scheduler", "val_evaluator"),
    *("test_evaluator", "default_hooks", "custom_hooks", "data_preprocessor", "load_from"),
    *("resume", "launcher", "env_cfg", "log_processor", "log_level", "visualizer"),
    *("default_scope", "randomness", "experiment_name", "cfg"),
)
"""Keys that --cfg-options may add to a config: this project's, and arguments of the runner."""


def load_config(args: argparse.Namespace) -> tuple[Config, RunBuilder]:
    """Return the checked config with the options of the command line, and its builder.

    Most checks come before the import of torch and mmseg.
    """
    if args.lr_grid and args.protocol != "fair":
        raise ReservoirError("--lr-grid belongs to --protocol fair: give both or neither")
    cfg = read_config(args.config, args.cfg_options, KNOWN_KEYS)
    cfg.work_dir = args.work_dir or cfg.get("work_dir") or f"work_dirs/{Path(args.config).stem}"
    seed = _seed(args, cfg)
    check_seed(seed)
    cfg.randomness = {**(cfg.get("randomness") or {}), "seed": seed}
    if args.on_bad_image is not None:
        cfg.test_cfg = {**cfg.test_cfg, "on_bad_image": args.on_bad_image}
    cfg.load_from = _checkpoint(args, cfg)
    if args.start_from or args.frozen:
        cfg.reservoir = warm_start(cfg.get("reservoir"), args.start_from, args.frozen)
    cfg.custom_hooks = _hooks(args, cfg)
    # Imported before custom modules, which may import mmseg.
    from ..seg.hooks.adaptation_hook import make_plan
    from ..seg.loop import RecurringTestLoop
    from ..seg.model_loading import check_packages

    import_custom_modules(cfg)
    if cfg.test_cfg.get("type") == "RecurringTestLoop":
        RecurringTestLoop.check({k: v for k, v in cfg.test_cfg.items() if k != "type"})
    check_packages(cfg.get("model"))
    builder = make_plan(cfg, seed)
    make_work_dir(cfg.work_dir)
    return cfg, builder


def _seed(args: argparse.Namespace, cfg: Config) -> int:
    seed = (cfg.get("randomness") or {}).get("seed") if args.seed is None else args.seed
    if seed is None and args.resume is not None:
        from ..runs.run_saver import saved_seed
        from ..seg.runner import rate_folder

        fair = args.protocol == "fair"
        folder = Path(cfg.work_dir, rate_folder((args.lr_grid or LR_GRID)[0]) if fair else "")
        seed = saved_seed(folder, args.resume)
    if seed is None:
        from mmengine.dist import sync_random_seed

        return sync_random_seed()
    return seed


def _checkpoint(args: argparse.Namespace, cfg: Config) -> str | None:
    if args.random_weights:
        return None
    checkpoint = args.checkpoint or cfg.get("load_from")
    if not checkpoint:
        raise ReservoirError(
            f"no checkpoint: give one as the second argument or as load_from in {args.config} "
            "(--random-weights for a dry run)"
        )
    if "://" not in checkpoint and not Path(checkpoint).is_file():
        raise ReservoirError(f"no checkpoint file {checkpoint}")
    return checkpoint


def _hooks(args: argparse.Namespace, cfg: Config) -> list[dict]:
    hooks = {hook["type"]: dict(hook) for hook in cfg.get("custom_hooks") or []}
    if "AdaptationHook" not in hooks:
        raise ReservoirError(
            f"{args.config} does not adapt: add dict(type='AdaptationHook') to custom_hooks, or "
            "inherit configs/_base_/runtime.py"
        )

    def change(name: str, **options: Any) -> None:
        chosen = {key: value for key, value in options.items() if value is not None}
        hooks[name] = {"type": name, **hooks.get(name, {}), **chosen}

    if args.allow_mismatch:
        change("StrictCheckpointHook", allow_mismatch=True)
    if args.resume is not None or "ResumeHook" in hooks:  # without this hook, no state is saved
        change("ResumeHook", resume=args.resume, overwrite=args.overwrite)
    if args.show_dir:
        shown = {"frames": args.show_frames, "baseline": args.baseline}
        change("PseudoLabelHook", show_dir=args.show_dir, **shown)
    if args.progress_file:
        change("ProgressHook", file=args.progress_file)
    return list(hooks.values())


def _count_or_all(word: str) -> int | str:
    if word == "all":
        return word
    count = int(word)
    if count < 1:
        raise ValueError(f"{count} frames cannot be shown")
    return count


def _run(args: argparse.Namespace) -> None:
    cfg, builder = load_config(args)
    from ..seg.hooks.adaptation_hook import AdaptationHook
    from ..seg.runner import QuietRunner, run_fair

    if args.protocol == "fair":
        run_fair(cfg, args.lr_grid or LR_GRID)
        return
    runner = QuietRunner.from_cfg(cfg)
    for hook in runner.hooks:
        if isinstance(hook, AdaptationHook):
            hook.plan = builder
    runner.test()


main = Verb(
    __doc__,
    _run,
    *TEST,
    option("checkpoint", "weights of the model (default: load_from of the config)", nargs="?"),
    option("--show-dir DIR", "save panels with pseudo-labels here"),
    option(
        "--show-frames N|all",
        "with --show-dir: save N frames of every visit, evenly spaced (default: the first)",
        type=_count_or_all,
    ),
    option(
        "--baseline DIR|source",
        "with --show-dir: also show the source model, or the --show-dir of another run",
    ),
    option("--progress-file FILE", "write the position in the stream here, as JSON"),
    option(
        "--protocol",
        "published: run the config as it is; fair: run it once per learning rate of a grid that is "
        "the same for every method, and mark the best by a criterion without labels",
        choices=("published", "fair"),
        default="published",
    ),
    option(
        "--lr-grid LR",
        "with --protocol fair: try these learning rates "
        f"(default: {' '.join(f'{lr:g}' for lr in LR_GRID)})",
        nargs="+",
        type=float,
    ),
    switch("--allow-mismatch", "accept a checkpoint that does not fit"),
    option(
        "--on-bad-image",
        "stop at an image or label that cannot be used, or skip, report and count it "
        "(default: stop)",
        choices=("stop", "skip"),
    ),
    switch("--random-weights", "run without a checkpoint, to measure speed and memory only"),
)
