_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/imagenetc_vit.py"]
# The rate is the table's exception.
method = dict(type="sar", optimizer=dict(lr=1e-4, nesterov=False))
# SAR's code leaves the last blocks alone.
params = dict(skip=("blocks.9", "blocks.10", "blocks.11", "norm"))
