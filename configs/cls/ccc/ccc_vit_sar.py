_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/ccc_vit.py"]
method = dict(type="sar", optimizer=dict(nesterov=False))
# SAR's code leaves the last blocks alone.
params = dict(skip=("blocks.9", "blocks.10", "blocks.11", "norm"))
