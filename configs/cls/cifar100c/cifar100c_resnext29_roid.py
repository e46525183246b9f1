_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar100c_resnext29.py"]
method = dict(type="roid", prior_correction=True)
