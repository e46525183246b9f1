_base_ = ["./cifar100c_resnext29_tent.py", "../../_base_/cls/reservoir.py"]
