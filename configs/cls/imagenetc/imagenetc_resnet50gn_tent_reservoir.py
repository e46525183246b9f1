_base_ = ["./imagenetc_resnet50gn_tent.py", "../../_base_/cls/reservoir.py"]
