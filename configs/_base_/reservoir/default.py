# ReservoirTTA. Every line is a default and may be left out; the comments name the alternatives.
reservoir = dict(
    preset="default",  # or "paper", "published_code": see docs/fidelity.md
    k_max=16,  # the largest number of experts
    # VGG-19: "torchvision" downloads its file, a path uses a copy, "seeded" random filters, "auto"
    # what tools/get_style_weights.py has stored, else seeded.
    style=dict(weights="torchvision", taps="shallow", statistic="logvar", size=None),
    # tau; file="calibration.safetensors" of an earlier run makes the source images unnecessary.
    calibration=dict(quantile=0.999, file=None),
    memory=dict(type="reservoir", capacity=1024),
    clustering=dict(
        type="information",
        distance="euclidean",
        temperature=1.0,  # "sqrt_d" in the paper's text
        lr=1e-4,
        weight_decay=0.01,
    ),
    router=dict(type="style", assign="before"),  # "after" in the paper's Algorithm 1
    pipeline=dict(
        type="reservoir",
        init="mi",  # or "source", "mi_fresh", "top3"
        predict="before",  # or "after" the update, as in Algorithm 1
        ensemble=True,
        one_hot=1 - 1e-6,
    ),
)
