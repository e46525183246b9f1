_base_ = ["./segformer-tiny_tent.py", "../_base_/reservoir/default.py"]
reservoir = dict(
    style=dict(weights="seeded"),  # random filters: nothing to download
    # Single frames scatter so much that the paper's 0.999 hardly ever finds a new style: see the
    # README, "What has been measured".
    calibration=dict(quantile=0.9),
)
