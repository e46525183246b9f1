_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar100c_resnext29.py"]
method = dict(type="eata", d_margin=0.4, fisher_alpha=1.0)  # EATA's for CIFAR-10
