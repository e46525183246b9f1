_base_ = "../../_base_/cls/digits_convnet.py"
method = dict(type="eta", d_margin=0.4)  # EATA's for CIFAR-10
