_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/cifar100c_resnext29.py"]
# The table says SGD; rate as for the others, momentum as in SAR's paper.
method = dict(type="sar", optimizer=dict(_delete_=True, type="SGD", lr=1e-3, momentum=0.9))
