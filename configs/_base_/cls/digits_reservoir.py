# ReservoirTTA with the paper's settings. "auto": the VGG-19 that tools/get_style_weights.py has
# stored, else seeded random filters. Styles are taken at half size: a quarter of the time.
reservoir = dict(
    preset="default",
    k_max=16,
    calibration=dict(batches=100),
    style=dict(weights="auto", taps="shallow", size=(16, 16)),
)
