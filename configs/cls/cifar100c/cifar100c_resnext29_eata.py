_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar100c_resnext29.py"]
# Of the repository that the paper uses.
method = dict(type="eata", d_margin=0.1, fisher_alpha=1.0)
