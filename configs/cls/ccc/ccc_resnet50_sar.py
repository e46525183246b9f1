_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/ccc_resnet50.py"]
method = dict(type="sar", optimizer=dict(nesterov=False))
params = dict(skip=("layer4",))  # SAR's code leaves the last stage alone
