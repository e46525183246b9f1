_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar10c_wrn28.py"]
method = dict(type="eta", d_margin=0.4)  # EATA's for CIFAR-10
