_base_ = ["./cifar100c_resnext29_roid.py", "../../_base_/cls/reservoir.py"]
