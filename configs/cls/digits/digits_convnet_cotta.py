_base_ = "../../_base_/cls/digits_convnet.py"
# 32 views would take most of the time of all runs together; a mirrored digit is no digit.
method = dict(type="cotta_images", views=4, augment=dict(flip=0.0))
