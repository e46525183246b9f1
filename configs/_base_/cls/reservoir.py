# ReservoirTTA with the paper's settings; every line is a default and may be left out.
reservoir = dict(
    preset="default",  # or "paper", "published_code": see docs/fidelity.md
    k_max=16,  # the largest number of experts
    # VGG-19: "torchvision" downloads its file, a path uses a copy, "seeded" random filters, "auto"
    # what tools/get_style_weights.py has stored, else seeded.
    style=dict(weights="torchvision", taps="shallow"),
    calibration=dict(batches=1000),  # source batches for tau, drawn anew until there are so many
    memory=dict(type="reservoir", capacity=1024),
    clustering=dict(type="information", lr=1e-4),
)
