_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar100c_resnext29.py"]
method = dict(type="eta", d_margin=0.1)  # of the repository that the paper uses
