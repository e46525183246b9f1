_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar10c_wrn28.py"]
method = dict(type="roid", prior_correction=True)
