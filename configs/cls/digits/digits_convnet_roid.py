_base_ = "../../_base_/cls/digits_convnet.py"
method = dict(type="roid", prior_correction=True)
