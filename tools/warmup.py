"""Warm BECoTTA up: train its experts, gates and discriminator on the source, in synthetic styles.

python tools/warmup.py configs/minicity/segformer-tiny_becotta_warmup.py
python tools/warmup.py CONFIG CHECKPOINT --export becotta.safetensors --cfg-options warmup.variant=M
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmseg_reservoir.cli.command_line import KeyValue, parse, run_cli
from mmseg_reservoir.config.config_files import import_custom_modules, read_config
from mmseg_reservoir.config.schema import without_scope
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import construct

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmengine.runner import Runner

    from mmseg_reservoir.becotta.warmup import BecottaWarmup


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", help="config file")
    parser.add_argument(
        "checkpoint", nargs="?", help="weights of the segmentor; default: load_from of the config"
    )
    parser.add_argument("--work-dir", help="where logs go (default: work_dirs/CONFIG)")
    parser.add_argument("--export", help="default: becotta.safetensors in the work directory")
    parser.add_argument(
        "--cfg-options", nargs="+", action=KeyValue, default={}, help="key=value ..."
    )
    return parse(parser, argv)


def load_config(args: argparse.Namespace) -> Config:
    """The config with the command line merged in."""
    cfg = read_config(args.config, {})
    cfg.merge_from_dict(args.cfg_options)
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
    """The config's segmentor with the weights of its checkpoint, and BECoTTA injected."""
    from mmengine.registry import MODELS, init_default_scope

    from mmseg_reservoir.seg import checkpoint  # and registers everything

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
    from mmseg_reservoir.becotta import DOMAINS, inject
    from mmseg_reservoir.becotta.warmup import BecottaWarmup

    inject(segmentor, variant, DOMAINS if domains is None else domains, seed=seed)
    return BecottaWarmup(segmentor, discriminator_weight, information_weight, seed)


def build_runner(cfg: Config, model: BecottaWarmup) -> Runner:
    """MMEngine's runner around a model that has its weights: it must load nothing itself."""
    from mmengine.runner import Runner

    names = ("work_dir", "train_dataloader", "train_cfg", "optim_wrapper", "param_scheduler")
    names += ("default_hooks", "custom_hooks", "env_cfg", "log_processor", "log_level")
    names += ("randomness", "default_scope", "resume", "visualizer")
    return Runner(model, **{name: cfg[name] for name in names if name in cfg}, cfg=cfg)


def table(before: dict, after: dict) -> str:
    """The validation before and after, a line per domain."""
    lines = [f"{'style':>8} {'mIoU before':>12} {'after':>8} {'domain found':>13}"]
    for name, was in before.items():
        now = after[name]
        lines.append(
            f"{name:>8} {was['mIoU']:12.2f} {now['mIoU']:8.2f} {now['domain_accuracy']:11.1f} %"
        )
    return "\n".join(lines)


def run(args: argparse.Namespace) -> None:
    """Validate, train, validate, save."""
    cfg = load_config(args)
    from mmseg_reservoir.becotta.store import save
    from mmseg_reservoir.becotta.warmup import evaluate

    model = build_model(cfg)
    runner = build_runner(cfg, model)
    loader = None
    about: dict[str, Any] = {"config": Path(args.config).name}
    if cfg.get("val_dataloader"):
        loader = runner.build_dataloader(cfg.val_dataloader)
        about["before"] = evaluate(model, loader)
    runner.train()
    if loader is not None:
        about["after"] = evaluate(model, loader)
        runner.logger.info("Validation images\n" + table(about["before"], about["after"]))
    target = Path(args.export or Path(cfg.work_dir) / "becotta.safetensors")
    save(target, model.becotta, **about)
    runner.logger.info(f"BECoTTA written to {target}")


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    return run_cli(lambda: run(parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
