# ReservoirTTA with the settings of its published implementation. Every line is a default and may
# be left out; the comments name the alternatives.
reservoir = dict(
    k_max=16,  # the largest number of experts
    # VGG-19: "torchvision" downloads its file, a path uses a copy, "seeded" random filters.
    style=dict(weights="torchvision", taps=(2, 5, 7), size=None),
    # tau; file="calibration.safetensors" of an earlier run makes the source images unnecessary.
    calibration=dict(quantile=0.999, num_images=2000, file=None),
    memory=dict(capacity=1024),
    # temperature: "sqrt_d" in the paper's text; assign: "after" in its Algorithm 1.
    router=dict(type="style", temperature=1.0, assign="before", lr=1e-4, weight_decay=0.01),
    init="mi",  # or "source"
    predict="before",  # or "after" the update, as in Algorithm 1
    one_hot=1 - 1e-6,
)
