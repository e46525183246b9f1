_base_ = "../_base_/cls/digits_convnet.py"
method = dict(type="sar")
# The paper's exception for CIFAR is SGD; the rate follows the rule of all others.
optimizer = dict(_delete_=True, type="SGD", lr=3e-2, momentum=0.9)
