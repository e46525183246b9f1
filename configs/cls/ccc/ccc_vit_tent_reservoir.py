_base_ = ["./ccc_vit_tent.py", "../../_base_/cls/reservoir.py"]
