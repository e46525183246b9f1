_base_ = ["./cifar100c_resnext29_sar.py", "../../_base_/cls/reservoir.py"]
