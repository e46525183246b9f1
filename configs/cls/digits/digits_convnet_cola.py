_base_ = "../../_base_/cls/digits_convnet.py"
method = dict(type="cola", d_margin=0.4)
