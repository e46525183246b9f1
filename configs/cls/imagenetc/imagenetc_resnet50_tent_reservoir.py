_base_ = ["./imagenetc_resnet50_tent.py", "../../_base_/cls/reservoir.py"]
