_base_ = ["./cifar100c_resnext29_eata.py", "../../_base_/cls/reservoir.py"]
