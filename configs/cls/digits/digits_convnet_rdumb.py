_base_ = "../../_base_/cls/digits_convnet.py"
# It resets every 1000 steps of much longer streams; here four times, as this stream has 480.
method = dict(type="rdumb", d_margin=0.4, reset_every=120)
