_base_ = ["./cifar100c_resnext29_eta.py", "../../_base_/cls/reservoir.py"]
