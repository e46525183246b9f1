_base_ = "../../_base_/cls/digits_convnet.py"
method = dict(type="eata", d_margin=0.4, fisher_alpha=1.0)  # EATA's for CIFAR-10
