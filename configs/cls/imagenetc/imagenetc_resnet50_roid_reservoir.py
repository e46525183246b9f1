_base_ = ["./imagenetc_resnet50_roid.py", "../../_base_/cls/reservoir.py"]
