_base_ = ["./imagenetc_resnet50_sar.py", "../../_base_/cls/reservoir.py"]
