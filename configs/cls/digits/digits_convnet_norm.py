_base_ = "../../_base_/cls/digits_convnet.py"
# No parameter adapts, but BatchNorm takes the statistics of the batch.
method = dict(type="norm")
