_base_ = "../../_base_/cls/digits_convnet.py"
# Its statistics follow the stream slowly: too slowly for visits of four batches, unless each domain
# has its own. A mirrored digit is no digit.
method = dict(type="rotta", augment=dict(flip=0.0))
