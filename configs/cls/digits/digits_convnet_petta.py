_base_ = "../../_base_/cls/digits_convnet.py"
# As RoTTA's, its statistics follow the stream slowly. A mirrored digit is no digit.
method = dict(type="petta", augment=dict(flip=0.0))
