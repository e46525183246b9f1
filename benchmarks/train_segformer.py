"""Train a small SegFormer on Cityscapes at 512 x 256: a LayerNorm network for real frames.

    python benchmarks/train_segformer.py CITYSCAPES --minutes 105 --bf16 --definitions FOLDER
        --teacher efficientvit_b0_cityscapes.safetensors --out segformer_small.safetensors

CITYSCAPES holds ``leftImg8bit`` and ``gtFine`` (``*_labelTrainIds.png``) at 512 x 256. The labels
are the targets. EfficientViT-Seg-B0, which sees the frames at 1024 x 512, is an additional teacher:
its softened predictions are a second target. ``--definitions`` is the folder with the module
``efficientvit_seg`` that defines it. The learning rate follows a cosine over ``--minutes``, so the
run ends on time on any machine. The weights are saved every ten minutes, and at the end in half
precision.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmseg.registry import MODELS
from mmseg.utils import register_all_modules
from safetensors.torch import load_file, save_file
from torch import Tensor

import mmseg_reservoir.seg  # noqa: F401  (before mmseg)

CONFIG = Path(__file__).parents[1] / "configs/_base_/models/segformer_small.py"
MEAN = torch.tensor([123.675, 116.28, 103.53]).view(1, 3, 1, 1)
STD = torch.tensor([58.395, 57.12, 57.375]).view(1, 3, 1, 1)
CROP = 256
TEMPERATURE = 2.0


def read_frames(root: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all images (N, 256, 512, 3) in RGB and their labels (N, 256, 512) of a split."""
    paths = sorted((root / "leftImg8bit" / split).glob("*/*.png"))
    images, labels = [], []
    for path in paths:
        name = path.name.replace("_leftImg8bit.png", "_gtFine_labelTrainIds.png")
        images.append(cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB))
        label = cv2.imread(
            str(root / "gtFine" / split / path.parent.name / name), cv2.IMREAD_UNCHANGED
        )
        labels.append(label)
    return np.stack(images), np.stack(labels)


def normalize(images: np.ndarray) -> Tensor:
    """Return images (N, H, W, 3) from 0 to 255 as the network takes them."""
    return (torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() - MEAN) / STD


@torch.no_grad()
def teach(weights: Path, definitions: Path, images: np.ndarray) -> Tensor:
    """Return the teacher's logits (N, 19, 64, 128); it sees the frames at twice their size."""
    sys.path.insert(0, str(definitions))
    import efficientvit_seg  # noqa: F401

    teacher = MODELS.build({"type": "EfficientViTSegB0"}).eval()
    state = load_file(weights)
    teacher.load_state_dict({key.removeprefix("backbone."): value for key, value in state.items()})
    logits = []
    for image in images:
        large = F.interpolate(normalize(image[None]), scale_factor=2, mode="bilinear")
        output = teacher(large)
        output = output[0] if isinstance(output, (list, tuple)) else output
        logits.append(F.interpolate(output, size=(64, 128), mode="bilinear")[0].half())
    return torch.stack(logits)


def augment(
    image: np.ndarray, label: np.ndarray, teacher: Tensor, rng: np.random.Generator
) -> tuple:
    """Return a random crop, scaled, mirrored and recolored, its label and its teacher's logits."""
    scale = rng.uniform(0.75, 1.75)
    height, width = round(256 * scale), round(512 * scale)
    size = (width, height)
    image = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    label = cv2.resize(label, size, interpolation=cv2.INTER_NEAREST)
    if height < CROP:
        image = cv2.copyMakeBorder(
            image, 0, CROP - height, 0, 0, cv2.BORDER_CONSTANT, value=(124, 116, 104)
        )
        label = cv2.copyMakeBorder(label, 0, CROP - height, 0, 0, cv2.BORDER_CONSTANT, value=255)
    top = rng.integers(0, max(height, CROP) - CROP + 1)
    left = rng.integers(0, width - CROP + 1)
    image = image[top : top + CROP, left : left + CROP]
    label = label[top : top + CROP, left : left + CROP]
    # The teacher's logits of the same crop, at a quarter of its resolution.
    ys = (torch.arange(CROP // 4) * 4 + 2 + top) / height * 2 - 1
    xs = (torch.arange(CROP // 4) * 4 + 2 + left) / width * 2 - 1
    grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1)[None].float()
    target = F.grid_sample(
        teacher[None].float(), grid, mode="bilinear", padding_mode="border", align_corners=False
    )[0]
    if rng.random() < 0.5:
        image, label, target = image[:, ::-1], label[:, ::-1], target.flip(-1)
    pixels = image.astype(np.float32)
    if rng.random() < 0.8:
        pixels = pixels * rng.uniform(0.7, 1.3) + rng.uniform(-24, 24)
        grey = pixels.mean(2, keepdims=True)
        pixels = grey + (pixels - grey) * rng.uniform(0.6, 1.4)
        pixels = np.clip(pixels * rng.uniform(0.94, 1.06, 3).astype(np.float32), 0, 255)
    return np.ascontiguousarray(pixels, dtype=np.float32), np.ascontiguousarray(label), target


@torch.no_grad()
def evaluate(model: torch.nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the mIoU in percent at 512 x 256."""
    model.eval()
    confusion = np.zeros((19, 19))
    for image, label in zip(images, labels, strict=True):
        logits = F.interpolate(model(normalize(image[None])), size=label.shape, mode="bilinear")
        labeled = label != 255
        pairs = label[labeled].astype(int) * 19 + logits[0].argmax(0).numpy()[labeled]
        confusion += np.bincount(pairs, minlength=361).reshape(19, 19)
    hits = np.diag(confusion)
    model.train()
    return float(100 * np.mean(hits / np.maximum(confusion.sum(0) + confusion.sum(1) - hits, 1)))


def main() -> None:
    """Train, print the progress, save the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cityscapes", type=Path, help="folder with leftImg8bit and gtFine at 512 x 256"
    )
    parser.add_argument(
        "--teacher", type=Path, required=True, help="weights of EfficientViT-Seg-B0"
    )
    parser.add_argument(
        "--definitions", type=Path, required=True, help="folder of the module efficientvit_seg"
    )
    parser.add_argument("--out", type=Path, required=True, help="file for the weights")
    parser.add_argument(
        "--minutes", type=float, default=120.0, help="length of the training (default: 120)"
    )
    parser.add_argument("--batch", type=int, default=6, help="crops per step (default: 6)")
    parser.add_argument(
        "--rate", type=float, default=8e-4, help="highest learning rate (default: 8e-4)"
    )
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    rng = np.random.default_rng(0)
    register_all_modules()
    segmentor = MODELS.build(Config.fromfile(CONFIG).model)
    model = torch.nn.Sequential(segmentor.backbone, segmentor.decode_head)
    images, labels = read_frames(args.cityscapes, "train")
    begun = time.monotonic()
    cache = args.out.with_suffix(".teacher.pt")
    if not cache.exists():
        torch.save(teach(args.teacher, args.definitions, images), cache)
    targets = torch.load(cache)
    print(
        f"{len(images)} frames; teacher's logits after {time.monotonic() - begun:.0f} s", flush=True
    )
    norms = [p for p in model.parameters() if p.dim() == 1]
    weights = [p for p in model.parameters() if p.dim() > 1]
    groups = [{"params": weights, "weight_decay": 0.02}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate)
    begun, step, sums, saved = time.monotonic(), 0, np.zeros(2), 0.0
    model.train()
    while (passed := (time.monotonic() - begun) / 60) < args.minutes:
        warm = min(1.0, (step + 1) / 300)
        rate = (
            args.rate * warm * (0.01 + 0.99 * (1 + math.cos(math.pi * passed / args.minutes)) / 2)
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        picked = rng.integers(0, len(images), args.batch)
        crops, truths, soft = zip(
            *(augment(images[i], labels[i], targets[i], rng) for i in picked), strict=True
        )
        inputs, truth, soft = (
            normalize(np.stack(crops)),
            torch.from_numpy(np.stack(truths)).long(),
            torch.stack(soft),
        )
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            logits = model(inputs)
        logits = logits.float()
        half = F.interpolate(logits, scale_factor=2, mode="bilinear")
        hard_loss = F.cross_entropy(half, truth[:, 1::2, 1::2], ignore_index=255)
        student = F.log_softmax(logits / TEMPERATURE, 1)
        soft_loss = (
            TEMPERATURE**2
            * F.kl_div(student, F.softmax(soft / TEMPERATURE, 1), reduction="none").sum(1).mean()
        )
        optimizer.zero_grad(set_to_none=True)
        (hard_loss + 0.5 * soft_loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        step += 1
        sums += [hard_loss.item(), soft_loss.item()]
        if step % 100 == 0:
            print(
                f"{passed:6.1f} min, step {step}, losses {sums / 100}, rate {rate:.2e}", flush=True
            )
            sums[:] = 0
        if passed - saved > 10:
            saved = passed
            save_file(segmentor.state_dict(), args.out.with_suffix(".partial.safetensors"))
    images, labels = read_frames(args.cityscapes, "val")
    print(
        f"{step} steps of {args.batch}; val {evaluate(model, images, labels):.2f} mIoU", flush=True
    )
    save_file(
        {k: v.half() if v.is_floating_point() else v for k, v in segmentor.state_dict().items()},
        args.out,
    )


if __name__ == "__main__":
    main()
