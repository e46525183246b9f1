_base_ = "../../_base_/cls/digits_convnet.py"
# The paper's exception for CIFAR is SGD; the rate is that of all others.
method = dict(type="sar", optimizer=dict(_delete_=True, type="SGD", lr=1e-2, momentum=0.9))
