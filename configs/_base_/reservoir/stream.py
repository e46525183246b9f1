# ReservoirTTA for streams of single frames: what segmentation uses (docs/routing.md). To route as
# the paper or its code does: --cfg-options reservoir.preset=paper (or published_code).
reservoir = dict(
    preset="stream",
    k_max=16,  # the largest number of experts
    # VGG-19: "torchvision" downloads its file, a path uses a copy, "seeded" random filters, "auto"
    # what tools/get_style_weights.py has stored, else seeded.
    style=dict(weights="torchvision"),
    # calibration.safetensors of an earlier run makes the source images unnecessary.
    calibration=dict(file=None),
)
