_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/imagenetc_resnet50.py"]
method = dict(type="roid", prior_correction=True)
