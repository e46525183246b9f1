_base_ = ["./ccc_resnet50_tent.py", "../../_base_/cls/reservoir.py"]
