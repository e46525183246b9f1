_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/imagenetc_resnet50gn.py"]
method = dict(type="sar", optimizer=dict(nesterov=False))
params = dict(skip=("layer4",))  # SAR's code leaves the last stage alone
