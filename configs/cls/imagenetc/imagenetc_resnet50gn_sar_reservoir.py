_base_ = ["./imagenetc_resnet50gn_sar.py", "../../_base_/cls/reservoir.py"]
