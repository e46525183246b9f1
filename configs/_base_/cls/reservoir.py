# ReservoirTTA for the rows of the paper; all options: ../reservoir/published.py, docs/fidelity.md.
with_reservoir = dict(
    preset="published",  # or "robust", "paper", "published_code"
    style=dict(weights="torchvision"),  # downloads VGG-19, 550 MB; "shipped": another VGG-19
    calibration=dict(batches=1000),  # source batches for tau, drawn again until there are so many
)
