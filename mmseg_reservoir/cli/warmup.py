"""Train BECoTTA's experts, gates and discriminator.

It trains on source images in synthetic styles.

reservoir warmup minicity/segformer-tiny_becotta_warmup.py
reservoir warmup CONFIG CHECKPOINT --export becotta.safetensors --cfg-options warmup.variant=M
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.config_files import import_custom_modules, read_config, set_options
from ..config.schema import without_scope
from ..errors import ReservoirError
from ..registry import construct
from .command_line import Verb
from .options import option

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmengine.runner import Runner

    from ..becotta.warmup import BecottaWarmup


def load_config(args: argparse.Namespace) -> Config:
    """Return the config with the options of the command line."""
    cfg = set_options(read_config(args.config, {}), args.cfg_options)
    cfg.work_dir = args.work_dir or cfg.get("work_dir") or f"work_dirs/{Path(args.config).stem}"
    cfg.load_from = args.checkpoint or cfg.get("load_from")
    if not cfg.load_from:
        raise ReservoirError(
            f"no checkpoint: give one as the second argument or as load_from in {args.config}"
        )
    if "warmup" not in cfg:
        raise ReservoirError(f"{args.config} has no 'warmup': inherit configs/_base_/warmup.py")
    return cfg


def build_model(cfg: Config) -> BecottaWarmup:
    """Return the segmentor with its weights and BECoTTA's modules."""
    from mmengine.registry import MODELS, init_default_scope

    from ..seg import checkpoint  # this import also registers everything

    import_custom_modules(cfg)
    init_default_scope(cfg.get("default_scope", "mmseg"))
    segmentor = MODELS.build(cfg.model)
    weights = checkpoint.load(cfg.load_from)
    checkpoint.check_compatible(segmentor, weights)
    segmentor.load_state_dict(weights.get("state_dict", weights), strict=False)
    return construct(_build_warmup, without_scope(cfg.warmup), "warmup", segmentor=segmentor)


def _build_warmup(
    segmentor: Any,
    variant: Any = "S",
    domains: Any = None,
    discriminator_weight: float = 1.0,
    information_weight: float = 0.05,
    seed: int = 0,
) -> BecottaWarmup:
    from ..becotta import DOMAINS, inject
    from ..becotta.warmup import BecottaWarmup

    inject(segmentor, variant, DOMAINS if domains is None else domains, seed=seed)
    return BecottaWarmup(segmentor, discriminator_weight, information_weight, seed)


def build_runner(cfg: Config, model: BecottaWarmup) -> Runner:
    """Return MMEngine's runner for a model with loaded weights."""
    from mmengine.runner import Runner

    names = (
        *("work_dir", "train_dataloader", "train_cfg", "optim_wrapper", "param_scheduler"),
        *("default_hooks", "custom_hooks", "env_cfg", "log_processor", "log_level"),
        *("randomness", "default_scope", "resume", "visualizer"),
    )
    return Runner(model, **{name: cfg[name] for name in names if name in cfg}, cfg=cfg)


def table(before: dict, after: dict) -> str:
    """Return a table of the validation before and after, with one line per domain."""
    lines = [f"{'style':>8} {'mIoU before':>12} {'after':>8} {'domain found':>13}"]
    for name, was in before.items():
        now = after[name]
        lines.append(
            f"{name:>8} {was['mIoU']:12.2f} {now['mIoU']:8.2f} {now['domain_accuracy']:11.1f} %"
        )
    return "\n".join(lines)


def _run(args: argparse.Namespace) -> None:
    cfg = load_config(args)
    from ..becotta.store import save
    from ..becotta.warmup import evaluate

    model = build_model(cfg)
    runner = build_runner(cfg, model)
    loader = None
    meta: dict[str, Any] = {"config": Path(args.config).name}
    if cfg.get("val_dataloader"):
        loader = runner.build_dataloader(cfg.val_dataloader)
        meta["before"] = evaluate(model, loader)
    runner.train()
    if loader is not None:
        meta["after"] = evaluate(model, loader)
        runner.logger.info("Validation images\n" + table(meta["before"], meta["after"]))
    target = Path(args.export or Path(cfg.work_dir) / "becotta.safetensors")
    save(target, model.becotta, **meta)
    runner.logger.info(f"BECoTTA written to {target}")


main = Verb(
    __doc__,
    _run,
    *("config", "--work-dir", "--cfg-options"),
    option("checkpoint", "weights of the model (default: load_from of the config)", nargs="?"),
    option(
        "--export FILE",
        "write BECoTTA's weights here (default: becotta.safetensors in the work directory)",
    ),
)
